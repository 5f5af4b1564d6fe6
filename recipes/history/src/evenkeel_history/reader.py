# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S608  (only names of tables are put into a query, and they are constants)
"""Reads the history, for the panel: the database, and from the service what is not in it yet.

Guarantee: each second that was sampled counts exactly once, whichever tier it is in. A read transaction fixes the number
of the last minute, and the service answers with the minutes after it.
"""

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from . import live
from .period import Sum, unpack
from .schema import FILE, FOLDER
from .tiers import LIVE_S, TIERS, best, slot
from .wear import Wear

ASK_S = 2.0
SECONDS_SPAN = 900  # a span up to this one is shown by seconds, if RAM still has them


@dataclass(slots=True)
class Found:
    """The history from START to END, seconds since 1970, in points of STEP seconds. A point that is missing: nobody sampled."""

    start: int
    end: int
    step: int
    points: dict[int, Sum] = field(default_factory=dict)  # without the matrix of who slows whom
    total: Sum = field(default_factory=Sum)
    problem: str = ""  # why something may be missing
    problem_code: str = ""  # which message of the panel says so
    unreadable: int = 0  # rows that are damaged


class Reader:
    """Opens the database anew for each call: it may have been replaced. Thread-safe."""

    def __init__(self, folder: Path = Path(FOLDER), socket: Path = Path(live.SOCKET)) -> None:
        self._path, self._socket = folder / FILE, socket

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, timeout=2, isolation_level=None)
        db.execute("BEGIN")
        return db

    def read(self, start: int, end: int) -> Found:
        """The history from START to END, at the finest resolution that a chart can show."""
        tier = best(end - start)
        step = TIERS[tier].seconds
        found = Found(slot(start, step), end, step)
        last = 0
        try:
            db = self._open()
            try:
                last = db.execute(f"SELECT coalesce(max(seq), 0) FROM {TIERS[0].table}").fetchone()[0]
                rows = self._rows(db, tier, found)
            finally:
                db.close()
        except sqlite3.Error as error:
            found.problem_code, found.problem, rows = "history-unreadable", str(error), []
        seconds = (start, end) if end - start <= SECONDS_SPAN else None
        try:
            answer = live.ask(self._socket, live.Request(last, seconds), ASK_S)
        except OSError as error:
            # The database problem comes first: without the database there is nothing to show.
            found.problem_code = found.problem_code or "history-live-silent"
            found.problem = found.problem or error.strerror or str(error)
            answer = live.Answer([], [])
        if answer.seconds:
            found.start, found.step = start, 1 if end - start <= 400 else 5
            rows = answer.seconds
        else:
            rows += [(at, data) for at, data in answer.minutes if found.start <= at < end]
        for at, data in rows:
            try:
                period = unpack(data)
            except ValueError:
                found.unreadable += 1
                continue
            at = slot(at, found.step)
            point = found.points.get(at)
            if point is None:
                point = found.points[at] = Sum()
            point.add_period(period, matrix=False)
            found.total.add_period(period)
        return found

    def _rows(self, db: sqlite3.Connection, tier: int, found: Found) -> list[tuple[int, bytes]]:
        """The rows of the tier, and those of finer tiers that are in no coarser row yet."""
        rows: list[tuple[int, bytes]] = []
        after = 0
        for index in range(tier, -1, -1):
            table = TIERS[index].table
            rows += db.execute(
                f"SELECT start, data FROM {table} WHERE start >= ? AND start < ? AND seq > ?",
                (found.start, found.end, after),
            ).fetchall()
            newest = db.execute(f"SELECT last FROM {table} ORDER BY seq DESC LIMIT 1").fetchone()
            after = newest[0] if newest else 0
        return rows

    def oldest(self) -> int | None:
        """The start of the oldest row; None without any."""
        try:
            db = self._open()
            try:
                starts = [db.execute(f"SELECT min(start) FROM {tier.table}").fetchone()[0] for tier in TIERS]
            finally:
                db.close()
        except sqlite3.Error:
            return None
        return min((start for start in starts if start is not None), default=None)

    def wear(self) -> dict[str, list[tuple[int, Wear]]]:
        """By device: what it reported, oldest first; at most one row a day."""
        result: dict[str, list[tuple[int, Wear]]] = {}
        try:
            db = self._open()
            try:
                rows = db.execute("SELECT at, data FROM wear ORDER BY seq").fetchall()
            finally:
                db.close()
            for at, data in rows:
                state = msgspec.json.decode(data, type=Wear)
                result.setdefault(state.device, []).append((at, state))
        except (sqlite3.Error, msgspec.DecodeError):
            return {}
        return result


__all__ = ["LIVE_S", "Found", "Reader"]
