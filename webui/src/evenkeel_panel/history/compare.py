# SPDX-License-Identifier: Apache-2.0
"""The comparison of two spans of the history: the measures of each app and direction in both, and the difference. Pure.

The spans may have different lengths. So sums are rates over the sampled time: waiting time in s per minute, stalls per hour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from evenkeel_api.schema import Struct
from evenkeel_history.period import SYSTEM
from msgspec import Meta

from ..apps.model import latency
from . import model

if TYPE_CHECKING:
    from collections.abc import Callable

# measure → words of the page, unit
MEASURES = {
    "throughput": ("Throughput", "MB/s"),
    "p50": ("Typical latency", "us"),
    "p99": ("Latency p99", "us"),
    "p999": ("Latency p99.9", "us"),
    "max": ("Longest latency", "us"),
    "wait": ("Waited per minute", "s/min"),
    "stalls": ("Stalls per hour", "1/h"),
}
_UNITS = {"MB/s": " MB/s", "s/min": " s"}  # that follow a number; the measure's words have the others


def quantity(value: float | None, unit: str, *, signed: bool = False) -> str:
    """VALUE with its unit, as the page shows it. SIGNED: with a plus sign if it is more than 0."""
    if value is None:
        return "—"
    sign = "−" if value < 0 else "+" if signed and value > 0 else ""
    size = abs(value)
    if unit == "us":
        return sign + latency(size)
    return f"{sign}{size:.1f}{_UNITS.get(unit, '')}"


class Difference(Struct, frozen=True):
    """A measure of an app in one direction, in both spans. None: no such requests in this span."""

    app: Annotated[str, Meta(description="empty: the rest of the board")]
    direction: Annotated[str, Meta(description="read or write; empty for stalls")]
    measure: str
    unit: str
    first: float | None
    second: float | None
    difference: Annotated[float | None, Meta(description="second - first")]
    percent: Annotated[
        float | None, Meta(description="the difference in percent of the first value; null also if this is 0")
    ]


_DIRECTIONS = {"read": "Read", "write": "Written to flash"}


def words(row: Difference) -> list[str]:
    """The texts of ROW on the page: direction, measure, both values, and the difference."""
    grown = "none" if row.difference == 0 else quantity(row.difference, row.unit, signed=True)
    if row.percent:
        grown = f"{grown} ({row.percent:+.0f} %)".replace("-", "−")
    return [
        _DIRECTIONS.get(row.direction, "—"),
        MEASURES[row.measure][0],
        quantity(row.first, row.unit),
        quantity(row.second, row.unit),
        grown,
    ]


class Side(Struct, frozen=True):
    """A span as it was found. Its start and end are those of whole steps."""

    start: int
    end: int
    step_s: int
    sampled_s: float
    problem: Annotated[
        str,
        Meta(description="why a part of the history may be missing: a sentence; empty if nothing is missing"),
    ]


class Comparison(Struct, frozen=True):
    """The answer of /history/compare.json."""

    first: Side
    second: Side
    rows: list[Difference]


def difference(
    app: str, direction: str, measure: str, first: float | None, second: float | None
) -> Difference:
    grown = round(second - first, 6) if first is not None and second is not None else None
    percent = round(grown / first * 100, 1) if grown is not None and first else None
    return Difference(app, direction, measure, MEASURES[measure][1], first, second, grown, percent)


_VALUES: dict[str, Callable[[model.Traffic], float | None]] = {
    "throughput": lambda row: row.mbps,
    "p50": lambda row: row.p50_us,
    "p99": lambda row: row.p99_us,
    "p999": lambda row: row.p999_us,
    "max": lambda row: row.max_us,
    "wait": lambda row: round(row.wait_s / row.sampled_s * 60, 3) if row.sampled_s else None,
}


def side(page: model.HistoryPage, sampled_s: float) -> Side:
    return Side(page.start, page.end, page.step_s, round(sampled_s, 3), page.problem)


def compare(first: model.HistoryPage, second: model.HistoryPage, sampled: tuple[float, float]) -> Comparison:
    """The comparison of two pages. SAMPLED: the sampled seconds of each."""
    flows = [{(row.app, row.direction): row for row in page.totals} for page in (first, second)]
    stalls = [
        {row.app: round(row.stalls / seconds * 3600, 2) for row in page.stalls} if seconds else {}
        for page, seconds in zip((first, second), sampled, strict=True)
    ]
    rows = []
    apps = {app for found in flows for app, _ in found} | {app for found in stalls for app in found}
    for app in sorted(apps, key=model.order):
        for direction in model.DIRECTIONS.values():
            pair = [found.get((app, direction)) for found in flows]
            if pair == [None, None]:
                continue
            for measure, value in _VALUES.items():
                values = [value(row) if row is not None else None for row in pair]
                if values != [None, None]:
                    rows.append(difference(app, direction, measure, *values))
        if app != SYSTEM and any(app in found for found in stalls):
            values = [
                found.get(app, 0.0) if seconds else None
                for found, seconds in zip(stalls, sampled, strict=True)
            ]
            rows.append(difference(app, "", "stalls", *values))
    return Comparison(side(first, sampled[0]), side(second, sampled[1]), rows)
