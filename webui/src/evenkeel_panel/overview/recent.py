# SPDX-License-Identifier: Apache-2.0
"""What the overview shows of the history, cached so that a poll each second costs little.

The history is read as seldom as the page needs it, and never while other pages wait: see cached.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evenkeel_history.tiers import slot

from ..cached import Cached

if TYPE_CHECKING:
    from evenkeel_history.period import Period
    from evenkeel_history.reader import Found, Reader

    from ..wear.model import FlashDevice

SPAN_S = 600  # the chart shows this many seconds
STEP_S = 10  # in points of this many seconds
RECENT_AGE_S = 5.0  # the maximum age of the chart
HOUR_AGE_S = 30.0  # the maximum age of the stalls
WEAR_AGE_S = 60.0  # the maximum age of the wear


@dataclass(slots=True)
class Point:
    ms: int = 0  # sampled time
    bytes: dict[str, int] = field(default_factory=dict)  # by app, reads and writes together


@dataclass(frozen=True, slots=True)
class Recent:
    """The last ten minutes. PROBLEM: why they are not known; "" if they are."""

    start: int
    end: int
    points: dict[int, Point]
    problem: str


class Window:
    """The I/O of the last SPAN_S seconds. Each update asks only for the seconds that are new. One thread at a time."""

    def __init__(self) -> None:
        self._points: dict[int, Point] = {}
        self._until = 0  # the seconds before this time are in _points

    def update(self, source: Reader, now: int) -> Recent:
        """Add the seconds that have ended before NOW (seconds since 1970)."""
        start = now - SPAN_S
        if not start <= self._until <= now:  # the first update, or the clock has jumped
            self._points, self._until = {}, start
        problem = ""
        try:
            periods = source.seconds(self._until, now)
        except OSError as error:
            problem = error.strerror or str(error)
        else:
            for at, period in periods:
                self._add(at, period)
            self._until = now
        first = slot(start, STEP_S) + STEP_S
        self._points = {at: point for at, point in self._points.items() if at >= first}
        return Recent(first, now, dict(sorted(self._points.items())), problem)

    def _add(self, at: int, period: Period) -> None:
        point = self._points.setdefault(slot(at, STEP_S), Point())
        point.ms += period.ms
        for row in period.flows:
            app = period.apps[row[0]]
            point.bytes[app] = point.bytes.get(app, 0) + row[3]


class Source:
    """The cached parts of the history."""

    def __init__(self) -> None:
        self.window = Window()
        self.recent: Cached[Recent] = Cached(RECENT_AGE_S)
        self.hour: Cached[Found] = Cached(HOUR_AGE_S)
        self.wear: Cached[list[FlashDevice]] = Cached(WEAR_AGE_S)
