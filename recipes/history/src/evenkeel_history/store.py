# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S608  (only names of tables are put into a query, and they are constants)
"""The only writer of history.db.

Guarantees:

- write() saves all its minutes or none, together with the coarser rows that they complete.
- A power cut or a kill at any moment loses nothing that write() has saved (rollback journal, synchronous=FULL).
- A damaged database is renamed, reported, and replaced by a new one. A row that cannot be decoded is left out.
- The file stays below `limit` bytes. If it is full, write() removes the oldest rows, minutes first.

With a WAL, SQLite would write each row twice, and an index of the WAL. The rollback journal has only pages that were in use
before. Nobody can read while write() commits: reader.py says what the panel shows then.

A test measures the costs with 16 busy apps: the size of the file, and how much is written to flash per day.
"""

import contextlib
import logging
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from evenkeel_api.messages import Message
from evenkeel_common.wear import Wear

from .period import pack
from .rows import add_up
from .schema import APPLICATION_ID, CREATE, CREATE_LOG, DAMAGED, DATA, FILE, VERSION
from .tiers import TIERS, Tier, closed, slot

# The size of a database page in bytes. A row of 16 busy apps has 2.8 to 3.3 KB. With larger pages, much of a row's last
# page would be empty.
PAGE = 1024
LIMIT = 190_000_000  # the maximum size of the database in bytes, without its rollback journal
PRUNE_ROWS = 60  # old rows are removed in batches of this many, because each removal writes pages
DAMAGED_KEPT_S = 30 * 86400  # a damaged database is deleted after this time
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
_log = logging.getLogger(__name__)

Minute = tuple[int, int, bytes]  # number, start, packed Period


class StoreError(Exception):
    """The history cannot be saved now. MESSAGE says why."""

    def __init__(self, message: Message) -> None:
        super().__init__(str(message))
        self.message = message


class Damaged(Exception):
    """The database is damaged, or another program or another version made it."""


def _reason(error: sqlite3.Error | OSError) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return {sqlite3.SQLITE_FULL: "the disk is full"}.get(error.sqlite_errorcode & 0xFF, str(error))


