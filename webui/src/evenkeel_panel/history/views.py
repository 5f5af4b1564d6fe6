# SPDX-License-Identifier: Apache-2.0
"""Routes of the history page. Each span, end and app has its own URL. /history.json and /history.csv have the same query."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from evenkeel_api.roles import ADMIN, includes
from evenkeel_history import live
from evenkeel_history.period import SYSTEM, Flow, Sum
from evenkeel_history.reader import Found, Reader
from evenkeel_history.schema import FOLDER
from flask import Blueprint, Response, abort, current_app, render_template, request, url_for

from .. import texts
from ..agent import AgentError
from ..apps.model import latency
from ..context import Nav, call, identity, view
from . import chart, model

if TYPE_CHECKING:
    from evenkeel_api.features.accounts import Entry

blueprint = Blueprint("history", __name__, template_folder="templates")
NAV = Nav(30, "History", "history.page")
CHANGES = {
    "SetWeight": "Weight",
    "SetFixedShare": "Fixed share",
    "StartApp": "Start",
    "StopApp": "Stop",
}
AUDIT_ROWS = 100  # the number of newest audit rows in which changes are looked for
SENTENCES = 6  # the maximum number of sentences about who slows whom

for _filter in (model.amount, model.duration):
    blueprint.add_app_template_filter(_filter)


@dataclass(frozen=True)
class Query:
    """The query of the URL. END is in seconds since 1970, or None for now. APP is None for all apps."""

    span: str
    end: int | None
    app: str | None

    @property
    def seconds(self) -> int:
        return model.SPANS[self.span][0]

    def url(self, endpoint: str = "history.page", **changes: Any) -> str:
        values = {"span": self.span, "end": self.end, "app": self.app, **changes}
        return url_for(endpoint, **{name: value for name, value in values.items() if value is not None})


def _query() -> Query:
    """The query in the URL. If a parameter is bad, the answer is 422 with the reason."""
    span = request.args.get("span", model.SPAN)
    if span not in model.SPANS:
        abort(422, f"The span must be one of {', '.join(model.SPANS)}.")
    end = request.args.get("end", "")
    if end and not (end.isascii() and end.isdigit() and len(end) <= 11):
        abort(422, "The end must be a time in seconds since 1970.")
    app = request.args.get("app")
    if app is not None and len(app) > 64:
        abort(422, "The name of the app is too long.")
    return Query(span, int(end) if end else None, app)


def history_reader() -> Reader:
    config = current_app.config
    folder = Path(config.get("HISTORY_FOLDER", FOLDER))
    return Reader(folder, Path(config.get("HISTORY_SOCKET", live.SOCKET)))


def _data(query: Query, *, rows: bool = True) -> tuple[Found, model.HistoryPage]:
    """The history that QUERY selects, and the data that the page, /history.json and /history.csv show of it."""
    reader = history_reader()
    end = query.end or int(time.time()) + 1
    found = reader.read(max(end - query.seconds, 0), end)
    problem = texts.text(found.problem_code, reason=found.problem) if found.problem_code else ""
    if found.unreadable:
        problem = f"{problem} {texts.text('history-rows', count=found.unreadable)}".strip()
    return found, model.page_data(found, query.app, problem, reader.wear(), rows=rows)


@blueprint.get("/history.json")
def page_json() -> Response:
    return Response(msgspec.json.encode(_data(_query())[1]), mimetype="application/json")


@blueprint.get("/history.csv")
def page_csv() -> Response:
    query = _query()
    response = Response(model.as_csv(_data(query)[1]), mimetype="text/csv")
    response.headers["Content-Disposition"] = f'attachment; filename="history-{query.span}.csv"'
    return response


@blueprint.get("/history")
def page() -> str:
    query = _query()
    found, data = _data(query, rows=False)
    titles = {app.name: app.title for app in view().apps}
    everybody = sorted({name for name, _, _ in found.total.flows} | titles.keys() | {SYSTEM}, key=model.order)
    names = [name for name in everybody if query.app in (None, name)]
    times = sorted(found.points)
    throughput = chart.stacked(
        times, {name: [_mbps(found.points[at], name) for at in times] for name in names},
        found.start, found.end, found.step,
    )  # fmt: skip
    latencies = chart.lines(
        times, {name: [_p99(found.points[at], name) for at in times] for name in names},
        found.start, found.end, found.step,
    )  # fmt: skip
    changes = _changes(found)
    return render_template(
        "history/page.html",
        query=query,
        spans=model.SPANS,
        data=data,
        empty=not times,
        coverage=found.total.ms / 1000 / max(found.end - found.start, 1),
        titles={name: model.title(name, titles) for name in everybody},
        colors={name: "rest" if name == SYSTEM else f"c{n % 6}" for n, name in enumerate(everybody)},
        apps=everybody,
        charts=(
            ("Throughput", "area", throughput),
            ("Latency of 99 % of the requests", "line", latencies),
        ),
        changes=changes,
        marks=chart.marks({entry.at: "" for entry in changes}, found.start, found.end),
        sentences=[cost for cost in data.costs if cost.victim != cost.cause and cost.wait_s >= 0.001][
            :SENTENCES
        ],
        matrix=_matrix(data),
        ticks=_ticks(found),
        latency=latency,
        actions=CHANGES,
        earlier=query.url(end=found.end - query.seconds),
        later=query.url(end=found.end + query.seconds)
        if query.end is not None and found.end + query.seconds < time.time()
        else None,
    )


def _mbps(point: Sum, app: str) -> float | None:
    amount = sum(flow.bytes for (name, _, _), flow in point.flows.items() if name == app)
    return amount / point.ms / 1000 if point.ms else None


def _p99(point: Sum, app: str) -> float | None:
    found = [flow for (name, _, _), flow in point.flows.items() if name == app and flow.latency]
    if not found:
        return None
    merged = Flow()
    for flow in found:
        merged.add(flow)
    return merged.percentile(99)


def _matrix(data: model.HistoryPage) -> dict[str, Any]:
    """The matrix of waiting times. Rows: the apps that waited. Columns: the apps that used the device meanwhile."""
    cells = {(cost.victim, cost.cause): cost.wait_s for cost in data.costs}
    return {
        "victims": sorted({victim for victim, _ in cells}, key=model.order),
        "causes": sorted({cause for _, cause in cells}, key=model.order),
        "cells": cells,
    }


def _ticks(found: Found) -> list[str]:
    """The texts of the five times below the charts, in UTC."""
    span = found.end - found.start
    form = (
        "%H:%M:%S"
        if span <= 900
        else "%H:%M"
        if span <= 2 * 86400
        else "%b %d"
        if span <= 120 * 86400
        else "%b %Y"
    )
    return [time.strftime(form, time.gmtime(found.start + span * n // 4)) for n in range(5)]


def _changes(found: Found) -> list[Entry]:
    """The changes in this span, newest first; none unless the user is an administrator, who may read the audit log."""
    who = identity()
    if who is None or not includes(who.role, ADMIN):
        return []
    try:
        rows: list[Entry] = call("ListAudit", 0, AUDIT_ROWS)
    except AgentError:
        return []  # the page works without the list of changes
    return [
        row for row in rows if row.action in CHANGES and not row.outcome and found.start <= row.at < found.end
    ]
