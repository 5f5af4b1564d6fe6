# SPDX-License-Identifier: Apache-2.0
"""Routes of the recorder page. The form of the download also has a URL: its fields are the query of /recorder."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
from evenkeel_common.packets import Truncated
from flask import Response, current_app, jsonify, render_template, request

from .. import live, texts
from ..agent import AgentError, AgentRefused, AgentUnreachable
from ..apps.model import latency
from ..cached import Cached
from ..context import Nav, by_token, call, view
from ..tables import Table
from ..twins import Feature
from . import model
from .download import Downloads, Recording

if TYPE_CHECKING:
    from collections.abc import Callable

    from evenkeel_api.features.recorder import Recorder
    from werkzeug.wrappers import Response as BaseResponse

    from ..board import View

blueprint = Feature("recorder", __name__, template_folder="templates")
NAV = Nav(140, "Recorder", "recorder.page")
FIELDS = ("span", "start", "end", "incident", "format")

blueprint.add_app_template_filter(model.moment, "moment_utc")


def _ask(shown: View, query: Callable[[], Recorder]) -> model.RecorderPage:
    if not shown.live:
        return model.page_data(None, shown.reason)
    try:
        return model.page_data(query())
    except AgentUnreachable as error:
        return model.page_data(None, str(error))


def _extension(name: str, make: Callable[[], Any]) -> Any:
    return current_app.extensions.setdefault(name, make())


def _found() -> tuple[View, model.RecorderPage]:
    """The view of the board and the data of the page. If the agent does not answer, the view is not live."""
    shown = view()
    # However many pages poll, the agent is asked once per view.
    latest: Cached[model.RecorderPage] = _extension("evenkeel-recorder", lambda: Cached(math.inf))
    data = latest.get(lambda: _ask(shown, lambda: call("GetRecorder")), shown.number)
    return (shown if data.state != "no-answer" else replace(shown, live=False)), data


def _context(data: model.RecorderPage) -> dict[str, Any]:
    return {"data": data, "states": model.STATES, "channel_states": model.CHANNEL_STATES, "latency": latency}


def _page(status: int = 200, message: str = "", field: str = "") -> tuple[str, int]:
    """The whole page. The form shows the values that were sent, with MESSAGE about FIELD."""
    data = _found()[1]
    sent = request.form if request.method == "POST" else request.args
    readable = model.downloadable(data)
    made = render_template(
        "recorder/page.html",
        **_context(data),
        message=message,
        field=field,
        typed={name: sent.get(name, "")[:40] for name in FIELDS},
        chosen=sent.getlist("channel") or readable[:1],
        readable=readable,
        incidents=sorted({incident.name for incident in data.incidents}),
        spans=model.SPANS,
        formats=model.FORMATS,
    )
    return made, status


@blueprint.get("/recorder")
def page() -> tuple[str, int]:
    return _page()


@blueprint.get("/recorder/live")
def figures() -> Response:
    """Only the parts that change, as out-of-band swaps for htmx. They never replace an input."""
    shown, data = _found()
    return live.answer(shown, "text/html", lambda: render_template("recorder/rows.html", **_context(data)))


@blueprint.twin("/recorder.json", model.RecorderPage, "GetRecorder", states=True, shared=True)
def page_json() -> Response:
    """The recorder: its channels, losses, latencies and incidents."""
    shown, data = _found()
    return live.answer(shown, "application/json", lambda: msgspec.json.encode(data))


@blueprint.twin("/recorder.csv", model.ChannelFigures, "GetRecorder", states=True)
def page_csv() -> Table:
    """The channels of the recorder."""
    shown, data = _found()
    return Table(data.channels, "recorder-channels", 200 if shown.live else 503)


@blueprint.twin("/recorder/incidents.csv", model.IncidentFigures, "GetRecorder", states=True)
def incidents_csv() -> Table:
    """The incidents of the recorder."""
    shown, data = _found()
    return Table(data.incidents, "incidents", 200 if shown.live else 503)


@blueprint.post("/recorder/download")
def download() -> BaseResponse | tuple[str, int] | tuple[Response, int]:
    """The range as a file. Before the first byte, an error is the page with the reason; after it, the file is cut."""
    now = time.time()
    try:
        arguments = model.download_request(request.form, request.form.getlist("channel")[:64], now)
    except model.BadDownload as error:
        return _refused(422, str(error), error.field)
    downloads: Downloads = _extension("evenkeel-downloads", Downloads)
    if not downloads.begin():
        return _refused(409, texts.text("not-downloaded", reason=texts.phrase("downloads-full")))
    try:
        descriptor: int = call("OpenRecording", *arguments)
    except BaseException as error:
        downloads.end()
        if isinstance(error, AgentError):
            return _agent_refused(error)
        raise
    try:
        content = Recording(descriptor, downloads.end)
    except Truncated as error:
        return _refused(503, texts.text("not-downloaded", reason=str(error)))
    start, _, incident, format_, channels = arguments
    response = Response(content, mimetype="application/octet-stream" if format_ == "mcap" else "text/csv")
    name = model.file_name(start, incident, format_, channels, now)
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    # nginx must not store the file: it would write it to the flash.
    response.headers["X-Accel-Buffering"] = "no"
    return response


def _agent_refused(error: AgentError) -> tuple[str, int] | tuple[Response, int]:
    kind = error.kind if isinstance(error, AgentRefused) else ""
    if kind in ("NotLoggedIn", "PasswordMustChange", "NotAuthorized"):
        raise error
    if kind == "InvalidArgument":
        return _refused(422, texts.text("bad-download"))
    return _refused(error.http, str(error))


def _refused(status: int, message: str, field: str = "") -> tuple[str, int] | tuple[Response, int]:
    if by_token():
        return jsonify(error="Download", reason=message), status
    return _page(status, message, field)
