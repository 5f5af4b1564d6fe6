# SPDX-License-Identifier: Apache-2.0
"""Routes that add an app to the list, remove it, and undo both. They only list a unit: they do not install or delete it."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import msgspec
from evenkeel_api.features.apps import WEIGHT_DEFAULT
from flask import abort, redirect, render_template, request, url_for

from .. import texts
from ..agent import AgentError, AgentRefused
from ..context import call, panel, view
from . import model, undo
from .views import blueprint, whole_page

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
        app: App = call("AddApp", name, typed["title"] or name, typed["description"], unit, weight)
    except AgentError as error:
        if error.about_user:
            raise
        return _form(call("ListFreeUnits"), typed, str(error)), error.http
    undo.remember_added(panel().db, undo.listed(app, int(time.time())))
    return _to_app(name)


def _to_app(name: str) -> BaseResponse:
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
    """Remove the app. With the field `undo`: only if it is as it was when it was added."""
    panel().board.expire()  # an undo of the removal needs the present settings
    app = _listed(name)
    if "undo" in request.form and not undo.is_as_added(panel().db, app):
        problem = texts.text("add-app-undo-too-late", title=app.title)
        return render_template("apps/remove.html", app=app, problem=problem), 409
    try:
        directories = _directories(name)
        call("RemoveApp", name)
    except AgentError as error:
        if error.about_user:
            raise
        return render_template("apps/remove.html", app=app, problem=str(error)), error.http
    panel().board.expire()
    undo.remember_removed(panel().db, undo.listed(app, int(time.time()), directories))
    return redirect(url_for("apps.page"), 303)


def _directories(name: str) -> list[str]:
    """The priority directories of the app. None while ek-pool does not answer: the agent cannot forget them either then."""
    try:
        return [one.path for one in call("GetCache").directories if one.app == name]
    except AgentRefused as error:
        if error.kind != "Failed":
            raise
        return []


@blueprint.post("/apps/<name>/add-again")
def add_again(name: str) -> BaseResponse | tuple[str, int]:
    """Undo the removal of the app: add it with all settings that it had."""
    found = undo.removed(panel().db, view().apps, int(time.time()))
    gone = next((each for each in found if each.name == name), None)
    if gone is None:
        return whole_page(409, texts.text("remove-app-undo-too-late", app=name[:32]))
    try:
        call("AddApp", name, gone.title, gone.description, gone.unit, gone.weight)
    except AgentError as error:
        if error.about_user:
            raise
        return whole_page(error.http, str(error))
    undo.forget_removed(panel().db, name)
    undo.remember_added(panel().db, msgspec.structs.replace(gone, at=int(time.time())))
    settings: list[tuple[Any, ...]] = [("AddPriorityDirectory", name, path) for path in gone.directories]
    if gone.fixed_share:
        settings.append(("SetFixedShare", name, gone.fixed_share))
    reasons = [reason for setting in settings if (reason := _not_set(*setting))]
    if not reasons:
        return _to_app(name)
    panel().board.expire()
    return whole_page(503, texts.text("add-app-again-partly", title=gone.title, reasons=" ".join(reasons)))


def _not_set(method: str, *values: Any) -> str:
    """Call METHOD. Returns why it failed, as a sentence; empty if it did not."""
    try:
        call(method, *values)
    except AgentError as error:
        # the agent has kept the directory, because it could not forget it
        return "" if error.note.code == "directory-listed" else str(error)
    return ""
