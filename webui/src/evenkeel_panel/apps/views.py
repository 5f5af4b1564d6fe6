# SPDX-License-Identifier: Apache-2.0
"""Routes of the apps page. Every form also works without JavaScript. The answer is then the whole page."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec
from flask import Response, abort, make_response, redirect, render_template, request, url_for
from msgspec.structs import replace

from .. import live, texts
from ..agent import AgentError, AgentUnreachable
from ..context import Nav, by_htmx, call, panel, view
from ..history.changes import effect
from ..history.query import Pair
from ..tables import Table
from ..twins import Feature
from . import model, undo, what_if

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evenkeel_api.features.apps import App
    from evenkeel_api.messages import Note
    from werkzeug.wrappers import Response as BaseResponse

    from ..board import View

blueprint = Feature("apps", __name__, template_folder="templates")
NAV = Nav(20, "Apps", "apps.page")

for _filter in (model.megabytes, model.percent, model.latency, model.stat_label, model.stat_value):
    blueprint.add_app_template_filter(_filter)


def _whole_page(**more: Any) -> str:
    shown = view()
    undos = undo.offered(panel().db, shown.apps)
    effects = {name: span.url() for name in undos if (span := _spans(undos[name], name))}
    return render_template(
        "apps/page.html",
        **data(shown),
        undo=undos,
        effects=effects,
        as_added={app.name for app in shown.apps if undo.is_as_added(panel().db, app)},
        removed=undo.removed(panel().db, shown.apps, int(time.time())),
        **more,
    )


def whole_page(status: int, message: str) -> tuple[str, int]:
    """The page with MESSAGE about a change that failed, at least in part."""
    return _whole_page(message=message), status


def _spans(changes: Mapping[str, undo.Change], name: str) -> Pair | None:
    """The spans before and after the last of CHANGES of the app NAME, as the page History compares them."""
    found = undo.newest(changes)
    return Pair(*effect(found[1].at, int(time.time())), name) if found else None


def data(shown: View | None = None) -> dict[str, Any]:
    """The data of the page and its fragments: the fields of /apps.json."""
    found = model.page_data(shown or view())
    return {name: getattr(found, name) for name in found.__struct_fields__}


@blueprint.get("/apps")
def page() -> str:
    return _whole_page(changed="changed" in request.args)


@blueprint.get("/apps/rows")
def rows() -> Response:
    """Only the figures, as out-of-band swaps for htmx. They never replace an input."""
    shown = view()
    return live.answer(shown, "text/html", lambda: render_template("apps/rows.html", **data(shown)))


@blueprint.twin("/apps.json", model.AppsPage, "GetSnapshot", states=True, shared=True)
def page_json() -> Response:
    """The apps and their figures. If the agent does not answer: the last known apps, and no figures."""
    shown = view()
    return live.answer(shown, "application/json", lambda: msgspec.json.encode(model.page_data(shown)))


@blueprint.twin("/apps.csv", model.AppFigures, "GetSnapshot", states=True)
def page_csv() -> Table:
    """The apps and their figures."""
    shown = view()
    return Table(model.page_data(shown).apps, "apps", 200 if shown.live else 503)


@blueprint.get("/apps/<name>/what-if")
def preview(name: str) -> str:
    """What all apps get when all are busy and this app has the `weight` or `fixed_share` of the query.

    Empty if the value is the present one, or if it is bad: the form says why as soon as it is sent.
    """
    app = _known(name)
    try:
        if "weight" in request.args:
            other = replace(app, weight=model.parse_weight(request.args["weight"]))
        else:
            other = replace(app, fixed_share=model.parse_fixed_share(request.args.get("fixed_share", "")))
    except model.BadNumber:
        return ""
    if other == app or app.sub_state == model.NOT_FOUND:
        return ""
    apps = view().apps
    try:
        parts = model.parts(apps, other)
    except what_if.TooMuch:
        left = 100 - sum(each.fixed_share for each in apps if each.name != name)
        return render_template("message.html", kind="wait", text=texts.text("what-if-too-much", left=left))
    titles = view().titles
    listed = ", ".join(f"{titles[each]} {part * 100:.1f} %" for each, part in parts.items())
    # a weight has no effect on an app with a fixed share
    code = "what-if-weight" if "weight" in request.args and app.fixed_share else "what-if"
    return render_template("message.html", kind="info", text=texts.text(code, parts=listed, title=app.title))


@blueprint.get("/apps/<name>/effect")
def measured(name: str) -> str:
    """What the last change of the app has changed in its figures: a fragment, because it reads the history."""
    from ..history.views import compared  # the page History uses the model of this page

    changes = undo.offered(panel().db, [_known(name)])[name]
    newest, spans = undo.newest(changes), _spans(changes, name)
    if newest is None or spans is None:
        return ""
    field, change = newest
    rows = {(row.direction, row.measure): row for row in compared(spans).rows if row.app == name}
    return render_template(
        "apps/effect.html",
        field=field,
        change=change,
        url=spans.url(),
        rows=rows,
        now=int(time.time()),
        spans=spans,
    )


@blueprint.post("/apps/<name>/weight")
def weight(name: str) -> BaseResponse:
    app = _known(name)
    typed = request.form.get("weight", "")
    values: tuple[int, ...]
    if "undo" in request.form:
        change = _undone(app, "weight")
        if change is None:
            return _refused(app, 409, texts.text("weight-undo-too-late", value=app.weight), typed)
        typed = str(change.before)
        method, values = "UndoWeight", (change.before, change.after)
    else:
        try:
            method, values = "SetWeight", (model.parse_weight(typed),)
        except model.BadNumber as error:
            return _refused(app, 422, str(error), typed)
    try:
        changed = call(method, name, *values)
    except AgentError as error:
        return _refused(app, error.http, _failed("weight", str(app.weight), error), typed)
    panel().board.changed(changed)
    undo.remember(panel().db, name, "weight", app.weight, changed.weight, int(time.time()))
    return _done(name, _saved(texts.phrase("weight-is", value=changed.weight), changed, changed.applied))


@blueprint.post("/apps/<name>/fixed-share")
def fixed_share(name: str) -> BaseResponse:
    """The form has the field `fixed_share`: a percentage or "off". The button Off adds the field `off`, which prevails."""
    app = _known(name)
    typed = request.form.get("fixed_share", "")
    values: tuple[int, ...]
    if "undo" in request.form:
        change = _undone(app, "fixed_share")
        if change is None:
            text = texts.text("fixed-share-undo-too-late", value=_percent(app))
            return _refused(app, 409, text, typed, "fixed_share")
        typed = str(change.before) if change.before else "off"
        method, values = "UndoFixedShare", (change.before, change.after)
    else:
        try:
            wanted = 0 if "off" in request.form else model.parse_fixed_share(typed)
            method, values = "SetFixedShare", (wanted,)
        except model.BadNumber as error:
            return _refused(app, 422, str(error), typed, "fixed_share")
    try:
        changed = call(method, name, *values)
    except AgentError as error:
        return _refused(app, error.http, _failed("fixed-share", _percent(app), error), typed, "fixed_share")
    panel().board.changed(changed)
    undo.remember(panel().db, name, "fixed_share", app.fixed_share, changed.fixed_share, int(time.time()))
    share = changed.fixed_share
    if not share and changed.fixed_share_applied:
        return _done(name, texts.text("fixed-share-ended"))
    text = _saved(
        texts.phrase("fixed-share-is", value=share) if share else texts.phrase("fixed-share-off"),
        changed,
        changed.fixed_share_applied,
        changed.fixed_share_problem,
    )
    return _done(name, text, "ok" if not changed.fixed_share_problem else "wait")


def _percent(app: App) -> str:
    return f"{app.fixed_share} %" if app.fixed_share else "off"


def _undone(app: App, field: str) -> undo.Change | None:
    """The change that the button Undo of the form names by its value; None if that value is not the present one."""
    change = undo.last(panel().db, app, field)
    return change if change and request.form.get("undo") == str(change.after) else None


def _saved(what: str, app: App, applied: bool, problem: list[Note] | None = None) -> str:
    if applied:
        return texts.text("in-force", what=what)
    if problem:
        return texts.text("saved-but", what=what, problem=texts.sentence(problem[0]))
    if app.active_state == "active":
        return texts.text("saved-not-yet", what=what)
    return texts.text("saved-at-start", what=what, title=app.title)


def _failed(what: str, now: str, error: AgentError) -> str:
    """Why WHAT was not changed, and its value. It was NOW when the panel last saw it."""
    if error.note.code == f"{what}-undo-too-late":
        panel().board.expire()
        return str(error)
    state = "unknown" if isinstance(error, AgentUnreachable) and error.sent else "still"
    return f"{error} {texts.text(f'{what}-{state}', value=now)}"


@blueprint.post("/apps/<name>/start")
def start(name: str) -> BaseResponse:
    return _control(_known(name), runs=True)


@blueprint.post("/apps/<name>/stop")
def stop(name: str) -> BaseResponse:
    return _control(_known(name), runs=False)


@blueprint.post("/apps/<name>/undo")
def undo_running(name: str) -> BaseResponse:
    """Undo the last start or stop."""
    app = _known(name)
    change = _undone(app, "running")
    if change is None:
        return _refused(app, 409, texts.text("running-undo-too-late", title=app.title), None)
    return _control(app, runs=bool(change.before))


def _control(app: App, *, runs: bool) -> BaseResponse:
    """Start or stop APP. RUNS: whether it runs afterwards."""
    name, method, state = app.name, *(("StartApp", "starting") if runs else ("StopApp", "stopping"))
    text, kind = texts.text(state, title=app.title), "ok"
    try:
        call(method, name)
    except AgentError as error:
        panel().board.expire()
        # If the agent got this call and still answers other calls, it is waiting for the unit.
        if not (isinstance(error, AgentUnreachable) and error.sent and view().live):
            return _refused(app, error.http, str(error), None)
        text, kind = texts.text(f"{state}-slowly", title=app.title), "wait"
    panel().board.expire()
    before = undo.present(app, "running")
    if before >= 0:
        undo.remember(panel().db, name, "running", before, int(runs), int(time.time()))
    return _done(name, text, kind)


def _known(name: str) -> App:
    """The app, or an error page if the board has no such app."""
    shown = view()
    found = next((app for app in shown.apps if app.name == name), None)
    if found is None and not shown.live and not shown.apps:
        abort(503, texts.text("no-lookup", reason=shown.reason, app=name[:32]))
    if found is None:
        abort(404, texts.text("no-such-app", app=name[:32]))
    return found


def _done(name: str, text: str, kind: str = "ok") -> BaseResponse:
    if not by_htmx():
        return redirect(url_for("apps.page") + f"#app-{name}", 303)
    shown = view()
    offered = undo.offered(panel().db, (app for app in shown.apps if app.name == name))
    return make_response(render_template("apps/done.html", **data(shown), undo=offered, text=text, kind=kind))


def _refused(app: App, code: int, text: str, typed: str | None, field: str = "weight") -> BaseResponse:
    """The answer to a refused form: the reason TEXT. Without htmx: the whole page, with TYPED in the input of FIELD."""
    if by_htmx():
        return make_response(render_template("message.html", kind="bad", text=text), code)
    refused = {app.name: (field, text, None if typed is None else typed[:40])}
    return make_response(_whole_page(refused=refused), code)
