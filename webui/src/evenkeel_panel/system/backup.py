# SPDX-License-Identifier: Apache-2.0
"""Routes of backup and restore. The agent makes and checks the file; the panel adds its own setting, the wear limit.

A restore has two steps: the first shows what would change, the second does it. Between them, the browser keeps the file:
the panel stores nothing.
"""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from flask import Response, current_app, render_template, request

from .. import texts
from ..agent import AgentRefused
from ..context import call, panel
from ..network.views import page_after_restore
from ..setup.model import ENDED
from ..setup.model import KEY as SETUP_KEY
from ..wear.views import LIMIT_KEY, limit
from .model import BadInput
from .views import blueprint, page_with, refused

if TYPE_CHECKING:
    from evenkeel_api.features.backup import Restore

MAX_BYTES = 40_000  # less than a form may have, because the second step sends the file as a field of a form
FIELD = "wear_limit_percent"


def _read(text: str) -> int | None:
    """The wear limit in the panel's part of a backup; None if ekctl made it, so it has no such part. Raises BadInput."""
    if not text:
        return None
    try:
        percent = json.loads(text)[FIELD]
    except (ValueError, KeyError, TypeError, RecursionError):
        percent = None
    if type(percent) is not int or not 0 <= percent <= 100:
        raise BadInput("file", "backup-panel")
    return percent


def _shown(percent: int) -> str:
    return f"{percent} %" if percent else "off"


def _changes(found: Restore) -> tuple[list[str], int | None]:
    """What a restore changes, as sentences, and the wear limit of the backup, if it has one. Raises BadInput."""
    percent = _read(found.panel)
    sentences = [texts.sentence(note) for note in found.changes]
    if percent is not None and percent != limit():
        sentences.append(texts.text("restore-wear-limit", old=_shown(limit()), new=_shown(percent)))
    return sentences, percent


@blueprint.post("/system/backup")
def make() -> Response | tuple[str, int]:
    try:
        text: str = call("GetBackup", request.form.get("password", "")[:256], json.dumps({FIELD: limit()}))
    except AgentRefused as error:
        # A wrong password is no reason to end the session.
        if error.kind in ("WrongPassword", "TooManyTries"):
            return page_with(error.http, message=str(error), kind="bad", field="password")
        return refused(error)
    response = Response(text, mimetype="application/json")
    name = time.strftime("evenkeel-backup-%Y-%m-%dT%H%M%SZ.json", time.gmtime())
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _use(method: str, text: str, *more: Any) -> tuple[Restore, list[str], int | None]:
    """Call METHOD with the file TEXT. Raises AgentRefused or BadInput."""
    if len(text) > MAX_BYTES:
        raise BadInput("file", "backup-large", limit=MAX_BYTES)
    found: Restore = call(method, text, *more)
    sentences, percent = _changes(found)
    return found, sentences, percent


@blueprint.post("/system/backup/check")
def check() -> str | tuple[str, int]:
    """The first step: what would change."""
    sent = request.files.get("file")
    content = sent.stream.read(MAX_BYTES + 1) if sent else b""
    try:
        if not content:
            raise BadInput("file", "backup-missing")
        text = content.decode("utf-8", "replace")
        found, sentences, _ = _use("CheckBackup", text)
    except BadInput as error:
        return page_with(
            422, message=texts.text(error.code, **error.parameters), kind="bad", field=error.field
        )
    except AgentRefused as error:
        return refused(error, field="file")
    if not sentences and not found.network:
        return page_with(message=texts.text("backup-same"), kind="ok")
    network = [texts.sentence(note) for note in found.network]
    changes = any(note.code == "restore-network" for note in found.network)
    return render_template(
        "system/restore.html",
        found=found,
        sentences=sentences,
        network=network,
        network_changes=changes,
        backup=text,
    )


@blueprint.post("/system/restore")
def restore() -> tuple[str, int]:
    """The second step. The agent checks the file again."""
    text, network = request.form.get("backup", ""), request.form.get("network") == "yes"
    more: dict[str, Any] = {"kind": "bad", "field": "file"}
    try:
        _use("CheckBackup", text)  # the panel's part as well, before anything changes
        found, _, percent = _use("RestoreBackup", text, network)
    except BadInput as error:
        return page_with(422, message=texts.text(error.code, **error.parameters), **more)
    except AgentRefused as error:
        return refused(error, field="file")
    with suppress(sqlite3.Error):  # a restored board is not new
        panel().db.set_setting(SETUP_KEY, ENDED)
    try:
        if percent is not None:
            panel().db.set_setting(LIMIT_KEY, str(percent), by_user=True)
    except sqlite3.Error as error:
        current_app.logger.error("the wear limit of a backup is not saved: %s", error)
        message = texts.text("backup-restored-without-limit", limit=_shown(percent or 0), reason=error)
        return page_with(503, message=message, kind="bad")
    if network and any(note.code == "restore-network" for note in found.network):
        return page_after_restore(texts.text("backup-restored-network"))
    return page_with(message=texts.text("backup-restored"), kind="ok")
