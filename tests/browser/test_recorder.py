# SPDX-License-Identifier: Apache-2.0
"""A user at the page *Recorder* of a booted board: sees a channel that records, and downloads a range of it."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/browser")]

from boards import Board, until  # noqa: E402
from pages import check  # noqa: E402

CHANNEL = "crane"
CONF = f"/etc/ek-recorder/channels.d/{CHANNEL}.conf"
RELOAD = "systemctl reload-or-restart ek-recorder.service"
RECORDS = 500  # before, and as many after the moment that ends the range


@pytest.fixture(scope="module")
def moment(board: Board) -> Iterator[str]:
    """Records in the channel CHANNEL before and after a moment. Yields it: UTC, without its time zone."""
    settings = r"record_size = 64\nretain = 2MiB\nwindow = 200ms\n"
    board.run(f"printf '{settings}' > {CONF} && {RELOAD}")
    until(
        "the channel records", lambda: f"{CHANNEL} " in board.run("ek-recorder status | grep recording || :")
    )
    board.run(f"seq -f 'record %.0f' {RECORDS} | ek-recorder write {CHANNEL}; sleep 2")
    at = board.run("date -u '+%F %T'")
    board.run(f"sleep 2; seq -f 'record %.0f' {RECORDS} | ek-recorder write {CHANNEL}")
    yield at
    board.run(f"rm {CONF} && {RELOAD} && rm -r /recorder/{CHANNEL}")


def test_a_channel_is_shown_while_it_records(page: Page, moment: str) -> None:
    page.goto("/recorder")
    row = page.locator(f"[data-channel={CHANNEL}]")
    expect(row.locator("[data-field=state]")).to_have_text("recording")
    expect(row).to_contain_text(f"{2 * RECORDS:,} records")
    expect(row.locator("[data-field=lost]")).to_have_text("Nothing lost")
    check(page, "recorder-channel")


def test_a_time_that_is_none_is_refused_and_kept(page: Page, moment: str) -> None:
    page.goto("/recorder")
    page.get_by_label("To (UTC)").fill("yesterday")
    page.get_by_role("button", name="Download").click()
    expect(page.get_by_role("alert").filter(has_text="yesterday")).to_be_visible()
    field = page.get_by_label("To (UTC)")
    expect(field).to_have_value("yesterday")
    expect(field).to_have_attribute("aria-invalid", "true")
    check(page, "recorder-refused")


@pytest.mark.posts("/recorder/download")
def test_a_range_is_downloaded_as_mcap(page: Page, board: Board, moment: str, tmp_path: Path) -> None:
    page.goto("/recorder")
    page.get_by_label(CHANNEL).check()
    page.get_by_label("To (UTC)").fill(moment)
    page.get_by_label("Format").select_option("mcap")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert re.fullmatch(rf"{CHANNEL}-.*\.mcap", download.value.suggested_filename)
    file = tmp_path / "range.mcap"
    download.value.save_as(file)
    assert file.read_bytes().startswith(b"\x89MCAP0\r\n")

    def export(options: str, name: str) -> str:
        """The digest of what the board itself exports."""
        board.run(f"ek-recorder export {CHANNEL} {options} -o /run/{name}")
        return board.run(f"sha256sum /run/{name}; rm /run/{name}").split()[0]

    end = moment.replace(" ", "T") + "Z"
    assert hashlib.sha256(file.read_bytes()).hexdigest() == export(f"--to {end}", "range.mcap")
    assert export(f"--to {end}", "range.csv") != export("", "whole.csv")
