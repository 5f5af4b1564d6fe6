# SPDX-License-Identifier: Apache-2.0
"""panel.db: versions, transactions, limits."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest
from evenkeel_panel import db as module
from evenkeel_panel.db import Database, SchemaError

if TYPE_CHECKING:
    from pathlib import Path


def test_opening_twice_keeps_everything(tmp_path: Path) -> None:
    Database(tmp_path / "panel.db").set_setting("a", "1")
    again = Database(tmp_path / "panel.db")
    assert again.setting("a") == "1"
    assert again.one("PRAGMA user_version") == (module.SCHEMA,)
    assert again.one("PRAGMA journal_mode") == ("wal",)


def test_another_major_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "panel.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 200")
    with pytest.raises(SchemaError, match="schema 200"):
        Database(path)


def test_a_newer_minor_version_opens(tmp_path: Path) -> None:
    """After a roll-back, the older slot opens the file that the newer slot has extended."""
    path = tmp_path / "panel.db"
    Database(path).set_setting("a", "1")
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE settings ADD COLUMN later TEXT")
        connection.execute("PRAGMA user_version = 103")
    assert Database(path).setting("a") == "1"


def test_failed_write_is_rolled_back(tmp_path: Path) -> None:
    db = Database(tmp_path / "panel.db")

    def fail() -> None:
        with db.write() as cursor:
            cursor.execute("INSERT INTO settings (key, value) VALUES ('a', '1')")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert db.setting("a") is None


def test_audit_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AUDIT_ROWS", 3)
    db = Database(tmp_path / "panel.db")
    for i in range(7):
        db.audit("admin", "192.0.2.1", "set-weight", str(i))
    assert db.rows("SELECT detail FROM audit ORDER BY id") == [("4",), ("5",), ("6",)]


def test_audit_survives_a_database_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = Database(tmp_path / "panel.db")

    def full() -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(db, "write", full)
    db.audit("admin", "192.0.2.1", "login")
