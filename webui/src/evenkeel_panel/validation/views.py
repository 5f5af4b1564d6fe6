# SPDX-License-Identifier: Apache-2.0
"""Routes of the pages of validations. A plan and a comparison have URLs: their forms are the queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from evenkeel_api.features.validation import Changed, LeftOut, Measured, ValidationRow
from evenkeel_api.roles import ADMIN
from evenkeel_common.packets import Truncated
from flask import Blueprint, Response, abort, current_app, jsonify, render_template, request, url_for

from .. import texts
from ..agent import AgentError, AgentRefused
from ..context import Nav, call
from ..recorder.download import Downloads, Recording
from ..tables import csv_file
from . import model

if TYPE_CHECKING:
    from evenkeel_api.features.validation import (
        Validation,
        ValidationComparison,
        ValidationOrder,
        ValidationPlan,
        ValidationReport,
    )

blueprint = Blueprint("validation", __name__, template_folder="templates")
NAV = Nav(130, "Validation", "validation.page")
TYPES = {"json": "application/json", "html": "text/html"}

blueprint.add_app_template_filter(model.utc, "utc_minute")


def _overview() -> model.Overview:
    return model.Overview(call("GetValidation"), call("ListValidations"))


def _page(status: int = 200, **more: Any) -> tuple[str, int]:
    """The page. MORE may have a message with its kind."""
    data = _overview()
    made = render_template(
        "validation/page.html",
        **_live(data.validation),
        data=data,
        profiles=model.PROFILES,
        topics=model.TOPICS,
        report_states=model.STATES,
        **more,
    )
    return made, status


def _live(found: Validation) -> dict[str, Any]:
    return {
        "running": found,
        "left": model.duration(found.left_s),
        "done": model.percent_done(found),
        "effects": model.effects(found),
        "role": ADMIN,
    }


def _refused(error: AgentError, chosen: tuple[Any, ...] = ()) -> tuple[str, int]:
    """The page with the reason, and with what was CHOSEN. A refusal that is about the user is shown elsewhere."""
    if error.about_user:
        raise error
    return _page(error.http, message=str(error), kind="bad", chosen=chosen)


@blueprint.get("/validation")
def page() -> tuple[str, int]:
    return _page()


@blueprint.get("/validation.json")
def page_json() -> Response:
    return Response(msgspec.json.encode(_overview()), mimetype="application/json")


@blueprint.get("/validation.csv")
def page_csv() -> Response:
    return csv_file(ValidationRow, _overview().reports, "validations")


@blueprint.get("/validation/progress")
def progress() -> Response:
    """The part of the page that changes while a validation runs. After the end, the browser loads the whole page again.

    Not by HX-Refresh: after POST /validation/start it would send the form again, and so start another validation.
    """
    found: Validation = call("GetValidation")
    response = Response(render_template("validation/progress.html", **_live(found)))
    if found.state == "idle":
        response.headers["HX-Redirect"] = url_for("validation.page")
    return response


# a plan, and the start


def _order(fields: Any) -> tuple[Any, ...]:
    """The arguments of PlanValidation and StartValidation. Aborts if a choice is not in the lists."""
    chosen: ValidationOrder | None = model.order(fields)
    if chosen is None:
        abort(422, texts.text("validation-choice"))
    return chosen.profile, chosen.topic, chosen.compare, chosen.exclusive


@blueprint.get("/validation/plan")
def plan() -> tuple[str, int]:
    """What the validation would do. The button below it starts the validation."""
    wanted = _order(request.args)
    try:
        found: ValidationPlan = call("PlanValidation", *wanted)
    except AgentError as error:
        return _refused(error, wanted)
    made = render_template(
        "validation/plan.html",
        plan=found,
        lines=model.announcement(found),
        profile=wanted[0],
        topic=wanted[1],
        compare="yes" if wanted[2] else "no",
        exclusive="yes" if wanted[3] else "no",
        profiles=model.PROFILES,
        topics=model.TOPICS,
        role=ADMIN,
    )
    return made, 200


@blueprint.get("/validation/plan.json")
def plan_json() -> Response:
    return Response(
        msgspec.json.encode(call("PlanValidation", *_order(request.args))), mimetype="application/json"
    )


@blueprint.get("/validation/plan.csv")
def plan_csv() -> Response:
    """The cases that the validation would leave out."""
    return csv_file(LeftOut, call("PlanValidation", *_order(request.args)).left_out, "left-out")


@blueprint.post("/validation/start")
def start() -> tuple[str, int]:
    wanted = _order(request.form)
    try:
        call("StartValidation", *wanted)
    except AgentError as error:
        return _refused(error, wanted)
    return _page(message=texts.text("validation-begun"), kind="ok")


@blueprint.post("/validation/cancel")
def cancel() -> tuple[str, int]:
    try:
        call("CancelValidation")
    except AgentError as error:
        return _refused(error)
    return _page(message=texts.text("validation-cancelled"), kind="ok")


# reports


def _show(id_: str) -> ValidationReport:
    """The report ID. Aborts with 404 if it does not exist."""
    try:
        found: ValidationReport = call("ShowValidation", id_)
    except AgentRefused as error:
        if error.kind == "InvalidArgument":
            abort(404, texts.text("validation-unknown", id=id_[:40]))
        raise
    return found


@blueprint.get("/validation/<id_>")
def report(id_: str) -> str:
    return render_template(
        "validation/report.html",
        report=_show(id_),
        report_states=model.STATES,
        verdicts=model.VERDICTS,
    )


@blueprint.get("/validation/<id_>/summary.json")
def report_json(id_: str) -> Response:
    return Response(msgspec.json.encode(_show(id_)), mimetype="application/json")


@blueprint.get("/validation/<id_>/figures.csv")
def report_csv(id_: str) -> Response:
    return csv_file(Measured, _show(id_).figures, f"validation-{id_}")


@blueprint.get("/validation/<id_>/report.<kind>")
def download(id_: str, kind: str) -> Response | tuple[str, int] | tuple[Response, int]:
    """The whole report as a file. The browser saves it: no page of the panel shows it."""
    if kind not in TYPES:
        abort(404, texts.text("validation-format"))
    _show(id_)
    downloads: Downloads = current_app.extensions.setdefault("evenkeel-downloads", Downloads())
    if not downloads.begin():
        return _no_file(409, texts.text("not-downloaded", reason=texts.phrase("downloads-full")))
    try:
        descriptor: int = call("OpenValidation", id_, kind)
    except BaseException:
        downloads.end()
        raise
    try:
        content = Recording(descriptor, downloads.end)
    except Truncated as error:
        return _no_file(503, texts.text("not-downloaded", reason=str(error)))
    response = Response(content, mimetype=TYPES[kind])
    response.headers["Content-Disposition"] = f'attachment; filename="validation-{id_}.{kind}"'
    # nginx must not store the file: it would write it to the flash.
    response.headers["X-Accel-Buffering"] = "no"
    return response


def _no_file(status: int, message: str) -> tuple[str, int] | tuple[Response, int]:
    if request.path.endswith(".json"):
        return jsonify(error="Download", reason=message), status
    return _page(status, message=message, kind="bad")


# two reports


def _comparison() -> tuple[str, str, ValidationComparison | None]:
    """The two ids, and the comparison; None without two ids. Raises AgentError."""
    before, after = (request.args.get(side, "")[:40] for side in ("first", "second"))
    if not before or not after:
        return before, after, None
    return before, after, call("CompareValidations", before, after)


@blueprint.get("/validation/compare")
def compare() -> tuple[str, int]:
    try:
        before, after, found = _comparison()
    except AgentError as error:
        return _refused(error)
    if found is None:
        return _page(422, message=texts.text("validation-two"), kind="bad")
    return render_template("validation/compare.html", before=before, after=after, found=found), 200


@blueprint.get("/validation/compare.json")
def compare_json() -> Response | tuple[Response, int]:
    found = _comparison()[2]
    if found is None:
        return jsonify(error="InvalidArgument", reason=texts.text("validation-two")), 422
    return Response(msgspec.json.encode(found), mimetype="application/json")


@blueprint.get("/validation/compare.csv")
def compare_csv() -> Response:
    """The differences of /validation/compare.json."""
    before, after, found = _comparison()
    if found is None:
        abort(422, texts.text("validation-two"))
    return csv_file(Changed, found.changed, f"validation-{before}-{after}")
