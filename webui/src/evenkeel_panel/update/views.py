# SPDX-License-Identifier: Apache-2.0
"""Routes of the updates page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from evenkeel_api.features.update import Slot, Update
from evenkeel_api.roles import ADMIN, includes
from flask import Response, abort, current_app, jsonify, render_template, request, url_for

from .. import texts
from ..agent import AgentError
from ..context import Nav, call, identity
from ..tables import Table
from ..twins import Feature
from .upload import Uploads

if TYPE_CHECKING:
    from evenkeel_api.features.update import Bundle

blueprint = Feature("update", __name__, template_folder="templates")
NAV = Nav(230, "Updates", "update.page", ADMIN)
# state → class of its pill, and what the page calls it
STATES = {
    "idle": ("ok", "no update is running"),
    "installing": ("wait", "installing"),
    "unconfirmed": ("wait", "not confirmed yet"),
    "installed": ("wait", "installed, starts at the next restart"),
    "interrupted": ("bad", "interrupted"),
    "failed": ("bad", "installation failed"),
    "rolled-back": ("bad", "rolled back"),
    "unavailable": ("bad", "update service does not answer"),
}


def _uploads() -> Uploads:
    found: Uploads | None = current_app.extensions.get("evenkeel-uploads")
    if found is None:
        found = current_app.extensions["evenkeel-uploads"] = Uploads(
            Path(current_app.config["STATE_DIR"]) / "update"
        )
    return found


def _state() -> Update:
    update: Update = call("GetUpdate")
    # If this bundle was refused while another one waits for its start, it stays: the user may allow an older version.
    if update.state == "installed" and not any(note.code == "update-failed" for note in update.problem):
        _uploads().installed()
    return update


def _page(status: int = 200, **more: Any) -> tuple[str, int]:
    bundle: Bundle | None = more.pop("bundle", None)
    return (
        render_template(
            "update/page.html",
            update=_state(),
            states=STATES,
            bundle=bundle,
            stored=_uploads().size(),
            **more,
        ),
        status,
    )


def _refused(error: AgentError, source: str = "") -> tuple[str, int]:
    """The page with the reason, and with the URL SOURCE in its field. A refusal that is about the user is shown elsewhere."""
    if error.about_user:
        raise error
    return _page(error.http, message=str(error), kind="bad", source=source)


@blueprint.get("/update")
def page() -> tuple[str, int]:
    return _page()


@blueprint.get("/update/state")
def state() -> Response:
    """The part of the page that changes during an installation. After the end, the browser loads the whole page again.

    Not by HX-Refresh: after POST /update/install it would send the form again, and so install again.
    """
    update = _state()
    response = Response(render_template("update/state.html", update=update, states=STATES))
    if update.state != "installing":
        response.headers["HX-Redirect"] = url_for("update.page")
    return response


@blueprint.twin("/update.json", Update, "GetUpdate")
def page_json() -> Update:
    """The state of updates, and both slots."""
    return _state()


@blueprint.twin("/update.csv", Slot, "GetUpdate")
def page_csv() -> Table:
    """The slots."""
    return Table(_state().slots, "slots")


@blueprint.post("/upload/bundle")
def upload() -> Response | tuple[Response, int]:
    """Store the body as the uploaded bundle and check it. The answer says what it contains, as JSON."""
    who = identity()
    if who is None or not includes(who.role, ADMIN):
        abort(403, texts.text("update-role"))
    if call("GetUpdate").state == "installing":
        abort(409, texts.text("update-busy"))
    uploads = _uploads()
    uploads.receive(request.stream, request.content_length or 0)
    try:
        found: Bundle = call("InspectBundle", str(uploads.bundle))
    except AgentError as error:
        uploads.remove()  # it is not known to be good
        return jsonify(error=getattr(error, "kind", ""), reason=str(error), code=error.note.code), error.http
    return Response(msgspec.json.encode(found), mimetype="application/json")


@blueprint.post("/update/inspect")
def inspect() -> tuple[str, int]:
    source = request.form.get("source", "").strip()[:1000]
    try:
        return _page(bundle=call("InspectBundle", source), source=source)
    except AgentError as error:
        return _refused(error, source)


@blueprint.post("/update/install")
def install() -> tuple[str, int]:
    """Install from the URL `source` of the form, or the uploaded bundle if it is empty."""
    source = request.form.get("source", "").strip()[:1000]
    older = request.form.get("allow_older") == "yes"
    uploads = _uploads()
    try:
        if source:
            call("InstallBundle", source, older)
        else:
            with uploads.lock():
                if not uploads.size():
                    return _page(409, message=texts.text("no-bundle"), kind="bad")
                call("InstallBundle", str(uploads.bundle), older)
                uploads.installing()
    except AgentError as error:
        return _refused(error, source)
    return _page(message=texts.text("installation-begun"), kind="ok")


@blueprint.post("/update/remove")
def remove() -> tuple[str, int]:
    """Remove the uploaded bundle."""
    with _uploads().lock():
        if call("GetUpdate").state == "installing":
            return _page(409, message=texts.text("not-removed"), kind="bad")
        _uploads().remove()
    return _page(message=texts.text("bundle-removed"), kind="ok")


@blueprint.post("/update/slot")
def slot() -> tuple[str, int]:
    name = request.form.get("slot", "")[:1]
    try:
        call("ChooseSlot", name)
    except AgentError as error:
        return _refused(error)
    return _page(message=texts.text("slot-chosen", slot=name), kind="ok")
