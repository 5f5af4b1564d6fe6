# SPDX-License-Identifier: Apache-2.0
"""Routes of the history pages. Each span, app and comparison has its own URL. The JSON and CSV files have the same query."""

from __future__ import annotations

import time
from itertools import pairwise
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel_history import live, merged
from evenkeel_history.cache import Cache, LastAnswers
from evenkeel_history.connections import Connections
from evenkeel_history.reader import Found, Reader
from evenkeel_history.schema import FILE, FOLDER
from flask import abort, current_app, render_template, request

from .. import texts
from ..apps.model import latency, megabytes
from ..context import Nav, view
from ..parameters import read
from ..tables import Table
from ..times import moment
from ..twins import Feature
from . import changes as log
from . import chart, compare, heat, model
from .query import Asked, AskedPair, AskedTable, Pair, Query, form_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from evenkeel_history.lanes import Lanes
    from evenkeel_history.period import Key

blueprint = Feature("history", __name__, template_folder="templates")
NAV = Nav(30, "History", "history.page")
SENTENCES = 6  # the maximum number of sentences about who slows whom
CHANGES_SHOWN = 200  # the maximum number of changes in the list; the CSV file has all
QUARTERS = 4  # the links of the zoom divide the span into this many parts

for _filter in (model.amount, model.duration):
    blueprint.add_app_template_filter(_filter)
blueprint.add_app_template_filter(form_time)


def reader() -> Reader:
    """The reader of the history of this board."""
    config = current_app.config
    folder = Path(config.get("HISTORY_FOLDER", FOLDER))
    kept = current_app.extensions.setdefault(
        "evenkeel-history", (Cache(), Connections(folder / FILE, kept=1), LastAnswers())
    )
    return Reader(folder, Path(config.get("HISTORY_SOCKET", live.SOCKET)), *kept)


def problem_of(found: Found) -> str:
    """Why a part of FOUND may be missing: sentences; "" if nothing is missing."""
    problem = texts.text(found.problem_code, reason=found.problem) if found.problem_code else ""
    if found.unreadable:
        problem = f"{problem} {texts.text('history-rows', count=found.unreadable)}".strip()
    return problem


def _data(
    start: int,
    end: int,
    app: str | None,
    *,
    rows: bool = True,
    cells: bool = True,
    changes: bool = True,
    wear: bool = True,
    costs: bool = True,
) -> tuple[Found, model.HistoryPage]:
    """The history from START to END, and the data that the page and its JSON and CSV files show of it.

    ROWS, CELLS, CHANGES, WEAR, COSTS: whether to include the points, the heat map, the changes, the wear, and who slows whom.
    """
    source = reader()
    found = source.read(start, end, points=rows, matrix=costs)
    made = log.load(found.start, found.end) if changes else log.Changes()
    states = source.wear() if wear else {}
    return found, model.page_data(found, app, problem_of(found), states, made, cells=cells, costs=costs)


@blueprint.twin("/history.json", model.HistoryPage, "ListChanges", query=Asked)
def page_json(asked: Asked) -> model.HistoryPage:
    """The history: throughput, latencies, heat map, waiting times, who slows whom, and changes."""
    query = asked.query()
    return _data(*query.window(), query.app)[1]


@blueprint.twin("/history.csv", model.Traffic, query=Asked)
def page_csv(asked: Asked) -> Table:
    """The points of both charts of the history."""
    return _table("charts", asked.query())


@blueprint.twin("/history/<table>.csv", model.ROWS, "ListChanges", query=AskedTable)
def table_csv(asked: AskedTable) -> Table:
    """A table of the history."""
    return _table(asked.table, asked.query())


def _table(table: model.Table, asked: Query) -> Table:
    struct, field = model.TABLES[table]
    page = _data(
        *asked.window(),
        asked.app,
        rows=table == "charts",
        cells=table == "heat-map",
        changes=table == "changes",
    )[1]
    if table == "changes" and page.changes_problem and not page.changes:
        abort(503, page.changes_problem)
    span = asked.span if asked.start is None else f"{page.start}-{page.end}"
    name = f"history-{span}" if table == "charts" else f"history-{table}-{span}"
    return Table(getattr(page, field), name, struct=struct)


