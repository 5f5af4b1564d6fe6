# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S608  (only names of tables are put into a query, and they are constants)
"""Reads the history for the panel: from the database, and from the service the part that is not in the database yet.

Guarantee: each second that was sampled counts exactly once, in whichever tier it is. All queries are in one read
transaction, so the number of the last saved minute is fixed. The service answers with the minutes after this number.

Cost: most of the time of a chart goes into rows. A row is never changed, so what was computed from rows is kept
in a Cache. If a page asks for a span again, or for one that overlaps, only the other rows are read and decoded.

While the service commits, the database is locked: for as long as four flushes of the device take, and the writing of 0.5 MB.
A question about a span until now is then answered after BRIEF_MS with the last answer, if this is at most LAST_S old and
the program has LastAnswers. A span of up to SECONDS_SPAN comes from the RAM of the service. All other questions wait.
"""

import contextlib
import dataclasses
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
from evenkeel_common.wear import Wear

from . import live, totals
from .cache import Cache, LastAnswers
from .connections import Connections, locked
from .merged import Merged, Mix, Packed, Spot
from .period import Key, Period, Sum, unpack
from .rows import add_up, written
from .schema import DATA, FILE, FOLDER
from .tiers import DAY, HOUR, LIVE_S, TIERS, best, slot

ASK_S = 2.0  # timeout of a request to the service
NO_MINUTES = 1 << 53  # no saved minute has a higher number, so the answer has only the minute that is running
# A span of up to this many seconds is shown by seconds, if the service still has all its seconds in RAM.
SECONDS_SPAN = 900
# Bytes by day come from the coarsest tier whose rows do not cross midnight (UTC). 90 days are 180 rows.
BY_DAY = next(index for index, tier in enumerate(TIERS) if tier.seconds == 12 * HOUR)
# The number of rows whose sum is kept in the cache. If the span moves on by a row, two of these sums are computed again. With
# fewer rows, a chart that was not prepared needs more sums.
BLOCK = 32
# The maximum age of an answer that is shown while the service commits. The panel asks for all its spans every ten minutes.
LAST_S = 1800
NOW_S = 60  # a span that ended at most so long ago is a span until now
# Minutes in RAM have no numbers, so a part has those of such a time. It is a multiple of all shorter resolutions.
RECENT_S = 1800


class Locked(Exception):
    """The service commits, and the wait for it was too short."""


