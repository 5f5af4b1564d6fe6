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

PER_MILLE = (1, 10, 50, 200, 500)  # the upper ends of all levels but the last one
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


def upper(total: int) -> list[int]:
    """The largest cell of each level but the last one, in a step of TOTAL requests. bisect_left() finds the level of a cell."""
    return [part * total // 1000 for part in PER_MILLE]


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
    numbers = range(min(merged), max(merged) + 1)
    x = [f"{min(number * width / (end - start), 1.0) * WIDTH:.1f}" for number in (*numbers, numbers.stop)]
    columns = [lanes.counts(merged.get(number, 0)) for number in numbers]
    limits = [upper(sum(column)) for column in columns]
    paths: list[list[str]] = [[] for _ in WORDS]
    tall = f"v{height:.2f}H"
    for band, row in enumerate(zip_longest(*columns, fillvalue=0)):
        y = f"{(made.high - band - 1) * height:.2f}"
        # the first column and the level of a run of equal cells; -1: no requests
        first, grade = 0, -1
        grades = [
            bisect_left(limit, count) if count else -1 for count, limit in zip(row, limits, strict=True)
        ]
        for column, new in enumerate((*grades, -1)):
            if new != grade:
                if grade >= 0:
                    paths[grade].append(f"M{x[first]},{y}H{x[column]}{tall}{x[first]}z")
                first, grade = column, new
    made.shapes = ["".join(path) for path in paths]
    return made
