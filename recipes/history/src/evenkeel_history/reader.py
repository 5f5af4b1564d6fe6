# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S608  (only names of tables are put into a query, and they are constants)
"""Reads the history for the panel: from the database, and from the service the part that is not in the database yet.

Guarantee: each second that was sampled counts exactly once, in whichever tier it is. All queries are in one read
transaction, so the number of the last saved minute is fixed. The service answers with the minutes after this number.
"""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from . import live, totals
from .period import Period, Spot, Sum, total_and_spots, unpack
from .schema import FILE, FOLDER
from .tiers import DAY, HOUR, LIVE_S, TIERS, best, slot
from .wear import Wear

ASK_S = 2.0  # timeout of a request to the service
NO_MINUTES = 1 << 53  # no saved minute has a higher number, so the answer has only the minute that is running
# A span of up to this many seconds is shown by seconds, if the service still has them in RAM.
SECONDS_SPAN = 900
# Bytes by day come from the coarsest tier whose rows do not cross midnight (UTC). 90 days are 180 rows.
BY_DAY = next(index for index, tier in enumerate(TIERS) if tier.seconds == 12 * HOUR)


@dataclass(slots=True)
class Found:
    """The history from START to END (seconds since 1970), in points of STEP seconds.

    If a point is missing, the service did not sample at that time. SPOTS have what a chart shows. POINTS have all flows;
    they are empty unless they were asked for.
    """

    start: int
    end: int
    step: int
    spots: dict[int, Spot] = field(default_factory=dict)  # by start
    points: dict[int, Sum] = field(default_factory=dict)  # by start; without the matrix of who slows whom
    total: Sum = field(default_factory=Sum)
    problem: str = ""  # the reason why a part of the history may be missing; "": none
    problem_code: str = ""  # the code of the panel's message for this problem
    unreadable: int = 0  # number of damaged rows, which are left out


