# SPDX-License-Identifier: Apache-2.0
"""Routes of the apps page. Every form also works without JavaScript: then the answer is the whole page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import (
    Blueprint,
    Response,
    abort,
    g,
    jsonify,
    make_response,
    redirect,
    render_template,
    request,
    url_for,
)

from ..agent import AgentError, AgentRefused, AgentUnreachable, App
from ..context import by_htmx, client, panel
from . import model

if TYPE_CHECKING:
    from collections.abc import Callable

    from werkzeug.wrappers import Response as BaseResponse

blueprint = Blueprint("apps", __name__, template_folder="templates")

for _filter in (model.megabytes, model.percent, model.latency, model.stat_label, model.stat_value):
    blueprint.add_app_template_filter(_filter)

# HTTP status of each error of the agent; any other error is 503
CODES = {
    "UnknownApp": 404,
    "InvalidWeight": 422,
    "InvalidFixedShare": 422,
    "NotAuthorized": 403,
    "UnitNotFound": 409,
    "Failed": 503,
}


def data() -> dict[str, Any]:
    """The data of the page, its fragments and /apps.json."""
    return model.page_data(panel().board.view())


@blueprint.get("/apps")
def page() -> str:
    return render_template("apps/page.html", **data(), changed="changed" in request.args)


@blueprint.get("/apps/rows")
def rows() -> str:
    """The figures only, as htmx out-of-band swaps. They never replace an input."""
    return render_template("apps/rows.html", **data())


@blueprint.get("/apps.json")
def page_json() -> tuple[Response, int]:
    """503 with the last known apps and without figures if the agent does not answer."""
    content = data()
    return jsonify(content), 200 if content["agent"]["reachable"] else 503


@blueprint.post("/apps/<name>/weight")
def weight(name: str) -> BaseResponse:
    app = _known(name)
    typed = request.form.get("weight", "")
    try:
        wanted = model.parse_weight(typed)
    except model.BadNumber as error:
        return _refused(app, 422, str(error), typed)
    try:
        changed = panel().board.set_weight(name, wanted)
    except AgentError as error:
        text = f"{error} {_unchanged('weight', str(app.weight), error)}"
        return _refused(app, _code(error), text, typed)
    panel().db.audit(g.user, client(), "set-weight", f"{name} {app.weight} -> {wanted}")
    return _done(name, _saved(f"Weight {changed.weight}", changed, changed.applied))


@blueprint.post("/apps/<name>/fixed-share")
def fixed_share(name: str) -> BaseResponse:
    """Field `fixed_share` in percent or "off"; or a field `off`, which the button Off sends."""
    app = _known(name)
    typed = request.form.get("fixed_share", "")
    try:
        wanted = 0 if "off" in request.form else model.parse_fixed_share(typed)
    except model.BadNumber as error:
        return _refused(app, 422, str(error), typed, "fixed_share")
    try:
        changed = panel().board.set_fixed_share(name, wanted)
    except AgentError as error:
        now = f"{app.fixed_share} %" if app.fixed_share else "off"
        text = f"{_sentence(str(error))} {_unchanged('fixed share', now, error)}"
        return _refused(app, _code(error), text, typed, "fixed_share")
    panel().db.audit(g.user, client(), "set-fixed-share", f"{name} {app.fixed_share} % -> {wanted} %")
    if not wanted and changed.fixed_share_applied:
        return _done(name, "The fixed share is off. The weight decides again.")
    text = _saved(
        f"Fixed share {wanted} %" if wanted else "Fixed share “off”",
        changed,
        changed.fixed_share_applied,
        changed.fixed_share_problem,
    )
    return _done(name, text, "ok" if not changed.fixed_share_problem else "wait")


def _saved(what: str, app: App, applied: bool, problem: str = "") -> str:
    if applied:
        return f"{what} is in force."
    if problem:
        return f"{what} is saved. {_sentence(problem)}"
    if app.active_state == "active":
        return f"{what} is saved, but not in force yet."
    return f"{what} is saved. It applies when {app.title} starts."


def _unchanged(what: str, now: str, error: AgentError) -> str:
    if isinstance(error, AgentUnreachable) and error.sent:
        return f"The {what} was {now} and may have changed. Look again in a moment."
    return f"The {what} is still {now}."


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


@blueprint.post("/apps/<name>/start")
def start(name: str) -> BaseResponse:
    return _control(name, "start", panel().board.start_app, "starting")


@blueprint.post("/apps/<name>/stop")
def stop(name: str) -> BaseResponse:
    return _control(name, "stop", panel().board.stop_app, "stopping")


def _control(name: str, action: str, call: Callable[[str], None], state: str) -> BaseResponse:
    app = _known(name)
    text, kind = f"{app.title} is {state}.", "ok"
    try:
        call(name)
    except AgentError as error:
        # If the agent got this call and still answers other calls, it is waiting for the unit.
        if not (isinstance(error, AgentUnreachable) and error.sent and panel().board.view().live):
            return _refused(app, _code(error), str(error), None)
        text, kind = f"{app.title} takes a long time to {action}. Watch its state on this page.", "wait"
    panel().db.audit(g.user, client(), f"{action}-app", name)
    return _done(name, text, kind)


def _known(name: str) -> App:
    """The app, or an error page if the board has no such app."""
    board = panel().board
    app = board.app(name)
    if app is None:
        view = board.view()
        if not view.live and not view.apps:
            abort(
                503, f"{view.reason} The panel cannot look up the app “{name[:32]}”. Try again in a moment."
            )
        abort(404, f"There is no app “{name[:32]}” on this board. Nothing was changed. Reload the page.")
    return app


def _code(error: AgentError) -> int:
    return CODES.get(error.kind, 503) if isinstance(error, AgentRefused) else 503


def _done(name: str, text: str, kind: str = "ok") -> BaseResponse:
    if not by_htmx():
        return redirect(url_for("apps.page") + f"#app-{name}", 303)
    return make_response(render_template("apps/done.html", **data(), text=text, kind=kind))


def _refused(app: App, code: int, text: str, typed: str | None, field: str = "weight") -> BaseResponse:
    """The reason, for display at the input of `field`. Without htmx: the whole page, with what the user typed."""
    if by_htmx():
        return make_response(render_template("message.html", kind="bad", text=text), code)
    refused = {app.name: (field, text, None if typed is None else typed[:40])}
    return make_response(render_template("apps/page.html", **data(), refused=refused), code)
