# SPDX-License-Identifier: Apache-2.0
"""A user at the page *History* of a booted board: sees who slows whom, zooms, and compares before and after a change.

The tests are the steps of one visit. They run in order, and each continues where the previous one ended.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/browser")]

from boards import Board  # noqa: E402
from pages import check, logged_in, tab_to  # noqa: E402
from sample import DEEP  # noqa: E402

# Time in which the board records I/O before the first step. A picture in docs/ shows this time.
RECORD_SECONDS = 400 if DEEP else 90


def set_weight(page: Page, name: str, weight: str) -> None:
    page.goto("/apps")
    row = page.locator(f'[data-app="{name}"]')
    row.locator("input[name=weight]").fill(weight)
    row.locator('[data-action="apply"]').click()
    expect(row.locator('[data-field="weight"]')).to_have_attribute("data-value", weight)


@pytest.mark.picture
def test_who_slows_whom_and_the_charts_are_shown(page: Page, board: Board) -> None:
    begin = int(board.run("date +%s"))
    set_weight(page, "player", "300")
    page.wait_for_timeout(RECORD_SECONDS * 1000 // 2)
    set_weight(page, "player", "400")
    page.wait_for_timeout(RECORD_SECONDS * 1000 // 2)
    # The clock of the board may be slow, and the history shows a minute at least.
    end = max(int(board.run("date +%s")), begin + 60)
    page.goto(f"/history?start={begin}&end={end}")
    expect(page.get_by_role("heading", level=1)).to_have_text("History")
    expect(page.locator(".costs").first).to_contain_text("Loader cost Player")
    for kind in ("area", "line", "heat"):
        expect(page.locator(f".plot.{kind} svg").first).to_be_visible()
    check(page, "history")


def test_the_changes_are_marked_and_listed(page: Page) -> None:
    page.goto("/history?span=10m")
    # other files change weights of the same board
    row = page.locator("[id^=change-]").filter(has_text="Weight of Player: 300 → 400")
    expect(row).to_have_count(1)
    expect(page.locator(".changes").get_by_role("link", name="audit log")).to_be_visible()
    assert page.locator(".plot.area .marks a").count() >= 1


def test_the_effect_of_a_change_is_measured(page: Page) -> None:
    page.goto("/history?span=10m")
    row = page.locator("[id^=change-]").filter(has_text="Weight of Player: 300 → 400")
    row.get_by_role("link", name="Compare before and after change").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Compare two spans")
    expect(page.locator("#differences")).to_be_visible()
    check(page, "history-compare")
    page.get_by_role("link", name="Back to the history").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("History")


def test_a_drag_zooms(page: Page) -> None:
    page.goto("/history?span=10m")
    plot = page.locator(".plot.area")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.95, box["y"] + 60, steps=5)
    page.mouse.up()
    page.wait_for_url(re.compile(r"/history\?start="))
    expect(page.locator("#zoom-start")).to_be_visible()


def test_the_keyboard_is_enough(page: Page) -> None:
    page.goto("/history?span=10m")
    tab_to(page, "Zoom in")
    page.keyboard.press("Enter")
    expect(page.locator("#zoom-start")).to_be_visible()
    tab_to(page, "Show")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/history\?start="))
    tab_to(page, "Hour")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/history\?span=1h"))


def test_every_csv_file_of_the_page_is_a_table(page: Page) -> None:
    page.goto("/history?span=10m")
    links = page.locator('a[href*=".csv"]').evaluate_all(
        "links => links.map((link) => link.getAttribute('href'))"
    )
    assert len(links) >= 6
    for link in links:
        answer = page.request.get(link)
        assert answer.headers["content-type"].startswith("text/csv"), link
        rows = list(csv.reader(io.StringIO(answer.text())))
        assert len(rows) >= 1, link
        assert len({len(row) for row in rows}) == 1, link


def test_the_page_works_without_javascript(browser: Browser, board: Board) -> None:
    with logged_in(browser, board, script=False) as page:
        page.goto("/history?span=10m")
        expect(page.locator(".plot.heat svg").first).to_be_visible()
        page.locator("summary", has_text="Zoom in").click()
        page.locator("#zoom button").click()
        page.wait_for_url(re.compile(r"/history\?start="))
        expect(page.get_by_role("heading", level=1)).to_have_text("History")


def test_a_stopped_history_is_reported(page: Page, board: Board) -> None:
    board.run("systemctl stop evenkeel-history.service")
    try:
        page.goto("/history?span=10m")
        expect(page.get_by_role("status").first).to_contain_text("The history service does not answer")
        check(page, "history-stopped")
    finally:
        board.run("systemctl start evenkeel-history.service")
