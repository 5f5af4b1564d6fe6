# SPDX-License-Identifier: Apache-2.0
"""Routes of the page of wear. Each span has its own URL. /wear.json and /wear.csv have the same query."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from evenkeel_history.tiers import DAY, slot
from flask import render_template, request, url_for

from .. import texts
from ..agent import AgentError
from ..apps.model import BadNumber, parse_fixed_share
from ..context import Nav, call, panel, view
from ..history import chart
from ..history.model import colors, duration, everybody, title
from ..history.views import problem_of, reader, ticks
from ..parameters import read
from ..tables import Table
from ..times import moment
from ..twins import Feature
from . import model
from .model import Query

if TYPE_CHECKING:
    from evenkeel_history.reader import Found

    from ..board import View

blueprint = Feature("wear", __name__, template_folder="templates")
NAV = Nav(110, "Wear", "wear.page")


def load(days: int, shown: View) -> tuple[Found, list[model.FlashDevice]]:
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


@blueprint.twin("/wear.json", model.WearPage, query=Query)
def page_json(query: Query) -> model.WearPage:
    """The life of the flash devices, and what each app has written."""
    return _data(query.days)[1]


@blueprint.twin("/wear.csv", model.Written, query=Query)
def page_csv(query: Query) -> Table:
    """What each app has written to each device on each day."""
    return Table(_data(query.days)[1].rows, f"wear-{query.days}-days")


@blueprint.get("/wear")
def page() -> str:
    return _page(read(Query, request.args).days)


@blueprint.post("/wear/limit")
def set_limit() -> str | tuple[str, int]:
    """Set the limit: the field `limit` of the form is a percentage or "off"."""
    typed = request.form.get("limit", "")
    days = read(Query, request.args).days
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
