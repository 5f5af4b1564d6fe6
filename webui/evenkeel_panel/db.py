# SPDX-License-Identifier: Apache-2.0
"""panel.db: the panel's own users, sessions, settings and audit trail (SQLite, WAL).

First boot reads it too, so this module needs the standard library only.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

log = logging.getLogger(__name__)

# PRAGMA user_version is MAJOR * 100 + minor. A minor step only adds what an older panel does not
# look at, because after a roll-back the older slot opens the same file. Another major is refused.
SCHEMA = 100
MIGRATIONS = {
    100: """
        CREATE TABLE users (
            name TEXT PRIMARY KEY,
            hash TEXT NOT NULL,          -- argon2id, encoded with its parameters
            changed_at INTEGER NOT NULL  -- Unix seconds
        ) STRICT;
        CREATE TABLE sessions (
            id TEXT PRIMARY KEY,         -- SHA-256 of the token in the cookie
            user TEXT NOT NULL,
            created_at INTEGER NOT NULL
        ) STRICT;
        CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
        CREATE TABLE audit (
            id INTEGER PRIMARY KEY,
            at INTEGER NOT NULL,
            user TEXT NOT NULL,          -- empty: nobody was logged in
            client TEXT NOT NULL,        -- address
            action TEXT NOT NULL,
            detail TEXT NOT NULL
        ) STRICT;
    """,
}
AUDIT_ROWS = 10_000  # about 1 MB; the oldest go


class SchemaError(Exception):
    """panel.db is of another major version than this panel."""


class Database:
    """One file, one connection per thread.

    Each write is one short IMMEDIATE transaction, synced before it returns: writes are rare (a
    log-in, a changed weight), so durability is worth more than the few ms.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        # SQLite gives -wal and -shm the mode of the file itself.
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
        with self.write() as cursor:  # the version is read under the lock: two starters migrate once
            version: int = cursor.execute("PRAGMA user_version").fetchone()[0]
            if version and version // 100 != SCHEMA // 100:
                raise SchemaError(
                    f"{self.path} has schema {version}, this panel reads {SCHEMA // 100}xx only"
                )
            for step in sorted(MIGRATIONS):
                if step > version:
                    for statement in MIGRATIONS[step].split(";"):
                        cursor.execute(statement)  # not executescript: it would commit first
                    cursor.execute(f"PRAGMA user_version = {step}")

    @contextmanager
    def write(self) -> Iterator[sqlite3.Cursor]:
        """A transaction: committed at the end of the block, rolled back by an exception."""
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
        """First row of a query."""
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

    def audit(self, user: str, client: str, action: str, detail: str = "") -> None:
        """Never fails: on a full disk the deed counts, and the log has the line."""
        try:
            with self.write() as cursor:
                cursor.execute(
                    "INSERT INTO audit (at, user, client, action, detail) VALUES (?, ?, ?, ?, ?)",
                    (int(time.time()), user, client, action, detail[:200]),
                )
                cursor.execute("DELETE FROM audit WHERE id <= ?", ((cursor.lastrowid or 0) - AUDIT_ROWS,))
        except sqlite3.Error as error:
            log.warning("audit not written (%s): %s %s %s %s", error, user, client, action, detail)