class Reader:
    """Opens the database again for each call, because the service may have replaced it. Thread-safe."""

    def __init__(self, folder: Path = Path(FOLDER), socket: Path = Path(live.SOCKET)) -> None:
        self._path, self._socket = folder / FILE, socket

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, timeout=2, isolation_level=None)
        db.execute("BEGIN")
        return db

    def read(self, start: int, end: int, *, points: bool = False) -> Found:
        """The history from START to END, at the finest resolution that a chart can show. POINTS: with all flows.

        If the rows of this resolution are already removed for this time, a coarser one is used. Then the span begins and
        ends with whole rows, so it can be longer.
        """
        tier = best(end - start)
        step = TIERS[tier].seconds
        found = Found(slot(start, step), end, step)
        seconds = (start, end) if end - start <= SECONDS_SPAN else None
        rows, by_second = self._gather(found, tier, seconds, kept_from=start)
        if by_second:
            found.start, found.step = start, 1 if end - start <= 400 else 5
            rows = by_second
        found.total = total_and_spots(self._periods(found, rows, points=points))
        return found

    def _periods(
        self, found: Found, rows: Iterable[tuple[int, bytes]], *, points: bool
    ) -> Iterator[tuple[Period, Spot]]:
        """The periods of ROWS, each with its spot in FOUND. POINTS: they are added to the points of FOUND, too."""
        for at, data in rows:
            try:
                period = unpack(data)
            except ValueError:
                found.unreadable += 1
                continue
            at = slot(at, found.step)
            if points:
                found.points.setdefault(at, Sum()).add_period(period, matrix=False)
            yield period, found.spots.setdefault(at, Spot())

    def _kept(self, db: sqlite3.Connection, tier: int, start: int) -> int:
        """The finest tier, TIER or a coarser one, of which no later one goes further back to START.

        A coarser row begins earlier than the finer rows that it covers, because it begins with a slot. This does not count.
        """
        oldest = [
            (db.execute(f"SELECT start FROM {one.table} ORDER BY seq LIMIT 1").fetchone() or (None,))[0]
            for one in TIERS
        ]
        for index in range(tier + 1, len(TIERS)):
            fine, coarse = oldest[tier], oldest[index]
            if coarse is None or (fine is not None and start >= fine):
                continue
            if fine is None or coarse < slot(fine, TIERS[index].seconds):
                tier = index
        return tier

    def written(self, start: int, end: int) -> Found:
        """The bytes that were written from START to END, by day (UTC). START is rounded down to a day.

        In the points, the flows have only `bytes`, and there are only flows to the device. `ms` is the sampled time.
        """
        found = Found(slot(start, DAY), end, DAY)
        for at, data in self._gather(found, BY_DAY)[0]:
            try:
                period = unpack(data)
            except ValueError:
                found.unreadable += 1
                continue
            at = slot(at, DAY)
            point = found.points.get(at)
            if point is None:
                point = found.points[at] = Sum()
            point.add_written(period)
            found.total.add_written(period)
        return found

    def seconds(self, start: int, end: int) -> list[tuple[int, Period]]:
        """The seconds that ended from START to before END, from the service's RAM. Raises OSError.

        A page that polls asks for the new seconds only: this is much less work than read().
        """
        result = []
        for at, data in live.ask(self._socket, live.Request(NO_MINUTES, (start, end)), ASK_S).seconds:
            with contextlib.suppress(ValueError):
                result.append((at, unpack(data)))
        return result

    def _gather(
        self,
        found: Found,
        tier: int,
        seconds: tuple[int, int] | None = None,
        *,
        kept_from: int | None = None,
    ) -> tuple[list[tuple[int, bytes]], list[tuple[int, bytes]]]:
        """All rows of FOUND's span as (start, data): those of TIER, finer ones that it does not cover, and those in RAM.

        The second list has the rows by second from SECONDS, if the service still has them. Problems go to FOUND. With
        KEPT_FROM, the start of the span, a coarser tier may take the place of TIER; then FOUND gets its span and step.
        """
        last = 0
        try:
            db = self._open()
            try:
                if kept_from is not None and (kept := self._kept(db, tier, kept_from)) != tier:
                    tier, step = kept, TIERS[kept].seconds
                    found.start, found.end, found.step = (
                        slot(kept_from, step),
                        slot(found.end - 1, step) + step,
                        step,
                    )
                last = db.execute(f"SELECT coalesce(max(seq), 0) FROM {TIERS[0].table}").fetchone()[0]
                rows = self._rows(db, tier, found)
            finally:
                db.close()
        except sqlite3.Error as error:
            found.problem_code, found.problem, rows = "history-unreadable", str(error), []
        try:
            answer = live.ask(self._socket, live.Request(last, seconds), ASK_S)
        except OSError as error:
            # The database problem comes first: without the database there is nothing to show.
            found.problem_code = found.problem_code or "history-live-silent"
            found.problem = found.problem or error.strerror or str(error)
            return rows, []
        rows += [(at, data) for at, data in answer.minutes if found.start <= at < found.end]
        return rows, answer.seconds

    def _rows(self, db: sqlite3.Connection, tier: int, found: Found) -> list[tuple[int, bytes]]:
        """The rows of TIER, and the rows of finer tiers that no coarser row covers yet."""
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

    def totals(self) -> Sum | None:
        """The I/O since the board booted; None before the first sample. Raises OSError if the service does not answer."""
        data = live.ask(self._socket, live.Request(0, totals=True), ASK_S).totals
        try:
            return totals.decode(data) if data else None
        except ValueError as error:
            raise OSError(str(error)) from error

    def oldest(self) -> int | None:
        """The start of the oldest row (seconds since 1970); None if there are no rows."""
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
        """The saved wear by device, as (time, Wear), oldest first.

        The service saves a row when it starts and stops, when the reported state changes, and else once a day.
        """
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
