# SPDX-License-Identifier: Apache-2.0
"""settings.db: versions and transactions."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest
from evenkeel_panel import db as module
from evenkeel_panel.db import Database, SchemaError

if TYPE_CHECKING:
    from pathlib import Path


def test_opening_twice_keeps_everything(tmp_path: Path) -> None:
    Database(tmp_path / "settings.db").set_setting("a", "1")
    again = Database(tmp_path / "settings.db")
    assert again.setting("a") == "1"
    assert again.one("PRAGMA user_version") == (module.SCHEMA,)
    assert again.one("PRAGMA journal_mode") == ("wal",)


def test_another_major_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "settings.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 200")
    with pytest.raises(SchemaError, match="schema 200"):
        Database(path)


def test_a_newer_minor_version_opens(tmp_path: Path) -> None:
    """After a roll-back, the older slot opens the file that the newer slot has extended."""
    path = tmp_path / "settings.db"
    Database(path).set_setting("a", "1")
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE settings ADD COLUMN later TEXT")
        connection.execute("PRAGMA user_version = 103")
    assert Database(path).setting("a") == "1"


def test_failed_write_is_rolled_back(tmp_path: Path) -> None:
    db = Database(tmp_path / "settings.db")

    def fail() -> None:
        with db.write() as cursor:
            cursor.execute("INSERT INTO settings (key, value) VALUES ('a', '1')")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert db.setting("a") is None
