# SPDX-License-Identifier: Apache-2.0
"""settings.db: the panel's own settings (SQLite). The agent, not the panel, stores users and sessions.

This module needs the standard library and the type of the agent's messages only.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from evenkeel_api.messages import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

# The version of the schema, saved as PRAGMA user_version: MAJOR * 100 + minor. After a roll-back, an older panel
# opens the same file. So a change of minor may only add what an older panel does not read. A file with another MAJOR
# is refused.
SCHEMA = 100
MIGRATIONS = {100: "CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT"}
RETRY_S = 30.0  # if the file could not be opened, the next attempt is made after this time
DAMAGED = "damaged"  # the setting that says why the previous file was set aside
DAMAGED_AT = "damaged_at"  # when, in seconds since 1970
REPORT_S = 86400.0  # a damage is reported for this time
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_UPSERT = (
    "INSERT INTO settings (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)
_log = logging.getLogger(__name__)


class SchemaError(Exception):
    """settings.db has another major version than this panel."""


class Database:
    """The settings, in memory and in settings.db. Any thread may call.

    Guarantees:

    - When set_setting() returns, the value is on the medium. If it raises, nothing has changed.
    - A damaged file is renamed to *.corrupt and replaced by a new one. If the panel notices the damage while it runs, the
      new file has all settings, because they are in memory.
    - If the file cannot be opened, the panel works without it: the settings have their defaults, and none can be changed.
      The panel tries again by itself.
    - `problem` reports each of these faults.

    The file has a rollback journal instead of a WAL, so that it can be opened on a full disk: a WAL needs an index file.
    Reading a setting takes no lock, because a write may wait for busy flash.
    """

    def __init__(
        self, path: Path, clock: Callable[[], float] = time.monotonic, now: Callable[[], float] = time.time
    ) -> None:
        self.path = path
        self._clock = clock
        self._now = now
        self._lock = threading.Lock()  # held while the file is opened or written
        self._values: dict[str, str] = {}  # replaced as a whole, never changed
        self._db: sqlite3.Connection | None = None  # None: it could not be opened
        self._reason = ""
        self._retry_at = 0.0
        self._open()

    @property
    def problem(self) -> Message | None:
        """What is wrong with the file, for the overview."""
        if self._db is None and self._clock() >= self._retry_at and self._lock.acquire(blocking=False):
            try:
                self._open()
            finally:
                self._lock.release()
        if self._db is None:
            return Message("settings-not-open", path=str(self.path), reason=self._reason)
        reason, at = (self._values.get(key, "") for key in (DAMAGED, DAMAGED_AT))
        if reason and at.isdecimal() and self._now() - int(at) < REPORT_S:
            return Message("settings-damaged", reason=reason, path=f"{self.path}.corrupt")
        return None

    def setting(self, key: str) -> str | None:
        return self._values.get(key)

    def own_setting(self, key: str, value: str) -> str:
        """The setting KEY, which no user makes. If the file does not have it, it becomes VALUE; saving may fail."""
        with self._lock:
            if key not in self._values:
                try:
                    self._save({key: value})
                except sqlite3.Error as error:
                    _log.warning("%s is not saved in %s: %s", key, self.path, error)
                    self._values = {**self._values, key: value}
            return self._values[key]

    def set_setting(self, key: str, value: str) -> None:
        """Save a setting. Raises sqlite3.Error."""
        with self._lock:
            self._save({key: value})

    # internal; the caller holds _lock, except in __init__

    def _open(self) -> None:
        self._retry_at = self._clock() + RETRY_S
        try:
            try:
                found = self._connect()
            except sqlite3.DatabaseError as error:
                if not _damaged(error):
                    raise
                self._set_aside(error)
                found = self._connect()
            if missing := self._values.keys() - found.keys():
                with suppress(sqlite3.OperationalError):  # on a full disk, they stay in memory
                    self._insert({key: self._values[key] for key in missing})
        except (sqlite3.Error, OSError) as error:
            self._close()
            reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            if reason != self._reason:
                _log.error("%s cannot be opened: %s", self.path, reason)
            self._reason = reason
            return
        self._values = {**self._values, **found}

    def _connect(self) -> dict[str, str]:
        """Open the file, or make it. Returns its settings."""
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        db = self._db = sqlite3.connect(self.path, timeout=5, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA synchronous = EXTRA")  # also flushes the folder: the removed journal stays removed
        # An earlier panel has left a WAL. On a full disk, the change fails, and the WAL stays in use.
        with suppress(sqlite3.OperationalError):
            db.execute("PRAGMA journal_mode = DELETE")
        if db.execute("PRAGMA user_version").fetchone()[0] != SCHEMA:
            self._migrate()
        if (checked := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(f"malformed: {checked}")
        return dict(db.execute("SELECT key, value FROM settings").fetchall())

    def _migrate(self) -> None:
        with self._write() as cursor:  # the lock ensures that only one of two processes migrates
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

    def _set_aside(self, error: sqlite3.Error) -> None:
        """Rename the damaged file, with the files of SQLite that belong to it."""
        self._close()
        _log.error("%s is damaged (%s); it is kept as *.corrupt, and a new one begins", self.path, error)
        for end in ("", "-wal", "-shm", "-journal"):
            with suppress(FileNotFoundError):
                os.replace(f"{self.path}{end}", f"{self.path}.corrupt{end}")
        self._values = {**self._values, DAMAGED: str(error), DAMAGED_AT: str(int(self._now()))}

    def _close(self) -> None:
        if self._db is not None:
            with suppress(sqlite3.Error):
                self._db.close()
            self._db = None

    def _save(self, values: Mapping[str, str]) -> None:
        if self._db is None:
            self._open()
        try:
            self._insert(values)
        except sqlite3.DatabaseError as error:
            if not _damaged(error):
                raise
            self._set_aside(error)
            self._open()
            self._insert(values)
        self._values = {**self._values, **values}

    def _insert(self, values: Mapping[str, str]) -> None:
        with self._write() as cursor:
            cursor.executemany(_UPSERT, values.items())

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Cursor]:
        """A transaction. The end of the block commits it; an exception rolls it back."""
        if self._db is None:
            raise sqlite3.OperationalError(self._reason)
        cursor = self._db.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        try:
            yield cursor
            cursor.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                cursor.execute("ROLLBACK")
            raise
        finally:
            cursor.close()


def _damaged(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return "malformed" in str(error) if code is None else code & 0xFF in _DAMAGE
