# SPDX-License-Identifier: Apache-2.0
"""Routes of the system page and of the journal. The journal has a URL for each view: its form is the query."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from evenkeel_api.features.system import Journal, Line, System
from evenkeel_api.roles import ADMIN, includes
from evenkeel_common.packets import Truncated
from flask import (
    Response,
    current_app,
    get_template_attribute,
    jsonify,
    render_template,
    request,
)

from .. import texts
from ..agent import AgentError, AgentRefused, AgentUnreachable
from ..context import Nav, by_token, call, identity
from ..parameters import BadParameter, read
from ..recorder.download import Downloads, Recording
from ..tables import Table
from ..twins import Feature
from . import model

if TYPE_CHECKING:
    from collections.abc import Callable

    from werkzeug.wrappers import Response as BaseResponse

blueprint = Feature("system", __name__, template_folder="templates")
NAV = Nav(220, "System", "system.page")
# page that the browser shows after a restart, by the value `back` of the form
BACK = {"update": "/update", "system": "/system"}


def _admin() -> bool:
    who = identity()
    return who is not None and includes(who.role, ADMIN)


def _zones(chosen: str) -> dict[str, Any]:
    """The names of the time zones, and the options of their list. CHOSEN is selected.

    The zones are files of the image, which is read-only. So the panel asks for them, and makes the options, once.
    """
    option = get_template_attribute("system/zones.html", "option")
    found: dict[str, Any] | None = current_app.extensions.get("evenkeel-zones")
    if found is None:
        names = call("ListTimeZones")
        options = get_template_attribute("system/zones.html", "options")
        found = {"names": frozenset(names), "options": options(names)}
        if names:
            current_app.extensions["evenkeel-zones"] = found
    return found | {"options": found["options"].replace(option(chosen), option(chosen, selected=True))}


def page_with(status: int = 200, **more: Any) -> tuple[str, int]:
    """The page. MORE may have a message with its kind, and what was typed into which field."""
    found: System = call("GetSystem")
    typed = {
        "name": found.name,
        "zone": found.zone,
        "servers": " ".join(found.servers),
        **more.pop("typed", {}),
    }
    try:
        certificate = call("GetCertificate")
    except AgentError as error:
        if getattr(error, "kind", "") in ("NotLoggedIn", "PasswordMustChange"):
            raise
        certificate, more["no_certificate"] = None, str(error)
    made = render_template(
        "system/page.html",
        system=found,
        certificate=certificate,
        left=model.time_left(certificate, found.at) if certificate else None,
        clocks=model.CLOCKS,
        clock_text=texts.text(f"clock-{found.clock}", server=found.server or "a time server"),
        local=model.local_time(found.at, found.offset_s),
        zones=_zones(typed["zone"]) if _admin() else None,
        typed=typed,
        **more,
    )
    return made, status


def refused(error: AgentError, **more: Any) -> tuple[str, int]:
    """The page with the reason, and with what was typed. A refusal that is about the user is shown elsewhere."""
    if error.about_user:
        raise error
    return page_with(error.http, message=str(error), kind="bad", **more)


def _change(
    field: str, method: str, read: Callable[[str], Any], done: Callable[[Any], str]
) -> tuple[str, int]:
    """Read FIELD of the form, and give its value to METHOD of the agent."""
    typed = request.form.get(field, "")[:4000]
    more: dict[str, Any] = {"typed": {field: typed}, "field": field}
    try:
        value = read(typed)
    except model.BadInput as error:
        return page_with(422, message=texts.text(error.code, **error.parameters), kind="bad", **more)
    try:
        call(method, value)
    except AgentError as error:
        return refused(error, **more)
    return page_with(message=done(value), kind="ok")


@blueprint.get("/system")
def page() -> tuple[str, int]:
    return page_with()


@blueprint.twin("/system.json", System, "GetSystem")
def page_json() -> System:
    """The name of the board, and its clock."""
    found: System = call("GetSystem")
    return found


@blueprint.post("/system/name")
def name() -> tuple[str, int]:
    return _change(
        "name", "SetHostName", model.board_name, lambda value: texts.text("board-name-set", name=value)
    )


@blueprint.post("/system/time-zone")
def time_zone() -> tuple[str, int]:
    return _change(
        "zone", "SetTimeZone", model.time_zone, lambda value: texts.text("time-zone-set", zone=value)
    )


@blueprint.post("/system/time-servers")
def time_servers() -> tuple[str, int]:
    def done(servers: list[str]) -> str:
        return texts.text("time-servers-set" if servers else "time-servers-automatic")

    return _change("servers", "SetTimeServers", model.time_servers, done)


def _end(method: str, template: str, *arguments: bool | str) -> str | tuple[str, int]:
    """Give the order to restart, to switch off or to reset."""
    try:
        call(method, *arguments)
    except AgentRefused as error:
        # A wrong password is no reason to end the session.
        if error.kind in ("WrongPassword", "TooManyTries"):
            return page_with(error.http, message=str(error), kind="bad", field="reset-password")
        return refused(error)
    except AgentUnreachable as error:
        # The agent may be stopped before it answers.
        if not error.sent:
            raise
    return render_template(template, back=BACK.get(request.form.get("back", ""), BACK["system"]))


@blueprint.get("/system/restart")
def ask_restart() -> str:
    """Ask first. The link says to which page the user returns."""
    origin = request.args.get("back", "system")
    origin = origin if origin in BACK else "system"
    return render_template("system/restart.html", origin=origin, back=BACK[origin])


@blueprint.post("/system/restart")
def restart() -> str | tuple[str, int]:
    return _end("Restart", "system/restarting.html")


@blueprint.post("/system/power-off")
def power_off() -> str | tuple[str, int]:
    if request.form.get("confirm") != "yes":
        return page_with(422, message=texts.text("power-off-not-confirmed"), kind="bad", field="confirm")
    return _end("PowerOff", "system/off.html")


@blueprint.post("/system/reset")
def reset() -> str | tuple[str, int]:
    keep, password = request.form.get("recordings") != "erase", request.form.get("password", "")[:256]
    return _end("FactoryReset", "system/resetting.html", keep, password)


def _journal(query: model.JournalQuery) -> Journal:
    """The lines of QUERY. Raises BadParameter or AgentError."""
    wanted = query.request(time.time())
    found: Journal = call("GetJournal", *(getattr(wanted, name) for name in wanted.__struct_fields__))
    return found


@blueprint.get("/system/journal")
def journal() -> tuple[str, int]:
    usual = model.JournalQuery()
    # spaces around what was typed mean nothing
    given = {
        name: text.strip()[:255] for name, text in request.args.items() if name in usual.__struct_fields__
    }
    typed = {name: given.get(name, str(getattr(usual, name))) for name in usual.__struct_fields__}
    found, older, status, message, field = None, "", 200, "", ""
    try:
        query = read(model.JournalQuery, given)
        found = _journal(query)
        older = query.older(found)
    except BadParameter as error:
        status, message, field = error.code, str(error.description), error.field
    except AgentError as error:
        if error.about_user:
            raise
        status, message = error.http, str(error)
    made = render_template(
        "system/journal.html",
        query=typed,
        given=given,
        journal=found,
        older=older,
        message=message,
        field=field,
        priorities=model.PRIORITIES,
        levels=model.LEVELS,
        spans=model.SPANS,
        limits=model.LIMITS,
    )
    return made, status


@blueprint.twin("/system/journal.json", Journal, "GetJournal", query=model.JournalQuery)
def journal_json(query: model.JournalQuery) -> Journal:
    """Lines of the journal."""
    return _journal(query)


@blueprint.twin("/system/journal.csv", Line, "GetJournal", query=model.JournalQuery)
def journal_csv(query: model.JournalQuery) -> Table:
    """Lines of the journal, oldest first."""
    return Table(_journal(query).lines, "journal")


@blueprint.post("/system/support")
def support() -> BaseResponse | tuple[str, int] | tuple[Response, int]:
    """The support bundle. Before the first byte, an error is the page with the reason; after it, the file is cut."""
    downloads: Downloads = current_app.extensions.setdefault("evenkeel-downloads", Downloads())
    if not downloads.begin():
        return _no_bundle(409, texts.text("bundle-not-made", reason=texts.phrase("downloads-full")))
    try:
        descriptor: int = call("OpenSupportBundle")
    except BaseException as error:
        downloads.end()
        if not isinstance(error, AgentError) or isinstance(error, AgentUnreachable):
            raise
        if error.about_user:
            raise
        return _no_bundle(error.http, str(error))
    try:
        content = Recording(descriptor, downloads.end)
    except Truncated as error:
        return _no_bundle(503, texts.text("bundle-not-made", reason=str(error)))
    response = Response(content, mimetype="application/gzip")
    name = time.strftime("support-%Y-%m-%dT%H%M%SZ.tar.gz", time.gmtime())
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    # nginx must not store the file: it would write it to the flash.
    response.headers["X-Accel-Buffering"] = "no"
    return response


def _no_bundle(status: int, message: str) -> tuple[str, int] | tuple[Response, int]:
    if by_token():
        return jsonify(error="SupportBundle", reason=message), status
    return page_with(status, message=message, kind="bad")
