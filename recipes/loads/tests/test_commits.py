# SPDX-License-Identifier: Apache-2.0
"""ek-commits as a process, on a real file system."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from harness import COMMITS, in_order, refused, run, running, stopped, summary, wait_for


@pytest.mark.parametrize("journal", ["delete", "truncate", "persist", "wal"])
@pytest.mark.parametrize("sync", ["full", "normal"])
def test_each_commit_is_a_row(disk: Path, journal: str, sync: str) -> None:
    file = disk / "state.db"
    row = summary(
        COMMITS, "--journal", journal, "--sync", sync, "--row", "3000", "--duration", "200ms", str(file)
    )
    with sqlite3.connect(file) as db:
        count, size = db.execute("SELECT count(*), sum(length(data)) FROM state").fetchone()
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == ("wal" if journal == "wal" else "delete")
    assert (row["commits"], row["bytes"]) == (count, size)
    assert size == 3000 * count > 0
    assert row["seconds"] >= 0.2
    assert row["per_second"] == pytest.approx(row["commits"] / row["seconds"], rel=0.01)
    in_order(row, "commit")


def test_planned_commits_have_their_rate(disk: Path) -> None:
    row = summary(COMMITS, "--every", "50ms", "--duration", "1s", str(disk / "state.db"))
    assert 18 <= row["commits"] <= 21


def test_a_signal_ends_it_with_a_summary(disk: Path) -> None:
    file = disk / "state.db"
    with running(COMMITS, "--every", "10ms", "--json", str(file)) as proc:
        wait_for(lambda: file.exists() and file.stat().st_size > 8192)
        row = stopped(proc)
    assert row["commits"] > 0


def test_an_existing_database_is_refused(disk: Path) -> None:
    file = disk / "state.db"
    file.write_text("mine")
    refused(run(COMMITS, str(file)), 1, f"ek-commits: {file} exists already. Give the name of a new file")
    assert file.read_text() == "mine"


def test_a_folder_that_does_not_exist_is_named(disk: Path) -> None:
    refused(
        run(COMMITS, str(disk / "none/state.db")), 1, f"cannot create {disk}/none/state.db: unable to open"
    )
