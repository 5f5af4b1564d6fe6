# SPDX-License-Identifier: Apache-2.0
"""What ends a run of the board: restart, switch-off and factory reset, each asked for on the page *System*.

Each test has a board of its own. Without DEEP=1, the restart or the switch-off runs: the seed draws one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/browser")]

from boards import Board, power_on, until  # noqa: E402
from pages import PASSWORD, check, logged_in  # noqa: E402
from sample import DEEP, in_sample  # noqa: E402

ENDS = in_sample("ends of a run of the board", "restart", "switch-off")


@pytest.fixture
def board() -> Iterator[Board]:
    yield from power_on("browser-power", credentials=("evenkeel.demo=1", "evenkeel.console=1"))


@pytest.fixture
def page(browser: Browser, board: Board) -> Iterator[Page]:
    with logged_in(browser, board) as found:
        yield found


@ENDS["restart"]
@pytest.mark.posts("/system/restart")
def test_a_restart_is_asked_about_and_the_page_comes_back(page: Page, board: Board) -> None:
    before = board.run("cat /proc/sys/kernel/random/boot_id")
    page.goto("/system")
    page.get_by_role("link", name="Restart the board").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Restart the board?")
    page.get_by_role("link", name="Cancel").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("System")
    assert board.run("cat /proc/sys/kernel/random/boot_id") == before
    page.get_by_role("link", name="Restart the board").click()
    page.get_by_role("button", name="Restart the board").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("The board restarts")
    check(page, "restarting")
    board.wait_for_boot()
    assert board.run("cat /proc/sys/kernel/random/boot_id") != before
    # The page has waited. The session is still valid.
    expect(page.get_by_role("heading", level=1)).to_have_text("System")


@ENDS["switch-off"]
@pytest.mark.posts("/system/power-off")
def test_the_board_is_switched_off_only_if_somebody_can_switch_it_on(page: Page, board: Board) -> None:
    page.goto("/system")
    button = page.get_by_role("button", name="Switch the board off")
    button.click()
    # The browser itself asks for the mark, so no request is sent.
    box = page.get_by_role("checkbox", name="Somebody can go to the board")
    expect(box).to_be_focused()
    box.press("Space")
    button.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("The board switches off")
    check(page, "off")
    until("the board is off", lambda: not board.on)


@pytest.mark.skipif(not DEEP, reason="tests/boot/test_system.py resets a board, too: DEEP=1 runs it")
@pytest.mark.posts("/system/reset")
def test_a_factory_reset_needs_the_password_and_leaves_a_new_board(
    page: Page, browser: Browser, board: Board
) -> None:
    first = board.first_password()
    page.goto("/system")
    for password in ("not the password", PASSWORD):
        page.locator("#reset-password").fill(password)
        page.get_by_role("button", name="Reset the board").click()
        if password != PASSWORD:
            expect(page.get_by_role("alert")).to_contain_text("password")
            check(page, "reset-refused")
    expect(page.get_by_role("heading", level=1)).to_have_text("The board is reset")
    check(page, "resetting")
    board.wait_for_boot()
    until("the board has a new first password", lambda: board.first_password() != first)
    with logged_in(browser, board) as new:
        expect(new.get_by_role("heading", level=1)).to_have_text("Set up this board")
