# SPDX-License-Identifier: Apache-2.0
"""Charts as SVG paths that the server makes. They need no script and no inline style.

The coordinates of a path are in a box of 10000 x 1000, which the browser stretches to the width of the page. All text is
HTML outside the SVG. A chart has thousands of points. So their coordinates are put into a text for the whole path, in C.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import add
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

WIDTH, HEIGHT = 10_000, 1000
MARK_PERCENT = 2.5  # events that are closer than this part of the width share a mark
Amounts = Mapping[str, Sequence[float]]  # by app: a value for each time
Series = Mapping[str, Sequence[float | None]]  # the same; None: no value
_Y = [f"{n}" for n in range(HEIGHT + 1)]  # y coordinates as text


@dataclass
class Chart:
    top: str  # label of the upper end of the scale
    bottom: str
    low: float  # the values of both ends of the scale
    high: float
    unit: str  # of these values
    logarithmic: bool = False
    shapes: dict[str, str] = field(default_factory=dict)  # by app: path data


def nice(value: float) -> float:
    """The upper end of a scale for VALUE: the smallest of 0.001, 0.002, 0.005, 0.01, … that is not below it; 1 for 0."""
    if value <= 0:
        return 1.0
    value = max(value, 0.001)
    unit = 10 ** math.floor(math.log10(value))
    return float(next(step * unit for step in (1, 2, 5, 10) if step * unit >= value * 0.999))


class Frame:
    """The times of a chart from START to END, with points of STEP seconds. Charts of the same times share it.

    A point is a horizontal line of one step, so that a single point is visible, too. `left` and `right` are the x
    coordinates of its ends.

    `steps` has the runs of TIMES without a gap: the part of TIMES, and a path. At a gap, nothing was sampled, so the chart
    has no line there. The path has %s in place of the y coordinate of each point, and begins after the first x coordinate.
    """

    def __init__(self, times: Sequence[int], start: int, end: int, step: int) -> None:
        self.length = len(times)
        scale = WIDTH / (end - start)
        self.left = [f"{round((at - start) * scale)}" for at in times]
        self.right = [f"{round((min(at + step, end) - start) * scale)}" for at in times]
        self.steps = [(slice(run.start, run.stop), self._path(run)) for run in _runs(times, step)]

    def _path(self, run: range) -> str:
        left, right, first = self.left, self.right, run.start
        # A vertical line leads to the next point. After a jump of the clock, this point may begin elsewhere.
        rest = [
            f"V%sH{right[n]}" if left[n] == right[n - 1] else f"L{left[n]},%sH{right[n]}" for n in run[1:]
        ]
        return f"%sH{right[first]}{''.join(rest)}"


def _runs(times: Sequence[int], step: int) -> list[range]:
    """The indices of TIMES, in runs without a gap."""
    runs, begin = [], 0
    for index in range(1, len(times) + 1):
        if index == len(times) or times[index] - times[index - 1] > step * 1.5:
            runs.append(range(begin, index))
            begin = index
    return runs


def highest(series: Amounts) -> float:
    """The largest sum of all values at one time."""
    return max(map(sum, zip(*series.values(), strict=True)), default=0)


def stacked(frame: Frame, series: Amounts, also: Amounts | None = None, unit: str = "MB/s") -> Chart:
    """Areas on top of each other, in the order of SERIES. UNIT: that of the values.

    Each area goes down to the bottom of the chart. So a page must draw the last one first, and the others over it.
    ALSO: the series of another chart, for which this chart has the same scale.
    """
    top = nice(max(highest(series), highest(also or {})))
    chart = Chart(f"{top:g} {unit}", "0", 0, top, unit)
    steps = [(part, f"M{frame.left[part.start]},{HEIGHT}V{path}V{HEIGHT}Z") for part, path in frame.steps]
    sums: Sequence[float] = [0.0] * frame.length
    scale, bottom = HEIGHT / top, HEIGHT + 0.5  # int() rounds half up with it
    for app, values in series.items():
        sums = list(map(add, sums, values))
        heights = [_Y[int(bottom - value * scale)] for value in sums]
        chart.shapes[app] = "".join([path % tuple(heights[part]) for part, path in steps])
    return chart


def lines(frame: Frame, series: Series, also: Series | None = None) -> Chart:
    """Lines on a logarithmic scale, for latencies in µs. ALSO: as for stacked()."""
    # A percentile is the upper bound of a bucket, so a chart has few different values.
    different = {
        value for value in set().union(*series.values(), *(also or {}).values()) if value is not None
    }
    found = [max(value, 1.0) for value in different]
    low = 10 ** math.floor(math.log10(min(found, default=100.0)))
    high = 10 ** math.ceil(math.log10(max(found, default=1000.0)) + 1e-9)
    chart = Chart(_time(high), _time(low), low, high, "µs", logarithmic=True)
    left, right = frame.left, frame.right
    steps = [(part, f"M{left[part.start]},{path}") for part, path in frame.steps]
    scale = HEIGHT / math.log(high / low)
    heights: dict[float | None, str] = {
        value: _Y[HEIGHT - round(math.log(max(value, 1.0) / low) * scale)] for value in different
    }
    heights[None] = ""
    for app, values in series.items():
        drawn = []
        for part, path in steps:
            wanted = [heights[value] for value in values[part]]
            if "" not in wanted:
                drawn.append(path % tuple(wanted))
                continue
            pen = "M"
            for n, height in enumerate(wanted, part.start):
                if height:
                    drawn.append(f"{pen}{left[n]},{height}H{right[n]}")
                pen = "L" if height else "M"
        chart.shapes[app] = "".join(drawn)
    return chart


def _time(us: float) -> str:
    return f"{us / 1e6:g} s" if us >= 1e6 else f"{us / 1e3:g} ms" if us >= 1e3 else f"{us:g} µs"


@dataclass(frozen=True)
class Mark:
    """A vertical line for changes. Its label is the number of the first change, with “+” if there are more."""

    percent: float  # position, in percent of the width
    label: str
    target: int  # number of the first change
    text: str  # the changes, a line for each


def marks(events: Iterable[tuple[int, str]], start: int, end: int) -> list[Mark]:
    """The marks for EVENTS: (time, text). Events are numbered from 1, oldest first. Close events share a mark."""
    groups: list[list[tuple[int, float, str]]] = []
    for number, (at, text) in enumerate(sorted(events, key=lambda event: event[0]), 1):
        percent = (at - start) / (end - start) * 100
        if not groups or percent - groups[-1][0][1] > MARK_PERCENT:
            groups.append([])
        groups[-1].append((number, percent, text))
    return [
        Mark(
            round(group[0][1], 2),
            f"{group[0][0]}+" if len(group) > 1 else f"{group[0][0]}",
            group[0][0],
            "\n".join(text for _, _, text in group),
        )
        for group in groups
    ]
