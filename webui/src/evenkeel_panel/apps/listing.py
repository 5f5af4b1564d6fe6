# SPDX-License-Identifier: Apache-2.0
"""Routes that add an app to the list and remove it. They only list a unit: they do not install or delete it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from evenkeel_api.features.apps import WEIGHT_DEFAULT
from flask import abort, redirect, render_template, request, url_for

from .. import texts
from ..agent import AgentRefused
from ..context import call, panel, view
from . import model
from .views import blueprint

if TYPE_CHECKING:
    from evenkeel_api.features.apps import App
    from werkzeug.wrappers import Response as BaseResponse

FIELDS = ("unit", "title", "name", "description", "weight")
# more than any field may have, so that the agent's message about the length is shown
MAX_TYPED = 1100


def short_name(unit: str) -> str:
    """A name for the app of UNIT: `Dash_Cam@front.service` → `dash-cam-front`."""
    stem = unit.rpartition(".")[0].lower()
    return re.sub("[^a-z0-9]+", "-", stem).strip("-")[:32].rstrip("-")


@blueprint.get("/apps/add")
def form() -> str:
    shown = dict.fromkeys(FIELDS, "") | {"weight": str(WEIGHT_DEFAULT)}
    free = call("ListFreeUnits")
    if len(free) == 1:
        shown["unit"] = free[0]
    return _form(free, shown)


def _form(free: list[str], shown: dict[str, str], problem: str = "", field: str = "") -> str:
    return render_template("apps/add.html", free=free, shown=shown, problem=problem, field=field)


@blueprint.post("/apps/add")
def add() -> BaseResponse | str | tuple[str, int]:
    typed = {field: request.form.get(field, "").strip()[:MAX_TYPED] for field in FIELDS}
    unit = typed["unit"]
    if not unit:
        return _form(call("ListFreeUnits"), typed, texts.text("add-app-no-unit"), "unit"), 422
    if "." not in unit:
        unit += ".service"
    name = typed["name"] or short_name(unit)
    try:
        weight = model.parse_weight(typed["weight"])
    except model.BadNumber as error:
        return _form(call("ListFreeUnits"), typed, str(error), "weight"), 422
    try:
        call("AddApp", name, typed["title"] or name, typed["description"], unit, weight)
    except AgentRefused as error:
        if error.kind in ("NotLoggedIn", "PasswordMustChange", "NotAuthorized"):
            raise
        return _form(call("ListFreeUnits"), typed, str(error)), error.http
    panel().board.expire()
    return redirect(url_for("apps.page") + f"#app-{name}", 303)


def _listed(name: str) -> App:
    app = next((app for app in view().apps if app.name == name), None)
    if app is None:
        abort(404, texts.text("no-such-app", app=name[:32]))
    return app


@blueprint.get("/apps/<name>/remove")
def ask(name: str) -> str:
    """A page that says what the removal does, and asks."""
    return render_template("apps/remove.html", app=_listed(name), problem="")


@blueprint.post("/apps/<name>/remove")
def remove(name: str) -> BaseResponse | tuple[str, int]:
    app = _listed(name)
    try:
        call("RemoveApp", name)
    except AgentRefused as error:
        if error.kind in ("NotLoggedIn", "PasswordMustChange", "NotAuthorized"):
            raise
        return render_template("apps/remove.html", app=app, problem=str(error)), error.http
    panel().board.expire()
    return redirect(url_for("apps.page"), 303)
