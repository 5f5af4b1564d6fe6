# SPDX-License-Identifier: Apache-2.0
"""Routes of the apps page. Every form works without JavaScript too: then the whole page answers."""

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

# what each refusal of the agent is in HTTP; anything else is 503, try again
CODES = {
    "UnknownApp": 404,
    "InvalidWeight": 422,
    "InvalidPerformance": 422,
    "NotAuthorized": 403,
    "UnitNotFound": 409,
    "Failed": 503,
}


def data() -> dict[str, Any]:
    """The one query behind the page, its fragments and its JSON twin."""
    return model.page_data(panel().board.view())


@blueprint.get("/apps")
def page() -> str:
    return render_template("apps/page.html", **data(), changed="changed" in request.args)


@blueprint.get("/apps/rows")
def rows() -> str:
    """Figures only, each an out-of-band swap into the page: no input is ever replaced."""
    return render_template("apps/rows.html", **data())


@blueprint.get("/apps.json")
def page_json() -> tuple[Response, int]:
    """503 with the last known apps, and no figures, when the agent does not answer."""
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


@blueprint.post("/apps/<name>/performance")
def performance(name: str) -> BaseResponse:
    """`performance` in percent, or `off`, the button beside it."""
    app = _known(name)
    typed = request.form.get("performance", "")
    try:
        wanted = 0 if "off" in request.form else model.parse_performance(typed)
    except model.BadNumber as error:
        return _refused(app, 422, str(error), typed, "performance")
    try:
        changed = panel().board.set_performance(name, wanted)
    except AgentError as error:
        now = f"{app.performance} %" if app.performance else "off"
        text = f"{_sentence(str(error))} {_unchanged('performance', now, error)}"
        return _refused(app, _code(error), text, typed, "performance")
    panel().db.audit(g.user, client(), "set-performance", f"{name} {app.performance} % -> {wanted} %")
    if not wanted and changed.performance_applied:
        return _done(name, "By weight again.")
    what = f"Performance {wanted} %" if wanted else "By weight again: that"
    text = _saved(what, changed, changed.performance_applied, changed.performance_problem)
    return _done(name, text, "ok" if not changed.performance_problem else "wait")


def _saved(what: str, app: App, applied: bool, problem: str = "") -> str:
    if applied:
        return f"{what} is in force."
    if problem:
        return f"{what} is saved. {_sentence(problem)}"
    if app.active_state == "active":
        return f"{what} is saved, and not in force yet."
    return f"{what} is saved. It applies when {app.title} starts."


def _unchanged(what: str, now: str, error: AgentError) -> str:
    unsure = isinstance(error, AgentUnreachable) and error.asked
    return f"Whether the {what} is still {now} is not known." if unsure else f"The {what} stays {now}."


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


@blueprint.post("/apps/<name>/start")
def start(name: str) -> BaseResponse:
    return _control(name, "start", panel().board.start_app, "is starting")


@blueprint.post("/apps/<name>/stop")
def stop(name: str) -> BaseResponse:
    return _control(name, "stop", panel().board.stop_app, "is stopping")


def _control(name: str, verb: str, act: Callable[[str], None], doing: str) -> BaseResponse:
    app = _known(name)
    text, kind = f"{app.title} {doing}.", "ok"
    try:
        act(name)
    except AgentError as error:
        # who was asked and answers others waits for the unit
        if not (isinstance(error, AgentUnreachable) and error.asked and panel().board.view().live):
            return _refused(app, _code(error), str(error), None)
        text, kind = f"{app.title} takes long to {verb}.", "wait"
    panel().db.audit(g.user, client(), f"{verb}-app", name)
    return _done(name, text, kind)


def _known(name: str) -> App:
    board = panel().board
    app = board.app(name)
    if app is None:
        view = board.view()
        if not view.live and not view.apps:
            abort(503, f"{view.reason} Whether there is an app “{name[:32]}” cannot be told.")
        abort(404, f"There is no app “{name[:32]}” on this board. Nothing was changed.")
    return app


def _code(error: AgentError) -> int:
    return CODES.get(error.kind, 503) if isinstance(error, AgentRefused) else 503


def _done(name: str, text: str, kind: str = "ok") -> BaseResponse:
    if not by_htmx():
        return redirect(url_for("apps.page") + f"#app-{name}", 303)
    return make_response(render_template("apps/done.html", **data(), text=text, kind=kind))


def _refused(app: App, code: int, text: str, typed: str | None, field: str = "weight") -> BaseResponse:
    """The reason beside the input of FIELD, which keeps what was typed. Without htmx, the page with both."""
    if by_htmx():
        return make_response(render_template("message.html", kind="bad", text=text), code)
    refused = {app.name: (field, text, None if typed is None else typed[:40])}
    return make_response(render_template("apps/page.html", **data(), refused=refused), code)
