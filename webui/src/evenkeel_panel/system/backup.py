# SPDX-License-Identifier: Apache-2.0
"""Routes of backup and restore. The agent makes and checks the file.

A restore has two steps: the first shows what would change, the second does it. Between them, the browser keeps the file:
the panel stores nothing.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from flask import Response, render_template, request

from .. import texts
from ..agent import AgentError, AgentRefused
from ..context import call, panel
from ..network.views import page_after_restore
from ..setup.model import ENDED
from ..setup.model import KEY as SETUP_KEY
from .model import BadInput
from .views import blueprint, page_with, refused

if TYPE_CHECKING:
    from evenkeel_api.features.backup import Restore

MAX_BYTES = 40_000  # less than a form may have, because the second step sends the file as a field of a form


@blueprint.post("/system/backup")
def make() -> Response | tuple[str, int]:
    try:
        text: str = call("GetBackup", request.form.get("password", "")[:256])
    except AgentRefused as error:
        # A wrong password is no reason to end the session.
        if error.kind in ("WrongPassword", "TooManyTries"):
            return page_with(error.http, message=str(error), kind="bad", field="password")
        return refused(error)
    response = Response(text, mimetype="application/json")
    name = time.strftime("evenkeel-backup-%Y-%m-%dT%H%M%SZ.json", time.gmtime())
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _use(method: str, text: str, *more: Any) -> Restore:
    """Call METHOD with the file TEXT. Raises AgentError or BadInput."""
    if len(text) > MAX_BYTES:
        raise BadInput("file", "backup-large", limit=MAX_BYTES)
    found: Restore = call(method, text, *more)
    return found


@blueprint.post("/system/backup/check")
def check() -> str | tuple[str, int]:
    """The first step: what would change."""
    sent = request.files.get("file")
    content = sent.stream.read(MAX_BYTES + 1) if sent else b""
    try:
        if not content:
            raise BadInput("file", "backup-missing")
        text = content.decode("utf-8", "replace")
        found = _use("CheckBackup", text)
    except BadInput as error:
        return page_with(
            422, message=texts.text(error.code, **error.parameters), kind="bad", field=error.field
        )
    except AgentError as error:
        return refused(error, field="file")
    sentences = [texts.sentence(note) for note in found.changes]
    left_out = [texts.sentence(note) for note in found.left_out]
    if not sentences and not found.network:
        return page_with(message=" ".join([texts.text("backup-same"), *left_out]), kind="ok")
    network = [texts.sentence(note) for note in found.network]
    changes = any(note.code == "restore-network" for note in found.network)
    return render_template(
        "system/restore.html",
        found=found,
        sentences=sentences,
        left_out=left_out,
        network=network,
        network_changes=changes,
        tokens=any(note.code == "restore-token-added" for note in found.changes),
        backup=text,
    )


@blueprint.post("/system/restore")
def restore() -> tuple[str, int]:
    """The second step. The agent checks the file again."""
    # A browser ends the lines of a field with CR LF.
    text = request.form.get("backup", "").replace("\r\n", "\n")
    network = request.form.get("network") == "yes"
    more: dict[str, Any] = {"kind": "bad", "field": "file"}
    try:
        found = _use("RestoreBackup", text, network)
    except BadInput as error:
        return page_with(422, message=texts.text(error.code, **error.parameters), **more)
    except AgentError as error:
        return refused(error, field="file")
    with suppress(sqlite3.Error):  # a restored board is not new
        panel().db.set_setting(SETUP_KEY, ENDED)
    left_out = [texts.sentence(note) for note in found.left_out]
    if network and any(note.code == "restore-network" for note in found.network):
        return page_after_restore(" ".join([texts.text("backup-restored-network"), *left_out]))
    return page_with(message=" ".join([texts.text("backup-restored"), *left_out]), kind="ok")
