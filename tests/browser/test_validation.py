# SPDX-License-Identifier: Apache-2.0
"""A user at the page *Validation* of a booted board: plans, starts, watches and cancels one, and compares two reports.

The figures of an emulated disk mean nothing. The tests are the steps of one visit. They run in order.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/browser")]

from boards import Board, until  # noqa: E402
from pages import check  # noqa: E402

# a short one, for a report that was not cancelled
RUN = "ek-validate run --yes --json --file 24 --only device.sequential-read --no-compare > /run/report.json"


def test_the_plan_says_what_it_does_and_starts_nothing(page: Page, board: Board) -> None:
    page.goto("/validation")
    page.get_by_label("What is measured").select_option("device")
    page.get_by_role("button", name="Continue").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Start this validation?")
    expect(page.locator("main")).to_contain_text("MB")
    check(page, "validation-plan")
    page.get_by_role("link", name="Do not start it").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Validation")
    assert json.loads(board.run("ekctl validate state --json"))["state"] == "idle"


@pytest.mark.posts("/validation/start", "/validation/cancel")
def test_a_validation_is_started_watched_and_cancelled(page: Page) -> None:
    page.goto("/validation/plan?profile=full&topic=device")
    page.get_by_role("button", name="Start the validation").click()
    expect(page.get_by_role("status").first).to_contain_text("The validation has begun.")
    # The page renews this part by itself.
    progress = page.get_by_role("progressbar", name="Progress of the validation")
    expect(progress).to_be_visible()
    check(page, "validation-progress")
    page.get_by_role("button", name="Cancel the validation").press("Enter")
    expect(page.get_by_role("status").first).to_contain_text("The validation ends now.")
    # After the end, the page loads itself again, and offers the next validation. It must not send the form again.
    expect(page.get_by_role("button", name="Continue")).to_be_visible()
    expect(page).to_have_url(re.compile("/validation$"))
    report = page.locator("[data-report]").first
    expect(report).to_contain_text("partial")
    report.get_by_role("link").click()
    expect(page.get_by_role("status").first).to_contain_text("This report is partial")
    check(page, "validation-report")


def test_two_reports_are_compared_and_one_is_saved(page: Page, board: Board, tmp_path: Path) -> None:
    status, output = board.try_run(RUN, timeout=600)
    # The emulated disk may break a promise.
    assert status in (0, 4), output
    until("the report is listed", lambda: len(json.loads(board.run("ekctl validate list --json"))) >= 2)
    page.goto("/validation")
    expect(page.locator("[data-report]").first).to_contain_text("complete")
    page.get_by_role("button", name="Compare two reports").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Compare two validations")
    expect(page.get_by_role("heading", name="Differences")).to_be_visible()
    check(page, "validation-compare")
    page.goto("/validation")
    page.locator("[data-report]").first.get_by_role("link").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Save as JSON").click()
    assert re.fullmatch(r"validation-.*\.json", download.value.suggested_filename)
    download.value.save_as(tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text())["state"] == "complete"
