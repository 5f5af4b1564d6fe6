# SPDX-License-Identifier: Apache-2.0
"""A user at the page *Updates* of a booted board: sees both slots, and gets a reason for each refused bundle.

tests/boot/test_update.py installs bundles. This file tests the page only, so it needs none. The tests are the steps of one
visit. They run in order, and each continues where the previous one ended.
"""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/browser")]

from boards import Board  # noqa: E402
from pages import check, logged_in, tab_to  # noqa: E402


def test_the_slots_are_shown(page: Page) -> None:
    page.goto("/update")
    expect(page.get_by_role("heading", level=1)).to_have_text("Updates")
    expect(page.locator("[data-slot]")).to_have_count(2)
    expect(page.locator('[data-slot="A"]')).to_contain_text("runs")
    data = page.request.get("/update.json").json()
    assert page.locator('[data-field="version"]').inner_text() == data["version"]
    check(page, "update")


def test_a_file_that_is_no_bundle_is_refused_with_a_reason(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "photo.raucb"
    file.write_bytes(b"no bundle" * 1000)
    page.locator("#bundle").set_input_files(file)
    page.get_by_role("button", name="Upload and check").click()
    message = page.locator("#upload-message")
    expect(message).to_have_class("message bad")
    expect(message).not_to_be_empty()
    expect(page.locator("#install-upload")).to_be_hidden()
    check(page, "update-refused")


def test_a_url_that_does_not_answer_is_refused_with_a_reason(page: Page) -> None:
    page.goto("/update")
    page.locator("#source").fill("https://127.0.0.1:9/evenkeel.raucb")
    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.get_by_role("alert").first).not_to_be_empty()
    # nothing is installed, and the page offers to try again
    expect(page.locator("#source")).to_be_visible()
    assert page.request.get("/update.json").json()["state"] != "installing"
    check(page, "update-url-refused")


def test_the_keyboard_is_enough(page: Page) -> None:
    page.goto("/update")
    page.locator("#source").focus()
    page.keyboard.type("https://127.0.0.1:9/evenkeel.raucb")
    tab_to(page, "Check")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert").first).not_to_be_empty()
    tab_to(page, "Restart the board")


def test_the_page_without_javascript_installs_from_a_url(browser: Browser, board: Board) -> None:
    with logged_in(browser, board, script=False) as page:
        page.goto("/update")
        # an upload needs JavaScript; Chromium does not show <noscript>, which says so, if Playwright switches scripts off
        expect(page.locator("#bundle")).to_be_disabled()
        page.locator("#source").fill("https://127.0.0.1:9/evenkeel.raucb")
        page.get_by_role("button", name="Check", exact=True).click()
        expect(page.get_by_role("alert").first).not_to_be_empty()


def test_the_page_needs_a_log_in(browser: Browser, board: Board) -> None:
    context = browser.new_context(ignore_https_errors=True, base_url=f"https://127.0.0.1:{board.port}")
    stranger = context.new_page()
    stranger.goto("/update")
    expect(stranger.locator("input[name=password]")).to_be_visible()
    context.close()
