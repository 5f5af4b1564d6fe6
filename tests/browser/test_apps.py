# SPDX-License-Identifier: Apache-2.0
"""The page Apps of a booted board: what a change would do, how it is undone, and how an app is added and removed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/browser")]

from boards import Board  # noqa: E402
from pages import check, logged_in, tab_to  # noqa: E402

# printf's format
UNIT = r"[Service]\nExecStart=/bin/sleep infinity\nSlice=evenkeel-apps.slice\n"
APPS_CGROUP = "/sys/fs/cgroup/evenkeel.slice/evenkeel-apps.slice"


def weight_of(board: Board, app: str) -> str:
    return board.run(f"ekctl weight {app}").split()[1]


def test_what_a_weight_would_do_is_shown_before_it_is_applied(page: Page, board: Board) -> None:
    page.goto("/apps")
    before = weight_of(board, "player")
    page.locator("#weight-player").fill("900" if before != "900" else "800")
    preview = page.locator("#weight-what-if-player")
    expect(preview).to_contain_text("Not applied yet. With it, when all apps are busy:")
    expect(preview).to_contain_text("Loader")
    check(page, "apps-what-if")
    assert weight_of(board, "player") == before
    page.locator("#weight-player").fill(before)
    expect(preview).to_be_empty()
    page.locator("#weight-player").fill("heavy")
    expect(preview).to_be_empty()


def test_a_change_is_undone_with_the_keyboard(page: Page, board: Board) -> None:
    page.goto("/apps")
    before = weight_of(board, "player")
    page.locator("#weight-player").fill("777")
    page.keyboard.press("Enter")
    undo = page.locator("#weight-undo-player button")
    expect(undo).to_have_text(f"Undo: back to {before}")
    check(page, "apps-undo")
    assert weight_of(board, "player") == "777"
    page.locator("#weight-player").focus()
    tab_to(page, f"Undo: back to {before}")
    page.keyboard.press("Enter")
    expect(undo).to_have_text("Undo: back to 777")
    expect(undo).to_be_focused()
    expect(page.locator("#weight-player")).to_have_value(before)
    assert weight_of(board, "player") == before


@pytest.mark.posts("/apps/add", "/apps/<name>/remove")
def test_an_app_is_added_and_removed(page: Page, board: Board) -> None:
    board.run(f"printf '{UNIT}' > /run/systemd/system/dashcam.service && systemctl daemon-reload")
    board.run("systemctl start dashcam.service")
    try:
        page.goto("/apps")
        page.get_by_role("link", name="Add an app").click()
        expect(page.locator("#unit")).to_have_value("dashcam.service")
        check(page, "apps-add")
        page.locator("#title").fill("Dashcam")
        page.locator("#weight").fill("0")
        page.keyboard.press("Enter")
        expect(page.locator("#problem")).to_contain_text("0 is less than 1")
        expect(page.locator("#title")).to_have_value("Dashcam")
        page.locator("#weight").fill("250")
        page.keyboard.press("Enter")
        expect(page.locator("[data-app=dashcam]")).to_contain_text("Dashcam")
        board.run(f"until grep -q 'default 250' {APPS_CGROUP}/dashcam.service/io.weight; do sleep 0.2; done")
        page.get_by_role("link", name="Remove Dashcam").click()
        check(page, "apps-remove")
        page.get_by_role("button", name="Remove").click()
        expect(page.locator("[data-app=player]")).to_be_visible()
        expect(page.locator("[data-app=dashcam]")).to_have_count(0)
        assert board.run("systemctl is-active dashcam.service").strip() == "active"
    finally:
        # after a failure, the app may still be listed
        board.run(
            "ekctl remove-app dashcam; systemctl stop dashcam.service; rm /run/systemd/system/dashcam.service"
        )


def test_undo_works_without_javascript(browser: Browser, board: Board) -> None:
    with logged_in(browser, board, script=False) as page:
        page.goto("/apps")
        before = weight_of(board, "loader")
        page.locator("#weight-loader").fill("55")
        page.locator("[data-app=loader] [data-action=apply]").click()
        page.locator("#weight-undo-loader button").click()
        # On a busy board, the agent may be too slow for the page, which then shows no button.
        for _ in range(5):
            if page.locator("#weight-undo-loader button").count():
                break
            page.reload()
        expect(page.locator("#weight-undo-loader button")).to_have_text("Undo: back to 55")
        assert weight_of(board, "loader") == before
