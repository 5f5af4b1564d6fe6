# SPDX-License-Identifier: Apache-2.0
"""settings.db: versions, transactions, and the faults that the panel survives."""

from __future__ import annotations

import logging
import sqlite3
import time
from typing import TYPE_CHECKING

import pytest
from disks import fill_up, small_disk
from evenkeel_panel import db as module
from evenkeel_panel import texts
from evenkeel_panel.app import create_app
from evenkeel_panel.db import Database, SchemaError
from evenkeel_panel.testing import COMPONENT, Browser

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from evenkeel_panel.fake_agent import FakeAgent


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "settings.db"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path, "256k") as disk:
        yield disk


def query(path: Path, sql: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(path) as connection:
        return connection.execute(sql).fetchall()


def test_opening_twice_keeps_everything(path: Path) -> None:
    Database(path).set_setting("a", "1")
    again = Database(path)
    assert again.setting("a") == "1"
    assert again.setting("b") is None
    assert again.problem is None
    assert query(path, "PRAGMA user_version") == [(module.SCHEMA,)]
    assert path.stat().st_mode & 0o777 == 0o600


def test_another_major_version_is_refused(path: Path) -> None:
    query(path, "PRAGMA user_version = 200")
    with pytest.raises(SchemaError, match="schema 200"):
        Database(path)


def test_a_newer_minor_version_opens(path: Path) -> None:
    """After a roll-back, the older slot opens the file that the newer slot has extended."""
    Database(path).set_setting("a", "1")
    query(path, "ALTER TABLE settings ADD COLUMN later TEXT")
    query(path, "PRAGMA user_version = 103")
    assert Database(path).setting("a") == "1"
    assert query(path, "PRAGMA user_version") == [(103,)]


def test_failed_write_is_rolled_back(path: Path) -> None:
    db = Database(path)
    db.set_setting("a", "1")
    query(path, "CREATE TRIGGER no BEFORE INSERT ON settings BEGIN SELECT RAISE(ABORT, 'no'); END")
    with pytest.raises(sqlite3.Error, match="no"):
        db.set_setting("a", "2")
    assert db.setting("a") == "1"
    assert Database(path).setting("a") == "1"


def test_a_setting_of_the_panel_itself_is_made_once(path: Path) -> None:
    assert Database(path).own_setting("key", "first") == "first"
    assert Database(path).own_setting("key", "second") == "first"


def test_a_file_with_a_wal_opens(path: Path) -> None:
    """An earlier panel has made it, and was killed."""
    Database(path).set_setting("a", "1")
    old = sqlite3.connect(path, isolation_level=None)
    old.execute("PRAGMA journal_mode = WAL")
    old.execute("UPDATE settings SET value = '2'")
    copy = path.with_name("copy.db")
    for end in ("", "-wal"):
        copy.with_name(copy.name + end).write_bytes(path.with_name(path.name + end).read_bytes())
    assert Database(copy).setting("a") == "2"
    old.close()


# ---- damage ----


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "header":
        content = b"?" * 100 + content[100:]
    elif how == "page":
        content = content[:4096] + b"?" * (len(content) - 4096)
    elif how == "cut":
        content = content[:5000]
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["header", "page", "cut"])
def test_a_damaged_file_is_set_aside_and_reported(path: Path, how: str) -> None:
    Database(path).set_setting("a", "1")
    damage(path, how)
    damaged = path.read_bytes()
    for _ in range(2):  # also after a restart
        db = Database(path)
        assert db.problem
        assert db.problem.code == "settings-damaged"
        reason, remedy = texts.explained(db.problem.note())
        assert str(path) + ".corrupt" in reason
        assert remedy == "Nothing needs to be set again, and this message ends after a day."
    assert path.with_name("settings.db.corrupt").read_bytes() == damaged
    assert db.setting("a") is None
    db.set_setting("last_apps", "[]")
    assert db.problem
    later = [time.time() + module.REPORT_S + 1]
    assert Database(path, now=lambda: later[0]).problem is None
    later[0] -= 2 * module.REPORT_S
    assert Database(path, now=lambda: later[0]).problem, "the clock was set back"


def test_damage_while_the_panel_runs_loses_nothing(path: Path) -> None:
    db = Database(path)
    db.set_setting("a", "1")
    damage(path, "header")
    db.set_setting("b", "2")
    assert db.problem
    again = Database(path)
    assert (again.setting("a"), again.setting("b")) == ("1", "2")
    assert again.problem == db.problem


# ---- a file that cannot be opened ----


def test_the_panel_works_without_its_file_and_opens_it_later(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Database(path).set_setting("a", "1")
    path.rename(path.with_name("kept"))
    path.mkdir()
    clock = Clock()
    with caplog.at_level(logging.ERROR):
        db = Database(path, clock)
    assert "cannot be opened" in caplog.text
    assert db.problem
    assert db.problem.code == "settings-not-open"
    with pytest.raises(sqlite3.OperationalError):
        db.set_setting("a", "2")
    assert db.own_setting("key", "of now") == "of now"
    path.rmdir()
    path.with_name("kept").rename(path)
    assert db.problem  # it is tried again after RETRY_S only
    clock.now += module.RETRY_S
    assert db.problem is None
    assert (db.setting("a"), db.setting("key")) == ("1", "of now")


def test_a_full_disk_refuses_changes_but_opens(disk: Path) -> None:
    path = disk / "settings.db"
    Database(path).set_setting("a", "1")
    filler = fill_up(disk)
    db = Database(path)
    assert db.problem is None
    assert db.setting("a") == "1"
    with pytest.raises(sqlite3.OperationalError, match="full"):
        db.set_setting("b", "x" * 8192)
    assert db.setting("b") is None
    filler.unlink()
    db.set_setting("b", "x" * 8192)
    assert Database(path).setting("b") == "x" * 8192


def test_a_new_panel_on_a_full_disk_logs_users_in(disk: Path, agent: FakeAgent) -> None:
    fill_up(disk)
    app = create_app(disk, COMPONENT / "src/static", agent)
    browser = Browser(app.test_client(), disk).set_up()
    codes = [problem["code"] for problem in (browser.get("/overview.json").json or {})["problems"]]
    assert "settings-not-open" in codes
    assert "cannot be opened" in browser.get("/").text


def test_the_overview_reports_damage(tmp_path: Path, agent: FakeAgent) -> None:
    (tmp_path / "settings.db").write_bytes(b"not a database" * 400)
    app = create_app(tmp_path, COMPONENT / "src/static", agent)
    browser = Browser(app.test_client(), tmp_path).set_up()
    assert "The settings of the panel were damaged" in browser.get("/").text