class Store:
    """The database, opened for writing. Call open() first, and all methods from the same thread."""

    def __init__(self, folder: Path, limit: int = LIMIT) -> None:
        self._folder = folder
        self._path = folder / FILE
        self._limit = limit
        self._db: sqlite3.Connection | None = None
        self.set_aside = ""  # why this process has renamed a damaged database; "" if it has not
        self._lasts: dict[str, int] = {}  # by table: seq of the last finer row that a row of the table covers
        self._next: dict[str, int] = {}  # by table: seq of the next row
        self._generation = 0

    def open(self) -> int:
        """Open or create the database. Returns the number of the last saved minute. Raises StoreError."""
        try:
            self._folder.mkdir(mode=0o750, parents=True, exist_ok=True)
            try:
                self._connect()
            except Damaged as error:
                self._replace(str(error))
                self._connect()
        except (sqlite3.Error, OSError, Damaged) as error:
            self.close()
            reason = _reason(error) if not isinstance(error, Damaged) else str(error)
            raise StoreError(Message("history-not-saved", reason=reason)) from error
        return self._next[TIERS[0].table] - 1

    def _connect(self) -> None:
        new = not self._path.exists() or self._path.stat().st_size == 0
        db = self._db = sqlite3.connect(self._path, isolation_level=None, timeout=30, cached_statements=64)
        with self._damage():
            if new:
                db.execute(f"PRAGMA page_size = {PAGE}")
            # The journal stays, because removing it at each save would cost more writes. An earlier version has left a WAL.
            # While the panel has the file open, the change fails, and the WAL stays in use.
            with contextlib.suppress(sqlite3.OperationalError):
                db.execute("PRAGMA journal_mode = PERSIST")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA cache_size = -1024")
            db.execute("PRAGMA temp_store = MEMORY")
            # Debian's SQLite turns secure_delete on. It overwrites removed rows with zeros: 8 MB of writes per day.
            db.execute("PRAGMA secure_delete = OFF")
            size = db.execute("PRAGMA page_size").fetchone()[0]
            db.execute(f"PRAGMA max_page_count = {self._limit // size}")
            if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                db.executescript(f"BEGIN IMMEDIATE; {CREATE} COMMIT;")
            found = (
                db.execute("PRAGMA application_id").fetchone()[0],
                db.execute("PRAGMA user_version").fetchone()[0],
            )
            if found[0] != APPLICATION_ID:
                raise Damaged("it is another program's file")
            if found[1] != VERSION:
                raise Damaged(f"it has version {found[1]}, and this program knows version {VERSION}")
            if (result := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
                raise Damaged(str(result).replace("\n", " "))
            for tier in TIERS:
                newest = f"SELECT seq, last FROM {tier.table} ORDER BY seq DESC LIMIT 1"
                seq, last = db.execute(newest).fetchone() or (0, 0)
                self._next[tier.table], self._lasts[tier.table] = seq + 1, last
            db.execute(CREATE_LOG)
            self._generation = db.execute("SELECT max(generation) FROM log").fetchone()[0] or 0
        for path in self._folder.glob(f"{FILE}*"):
            path.chmod(0o640)

    @contextlib.contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            if code in _DAMAGE:
                raise Damaged(str(error)) from error
            raise

    def _replace(self, reason: str) -> None:
        """Rename the damaged database to DAMAGED. An older file of this name is overwritten, so that only one takes space."""
        self.close()
        _log.error("%s is damaged (%s); it is kept as %s, and a new one begins", self._path, reason, DAMAGED)
        for end in ("", "-journal", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{self._path}{end}", f"{self._folder / DAMAGED}{end}")
        # The modification time must say when the file was renamed. rename() does not set it.
        with contextlib.suppress(FileNotFoundError):
            os.utime(self._folder / DAMAGED)
        self.set_aside = reason

    def close(self) -> None:
        if self._db is not None:
            with contextlib.suppress(sqlite3.Error):
                self._db.close()
            self._db = None

    @property
    def is_open(self) -> bool:
        """Whether write() may be called. Else open() is needed: after a failure, or if a new database could not be opened."""
        return self._db is not None

    @property
    def problems(self) -> list[Message]:
        """The problems to report: a damaged database is a problem for as long as its renamed file exists."""
        damaged = self._folder / DAMAGED
        try:
            at = time.strftime("%Y-%m-%d", time.gmtime(damaged.stat().st_mtime))
        except OSError:
            return []
        return [Message("history-damaged", date=at, path=str(damaged))]

    def last(self) -> int:
        """The number of the last saved minute; 0 if there is none."""
        return self._next[TIERS[0].table] - 1

    def generation(self) -> int:
        """The highest generation of the log (minutes.py) whose minutes have been saved."""
        return self._generation

    def write(
        self, minutes: Sequence[Minute], wear: Sequence[Wear] = (), at: int = 0, generation: int = 0
    ) -> bool:
        """Save MINUTES, numbered from last() + 1, and the coarser rows that they complete.

        GENERATION: MINUTES have all minutes of the log up to this generation.

        Returns True if the database was damaged and has been replaced by an empty one. Then nothing is saved, and the
        minutes need new numbers. Raises StoreError on failure. Then nothing is saved, and the caller should try again
        later. AT: the time of the states in WEAR, in seconds since 1970.
        """
        try:
            try:
                with self._damage():
                    while True:
                        try:
                            self._write(minutes, wear, at, generation)
                            break
                        except sqlite3.OperationalError as error:
                            full = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL
                            if not (full and self._at_limit() and self._drop_oldest()):
                                raise
            except Damaged as error:
                self._replace(str(error))
                self.open()
                return True
        except (sqlite3.Error, OSError) as error:
            raise StoreError(Message("history-not-saved", reason=_reason(error))) from error
        self._forget_damaged()
        return False

    def _write(self, minutes: Sequence[Minute], wear: Sequence[Wear], at: int, generation: int) -> None:
        db = self._db
        assert db is not None
        nexts, lasts = dict(self._next), dict(self._lasts)
        db.execute("BEGIN IMMEDIATE")
        try:
            for seq, start, data in minutes:
                if seq != nexts[TIERS[0].table]:
                    raise ValueError(f"minute {seq} follows {nexts[TIERS[0].table] - 1}")
                self._insert(db, TIERS[0], nexts, start, 0, data)
            for finer, tier in pairwise(TIERS):
                self._roll(db, finer, tier, nexts, lasts)
            for tier in TIERS:
                self._prune(db, tier, nexts[tier.table] - 1)
            for state in wear:
                db.execute(
                    "INSERT INTO wear (at, device, data) VALUES (?, ?, ?)", (at, state.device, state.json())
                )
            db.execute("INSERT OR REPLACE INTO log VALUES (1, ?)", (max(generation, self._generation),))
            db.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                db.execute("ROLLBACK")
            raise
        self._next, self._lasts = nexts, lasts
        self._generation = max(generation, self._generation)

    def _insert(
        self, db: sqlite3.Connection, tier: Tier, nexts: dict[str, int], start: int, last: int, data: bytes
    ) -> None:
        db.execute(f"INSERT INTO {tier.table} VALUES (?, ?, ?, ?)", (nexts[tier.table], start, last, data))
        nexts[tier.table] += 1

    def _roll(
        self, db: sqlite3.Connection, finer: Tier, tier: Tier, nexts: dict[str, int], lasts: dict[str, int]
    ) -> None:
        rows = db.execute(
            f"SELECT seq, start, {DATA} FROM {finer.table} WHERE seq > ? ORDER BY seq", (lasts[tier.table],)
        ).fetchall()
        content = {seq: (start, data) for seq, start, data in rows}
        for group in closed(((seq, start) for seq, start, _ in rows), tier.seconds):
            added = add_up(((0, content[seq][1]) for seq in group), spots=False)
            for number in added.damaged:
                _log.warning("row %d of %s is damaged, so it is left out", group[number], finer.table)
            start = slot(content[group[0]][0], tier.seconds)
            self._insert(db, tier, nexts, start, group[-1], pack(added.total.sum().period()))
            lasts[tier.table] = group[-1]

    def _prune(self, db: sqlite3.Connection, tier: Tier, newest: int) -> None:
        oldest = db.execute(f"SELECT min(seq) FROM {tier.table}").fetchone()[0]
        if oldest is not None and newest - oldest + 1 >= tier.rows + min(PRUNE_ROWS, tier.rows // 10):
            db.execute(f"DELETE FROM {tier.table} WHERE seq <= ?", (newest - tier.rows,))

    def _at_limit(self) -> bool:
        assert self._db is not None
        size = self._db.execute("PRAGMA page_size").fetchone()[0]
        return bool((self._db.execute("PRAGMA page_count").fetchone()[0] + 64) * size >= self._limit)

    def _drop_oldest(self) -> bool:
        """Remove the oldest rows of the finest tier that has removable rows. Returns whether rows were removed.

        The file is at its limit because the board has more busy apps than LIMIT is made for.
        """
        db = self._db
        assert db is not None
        for finer, tier in pairwise(TIERS):
            oldest, newest = db.execute(f"SELECT min(seq), max(seq) FROM {finer.table}").fetchone()
            # rows that no coarser row covers yet must stay: they are the only copy
            if oldest is not None and oldest <= (rolled := self._lasts[tier.table]):
                _log.warning("%s is at its limit: the oldest rows of %s are removed", self._path, finer.table)
                until = min(oldest + (newest - oldest) // 10, rolled)
                db.execute(f"DELETE FROM {finer.table} WHERE seq <= ?", (until,))
                return True
        return False

    def _forget_damaged(self) -> None:
        damaged = self._folder / DAMAGED
        with contextlib.suppress(OSError):
            if time.time() - damaged.stat().st_mtime > DAMAGED_KEPT_S:
                for path in self._folder.glob(f"{DAMAGED}*"):
                    path.unlink()
