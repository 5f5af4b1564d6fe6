# SPDX-License-Identifier: Apache-2.0
"""The heat map of latencies: how many requests had which latency at which time. Pure functions.

The histograms of all selected apps are added up. A cell is a step of time and a band of latencies. Bands have a
logarithmic scale: two bands per doubling. The level of a cell is the part of the requests of its step that are in it. The
levels are not linear, so that a few slow requests are visible, too.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from evenkeel_common.iostat import bucket_upper
from evenkeel_history import lanes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenkeel_history.lanes import Lanes

PARTS = (0.001, 0.01, 0.05, 0.2, 0.5)  # the upper ends of all levels but the last one
WORDS = ("up to 0.1 %", "to 1 %", "to 5 %", "to 20 %", "to 50 %", "more than 50 %")
COLUMNS = 120  # the maximum number of columns of the picture
WIDTH, HEIGHT = 1000, 100


class Cell(NamedTuple):
    """The requests of a step that starts at AT whose latencies are in the band BAND."""

    at: int
    band: int
    requests: int


@dataclass
class Picture:
    low: int = 0  # the first used band
    high: int = 0  # the band after the last used one
    shapes: list[str] = field(default_factory=list)  # path data by level; an empty text: no such cell


@cache
def limits(band: int) -> tuple[int, int]:
    """The smallest and the largest latency of BAND, in µs."""
    first = band * lanes.BAND
    return (bucket_upper(first - 1) + 1 if first else 0), bucket_upper(first + lanes.BAND - 1)


def level(part: float) -> int:
    """The level of a cell that has the part PART of the requests of its step. PART is more than 0 and at most 1."""
    return bisect_left(PARTS, part)


def cells(points: Mapping[int, Lanes]) -> list[Cell]:
    """The cells by time and band. POINTS: the bands of each step, by the start of the step."""
    return [
        Cell(at, band, count)
        for at, found in sorted(points.items())
        for band, count in enumerate(lanes.counts(found))
        if count
    ]


class Band(NamedTuple):
    """The requests of all steps whose latencies are in a band."""

    band: int
    requests: int
    part: float  # of all requests
    most_at: int  # start of the first step that has most of them


def table(points: Mapping[int, Lanes]) -> list[Band]:
    """The text alternative of the heat map, slowest band first. POINTS: as for cells()."""
    times = sorted(points)
    sums = lanes.counts(sum(points.values()))
    total = sum(sums)
    columns = zip_longest(*(lanes.counts(points[at]) for at in times), fillvalue=0)
    return [
        Band(band, count, count / total, times[column.index(max(column))])
        for band, (count, column) in enumerate(zip(sums, columns, strict=True))
        if count
    ][::-1]


def picture(points: Mapping[int, Lanes], start: int, end: int, step: int) -> Picture:
    """The picture of POINTS, as for cells(), from START to END in a box of 1000 x 100. Many steps are merged."""
    width = step * max(1, math.ceil((end - start) / step / COLUMNS))
    merged: dict[int, Lanes] = {}
    for at, found in points.items():
        number = (at - start) // width
        merged[number] = merged.get(number, 0) + found
    used = [band for band, count in enumerate(lanes.counts(sum(merged.values()))) if count]
    if not used:
        return Picture()
    made = Picture(min(used), max(used) + 1)
    height = HEIGHT / (made.high - made.low)
    paths: list[list[str]] = [[] for _ in WORDS]
    runs: dict[int, tuple[int, int]] = {}  # by band: the first column and the level of a run of equal cells

    def close(band: int, until: int) -> None:
        first, grade = runs.pop(band)
        left, right = (min((n * width) / (end - start), 1.0) * WIDTH for n in (first, until))
        paths[grade].append(
            f"M{left:.1f},{(made.high - band - 1) * height:.2f}H{right:.1f}v{height:.2f}H{left:.1f}z"
        )

    for number in range(min(merged), max(merged) + 2):
        column = lanes.counts(merged.get(number, 0))
        total = sum(column)
        levels = {band: level(count / total) for band, count in enumerate(column) if count}
        for band in list(runs):
            if levels.get(band) != runs[band][1]:
                close(band, number)
        for band, grade in levels.items():
            runs.setdefault(band, (number, grade))
    made.shapes = ["".join(path) for path in paths]
    return made