@blueprint.get("/history")
def page() -> str:
    asked = read(Asked, request.args).query()
    start, end = asked.window()
    found, data = _data(start, end, asked.app, rows=False, cells=False)
    look = _look(found.total.flows, asked.app)
    times = sorted(found.spots)
    bands = model.bands(found, asked.app)
    now = int(time.time())
    return render_template(
        "history/page.html",
        **look,
        query=asked,
        spans=model.SPANS,
        data=data,
        empty=not times,
        coarse=found.step > max((end - start) / 20, 60),
        coverage=found.total.ms / 1000 / max(found.end - found.start, 1),
        charts=_charts(found, _series(found, look["names"])),
        heat=heat.picture(bands, found.start, found.end, found.step),
        heat_words=heat.WORDS,
        heat_table=_heat_table(bands),
        changes=_changes(data, look["titles"], now),
        marks=chart.marks(
            [
                (row.at, f"{moment(row.at)} {_sentence(row, look['titles'])}")
                for row in reversed(data.changes)
            ],
            found.start,
            found.end,
        ),
        sentences=[cost for cost in data.costs if cost.victim != cost.cause and cost.wait_s >= 0.001][
            :SENTENCES
        ],
        matrix=_matrix(data),
        figures=_figures(data.totals, look["titles"]),
        ticks=ticks(found.start, found.end),
        quarters=_quarters(start, end) if end - start >= QUARTERS * 60 else [],
        wider=_wider(asked, start, end, now),
        before=Pair((max(2 * start - end, 0), start), (start, end), asked.app).url()
        if end - start >= 60
        else None,
        earlier=asked.url(**_shift(asked, start, end, start - end)),
        later=asked.url(**_shift(asked, start, end, end - start))
        if asked.end is not None and asked.end + asked.seconds < now
        else None,
        window=(start, end),
    )


@blueprint.get("/history/compare")
def comparison() -> str:
    asked = read(AskedPair, request.args).pair()
    (first, one), (second, two) = _both(asked)
    look = _look([*first.total.flows, *second.total.flows], asked.app)
    series = [_series(found, look["names"]) for found in (first, second)]
    sides = [
        {
            "words": words,
            "found": found,
            "data": data,
            "empty": not found.spots,
            "coverage": found.total.ms / 1000 / max(found.end - found.start, 1),
            "charts": _charts(found, series[number], series[1 - number]),
            "ticks": ticks(found.start, found.end),
            "url": Query(model.SPAN, *span, asked.app).url(),
        }
        for number, (words, found, data, span) in enumerate(
            (
                ("First span", first, one, asked.first),
                ("Second span", second, two, asked.second),
            )
        )
    ]
    return render_template(
        "history/compare.html",
        **look,
        query=asked,
        sides=sides,
        rows=[
            (look["titles"].get(row.app, row.app), *compare.words(row))
            for row in _compared(one, two, first, second).rows
        ],
        now=int(time.time()),
    )


@blueprint.twin("/history/compare.json", compare.Comparison, query=AskedPair)
def comparison_json(asked: AskedPair) -> compare.Comparison:
    """Two spans of the history, and their differences."""
    return compared(asked.pair())


@blueprint.twin("/history/compare.csv", compare.Difference, query=AskedPair)
def comparison_csv(asked: AskedPair) -> Table:
    """The differences between two spans of the history."""
    return Table(compared(asked.pair()).rows, "history-compare")


def _both(asked: Pair) -> tuple[tuple[Found, model.HistoryPage], tuple[Found, model.HistoryPage]]:
    first, second = (
        _data(*span, asked.app, rows=False, cells=False, changes=False, wear=False, costs=False)
        for span in (asked.first, asked.second)
    )
    return first, second


def compared(asked: Pair) -> compare.Comparison:
    """The comparison of the spans ASKED, for another page."""
    (first, one), (second, two) = _both(asked)
    return _compared(one, two, first, second)


def _compared(
    one: model.HistoryPage, two: model.HistoryPage, first: Found, second: Found
) -> compare.Comparison:
    return compare.compare(one, two, (first.total.ms / 1000, second.total.ms / 1000))


def _look(flows: Iterable[Key], app: str | None) -> dict[str, Any]:
    """The apps of the page: all (`apps`), those in the charts (`names`), their titles and their colours."""
    titles = view(names=True).titles
    everybody = model.everybody((name for name, _, _ in flows), titles)
    return {
        "apps": everybody,
        "names": [name for name in everybody if app in (None, name)],
        "titles": {name: model.title(name, titles) for name in everybody},
        "colors": model.colors(everybody),
    }


def _series(found: Found, names: Sequence[str]) -> tuple[chart.Amounts, chart.Series]:
    """The throughput in MB/s and the p99 latency in µs of the apps NAMES."""
    spots = [found.spots[at] for at in sorted(found.spots)]
    amounts, latencies = merged.by_app(spots, names)
    # bytes per µs are MB/s
    factors = [1 / (spot.ms * 1000) if spot.ms else 0.0 for spot in spots]
    return {name: list(map(mul, amount, factors)) for name, amount in amounts.items()}, latencies


def _charts(
    found: Found,
    series: tuple[chart.Amounts, chart.Series],
    other: tuple[chart.Amounts, chart.Series] | tuple[None, None] = (None, None),
) -> tuple[tuple[str, str, chart.Chart], ...]:
    """Heading, kind and shapes of both charts. OTHER: the series of charts that need the same scales."""
    frame = chart.Frame(sorted(found.spots), found.start, found.end, found.step)
    return (
        ("Throughput", "area", chart.stacked(frame, series[0], other[0])),
        ("Latency of 99 % of the requests", "line", chart.lines(frame, series[1], other[1])),
    )


