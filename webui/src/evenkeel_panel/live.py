# SPDX-License-Identifier: Apache-2.0
"""Answers to the polls of open pages. An answer is rendered once and then shared by all readers.

Each open page polls every second. A route returns answer(). For later polls, the middleware `Shared` serves the same
answer without Flask, at a tenth of the cost. It does so only if the route would give this answer, too: the answer is of
the present view of the board, Flask has served this cookie before, and the session of the cookie is known to be valid.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from flask import Response, g, request

from .context import panel, secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

    from .board import Board, View
    from .sessions import Sessions

MAX_READERS = 512  # the maximum number of cookies that are remembered


def answer(shown: View, mimetype: str, render: Callable[[], str | bytes]) -> Response:
    """The answer to this request: the text of the view SHOWN for this path. A browser that has it already gets 304.

    While the agent does not answer, a JSON answer has the status 503, and browsers may not cache any answer.
    """
    made = panel().board.rendered(shown, request.path, mimetype, render)
    response = Response(made, 503 if not shown.live and "json" in mimetype else 200, mimetype=mimetype)
    if not shown.live:
        return response
    response.set_etag(str(shown.number))
    response.headers["Cache-Control"] = "private, no-cache"
    response.make_conditional(request)
    g.live = True
    return response


class Shared:
    """WSGI middleware that serves shared answers. HEADERS: the headers of every answer."""

    def __init__(
        self, app: WSGIApplication, board: Board, sessions: Sessions, headers: Mapping[str, str]
    ) -> None:
        self._app = app
        self._board = board
        self._sessions = sessions
        self._headers = [item for item in headers.items() if item[0] != "Cache-Control"]
        self._lock = threading.Lock()
        self._readers: OrderedDict[str, str] = OrderedDict()  # cookie header → secret of its session

    def remember(self) -> None:
        """Remember the cookie of the present request, if answer() has made a live answer. So the cookie was valid."""
        cookie = request.headers.get("Cookie")
        if cookie and g.get("live") and "Authorization" not in request.headers:
            with self._lock:
                self._readers[cookie] = secret()
                self._readers.move_to_end(cookie)
                while len(self._readers) > MAX_READERS:
                    self._readers.popitem(last=False)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        known = self._readers.get(environ.get("HTTP_COOKIE", ""))
        if known is None or environ["REQUEST_METHOD"] != "GET" or "HTTP_AUTHORIZATION" in environ:
            return self._app(environ, start_response)
        found = self._board.kept(environ["PATH_INFO"])
        if found is None or not self._sessions.is_known(known):
            return self._app(environ, start_response)
        number, mimetype, made = found
        etag = f'"{number}"'
        headers = [*self._headers, ("ETag", etag), ("Cache-Control", "private, no-cache"), ("Vary", "Cookie")]
        if environ.get("HTTP_IF_NONE_MATCH") == etag:
            start_response("304 NOT MODIFIED", headers)
            return []
        kind = mimetype if "json" in mimetype else f"{mimetype}; charset=utf-8"
        headers += [("Content-Type", kind), ("Content-Length", str(len(made)))]
        start_response("200 OK", headers)
        return [made]
