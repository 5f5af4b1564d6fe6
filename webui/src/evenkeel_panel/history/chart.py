# SPDX-License-Identifier: Apache-2.0
"""Charts as SVG paths that the server makes. They need no script and no inline style.

The coordinates of a path are in a box of 1000 x 100, which the browser stretches to the width of the page. All text is
HTML outside the SVG.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WIDTH, HEIGHT = 1000, 100
MARK_PERCENT = 2.5  # events that are closer than this part of the width share a mark
Series = dict[str, list[float | None]]  # by app: a value for each time; None: no value


@dataclass
class Chart:
    top: str  # label of the upper end of the scale
    bottom: str
    shapes: dict[str, str] = field(default_factory=dict)  # by app: path data


def nice(value: float) -> float:
    """The upper end of a scale for VALUE: the smallest of 0.001, 0.002, 0.005, 0.01, … that is not below it; 1 for 0."""
    if value <= 0:
        return 1.0
    value = max(value, 0.001)
    unit = 10 ** math.floor(math.log10(value))
    return float(next(step * unit for step in (1, 2, 5, 10) if step * unit >= value * 0.999))


def _runs(times: Sequence[int], step: int) -> list[range]:
    """The indices of TIMES, in runs without a gap. At a gap, nothing was sampled, so the chart has no line there."""
    runs, begin = [], 0
    for index in range(1, len(times) + 1):
        if index == len(times) or times[index] - times[index - 1] > step * 1.5:
            runs.append(range(begin, index))
            begin = index
    return runs


def _x(at: float, start: int, end: int) -> float:
    return round((at - start) / (end - start) * WIDTH, 1)


def highest(series: Series) -> float:
    """The largest sum of all values at one time."""
    return max(
        (sum(value or 0 for value in values) for values in zip(*series.values(), strict=True)), default=0
    )


def stacked(
    times: Sequence[int],
    series: Series,
    start: int,
    end: int,
    step: int,
    also: Series | None = None,
    unit: str = "MB/s",
) -> Chart:
    """Areas on top of each other, in the order of SERIES. Each point is as wide as its step. UNIT: that of the values.

    ALSO: the series of another chart, for which this chart has the same scale.
    """
    top = nice(max(highest(series), highest(also or {})))
    chart = Chart(f"{top:g} {unit}", "0")
    left, right = _sides(times, start, end, step)
    # by run: its part of TIMES, and its area without the y coordinates, first the upper side and then the lower one
    areas = [
        (
            slice(run.start, run.stop),
            "M"
            + "L".join([f"{left[n]},%.2fH{right[n]}" for n in run])
            + "L"
            + "L".join([f"{right[n]},%.2fH{left[n]}" for n in reversed(run)])
            + "Z",
        )
        for run in _runs(times, step)
    ]
    sums = [0.0] * len(times)
    below = [float(HEIGHT)] * len(times)
    for app, values in series.items():
        sums = [low + (value or 0) for low, value in zip(sums, values, strict=True)]
        above = [HEIGHT - value / top * HEIGHT for value in sums]
        chart.shapes[app] = "".join([area % (*above[part], *reversed(below[part])) for part, area in areas])
        below = above
    return chart


def _sides(times: Sequence[int], start: int, end: int, step: int) -> tuple[list[str], list[str]]:
    """The x coordinates of the left and the right side of each point, which is as wide as its step."""
    return (
        [f"{_x(at, start, end):g}" for at in times],
        [f"{_x(min(at + step, end), start, end):g}" for at in times],
    )


def lines(
    times: Sequence[int], series: Series, start: int, end: int, step: int, also: Series | None = None
) -> Chart:
    """Lines on a logarithmic scale, for latencies in µs. ALSO: as for stacked()."""
    both = [*series.values(), *(also or {}).values()]
    # A percentile is the upper bound of a bucket, so a chart has few different values.
    different = {value for values in both for value in values if value is not None}
    found = [max(value, 1.0) for value in different]
    low = 10 ** math.floor(math.log10(min(found, default=100.0)))
    high = 10 ** math.ceil(math.log10(max(found, default=1000.0)) + 1e-9)
    chart = Chart(_time(high), _time(low))
    runs, (left, right) = _runs(times, step), _sides(times, start, end, step)
    heights = {
        value: f"{HEIGHT - math.log(max(value, 1.0) / low) / math.log(high / low) * HEIGHT:.2f}"
        for value in different
    }
    for app, values in series.items():
        path = []
        for run in runs:
            pen = "M"
            for n in run:
                value = values[n]
                if value is None:
                    pen = "M"
                    continue
                # each point is a horizontal line of one step, so that a single point is visible, too
                path.append(f"{pen}{left[n]},{heights[value]}H{right[n]}")
                pen = "L"
        chart.shapes[app] = "".join(path)
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
