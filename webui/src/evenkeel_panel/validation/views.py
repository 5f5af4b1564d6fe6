# SPDX-License-Identifier: Apache-2.0
"""Routes of the pages of validations. A plan and a comparison have URLs: their forms are the queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenkeel_api.features.validation import (
    Changed,
    LeftOut,
    Measured,
    OneValidation,
    TwoValidations,
    ValidationComparison,
    ValidationPlan,
    ValidationReport,
    ValidationRow,
)
from evenkeel_api.roles import ADMIN
from evenkeel_common.packets import Truncated
from flask import Response, abort, current_app, render_template, request, url_for

from .. import texts
from ..agent import AgentError, AgentRefused
from ..context import Nav, call
from ..parameters import BadParameter, read
from ..recorder.download import Downloads, Recording
from ..tables import Table
from ..twins import JSON, Feature
from . import model

if TYPE_CHECKING:
    from evenkeel_api.features.validation import Validation

blueprint = Feature("validation", __name__, template_folder="templates")
NAV = Nav(130, "Validation", "validation.page")
TYPES = {"json": JSON, "html": "text/html"}

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


@blueprint.twin("/validation.json", model.Overview, "GetValidation", "ListValidations")
def page_json() -> model.Overview:
    """The validation that runs, and all reports."""
    return _overview()


@blueprint.twin("/validation.csv", ValidationRow, "GetValidation", "ListValidations")
def page_csv() -> Table:
    """All reports of validations, the newest first."""
    return Table(_overview().reports, "validations")


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


def _plan(order: model.Order) -> ValidationPlan:
    found: ValidationPlan = call("PlanValidation", *order.arguments)
    return found


@blueprint.get("/validation/plan")
def plan() -> tuple[str, int]:
    """What the validation would do. The button below it starts the validation."""
    order = read(model.Order, request.args)
    try:
        found = _plan(order)
    except AgentError as error:
        return _refused(error, order.arguments)
    made = render_template(
        "validation/plan.html",
        plan=found,
        lines=model.announcement(found),
        profile=order.profile,
        topic=order.topic,
        compare=order.compare,
        exclusive=order.exclusive,
        profiles=model.PROFILES,
        topics=model.TOPICS,
        role=ADMIN,
    )
    return made, 200


@blueprint.twin("/validation/plan.json", ValidationPlan, "PlanValidation", query=model.Order)
def plan_json(order: model.Order) -> ValidationPlan:
    """What a validation would do. Nothing is written."""
    return _plan(order)


@blueprint.twin("/validation/plan.csv", LeftOut, "PlanValidation", query=model.Order)
def plan_csv(order: model.Order) -> Table:
    """The cases that a validation would leave out."""
    return Table(_plan(order).left_out, "left-out")


@blueprint.post("/validation/start")
def start() -> tuple[str, int]:
    wanted = read(model.Order, request.form).arguments
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


@blueprint.twin("/validation/<id>/summary.json", ValidationReport, "ShowValidation", query=OneValidation)
def report_json(one: OneValidation) -> ValidationReport:
    """The report of a validation, in short."""
    return _show(one.id)


@blueprint.twin("/validation/<id>/figures.csv", Measured, "ShowValidation", query=OneValidation)
def report_csv(one: OneValidation) -> Table:
    """The figures of a validation."""
    return Table(_show(one.id).figures, f"validation-{one.id}")


@blueprint.twin(
    "/validation/<id>/report.json",
    dict[str, Any],
    "OpenValidation",
    query=OneValidation,
    errors={409: "Too many downloads run."},
)
def saved_json(one: OneValidation) -> Response:
    """The whole report of a validation: the `report.json` of `ek-validate`."""
    return _download(one.id, "json")


@blueprint.get("/validation/<id_>/report.html")
def saved_html(id_: str) -> Response:
    return _download(id_, "html")


def _download(id_: str, kind: str) -> Response:
    """The whole report as a file. The browser saves it: no page of the panel shows it."""
    _show(id_)
    downloads: Downloads = current_app.extensions.setdefault("evenkeel-downloads", Downloads())
    if not downloads.begin():
        abort(409, texts.text("not-downloaded", reason=texts.phrase("downloads-full")))
    try:
        descriptor: int = call("OpenValidation", id_, kind)
    except BaseException:
        downloads.end()
        raise
    try:
        content = Recording(descriptor, downloads.end)
    except Truncated as error:
        abort(503, texts.text("not-downloaded", reason=str(error)))
    response = Response(content, mimetype=TYPES[kind])
    response.headers["Content-Disposition"] = f'attachment; filename="validation-{id_}.{kind}"'
    # nginx must not store the file: it would write it to the flash.
    response.headers["X-Accel-Buffering"] = "no"
    return response


# two reports


def _compare(two: TwoValidations) -> ValidationComparison:
    found: ValidationComparison = call("CompareValidations", two.first, two.second)
    return found


@blueprint.get("/validation/compare")
def compare() -> tuple[str, int]:
    try:
        two = read(TwoValidations, request.args)
        found = _compare(two)
    except BadParameter:
        return _page(422, message=texts.text("validation-two"), kind="bad")
    except AgentError as error:
        return _refused(error)
    return render_template("validation/compare.html", before=two.first, after=two.second, found=found), 200


@blueprint.twin("/validation/compare.json", ValidationComparison, "CompareValidations", query=TwoValidations)
def compare_json(two: TwoValidations) -> ValidationComparison:
    """The comparison of two reports."""
    return _compare(two)


@blueprint.twin("/validation/compare.csv", Changed, "CompareValidations", query=TwoValidations)
def compare_csv(two: TwoValidations) -> Table:
    """The figures that differ between two reports."""
    return Table(_compare(two).changed, f"validation-{two.first}-{two.second}")
