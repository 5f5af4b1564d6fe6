# SPDX-License-Identifier: Apache-2.0
"""The pages of a booted board without a file of their own here: each shows its data, at all sizes, without barriers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/browser")]

from boards import Board  # noqa: E402
from pages import DESKTOP, PHONE, barriers, beyond_the_keyboard, check, logged_in, tab_to  # noqa: E402
from sample import sample  # noqa: E402

# name for the screenshots → path, and a word that the page must show
PAGES = {
    "overview": ("/", "Player"),
    "apps": ("/apps", "Loader"),
    "app-to-add": ("/apps/add", "Add an app"),
    "app-to-remove": ("/apps/player/remove", "Remove Player?"),
    "history-today": ("/history", "History"),
    "history-two-spans": ("/history/compare?start=1000&end=2000&start2=3000&end2=4000", "Compare two spans"),
    "wear": ("/wear", "Wear"),
    "recorder": ("/recorder", "Recorder"),
    "validation": ("/validation", "Reports"),
    "validation-to-start": ("/validation/plan?profile=full&topic=device", "Start this validation?"),
    "cache": ("/cache", "Pools"),
    "network": ("/network", "connected"),
    "alerts": ("/alerts", "Alerts"),
    "setup": ("/setup", "Steps"),
    "system": ("/system", "Time zone"),
    "updates": ("/update", "Updates"),
    "journal": ("/system/journal", "newest last"),
    "restart": ("/system/restart", "All apps stop"),
    "users": ("/users", "admin"),
    "user-to-reset": ("/users/admin/reset", "Reset the password of admin?"),
    "user-to-remove": ("/users/admin/remove", "Remove admin?"),
    "audit": ("/audit", "Change password"),
    "account": ("/account", "Sessions"),
    "password-to-change": ("/password", "Change the password"),
}
PICTURES = ("overview", "wear")  # pages that tests/browser/picture shows
TWINS = (
    "/overview.json",
    "/apps.json",
    "/wear.json",
    "/wear.csv",
    "/recorder.json",
    "/validation.json",
    "/cache.json",
    "/network.json",
    "/alerts.json",
    "/setup.json",
    "/system.json",
    "/system/journal.json",
    "/audit.json",
    "/metrics",
)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.picture] if name in PICTURES else [])
        for name in sample("pages", list(PAGES), 3)
    ],
)
def test_a_page_shows_its_data_at_all_sizes_without_barriers(page: Page, name: str) -> None:
    path, word = PAGES[name]
    page.goto(path)
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    expect(page.locator("main")).to_contain_text(word)
    check(page, name)


@pytest.mark.parametrize("path", sample("pages for programs", TWINS, 3))
def test_each_page_has_its_data_for_programs(page: Page, path: str) -> None:
    answer = page.request.get(path)
    assert answer.status == 200, answer.text()
    assert answer.body()


def test_the_overview_says_what_is_wrong_and_what_to_do(page: Page, board: Board) -> None:
    board.run("systemctl stop evenkeel-history.service")
    try:
        page.goto("/")
        expect(page.locator("main")).to_contain_text("The history service does not answer")
        expect(page.locator("main")).to_contain_text("restart it on the page System")
        check(page, "overview-problem")
    finally:
        board.run("systemctl start evenkeel-history.service")


def test_a_wrong_mail_address_is_refused_and_kept(page: Page) -> None:
    page.goto("/alerts")
    page.locator("[name=mail_to]").fill("nobody")
    page.locator("main button.primary").click()
    expect(page.locator("[aria-invalid=true], .banner.bad, .message.bad").first).to_be_visible()
    expect(page.locator("[name=mail_to]")).to_have_value("nobody")
    check(page, "alerts-refused")


@pytest.mark.parametrize("name", sample("pages for the keyboard", list(PAGES), 3))
def test_the_keyboard_reaches_every_control(page: Page, name: str) -> None:
    page.goto(PAGES[name][0])
    assert beyond_the_keyboard(page) == []


def test_the_keyboard_leads_to_pages(page: Page) -> None:
    page.goto("/")
    for title in ("Wear", "Recorder", "History"):
        tab_to(page, title)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_contain_text(title)


def test_on_a_phone_the_menu_leads_to_a_page_without_barriers(page: Page) -> None:
    page.goto("/")
    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    menu, pages = page.get_by_role("button", name="Menu"), page.get_by_role("navigation", name="Pages")
    expect(pages).to_be_hidden()
    menu.press("Enter")
    expect(pages).to_be_visible()
    assert barriers(page) == []
    tab_to(page, "Wear")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Wear")
    expect(pages).to_be_hidden()
    page.set_viewport_size({"width": DESKTOP["width"], "height": DESKTOP["height"]})


def test_the_pages_work_without_javascript(browser: Browser, board: Board) -> None:
    with logged_in(browser, board, script=False) as page:
        for name in ("overview", "wear", "recorder"):
            path, word = PAGES[name]
            page.goto(path)
            expect(page.locator("main")).to_contain_text(word)
