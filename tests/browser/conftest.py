# SPDX-License-Identifier: Apache-2.0
"""What a visitor saw when a test failed: a screenshot, what the page said, and the board's journal."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Error, Page

SHOTS = Path(__file__).resolve().parents[2] / "build/screenshots"
JOURNAL = "journalctl --no-pager -o short-precise -n 60 -u evenkeeld -u evenkeel-panel -u nginx -u 'evenkeel-*.service'"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    fixtures: dict[str, object] = getattr(item, "funcargs", {})
    page, board = fixtures.get("page"), fixtures.get("board")
    if report.when != "call" or not report.failed or not isinstance(page, Page):
        return report
    try:
        SHOTS.mkdir(parents=True, exist_ok=True)
        shot = SHOTS / f"failed-{item.name}.png"
        page.screenshot(path=shot, full_page=True)
        said = page.locator(".message, [role=alert]:visible").all_inner_texts()
        report.sections.append(("page", f"{shot}\n" + "\n".join(said)))
    except Error as error:
        report.sections.append(("page", str(error)))
    if board is not None:
        try:
            report.sections.append(("journal", board.run(JOURNAL)))  # type: ignore[attr-defined]
        except Exception as error:  # the test's own failure is what is to be told
            report.sections.append(("journal", repr(error)))
    return report
