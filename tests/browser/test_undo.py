# SPDX-License-Identifier: Apache-2.0
"""The page Apps of a booted board: start, stop, addition and removal of an app are undone. test_apps.py undoes values."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/browser")]

from boards import Board  # noqa: E402
from pages import check, logged_in, tab_to  # noqa: E402

# printf's format
UNIT = r"[Service]\nExecStart=/bin/sleep infinity\nSlice=evenkeel-apps.slice\n"
FILE = "/run/systemd/system/dashcam.service"


def app_of(board: Board, name: str) -> dict[str, Any] | None:
    found = json.loads(board.run("ekctl apps --json"))
    return next((app for app in found if app["name"] == name), None)


def directories_of(board: Board, name: str) -> set[str]:
    found = json.loads(board.run("ekctl cache --json"))
    return {one["path"] for one in found["directories"] if one["app"] == name}


def state_of(board: Board, unit: str) -> str:
    return board.run(f"systemctl is-active {unit} || :").strip()


@pytest.fixture
def dashcam(board: Board) -> Iterator[None]:
    """A unit that runs in the slice of the apps, and is no app yet."""
    board.run(f"printf '{UNIT}' > {FILE} && systemctl daemon-reload && systemctl start dashcam.service")
    yield
    board.run(f"ekctl remove-app dashcam; systemctl stop dashcam.service; rm {FILE}; systemctl daemon-reload")


@pytest.mark.posts("/apps/<name>/undo")
def test_a_stop_is_undone_with_the_keyboard(page: Page, board: Board) -> None:
    page.goto("/apps")
    unit = "evenkeel-loader.service"
    assert state_of(board, unit) == "active"
    undo = page.locator("#running-undo-loader button")
    try:
        page.get_by_role("button", name="Stop Loader", exact=True).click()
        expect(undo).to_have_text("Undo: start it again")
        assert state_of(board, unit) == "inactive"
        check(page, "apps-undo-stop")
        page.locator("h1").click()
        tab_to(page, "Undo: start it again")
        page.keyboard.press("Enter")
        expect(undo).to_have_text("Undo: stop it again")
        expect(undo).to_be_focused()
        assert state_of(board, unit) == "active"
    finally:
        board.run("ekctl start loader")


@pytest.mark.posts("/apps/<name>/add-again")
def test_addition_and_removal_are_undone_without_javascript(
    browser: Browser, board: Board, dashcam: None
) -> None:
    with logged_in(browser, board, script=False) as page:
        page.goto("/apps/add")
        page.locator("#unit").fill("dashcam.service")
        page.locator("#title").fill("Dashcam")
        page.get_by_role("button", name="Add the app").click()
        page.get_by_role("button", name="Undo: remove Dashcam again").click()
        expect(page.locator("[data-removed=dashcam]")).to_contain_text("Dashcam was removed from this page.")
        assert app_of(board, "dashcam") is None
        page.get_by_role("button", name="Undo: add Dashcam again").click()
        expect(page.locator("[data-app=dashcam]")).to_be_visible()
        board.run("ekctl weight dashcam 321 && ekctl fixed-share dashcam 12")
        board.run("ekctl add-directory dashcam /data/dashcam")
        page.goto("/apps/dashcam/remove")
        page.get_by_role("button", name="Remove").click()
        assert app_of(board, "dashcam") is None
        assert directories_of(board, "dashcam") == set()
        page.get_by_role("button", name="Undo: add Dashcam again").click()
        expect(page.locator("[data-app=dashcam]")).to_be_visible()
        expect(page.locator("[data-removed=dashcam]")).to_have_count(0)
    app = app_of(board, "dashcam")
    assert app is not None
    assert (app["title"], app["unit"], app["weight"], app["fixed_share"]) == (
        "Dashcam",
        "dashcam.service",
        321,
        12,
    )
    assert directories_of(board, "dashcam") == {"/data/dashcam"}
    assert state_of(board, "dashcam.service") == "active"


def test_a_removed_app_is_offered_with_the_keyboard(page: Page, board: Board, dashcam: None) -> None:
    board.run("ekctl add-app dashcam dashcam.service --title Dashcam")
    page.goto("/apps/dashcam/remove")
    page.get_by_role("button", name="Remove").press("Enter")
    expect(page.locator("[data-removed=dashcam]")).to_be_visible()
    check(page, "apps-removed")
    tab_to(page, "Undo: add it again")
    page.keyboard.press("Enter")
    expect(page.locator("[data-app=dashcam]")).to_be_visible()
