# SPDX-License-Identifier: Apache-2.0
"""Routes of the overview. Its figures update by themselves, in the same way as those of the apps page."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec
from evenkeel_history.period import SYSTEM
from evenkeel_history.tiers import HOUR
from flask import Response, current_app, render_template

from .. import live
from ..context import Nav, panel, view
from ..history import chart
from ..history.model import REST, colors, everybody, title
from ..history.views import problem_of, reader, ticks
from ..problems import of_message
from ..tables import Table
from ..twins import Feature
from ..wear.model import RATE_DAYS
from ..wear.views import load as load_wear
from . import model
from .recent import STEP_S, Source

if TYPE_CHECKING:
    from ..board import View
    from .recent import Recent

blueprint = Feature("overview", __name__, template_folder="templates")
NAV = Nav(10, "Overview", "overview.page")


def _source() -> Source:
    found: Source | None = current_app.extensions.get("evenkeel-overview")
    if found is None:
        found = current_app.extensions["evenkeel-overview"] = Source()
    return found


def _data(shown: View) -> tuple[Recent, model.OverviewPage]:
    source, now = _source(), int(time.time())
    recent = source.recent.get(lambda: source.window.update(reader(), now))
    # the same span as that of the page History, so that its last answer exists while the history is being saved
    hour = source.hour.get(lambda: reader().read(now + 1 - HOUR, now + 1))
    devices = source.wear.get(lambda: load_wear(RATE_DAYS, shown)[1])
    own = [of_message(reported)] if (reported := panel().db.problem) else []
    # These figures may be some minutes old without harm.
    problem = "" if hour.problem_code == "history-saving" else problem_of(hour)
    return recent, model.page_data(shown, recent, hour, problem, devices, STEP_S, own)


def _figures(shown: View) -> tuple[Recent, dict[str, Any]]:
    """The values for the templates, without the chart."""
    recent, data = _data(shown)
    return recent, {"data": data, "titles": shown.titles | {SYSTEM: REST}}


def _chart(shown: View) -> dict[str, Any]:
    """The values for the templates, with the chart."""
    recent, values = _figures(shown)
    titles, data = values["titles"], values["data"]
    names = everybody((app for point in recent.points.values() for app in point.bytes), titles)
    rates = {(rate.at, rate.app): rate.mbps for rate in data.throughput.rates}
    times = sorted({at for at, _ in rates})
    series: chart.Amounts = {name: [rates.get((at, name), 0.0) for at in times] for name in names}
    return values | {
        "titles": {name: title(name, titles) for name in names},
        "colors": colors(names),
        "chart": chart.stacked(chart.Frame(times, recent.start, recent.end, STEP_S), series),
        "busy": [name for name in names if any(series[name])],
        "ticks": ticks(recent.start, recent.end),
        "recorded": bool(times),
    }


@blueprint.get("/")
def page() -> str:
    return render_template("overview/page.html", **_chart(view()))


# The history is read before live.answer(), in which all other pages wait.


@blueprint.get("/overview/rows")
def rows() -> Response:
    """Only the figures, as out-of-band swaps for htmx."""
    shown = view()
    values = _figures(shown)[1]
    return live.answer(shown, "text/html", lambda: render_template("overview/rows.html", **values))


@blueprint.get("/overview/chart")
def chart_only() -> Response:
    """Only the chart, as an out-of-band swap for htmx. It changes less often than the figures."""
    shown = view()
    values = _chart(shown)
    return live.answer(shown, "text/html", lambda: render_template("overview/chart.html", **values))


@blueprint.twin("/overview.json", model.OverviewPage, "GetSnapshot", states=True, shared=True)
def page_json() -> Response:
    """The state of the board at a glance. If the agent does not answer: what is known without it."""
    shown = view()
    data = _data(shown)[1]
    return live.answer(shown, "application/json", lambda: msgspec.json.encode(data))


@blueprint.twin("/overview.csv", model.Rate, "GetSnapshot", states=True)
def page_csv() -> Table:
    """The throughput of each app in the last minutes."""
    shown = view()
    rates = _data(shown)[1].throughput.rates
    return Table(rates, "throughput", 200 if shown.live else 503)
