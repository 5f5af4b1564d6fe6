# SPDX-License-Identifier: Apache-2.0
"""For all tests with a browser: a time limit for each test, the check of its mark `posts`, and more information if it fails.

The report of a failed test gets a screenshot, the page's address and text, and the board's journal. The address and the
beginning of the text also follow the list of failed tests, which the summary of `make test` repeats.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Page

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "webui/src"), str(TOP / "recipes/agent/src"), str(TOP / "recipes/history/src")]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/browser")]

import posts  # noqa: E402
from boards import Board, power_on  # noqa: E402
from evenkeel_panel.testing import time_limit  # noqa: E402
from pages import PATIENCE_MS, chromium, logged_in  # noqa: E402

SHOTS = TOP / "build/screenshots"
# Time limit of one test. The longest test needs about 90 s on a busy machine.
TEST_SECONDS = 600
AFTER_MS = 10_000  # timeout of each look at the page of a failed test
TEXT = 160  # characters of the text of a page after the list of failed tests
shown = pytest.StashKey[list[str]]()
JOURNAL = "journalctl --no-pager -o short-precise -n 60 -u evenkeeld -u evenkeel-panel -u nginx -u 'evenkeel-*.service'"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "picture: the steps before the screenshot for tests/browser/picture")
    config.addinivalue_line("markers", "posts(*routes): the POST routes that the browser sends in the test")
    config.stash[shown] = []


@pytest.hookimpl(wrapper=True, tryfirst=True)  # after the list of failed tests
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> Generator[None]:
    yield
    for line in config.stash[shown]:
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def board() -> Iterator[Board]:
    """A board with the demo's apps, for all files that do not start one of their own."""
    yield from power_on("browser-pages", credentials=("evenkeel.demo=1", "evenkeel.console=1"))


@pytest.fixture(scope="module")
def page(browser: Browser, board: Board) -> Iterator[Page]:
    """A page whose user is an administrator of the board."""
    with logged_in(browser, board) as found:
        yield found


@pytest.fixture(autouse=True)
def limited(browser: Browser) -> Iterator[None]:
    """If a test takes longer than TEST_SECONDS, kill the browser, so that the test fails."""
    with time_limit(browser, TEST_SECONDS):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    posts.accepted.clear()
    yield
    wanted = [route for mark in item.iter_markers(posts.MARK) for route in mark.args]
    assert posts.missing(wanted) == [], f"the browser sent {posts.accepted}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    fixtures: dict[str, object] = getattr(item, "funcargs", {})
    page, board = fixtures.get("page"), fixtures.get("board")
    if report.when != "call" or not report.failed or not isinstance(page, Page):
        return report
    found = page.url
    try:
        # A browser that hangs must not take the time of the next tests.
        page.set_default_timeout(AFTER_MS)
        text = page.locator("main").inner_text()
        found += f": {' '.join(text.split())}"
        SHOTS.mkdir(parents=True, exist_ok=True)
        shot = SHOTS / f"failed-{item.name}.png"
        page.screenshot(path=shot, full_page=True)
        report.sections.append(("page", f"{shot}\n{page.url}\n{text}"))
    except Error as error:
        found += f": {error.message.splitlines()[0]}"
        report.sections.append(("page", str(error)))
    finally:
        page.set_default_timeout(PATIENCE_MS)
    item.config.stash[shown].append(f"ERROR {item.name} ended at {found[: TEXT + len(page.url)]}")
    if board is not None:
        try:
            report.sections.append(("journal", board.run(JOURNAL)))  # type: ignore[attr-defined]
        except Exception as error:  # An error here must not hide the failure of the test.
            report.sections.append(("journal", repr(error)))
    return report
