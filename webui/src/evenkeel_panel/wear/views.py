# SPDX-License-Identifier: Apache-2.0
"""Routes of the page of wear. Each span has its own URL. /wear.json and /wear.csv have the same query."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec
from evenkeel_history.tiers import DAY, slot
from flask import Blueprint, Response, abort, render_template, request, url_for

from .. import texts
from ..agent import AgentError
from ..apps.model import BadNumber, parse_fixed_share
from ..context import Nav, call, panel, view
from ..history import chart
from ..history.model import colors, duration, everybody, title
from ..history.views import problem_of, reader, ticks
from ..tables import csv_file
from ..times import moment
from . import model

if TYPE_CHECKING:
    from evenkeel_history.reader import Found

    from ..board import View

blueprint = Blueprint("wear", __name__, template_folder="templates")
NAV = Nav(110, "Wear", "wear.page")


def _days() -> int:
    """The span in the URL, in days. If it is bad, the answer is 422 with the reason."""
    days = request.args.get("days", str(model.RATE_DAYS))
    if days not in map(str, model.SPANS):
        abort(422, texts.text("wear-days", days=list(model.SPANS)))
    return int(days)


def load(days: int, shown: View) -> tuple[Found, list[model.Device]]:
    """What was written in the last DAYS days, today included, and the devices of the board SHOWN."""
    now = int(time.time())
    source = reader()
    found = source.written(max(slot(now, DAY) - (days - 1) * DAY, 0), now + 1)
    states = source.wear()
    known = {device.name for device in shown.status.devices} if shown.status else set()
    return found, model.devices(found, states, known or states.keys(), now)


def _data(days: int) -> tuple[Found, model.WearPage]:
    shown = view(names=True)
    found, flash = load(days, shown)
    return found, model.page_data(found, days, problem_of(found), flash, shown.status)


@blueprint.get("/wear.json")
def page_json() -> Response:
    return Response(msgspec.json.encode(_data(_days())[1]), mimetype="application/json")


@blueprint.get("/wear.csv")
def page_csv() -> Response:
    days = _days()
    return csv_file(model.Row, _data(days)[1].rows, f"wear-{days}-days")


@blueprint.get("/wear")
def page() -> str:
    return _page(_days())


@blueprint.post("/wear/limit")
def set_limit() -> str | tuple[str, int]:
    """Set the limit: the field `limit` of the form is a percentage or "off"."""
    typed = request.form.get("limit", "")
    days = _days()
    try:
        if not typed.strip():
            raise BadNumber(texts.text("wear-limit-missing"))
        percent = parse_fixed_share(typed)  # the same rule: 1 to 100 %, or "off"
    except BadNumber as error:
        return _page(days, message=str(error), kind="bad", typed=typed[:40]), 422
    try:
        call("SetWearLimit", percent)
    except AgentError as error:
        if error.about_user:
            raise
        return _page(days, message=str(error), kind="bad", typed=typed[:40]), error.http
    panel().board.expire()
    saved = texts.text("wear-limit-set", percent=percent) if percent else texts.text("wear-limit-off")
    return _page(days, message=saved, kind="ok")


def _page(days: int, **more: str) -> str:
    found, data = _data(days)
    titles = view(names=True).titles
    apps = everybody((app for app, _, _ in found.total.flows), titles)
    times = sorted(found.points)
    amounts = {at: model.by_app(found.points[at]) for at in times}
    totals = model.by_app(found.total)
    names = [name for name in apps if name in totals]
    size, unit = model.unit(max((sum(day.values()) for day in amounts.values()), default=0))
    end = slot(found.end, DAY) + DAY
    series: chart.Amounts = {name: [amounts[at].get(name, 0) / size for at in times] for name in names}
    return render_template(
        "wear/page.html",
        data=data,
        days=days,
        spans=model.SPANS,
        names=names,
        titles={name: title(name, titles) for name in apps},
        colors=colors(apps),
        chart=chart.stacked(chart.Frame(times, found.start, end, DAY), series, unit=unit),
        ticks=ticks(found.start, end),
        rows=[
            (
                moment(at)[:10],
                *model.texts_of(names, amounts[at]),
                duration(found.points[at].ms / 1000),
            )
            for at in reversed(times)
        ],
        totals=model.texts_of(names, totals),
        url=lambda endpoint: url_for(endpoint, days=days),
        **more,
    )
