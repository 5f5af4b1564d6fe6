# SPDX-License-Identifier: Apache-2.0
"""A user changes the network settings of a booted board: keeps a change, undoes one, and lets the board undo one.

QEMU forwards the panel's port to the address 10.0.2.15 only. So every change keeps this address, and the page stays reachable.
tests/boot/test_network.py changes the address. The last test leaves the board with a fixed address.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/browser")]

from boards import SLOW, Board, until  # noqa: E402
from pages import check  # noqa: E402
from sample import DEEP  # noqa: E402

TRIAL_S = 60  # the board undoes a change after this time


def mode(page: Page) -> str:
    """The setting of the board's only interface."""
    (interface,) = page.request.get("/network.json").json()["interfaces"]
    return str(interface["settings"]["mode"])


def change(page: Page, **fields: str) -> Locator:
    """Enter a fixed address and FIELDS, and send the form. Returns the part of the page that asks for the confirmation."""
    page.goto("/network")
    page.get_by_role("radio", name="Fixed: the values below").check()
    for label, value in {"Address with prefix": "10.0.2.15/24", "Gateway": "10.0.2.2", **fields}.items():
        page.get_by_role("textbox", name=label).fill(value)
    page.get_by_role("button", name=re.compile("^Change ")).click()
    return page.get_by_role("region", name=re.compile("^Confirm the change of "))


def test_an_address_that_is_none_is_refused_and_kept(page: Page) -> None:
    change(page, **{"Address with prefix": "10.0.2.400/24"})
    expect(page.get_by_role("alert")).to_be_visible()
    field = page.get_by_role("textbox", name="Address with prefix")
    expect(field).to_have_value("10.0.2.400/24")
    expect(field).to_have_attribute("aria-invalid", "true")
    check(page, "network-refused")
    assert mode(page) == "dhcp"


@pytest.mark.posts("/network/revert")
def test_a_change_is_undone_by_the_user(page: Page) -> None:
    trial = change(page, **{"DNS servers": "10.0.2.9"})
    trial.get_by_role("button", name="Undo it now").click()
    expect(page.get_by_role("status").first).to_contain_text("The change is undone.")
    until("the old settings are in force", lambda: mode(page) == "dhcp")
    page.goto("/network")
    expect(page.get_by_role("status").first).to_contain_text("undone by an administrator")
    expect(page.get_by_role("radio", name="Automatic")).to_be_checked()


@pytest.mark.skipif(not DEEP, reason="takes the 60 s of the board and more: DEEP=1 runs it")
def test_a_change_that_nobody_confirms_is_undone_before_the_eyes_of_the_user(page: Page) -> None:
    trial = change(page, **{"DNS servers": "10.0.2.9"})
    expect(trial).to_be_visible()
    # The page loads itself again after the countdown. The clock of the board may be slower than the browser's.
    message = page.get_by_role("status").first
    expect(message).to_contain_text("nobody confirmed it in time", timeout=SLOW * 2 * TRIAL_S * 1000)
    check(page, "network-expired")
    assert mode(page) == "dhcp"


@pytest.mark.posts("/network/<name>", "/network/confirm")
def test_a_change_that_is_confirmed_stays(page: Page, board: Board) -> None:
    trial = change(page, **{"DNS servers": "10.0.2.3"})
    left = trial.locator("[data-left]")
    expect(left).to_have_text(re.compile(r"^\d+$"))
    before = left.inner_text()
    expect(left).not_to_have_text(before)
    assert int(left.inner_text()) < int(before) <= TRIAL_S
    check(page, "network-trial")
    board.wait(4)  # The board refuses a confirmation of settings that may not be in force yet.
    trial.get_by_role("button", name="Keep the change").press("Enter")
    expect(page.get_by_role("status").first).to_have_text("The change is confirmed and stays.")
    expect(trial).to_have_count(0)
    expect(page.get_by_role("radio", name="Fixed: the values below")).to_be_checked()
    assert mode(page) == "fixed"
