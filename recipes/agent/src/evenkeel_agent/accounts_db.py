# SPDX-License-Identifier: Apache-2.0
"""accounts.db: users, sessions, tokens, the audit log and the changes of the board (SQLite, WAL).

It is in the state directory of the agent.

Guarantee: a write is one short transaction. When the call returns, the transaction is on the medium. Writes are rare
(a log-in, a new weight), so durability is worth some ms. One process writes: the agent, one call at a time.

If the file is damaged, Database renames it to *.corrupt and creates an empty one. On a full disk, a later attempt or a
later start of the agent creates it, and reports the damage as well.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from evenkeel_api.changes import is_change, shown

# The version of the schema, saved as PRAGMA user_version: MAJOR * 100 + minor. After a roll-back, an older agent opens
# the same file. So a change of minor may only add what an older agent does not read. A file with another MAJOR is
# renamed to *.corrupt, like a damaged one.
SCHEMA = 100
TABLES = """
    CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
    CREATE TABLE users (
        name TEXT PRIMARY KEY,
        role TEXT NOT NULL,
        hash TEXT,                   -- argon2id with its parameters; NULL: the first password is valid
        first TEXT,                  -- first-boot password, which the console shows until it is changed
        must_change INTEGER NOT NULL,
        totp TEXT,                   -- shared secret as text, base32: codes are computed from it
        changed_at INTEGER NOT NULL  -- Unix time in s, like all times in this file
    ) STRICT;
    CREATE TABLE sessions (
        digest TEXT PRIMARY KEY,     -- SHA-256 of the secret
        user TEXT NOT NULL REFERENCES users ON DELETE CASCADE,
        address TEXT NOT NULL,
        client TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        used_at INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE tokens (
        digest TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        user TEXT NOT NULL REFERENCES users ON DELETE CASCADE,
        role TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        expires_at INTEGER NOT NULL  -- 0: never
    ) STRICT;
    CREATE TABLE audit (
        id INTEGER PRIMARY KEY,
        at INTEGER NOT NULL,
        user TEXT NOT NULL,
        via TEXT NOT NULL,
        address TEXT NOT NULL,
        action TEXT NOT NULL,
        detail TEXT NOT NULL,
        outcome TEXT NOT NULL
    ) STRICT;
"""
# The changes of the board in the audit log, of which more are kept. An older agent neither reads nor writes them.
CHANGES = (
    """CREATE TABLE IF NOT EXISTS changes (
        id INTEGER PRIMARY KEY,      -- as in audit
        at INTEGER NOT NULL,
        action TEXT NOT NULL,        -- of an undo: the method whose value it sets back
        app TEXT NOT NULL,           -- empty: the change is not about an app
        before TEXT NOT NULL,        -- the previous value; empty: not known
        value TEXT NOT NULL          -- the new value; empty: there is none, or it may be secret
    ) STRICT""",
    "CREATE INDEX IF NOT EXISTS changes_at ON changes (at)",
    "CREATE INDEX IF NOT EXISTS changes_target ON changes (action, app, id)",
)
CORRUPT = ".corrupt"  # the end of the name of a damaged file
AUDIT_ROWS = 10_000  # about 1 MB; older rows are deleted
# About 1 MB, and 13 changes a day for two years, which is as long as the history of the I/O. They are not deleted by age: a
# clock that is ahead for a while must not delete them.
CHANGES_ROWS = 10_000


class Database:
    """The open file accounts.db. Its methods block and raise sqlite3.Error. Any thread may call, but only one at a time."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.damage = ""  # why the previous file became *.corrupt; "" if this file is not its successor
        try:
            self._connection = self._open()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and "malformed" not in str(error):
                raise
            self.damage = str(error)
            for end in ("", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.rename(path + end, f"{path}{end}{CORRUPT}")  # noqa: PTH104
            self._connection = self._open()
        # The last row of the audit log whose change is in the table of changes, as is that of each earlier row. A new row
        # needs no look at earlier ones. 0: not known, because that of an older agent could not be saved.
        self._listed = 0
        with contextlib.suppress(sqlite3.OperationalError):  # the disk may be full
            with self.write() as cursor:
                last = _add_changes(cursor, 0)
            self._listed = last

    def _open(self) -> sqlite3.Connection:
        # Mode 0600: SQLite gives its -wal and -shm files the same mode.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        connection = sqlite3.connect(self.path, timeout=5, isolation_level=None, check_same_thread=False)
        try:
            # One process uses the file. So SQLite keeps the index of the WAL in memory, and needs no file for it: a full
            # disk does not prevent the agent from opening the accounts.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            version: int = connection.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                connection.executescript(f"BEGIN; {TABLES} PRAGMA user_version = {SCHEMA}; COMMIT")
                if not self.damage and os.path.exists(self.path + CORRUPT):  # noqa: PTH110
                    self.damage = "an earlier attempt to open them noticed it"
            elif version // 100 != SCHEMA // 100:
                raise sqlite3.DatabaseError(
                    f"it has schema {version}, this agent reads {SCHEMA // 100}xx only"
                )
            if (found := connection.execute("PRAGMA quick_check").fetchone()[0]) != "ok":
                raise sqlite3.DatabaseError(str(found).splitlines()[0])
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        self._connection.close()

    @contextlib.contextmanager
    def write(self) -> Iterator[sqlite3.Cursor]:
        """A transaction. The end of the block commits it; an exception rolls it back."""
        cursor = self._connection.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        try:
            yield cursor
            cursor.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                cursor.execute("ROLLBACK")
            raise
        finally:
            cursor.close()

    def rows(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, parameters).fetchall()

    def add_audit(self, row: Sequence[Any]) -> None:
        """Add a row: at, user, via, address, action, detail, outcome."""
        with self.write() as cursor:
            cursor.execute(
                "INSERT INTO audit (at, user, via, address, action, detail, outcome) VALUES (?, ?, ?, ?, ?, ?, ?)",
                row,
            )
            number = cursor.lastrowid or 0
            last = _add_changes(cursor, self._listed)
            cursor.execute("DELETE FROM audit WHERE id <= ?", (number - AUDIT_ROWS,))
        self._listed = last


def _add_changes(cursor: sqlite3.Cursor, listed: int) -> int:
    """Add the changes that only the audit log has, and delete the oldest ones. Returns the last row of the audit log.

    These are the changes of the newest row, and of rows that an older agent has added. Rows up to LISTED have been added.
    """
    for statement in CHANGES:
        cursor.execute(statement)
    last: int = cursor.execute("SELECT coalesce(max(id), 0) FROM audit").fetchone()[0]
    rows = cursor.execute(
        "SELECT id, at, action, detail FROM audit"
        " WHERE id > max(?, (SELECT coalesce(max(id), 0) FROM changes)) AND outcome = '' ORDER BY id",
        (listed,),
    ).fetchall()
    rows = [row for row in rows if is_change(row[2])]
    for number, at, action, detail in rows:
        changed, app, value = shown(action, detail)
        cursor.execute(
            "INSERT INTO changes SELECT ?1, ?2, ?3, ?4, coalesce((SELECT value FROM changes"
            " WHERE action = ?3 AND app = ?4 ORDER BY id DESC LIMIT 1), ''), ?5",
            (number, at, changed, app, value),
        )
    if rows:
        cursor.execute(
            "DELETE FROM changes WHERE id <= (SELECT id FROM changes ORDER BY id DESC LIMIT 1 OFFSET ?)",
            (CHANGES_ROWS,),
        )
    return last
