# SPDX-License-Identifier: Apache-2.0
"""The data of the history page, /history.json and /history.csv. All three have the same query and the same struct."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Literal

from evenkeel_api.schema import Struct
from evenkeel_common.iostat import percentiles
from evenkeel_history.period import READ, SYSTEM, WRITE, Flow
from evenkeel_history.tiers import DAY, HOUR, MINUTE
from msgspec import Meta

from . import heat
from .changes import BoardChange, Changes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from evenkeel_common.wear import Wear as State
    from evenkeel_history.lanes import Lanes
    from evenkeel_history.period import Sum
    from evenkeel_history.reader import Found

Span = Literal["10m", "1h", "6h", "1d", "7d", "30d", "90d", "1y", "2y"]
# the spans that a user can choose: name in the URL → (seconds, words after "the last")
SPANS: dict[Span, tuple[int, str]] = {
    "10m": (10 * MINUTE, "10 minutes"),
    "1h": (HOUR, "hour"),
    "6h": (6 * HOUR, "6 hours"),
    "1d": (DAY, "day"),
    "7d": (7 * DAY, "week"),
    "30d": (30 * DAY, "30 days"),
    "90d": (90 * DAY, "90 days"),
    "1y": (365 * DAY, "year"),
    "2y": (730 * DAY, "2 years"),
}
SPAN: Span = "1h"
DIRECTIONS = {READ: "read", WRITE: "write"}
PERCENTS = (50, 99, Fraction("99.9"))  # the percentiles of a Traffic
SPARE_BLOCKS = (
    "normal",
    "warning",
    "urgent",
)  # the states of spare blocks, as evenkeel_common.wear names them
REST = "Rest of the board"  # the title of everything that is not an app


class Traffic(Struct, frozen=True):
    """I/O of an app in one direction, in a point of the chart or in the whole span. Latencies are per request."""

    at: Annotated[int, Meta(description="start, seconds since 1970")]
    app: Annotated[str, Meta(description="empty: the rest of the board")]
    direction: str
    sampled_s: Annotated[float, Meta(description="the sampled part of the time")]
    bytes: int
    requests: int
    mbps: Annotated[float, Meta(description="10^6 bytes/s while sampled")]
    p50_us: int | None
    p99_us: int | None
    p999_us: int | None
    max_us: int | None
    wait_s: Annotated[
        float, Meta(description="time that all requests together waited before they were in the device")
    ]
    gate_waits: Annotated[int, Meta(description="number of requests that had to wait for admission")]
    gate_s: Annotated[
        float, Meta(description="time that these requests together waited for admission; a part of wait_s")
    ]


class Stalls(Struct, frozen=True):
    app: str
    stalls: int
    stall_s: float


class Cost(Struct, frozen=True):
    """How long requests of the app VICTIM waited while the device served the app CAUSE."""

    victim: str
    cause: str
    wait_s: float


class Wear(Struct, frozen=True):
    """What a flash device last reported about its wear. null: the device does not report the value."""

    at: int
    device: str
    life_used_percent: Annotated[
        int | None, Meta(description="the larger value of its two types of memory; upper end of the range")
    ]
    spare_blocks: Annotated[str | None, Meta(description="normal, warning or urgent")]


class Heat(Struct, frozen=True):
    """The requests in a cell of the heat map: those of the step that starts at AT with a latency of LOW_US to HIGH_US."""

    at: int
    low_us: int
    high_us: int
    requests: int


class HistoryPage(Struct, frozen=True):
    """The answer of /history.json."""

    start: int
    end: int
    step_s: int
    problem: Annotated[
        str,
        Meta(description="why a part of the history may be missing: a sentence; empty if nothing is missing"),
    ]
    totals: list[Traffic]
    stalls: list[Stalls]
    costs: Annotated[
        list[Cost],
        Meta(description="largest first; includes the time that an app waited for its own requests"),
    ]
    wear: list[Wear]
    changes: Annotated[list[BoardChange], Meta(description="newest first")]
    changes_problem: Annotated[
        str, Meta(description="why changes are missing: a sentence; empty if none are missing")
    ]
    rows: list[Traffic]
    heat: list[Heat]


def _wear(states: Mapping[str, list[tuple[int, State]]]) -> list[Wear]:
    result = []
    for device, found in sorted(states.items()):
        at, state = found[-1]
        result.append(Wear(at, device, state.life_used, state.pre_eol))
    return result


def _flows(found: Sum, app: str | None) -> dict[tuple[str, int], Flow]:
    """The I/O in FOUND by app and direction, all devices together. APP: only this app; None: all apps."""
    result: dict[tuple[str, int], Flow] = {}
    for (name, _, direction), flow in found.flows.items():
        if app is None or name == app:
            key = name, direction
            if key in result:  # an app on several devices: FOUND must not change
                both = Flow()
                both.add(result[key])
                both.add(flow)
                result[key] = both
            else:
                result[key] = flow
    return result


def _rows(at: int, found: Sum, app: str | None) -> list[Traffic]:
    seconds = found.ms / 1000
    rows = []
    for (name, direction), flow in sorted(_flows(found, app).items(), key=lambda item: order(*item[0])):
        p50, p99, p999 = percentiles(flow.latency, PERCENTS)
        rows.append(
            Traffic(
                at=at,
                app=name,
                direction=DIRECTIONS[direction],
                sampled_s=round(seconds, 3),
                bytes=flow.bytes,
                requests=flow.ios,
                mbps=round(flow.bytes / seconds / 1e6, 3) if seconds else 0.0,
                p50_us=p50,
                p99_us=p99,
                p999_us=p999,
                max_us=flow.longest,
                wait_s=round(flow.wait_us / 1e6, 6),
                gate_waits=flow.gates,
                gate_s=round(flow.gate_us / 1e6, 6),
            )
        )
    return rows


def order(app: str, direction: int = 0) -> tuple[bool, str, int]:
    """The sort key of a row: apps by name, then the rest of the board."""
    return app == SYSTEM, app, direction


def page_data(
    found: Found,
    app: str | None,
    problem: str,
    wear: Mapping[str, list[tuple[int, State]]],
    changes: Changes,
    *,
    cells: bool = True,
    costs: bool = True,
) -> HistoryPage:
    """The data of the page. APP: only this app; None: all apps.

    There are rows if FOUND has points. CELLS: whether to include the heat map. The HTML page needs both in another form.
    COSTS: whether to include who slows whom.
    """
    return HistoryPage(
        start=found.start,
        end=found.end,
        step_s=found.step,
        problem=problem,
        totals=_rows(found.start, found.total, app),
        stalls=[
            Stalls(name, count, ms / 1000)
            for name, (count, ms) in sorted(found.total.stalls.items())
            if app is None or name == app
        ],
        costs=sorted(
            (
                Cost(victim, cause, round(us / 1e6, 6))
                for (victim, cause), us in found.total.blame.items()
                if costs and (app is None or app in (victim, cause))
            ),
            key=lambda cost: (-cost.wait_s, cost.victim, cost.cause),
        ),
        wear=_wear(wear),
        changes=changes.rows,
        changes_problem=changes.problem,
        heat=[Heat(cell.at, *heat.limits(cell.band), cell.requests) for cell in heat.cells(bands(found, app))]
        if cells
        else [],
        rows=[row for at, point in sorted(found.points.items()) for row in _rows(at, point, app)],
    )


def bands(found: Found, app: str | None) -> dict[int, Lanes]:
    """The latencies in each point by band, all devices and directions together. APP: only this app; None: all apps."""
    return {at: spot.bands(app) for at, spot in found.spots.items()}


Table = Literal["charts", "figures", "stalls", "who-slows-whom", "heat-map", "changes", "wear"]
# name of a table in the URL of its CSV file → the type of its rows, and the field of the page that has them
TABLES: dict[Table, tuple[type[Struct], str]] = {
    "charts": (Traffic, "rows"),
    "figures": (Traffic, "totals"),
    "stalls": (Stalls, "stalls"),
    "who-slows-whom": (Cost, "costs"),
    "heat-map": (Heat, "heat"),
    "changes": (BoardChange, "changes"),
    "wear": (Wear, "wear"),
}
ROWS = tuple(dict.fromkeys(struct for struct, _ in TABLES.values()))


# ---- texts ----


def everybody(seen: Iterable[str], titles: Iterable[str]) -> list[str]:
    """The apps that had I/O (SEEN), the apps of the board (TITLES), and the rest of the board, in the order of the charts."""
    return sorted({*seen, *titles, SYSTEM}, key=order)


def title(app: str, titles: Mapping[str, str]) -> str:
    return REST if app == SYSTEM else titles.get(app, app)


def colors(apps: Sequence[str]) -> dict[str, str]:
    """The class of the color of each of APPS, sorted by order(). All pages must have the same apps to agree."""
    return {name: "rest" if name == SYSTEM else f"c{n % 6}" for n, name in enumerate(apps)}


def amount(number: float) -> str:
    """Bytes with three significant digits."""
    for limit, factor, unit in ((1e3, 1, "B"), (1e6, 1e3, "kB"), (1e9, 1e6, "MB"), (1e12, 1e9, "GB")):
        if number < limit * 0.9995:
            return f"{number / factor:.3g} {unit}"
    return f"{number / 1e12:.3g} TB" if number < 1e15 else f"{number / 1e12:.0f} TB"


def duration(seconds: float) -> str:
    """3.2 s, 4 min 10 s, 2 h 5 min, 3 d 2 h"""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    for unit, size, small, part in (("min", 60, "s", 1), ("h", HOUR, "min", 60), ("d", DAY, "h", HOUR)):
        if seconds < size * 60 or unit == "d" or (unit == "h" and seconds < DAY):
            whole, rest = divmod(round(seconds / part), size // part)
            return f"{whole} {unit} {rest} {small}" if rest else f"{whole} {unit}"
    return ""
