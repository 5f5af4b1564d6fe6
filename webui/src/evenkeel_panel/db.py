# SPDX-License-Identifier: Apache-2.0
"""settings.db: the panel's own settings (SQLite, WAL). The agent, not the panel, stores users and sessions.

This module needs the standard library only.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# The version of the schema, saved as PRAGMA user_version: MAJOR * 100 + minor. After a roll-back, an older panel
# opens the same file. So a change of minor may only add what an older panel does not read. A file with another MAJOR
# is refused.
SCHEMA = 100
MIGRATIONS = {100: "CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT"}


class SchemaError(Exception):
    """settings.db has another major version than this panel."""


class Database:
    """The open file settings.db, with one connection per thread.

    Each write is one short IMMEDIATE transaction. When the call returns, it is on the medium. Writes are rare
    (a new weight), so durability is worth a few ms.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        # Mode 0600: SQLite gives its -wal and -shm files the same mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._migrate()

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = sqlite3.connect(self.path, timeout=5, isolation_level=None)
            connection.execute("PRAGMA synchronous = FULL")
            self._local.connection = connection
        return connection

    def _migrate(self) -> None:
        connection = self._connection()
        connection.execute("PRAGMA journal_mode = WAL")
        with self.write() as cursor:  # the lock ensures that only one of two processes migrates
            version: int = cursor.execute("PRAGMA user_version").fetchone()[0]
            if version and version // 100 != SCHEMA // 100:
                raise SchemaError(
                    f"{self.path} has schema {version}, but this panel reads {SCHEMA // 100}xx only."
                    " Use the panel version that wrote it, or move the file away."
                )
            for step in sorted(MIGRATIONS):
                if step > version:
                    for statement in MIGRATIONS[step].split(";"):
                        cursor.execute(statement)  # executescript() would commit first
                    cursor.execute(f"PRAGMA user_version = {step}")

    @contextmanager
    def write(self) -> Iterator[sqlite3.Cursor]:
        """A transaction. The end of the block commits it; an exception rolls it back."""
        connection = self._connection()
        cursor = connection.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        try:
            yield cursor
            cursor.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                cursor.execute("ROLLBACK")
            raise
        finally:
            cursor.close()

    def one(self, sql: str, *parameters: Any) -> tuple[Any, ...] | None:
        """The first row of a query."""
        row: tuple[Any, ...] | None = self._connection().execute(sql, parameters).fetchone()
        return row

    def rows(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self._connection().execute(sql, parameters).fetchall()

    def setting(self, key: str) -> str | None:
        row = self.one("SELECT value FROM settings WHERE key = ?", key)
        return None if row is None else str(row[0])

    def set_setting(self, key: str, value: str, *, only_new: bool = False) -> None:
        insert = "INSERT INTO settings (key, value) VALUES (?, ?) ON CONFLICT (key) DO "
        with self.write() as cursor:
            cursor.execute(
                insert + ("NOTHING" if only_new else "UPDATE SET value = excluded.value"), (key, value)
            )
