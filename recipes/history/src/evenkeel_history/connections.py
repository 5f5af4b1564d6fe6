# SPDX-License-Identifier: Apache-2.0
"""Connections to the database of the history, for programs that read it. The service may replace the file at any time."""

import sqlite3
import threading
from collections.abc import Hashable
from pathlib import Path

WAIT_MS = 10_000  # the longest wait for a commit of the service, which takes long if the flash is busy
BRIEF_MS = 40  # the longest wait if the last answer can be shown instead. A page must be shown within 100 ms


def locked(error: sqlite3.Error) -> bool:
    """Whether ERROR says that the service commits, or that it was killed during a commit and has not started again."""
    code = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF == sqlite3.SQLITE_BUSY or code == sqlite3.SQLITE_READONLY_ROLLBACK


class Connections:
    """Opens the database PATH, and keeps up to KEPT connections that nobody uses. Thread-safe.

    SQLite reads the schema of a file when it opens it. That takes longer than most queries of a page.
    """

    def __init__(self, path: Path, kept: int = 0) -> None:
        self._path, self._kept = path, kept
        self._lock = threading.Lock()
        self._idle: list[tuple[sqlite3.Connection, Hashable]] = []

    def take(self, *, brief: bool = False) -> tuple[sqlite3.Connection, Hashable]:
        """The database in a read transaction, and what tells its file from all others. Raises sqlite3.Error.

        It waits for a commit of the service: for up to WAIT_MS, or BRIEF_MS if BRIEF. If that was too short, locked() is true
        for the error.

        The caller must end it with give() or with drop().
        """
        while True:
            before = self._file()
            reused = self._reused(before)
            db = reused or self._open()
            try:
                db.execute(
                    f"PRAGMA busy_timeout = {BRIEF_MS}" if brief else f"PRAGMA busy_timeout = {WAIT_MS}"
                )
                db.execute("BEGIN")
                db.execute("SELECT 1 FROM sqlite_master").fetchone()  # opens the file
                if reused is None:
                    db.execute("PRAGMA cache_size = -256")  # KiB
            except BaseException:
                db.close()
                raise
            if self._file() == before:
                return db, before
            db.close()  # the service has just replaced the file

    def give(self, db: sqlite3.Connection, file: Hashable) -> None:
        """Take back a connection, whose last queries succeeded."""
        try:
            db.execute("ROLLBACK")
        except sqlite3.Error:
            db.close()
            return
        with self._lock:
            if len(self._idle) < self._kept:
                self._idle.append((db, file))
                return
        db.close()

    def drop(self, db: sqlite3.Connection) -> None:
        """Take back a connection with which a query failed."""
        db.close()

    def close(self) -> None:
        """Close the connections that nobody uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for db, _ in idle:
            db.close()

    def _reused(self, file: Hashable) -> sqlite3.Connection | None:
        with self._lock:
            while self._idle:
                db, known = self._idle.pop()
                if known == file:
                    return db
                db.close()
        return None

    def _open(self) -> sqlite3.Connection:
        # One thread at a time uses a connection, but not always the same one.
        return sqlite3.connect(
            f"file:{self._path}?mode=ro",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
        )

    def _file(self) -> Hashable:
        try:
            state = self._path.stat()
        except OSError:
            return None
        return state.st_dev, state.st_ino
