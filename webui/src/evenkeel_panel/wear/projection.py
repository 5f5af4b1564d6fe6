# SPDX-License-Identifier: Apache-2.0
"""How many bytes a flash device can still take, from what it reports about its wear. Pure functions.

A device reports the used part of its life as a range of 10 %: "10" stands for 0 to 10 %, "110" for more than 100 %.
The only assumption: each written byte uses the same part of the life. So the used part is a straight line over the
written bytes, and the line passes through the range of each report. project() finds the steepest and the flattest of
these lines, which give the least and the most bytes that are left.

- Until a device has reported two steps, a flat line fits, too. Then there is no upper bound, only a lower one.
- If no line passes through all ranges, the wear of each byte has changed. Then only the newest reports count: as many
  as one line can pass through.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from evenkeel_common.wear import Wear

STEP = 10  # size of a range, in percent of the life
END = 100  # percent at which the life is used up


@dataclass(frozen=True, slots=True)
class Report:
    """What a device reported at one time. USED is the upper end of its range, in percent."""

    at: int  # seconds since 1970
    written: int  # bytes written since the first report
    used: int


@dataclass(frozen=True, slots=True)
class Left:
    """How many bytes a device can still take, counted from its last report."""

    least: int
    most: int | None  # None: unknown, because the device has not reported two steps yet
    since: int  # time of the oldest report that counts
    last: int  # time of the last report
    used_up: bool = False  # the device reports more than 100 %


def reports(states: Iterable[tuple[int, Wear]], kind: str) -> list[Report]:
    """The reports of one type of memory, "life_a" or "life_b", from the saved states, oldest first.

    The device's counter of written bytes begins at 0 with each boot. What it counted between the last saved state and
    a power cut is missing. So the result may be too small, and then the device lasts longer than project() says.
    """
    result, total, before = [], 0, None
    for at, state in states:
        if before is not None:
            grown = state.written_bytes - before
            total += grown if grown >= 0 else state.written_bytes
        before = state.written_bytes
        used = getattr(state, kind)
        if used is not None:
            result.append(Report(at, total, used))
    return result


def _corners(found: Sequence[Report]) -> list[Report]:
    """The first and the last report of each run with the same value, newest first. The others add nothing."""
    result: list[Report] = []
    for _, group in groupby(found, key=lambda report: report.used):
        run = list(group)
        result += run[:1] if len(run) == 1 else (run[0], run[-1])
    return result[::-1]


def project(found: Sequence[Report]) -> Left | None:
    """The bytes that are left according to the reports FOUND, oldest first; None if there are none."""
    if not found:
        return None
    now = found[-1]
    if now.used > END:
        return Left(0, 0, now.at, now.at, used_up=True)
    kept: list[Report] = []
    # the slopes of the lines that fit, in percent per byte; None: no upper bound
    flattest, steepest = Fraction(0), None
    for report in _corners(found):
        low, high = flattest, steepest
        fits = not kept or report.used <= kept[-1].used
        for newer in kept:
            rise, run = newer.used - report.used, newer.written - report.written
            if run:
                low = max(low, Fraction(rise - STEP, run))
                high = min(Fraction(rise + STEP, run), high or Fraction(rise + STEP, run))
            elif rise > STEP:
                fits = False
        if not fits or (high is not None and low > high):
            break
        flattest, steepest = low, high
        kept.append(report)
    least, most = 0, None
    if steepest is not None:
        used = min(report.used + steepest * (now.written - report.written) for report in kept)
        least = math.floor((END - used) / steepest)
    if flattest:
        used = max(report.used - STEP + flattest * (now.written - report.written) for report in kept)
        most = math.ceil((END - used) / flattest)
    return Left(least, most, kept[-1].at, now.at)


def project_device(states: Sequence[tuple[int, Wear]]) -> Left | None:
    """The bytes that are left of a device. Its life ends when the life of one of its types of memory ends."""
    found = [project(reports(states, kind)) for kind in ("life_a", "life_b")]
    lefts = sorted((left for left in found if left), key=lambda left: left.least)
    if not lefts:
        return None
    most = min((left.most for left in lefts if left.most is not None), default=None)
    return replace(lefts[0], most=most)


def days(amount: int | None, per_day: float | None) -> float | None:
    """For how many days AMOUNT bytes last at PER_DAY bytes a day; None if one of them is unknown, or nothing is written."""
    return amount / per_day if amount is not None and per_day else None