@dataclass(slots=True)
class Found:
    """The history from START to END (seconds since 1970), in points of STEP seconds.

    If a point is missing, the service did not sample at that time. SPOTS have what a chart shows. POINTS have all flows;
    they are empty unless they were asked for. Spots must not be changed, because the cache has the same ones.
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


class _Row(NamedTuple):
    """A row of the database, without its data."""

    tier: int  # index in TIERS
    seq: int
    at: int


Rows = list[tuple[int, bytes]]  # start and data of each row
# what rows.written() returns
_Written = tuple[dict[int, tuple[int, dict[Key, int]]], int]


class _Pieces(Protocol):
    """How rows are grouped, and what is computed from each group."""

    def __init__(self, step: int) -> None:
        """STEP: the seconds of a slot of the chart."""

    def group(self, row: _Row, shared: Collection[int]) -> Hashable:
        """The group of ROW. SHARED: the slots with more than one row. The group decides what value() makes of a row."""

    def value(self, group: Hashable, rows: Rows) -> tuple[Any, int]:
        """What is computed from ROWS, and how many bytes of memory it needs."""


@dataclass(frozen=True, slots=True)
class _Part:
    """What the cache keeps of a part of a chart."""

    total: Packed
    spots: dict[int, Spot]
    mixes: dict[int, Mix]
    unreadable: int

    def size(self) -> int:
        return (
            self.total.size()
            + sum(spot.size() for spot in self.spots.values())
            + sum(mix.size() for mix in self.mixes.values())
        )


def _part(rows: Rows, mixed: Collection[int]) -> _Part:
    """The part of a chart that ROWS are, each with its slot. MIXED: the slots to which other rows will be added."""
    added = add_up(rows, mixed=mixed)
    return _Part(added.total, added.spots, added.mixes, len(added.damaged))


@dataclass(slots=True)
class _Chart:
    """A chart while parts are added. Before close(), a slot of which parts have a Mix has no Spot."""

    total: Merged = field(default_factory=Merged)
    spots: dict[int, Spot] = field(default_factory=dict)
    mixes: dict[int, Mix] = field(default_factory=dict)
    unreadable: int = 0

    def add(self, parts: list[_Part]) -> None:
        self.total.add(part.total for part in parts)
        for part in parts:
            self.spots |= part.spots
            for at, mix in part.mixes.items():
                self.mixes.setdefault(at, Mix()).add(mix)
            self.unreadable += part.unreadable

    def close(self) -> None:
        """Make the spots of all slots."""
        self.spots |= {at: mix.spot() for at, mix in self.mixes.items()}
        self.mixes = {}


class _Blocks:
    """Parts of a chart with points of STEP seconds. Each has up to BLOCK rows.

    The rows of a slot may be in several parts. So a part has a Mix of a slot with several rows, and a Spot of any other.
    """

    def __init__(self, step: int) -> None:
        self._step = step

    def group(self, row: _Row, shared: Collection[int]) -> Hashable:
        return slot(row.at, self._step) in shared, row.tier, row.seq // BLOCK

    def value(self, group: Hashable, rows: Rows) -> tuple[_Part, int]:
        assert isinstance(group, tuple)
        slots = [(slot(at, self._step), data) for at, data in rows]
        part = _part(slots, {at for at, _ in slots} if group[0] else ())
        return part, part.size()


class _Days:
    """The written bytes by day."""

    def __init__(self, step: int = DAY) -> None:
        pass

    def group(self, row: _Row, _: Collection[int]) -> Hashable:
        return row.tier, row.seq // BLOCK

    def value(self, _: Hashable, rows: Rows) -> tuple[_Written, int]:
        found = written((slot(at, DAY), data) for at, data in rows)
        return found, 200 + sum(400 + 200 * len(amounts) for _, amounts in found[0].values())


class Reader:
    """Thread-safe. CACHE, CONNECTIONS and ANSWERS: those of the program. Readers of several databases may share a cache.

    Without CONNECTIONS, each call opens the database again. Without ANSWERS, each call waits while the service commits.
    """

    def __init__(
        self,
        folder: Path = Path(FOLDER),
        socket: Path = Path(live.SOCKET),
        cache: Cache | None = None,
        connections: Connections | None = None,
        answers: LastAnswers | None = None,
    ) -> None:
        self._socket = socket
        self._cache = cache or Cache(0)
        self._connections = connections or Connections(folder / FILE)
        self._answers = answers or LastAnswers(0)

    @contextlib.contextmanager
    def _database(self, *, brief: bool) -> Iterator[tuple[sqlite3.Connection, Hashable]]:
        """As Connections.take(). Raises sqlite3.Error."""
        db, file = self._connections.take(brief=brief)
        try:
            yield db, file
        except BaseException:
            self._connections.drop(db)
            raise
        self._connections.give(db, file)

    def _found(self, key: Hashable, start: int, end: int, find: Callable[[bool], Found]) -> Found:
        """What FIND returns of the span from START to END, or the last answer with this KEY.

        FIND gets whether to wait briefly for a commit of the service.
        """
        now = time.time()
        until_now = abs(now - end) <= NOW_S
        last = self._answers.get(key, now - LAST_S) if until_now else None
        try:
            found = find(last is not None or end - start <= SECONDS_SPAN)
        except Locked:
            if last:
                found, at = last
                age = f"{now - at:.0f} s"
                return dataclasses.replace(found, problem_code="history-saving", problem=age)
            found = find(False)
        if until_now and not found.problem_code:
            self._answers.put(key, found, now)
        return found

    def read(self, start: int, end: int, *, points: bool = False, matrix: bool = True) -> Found:
        """The history from START to END, at the finest resolution that a chart can show. POINTS: with all flows.

        MATRIX: with who slowed whom.

        If the rows of this resolution are already removed for this time, a coarser one is used. Then the span begins and
        ends with whole rows, so it can be longer.
        """
        if points:
            return self._read(start, end, points=True, matrix=matrix)
        key = "read", end - start, matrix
        return self._found(key, start, end, lambda brief: self._read(start, end, matrix=matrix, brief=brief))

    def _read(
        self, start: int, end: int, *, points: bool = False, matrix: bool = True, brief: bool = False
    ) -> Found:
        """As read(). Raises Locked if BRIEF and the service commits for longer."""
        tier = best(end - start)
        step = TIERS[tier].seconds
        found = Found(slot(start, step), end, step)
        seconds = (start, end) if end - start <= SECONDS_SPAN else None
        try:
            parts, rows, by_second = self._gather(
                found, tier, None if points else _Blocks, seconds, kept_from=start, brief=brief
            )
        except Locked:
            parts, rows, by_second = [], [], self._all_seconds(seconds)
            if not by_second:
                raise
        if by_second:
            found.start, found.step = start, 1 if end - start <= 400 else 5
            rows = by_second
        chart = _Chart()
        chart.add(parts)
        slots = [(slot(at, found.step), data) for at, data in rows]
        chart.add(
            [_part(slots, chart.mixes)]
            if points or by_second
            else self._recent(rows, found.step, chart.mixes)
        )
        chart.close()
        found.spots, found.total, found.unreadable = (
            chart.spots,
            chart.total.sum(matrix=matrix),
            chart.unreadable,
        )
        if points:
            by_slot: dict[int, Rows] = {}
            for at, data in slots:
                by_slot.setdefault(at, []).append((at, data))
            for at, members in by_slot.items():
                added = add_up(members, spots=False, matrix=False)
                if len(added.damaged) < len(members):
                    found.points[at] = added.total.sum()
        return found

    def _recent(self, rows: Rows, step: int, mixed: Collection[int]) -> list[_Part]:
        """The parts of a chart with points of STEP seconds that ROWS are: minutes in RAM, of which the last may be running.

        MIXED: the slots to which rows of the database will be added. All other parts are kept, because a minute that has ended
        does not change.
        """
        groups: dict[int, Rows] = {}
        for at, data in rows:
            groups.setdefault(slot(at, RECENT_S), []).append((at, data))
        running = slot(rows[-1][0], RECENT_S) if rows else None
        parts = []
        for group, members in groups.items():
            slots = [(slot(at, step), data) for at, data in members]
            # A slot that is longer than a group is in several groups. A shorter one is in one.
            shared = {at for at, _ in slots if step > RECENT_S or at in mixed}
            key = (step, *sorted(shared), *((at, hash(data)) for at, data in members))
            part = self._cache.get(key) if group != running else None
            if part is None:
                part = _part(slots, shared)
                if group != running:
                    self._cache.put(key, part, part.size() + 100 * len(key))
            parts.append(part)
        return parts

    def _kept(self, db: sqlite3.Connection, tier: int, start: int, end: int) -> int:
        """The finest tier, TIER or a coarser one, whose rows from START to END are not removed while a coarser row covers them.

        Rows are removed by number. So their numbers say what is missing, also if the clock was wrong for a while.
        """
        kept = tier
        for index in range(tier + 1, len(TIERS)):
            table = TIERS[index].table
            # the plus sign makes SQLite use the index of the starts
            query = f"SELECT min(+seq) FROM {table} WHERE start >= ? AND start < ?"
            first = db.execute(query, (slot(start, TIERS[index].seconds), end)).fetchone()[0]
            if first is None:
                continue
            before = (
                db.execute(f"SELECT max(last) FROM {table} WHERE seq = ?", (first - 1,)).fetchone()[0] or 0
            )
            finer = TIERS[index - 1]
            oldest = db.execute(f"SELECT min(seq) FROM {finer.table}").fetchone()[0]
            if oldest is None or before + 1 < oldest:
                kept = index
        return kept

    def written(self, start: int, end: int) -> Found:
        """The bytes that were written from START to END, by day (UTC). START is rounded down to a day.

        In the points, the flows have only `bytes`, and there are only flows to the device. `ms` is the sampled time.
        """
        begin = slot(start, DAY)
        return self._found(
            ("written", begin), begin, end, lambda brief: self._written(begin, end, brief=brief)
        )

    def _written(self, start: int, end: int, *, brief: bool) -> Found:
        """As written(). Raises Locked if BRIEF and the service commits for longer."""
        found = Found(start, end, DAY)
        parts, rows, _ = self._gather(found, BY_DAY, _Days, brief=brief)
        for days, unreadable in [*parts, _Days().value(None, rows)[0]]:
            for at, (ms, amounts) in days.items():
                for sums in (found.points.setdefault(at, Sum()), found.total):
                    sums.ms += ms
                    for key, amount in amounts.items():
                        sums.flow(key).bytes += amount
            found.unreadable += unreadable
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
        pieces: type[_Pieces] | None,
        seconds: tuple[int, int] | None = None,
        *,
        kept_from: int | None = None,
        brief: bool,
    ) -> tuple[list[Any], Rows, Rows]:
        """All rows of FOUND's span: those of TIER, finer ones that it does not cover, and those in RAM.

        The first list has what PIECES computes from the rows in the database. Without PIECES, these rows are in the second
        list, which also has the rows in RAM. The third list has the rows by second from SECONDS, if the service still has all
        of them; then the others are empty. Problems go to FOUND. With KEPT_FROM, the start of the span, a coarser tier may
        take the place of TIER; then FOUND gets its span and step.

        Raises Locked if BRIEF and the service commits for longer.
        """
        with contextlib.ExitStack() as stack:
            last, rows = 0, list[_Row]()
            try:
                db, file = self._connections.take(brief=brief)
                stack.callback(self._release, db, file, found)
                if kept_from is not None and (kept := self._kept(db, tier, kept_from, found.end)) != tier:
                    tier, step, seconds = kept, TIERS[kept].seconds, None
                    found.start, found.end, found.step = (
                        slot(kept_from, step),
                        slot(found.end - 1, step) + step,
                        step,
                    )
                last = db.execute(f"SELECT coalesce(max(seq), 0) FROM {TIERS[0].table}").fetchone()[0]
                rows = self._rows(db, tier, found)
            except sqlite3.Error as error:
                if brief and locked(error):
                    raise Locked from error
                found.problem_code, found.problem, rows = "history-unreadable", str(error), []
            try:
                first = min((row.seq for row in rows), default=None)
                answer = live.ask(self._socket, live.Request(last, seconds, first, found.end), ASK_S)
            except OSError as error:
                # The database problem comes first: without the database there is nothing to show.
                found.problem_code = found.problem_code or "history-live-silent"
                found.problem = found.problem or error.strerror or str(error)
                answer = live.Answer([], [])
            if answer.seconds:
                return [], [], answer.seconds
            minutes = [(at, data) for at, data in answer.minutes if found.start <= at < found.end]
            if not rows:
                return [], minutes, []
            try:
                if pieces is None:
                    return [], self._data(db, rows) + minutes, []
                return self._values(db, file, pieces(found.step), found.step, rows, minutes), minutes, []
            except sqlite3.Error as error:
                found.problem_code, found.problem = "history-unreadable", str(error)
                return [], minutes, []

    def _all_seconds(self, span: tuple[int, int] | None) -> Rows:
        """The rows by second of SPAN, without the database; none unless the service was already running when it began."""
        if span is None:
            return []
        try:
            rows = live.ask(self._socket, live.Request(NO_MINUTES, span), ASK_S).seconds
        except OSError:
            return []
        return rows if rows and rows[0][0] <= span[0] + 2 else []

    def _release(self, db: sqlite3.Connection, file: Hashable, found: Found) -> None:
        if found.problem_code == "history-unreadable":
            self._connections.drop(db)
        else:
            self._connections.give(db, file)

    def _rows(self, db: sqlite3.Connection, tier: int, found: Found) -> list[_Row]:
        """The rows of TIER, and the rows of finer tiers that no coarser row covers yet."""
        rows: list[_Row] = []
        after = 0
        for index in range(tier, -1, -1):
            table = TIERS[index].table
            # SQLite answers the first query from the index of the starts alone. Of finer tiers, only the last few rows are
            # wanted. So the plus sign keeps SQLite from this index, which would give it all rows of the span.
            start = "+start" if index < tier else "start"
            query = f"SELECT seq, start FROM {table} WHERE {start} >= ? AND {start} < ? AND seq > ? ORDER BY {start}"
            rows += (_Row(index, seq, at) for seq, at in db.execute(query, (found.start, found.end, after)))
            newest = db.execute(f"SELECT last FROM {table} ORDER BY seq DESC LIMIT 1").fetchone()
            after = newest[0] if newest else 0
        return rows

    def _data(self, db: sqlite3.Connection, rows: Iterable[_Row]) -> Rows:
        """The data of ROWS."""
        result: Rows = []
        for tier, group in groupby(rows, lambda row: row.tier):
            wanted = {row.seq: row.at for row in group}
            table = TIERS[tier].table
            query = f"SELECT seq, {DATA} FROM {table} WHERE seq BETWEEN ? AND ?"
            result += (
                (wanted[seq], data)
                for seq, data in db.execute(query, (min(wanted), max(wanted)))
                if seq in wanted
            )
        return result

    def _values(
        self,
        db: sqlite3.Connection,
        file: Hashable,
        pieces: _Pieces,
        step: int,
        rows: list[_Row],
        minutes: Rows,
    ) -> list[Any]:
        """What PIECES computes from each group of ROWS, from the cache if it has it. MINUTES: the rows in RAM."""
        slots = Counter(slot(at, step) for at in (*(row.at for row in rows), *(at for at, _ in minutes)))
        shared = {at for at, count in slots.items() if count > 1}
        groups: dict[Hashable, list[_Row]] = {}
        for row in rows:
            groups.setdefault(pieces.group(row, shared), []).append(row)
        values = []
        for group, members in groups.items():
            # The times tell rows with equal numbers apart, should a new file have the inode of an old one.
            key = (
                file,
                type(pieces),
                step,
                group,
                members[0].at,
                members[-1].at,
                *(row.seq for row in members),
            )
            value = self._cache.get(key)
            if value is None:
                value, size = pieces.value(group, self._data(db, members))
                self._cache.put(key, value, size + 40 * len(key))
            values.append(value)
        return values

    def totals(self) -> Sum | None:
        """The I/O since the board booted; None before the first sample. Raises OSError if the service does not answer."""
        data = live.ask(self._socket, live.Request(0, totals=True), ASK_S).totals
        try:
            return totals.decode(data) if data else None
        except ValueError as error:
            raise OSError(str(error)) from error

    def wear(self) -> dict[str, list[tuple[int, Wear]]]:
        """The saved wear by device, as (time, Wear), oldest first.

        The service saves a row when it starts and stops, when the reported state changes, and else once a day.
        """
        result: dict[str, list[tuple[int, Wear]]] = {}
        last = self._answers.get("wear", 0.0)
        try:
            with self._database(brief=last is not None) as (db, _):
                rows = db.execute("SELECT at, data FROM wear ORDER BY seq").fetchall()
            for at, data in rows:
                state = msgspec.json.decode(data, type=Wear)
                result.setdefault(state.device, []).append((at, state))
        except (sqlite3.Error, msgspec.DecodeError) as error:
            return last[0] if last and isinstance(error, sqlite3.Error) and locked(error) else {}
        self._answers.put("wear", result, time.time())
        return result


__all__ = ["LIVE_S", "Found", "Reader"]