def _matrix(data: model.HistoryPage) -> dict[str, Any]:
    """The matrix of waiting times. Rows: the apps that waited. Columns: the apps that used the device meanwhile.

    A row has the texts of its cells: those before the app's own column, in this column (None: there is none), and after it.
    """
    cells = {(cost.victim, cost.cause): model.duration(cost.wait_s) for cost in data.costs}
    causes = sorted({cause for _, cause in cells}, key=model.order)
    rows = []
    for victim in sorted({victim for victim, _ in cells}, key=model.order):
        texts = [cells.get((victim, cause), "—") for cause in causes]
        own = causes.index(victim) if victim in causes else len(causes)
        rows.append((victim, texts[:own], texts[own] if own < len(causes) else None, texts[own + 1 :]))
    return {"causes": causes, "rows": rows}


def _figures(rows: Iterable[model.Traffic], titles: Mapping[str, str]) -> list[tuple[str, ...]]:
    """The texts of the table of figures."""
    return [
        (
            titles[row.app],
            "Read" if row.direction == "read" else "Written to flash",
            model.amount(row.bytes),
            megabytes(row.mbps),
            latency(row.p50_us),
            latency(row.p99_us),
            latency(row.p999_us),
            latency(row.max_us),
            model.duration(row.wait_s),
            f"{row.gate_waits} × {model.duration(row.gate_s / row.gate_waits)}" if row.gate_waits else "—",
        )
        for row in rows
    ]


def _heat_table(bands: Mapping[int, Lanes]) -> dict[str, Any]:
    """The text alternative of the heat map. BANDS: as from model.bands().

    `rows`: the texts of its cells, slowest first. `low` and `high`: the ends of the scale.
    """
    found = heat.table(bands)
    limits = [heat.limits(row.band) for row in found]
    return {
        "rows": [
            (
                f"{latency(low)} to {latency(high + 1)}",
                str(row.requests),
                f"{row.part * 100:.2f} %" if row.part >= 0.0001 else "less than 0.01 %",
                moment(row.most_at),
            )
            for row, (low, high) in zip(found, limits, strict=True)
        ],
        "low": latency(limits[-1][0]) if limits else "",
        "high": latency(limits[0][1] + 1) if limits else "",
    }


def ticks(start: int, end: int) -> list[str]:
    """The texts of the five times below a chart, in UTC."""
    return [_clock(start + (end - start) * n // 4, end - start) for n in range(5)]


def _clock(at: int, span: int) -> str:
    """The time AT in UTC, as precise as a reader of SPAN seconds needs it."""
    form = (
        "%H:%M:%S"
        if span <= 900
        else "%H:%M"
        if span <= 2 * 86400
        else "%b %d"
        if span <= 120 * 86400
        else "%b %Y"
    )
    return time.strftime(form, time.gmtime(at))


def _quarters(start: int, end: int) -> list[dict[str, Any]]:
    """The links that narrow the span to one of its quarters: times and words."""
    edges = [start + (end - start) * n // QUARTERS for n in range(QUARTERS + 1)]
    return [
        {"start": low, "end": high, "text": f"{_clock(low, end - start)} – {_clock(high, end - start)}"}
        for low, high in pairwise(edges)
    ]


def _wider(asked: Query, start: int, end: int, now: int) -> str | None:
    """The URL of a span that is twice as long and has the same middle; None if there is no longer one."""
    if asked.start is None:
        return None  # the list of spans has longer ones
    length = min(2 * (end - start), model.SPANS["2y"][0])
    if length <= end - start:
        return None
    until = min((start + end + length) // 2, max(now, end))
    return asked.url(start=max(until - length, 0), end=until)


def _shift(asked: Query, start: int, end: int, by: int) -> dict[str, Any]:
    """The parameters of the span that is BY seconds later."""
    if asked.start is None:
        return {"end": end + by}
    return {"start": max(start + by, 0), "end": max(end + by, 60)}


def _value(row: log.BoardChange, value: str | None) -> str:
    if value is None:
        return ""
    if row.action == "SetFixedShare":
        return "off" if value == "0" else f"{value} %"
    return value


def _sentence(row: log.BoardChange, titles: dict[str, str]) -> str:
    """What was changed: “Weight of Player: 100 → 300”."""
    what = log.name(row.action)
    if row.app:
        app = titles.get(row.app, row.app)
        what = f"{what} of {app}"
    new = _value(row, row.new)
    if not new:
        return what
    return f"{what}: {_value(row, row.old)} → {new}" if row.old is not None else f"{what}: {new}"


def _changes(data: model.HistoryPage, titles: dict[str, str], now: int) -> dict[str, Any]:
    """The list of changes, newest first. Its numbers are those of the marks."""
    count = len(data.changes)
    rows = [
        {
            "number": count - n,
            "row": row,
            "text": _sentence(row, titles),
            "effect": Pair(*log.effect(row.at, now), None).url() if row.action == log.WEIGHT else None,
        }
        for n, row in enumerate(data.changes[:CHANGES_SHOWN])
    ]
    return {"rows": rows, "hidden": count - len(rows), "problem": data.changes_problem}
