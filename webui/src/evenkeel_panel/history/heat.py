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
from typing import TYPE_CHECKING

from evenkeel_common.iostat import bucket_upper
from evenkeel_history import lanes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from evenkeel_history.lanes import Lanes

PARTS = (0.001, 0.01, 0.05, 0.2, 0.5)  # the upper ends of all levels but the last one
WORDS = ("up to 0.1 %", "to 1 %", "to 5 %", "to 20 %", "to 50 %", "more than 50 %")
COLUMNS = 120  # the maximum number of columns of the picture
PER_BAND = 4  # buckets of the histogram per band; eight buckets are a doubling
WIDTH, HEIGHT = 1000, 100


@dataclass(frozen=True)
class Cell:
    """The requests of a step that starts at AT whose latencies are in the band BAND."""

    at: int
    band: int
    requests: int


@dataclass
class Picture:
    low: int = 0  # the first used band
    high: int = 0  # the band after the last used one
    shapes: list[str] = field(default_factory=list)  # path data by level; an empty text: no such cell


def limits(band: int) -> tuple[int, int]:
    """The smallest and the largest latency of BAND, in µs."""
    first = band * PER_BAND
    return (bucket_upper(first - 1) + 1 if first else 0), bucket_upper(first + PER_BAND - 1)


def level(part: float) -> int:
    """The level of a cell that has the part PART of the requests of its step. PART is more than 0 and at most 1."""
    return bisect_left(PARTS, part)


def cells(points: Mapping[int, Mapping[str, Lanes]]) -> list[Cell]:
    """The cells by time and band. POINTS: the latencies of each step by app, by the start of the step."""
    result = []
    for at, apps in sorted(points.items()):
        buckets = lanes.counts(sum(apps.values()))
        bands = (sum(buckets[n : n + PER_BAND]) for n in range(0, len(buckets), PER_BAND))
        result += [Cell(at, band, count) for band, count in enumerate(bands) if count]
    return result


def picture(found: Iterable[Cell], start: int, end: int, step: int) -> Picture:
    """The picture of the cells FOUND between START and END, in a box of 1000 x 100. Many steps are merged."""
    width = step * max(1, math.ceil((end - start) / step / COLUMNS))
    columns: dict[int, dict[int, int]] = {}  # requests by band
    for cell in found:
        column = columns.setdefault((cell.at - start) // width, {})
        column[cell.band] = column.get(cell.band, 0) + cell.requests
    used = {band for column in columns.values() for band in column}
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

    for number in range(min(columns), max(columns) + 2):
        column = columns.get(number, {})
        total = sum(column.values())
        levels = {band: level(count / total) for band, count in column.items()}
        for band in list(runs):
            if levels.get(band) != runs[band][1]:
                close(band, number)
        for band, grade in levels.items():
            runs.setdefault(band, (number, grade))
    made.shapes = ["".join(path) for path in paths]
    return made
