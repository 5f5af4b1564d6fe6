# SPDX-License-Identifier: Apache-2.0
"""Log-in and log-out of a booted board: a session is ended by another one, and a code protects a log-in."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyotp
import pytest
from playwright.sync_api import Browser, Page, expect

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/browser")]

import posts  # noqa: E402
from boards import Board  # noqa: E402
from pages import PASSWORD, PATIENCE_MS, check, logged_in  # noqa: E402

AGENT = "a browser that nobody knows"  # its User-Agent, which the list of sessions shows


@pytest.mark.posts("/account/sessions/<id>/end")
def test_a_session_that_somebody_ends_must_log_in_again(page: Page, browser: Browser, board: Board) -> None:
    with logged_in(browser, board, user_agent=AGENT) as other:
        page.goto("/account")
        row = page.get_by_role("row").filter(has_text=AGENT)
        expect(row).to_have_count(1)
        row.get_by_role("button").press("Enter")
        expect(page.get_by_role("status").first).to_have_text("The session was ended.")
        expect(row).to_have_count(0)
        check(page, "account-session-ended")
        other.goto("/apps")
        expect(other).to_have_url(re.compile("/login"))


@contextmanager
def stranger(browser: Browser, board: Board) -> Iterator[Page]:
    """A page that is not logged in."""
    context = browser.new_context(ignore_https_errors=True, base_url=f"https://127.0.0.1:{board.port}")
    context.set_default_timeout(PATIENCE_MS)
    posts.watch(context)
    yield context.new_page()
    context.close()


def log_in(page: Page, password: str, code: str = "") -> None:
    page.get_by_label("User").fill("tessa")
    page.get_by_label("Password").fill(password)
    if code:
        page.get_by_label("Code of the authenticator app").fill(code)
    page.get_by_role("button", name="Log in").click()


@pytest.mark.posts(
    "/login", "/password", "/logout", "/account/totp/begin", "/account/totp/confirm", "/account/totp/end"
)
def test_a_code_protects_the_log_in_until_it_is_switched_off(browser: Browser, board: Board) -> None:
    """As a user who is no administrator: if this test fails, those after it can still log in."""
    answer = board.run("ekctl add-user tessa viewer --json")
    first = json.loads("{" + answer.partition("{")[2])["password"]
    try:
        with stranger(browser, board) as page:
            page.goto("/login")
            log_in(page, first)
            page.get_by_label("First password").fill(first)
            page.get_by_label("New password", exact=True).fill(PASSWORD)
            page.get_by_label("New password, again").fill(PASSWORD)
            page.get_by_role("button", name="Set the password").click()
            expect(page).to_have_url(re.compile("/apps"))

            page.goto("/account")
            page.get_by_role("button", name="Set up a code").click()
            secret = page.locator("code.secret").inner_text()
            check(page, "account-code")

            def code(steps: int) -> str:
                return str(pyotp.TOTP(secret).at(int(board.run("date +%s")), steps))

            page.get_by_label("Code", exact=True).fill(code(0))
            page.get_by_role("textbox", name="Password").fill(PASSWORD)
            page.get_by_role("button", name="Switch the code on").click()
            expect(page.get_by_role("status").first).to_have_text("From now on, your log-in needs a code.")
            page.get_by_role("button", name="Log out").click()
            expect(page).to_have_url(re.compile("/login"))

            log_in(page, PASSWORD)
            expect(page.get_by_role("alert")).to_contain_text("code")
            check(page, "login-code")
            log_in(page, PASSWORD, "12")
            expect(page.get_by_role("alert")).to_contain_text("code")
            # The board accepts no code twice. It accepts the next one before its time.
            log_in(page, PASSWORD, code(1))
            expect(page.get_by_role("navigation", name="Pages")).to_be_visible()

            page.goto("/account")
            page.get_by_role("textbox", name="Password").fill(PASSWORD)
            page.get_by_role("button", name="Switch the code off").click()
            expect(page.get_by_role("status").first).to_have_text("Your log-in needs no code any more.")
            expect(page.get_by_role("button", name="Set up a code")).to_be_visible()
    finally:
        board.run("ekctl remove-user tessa")
