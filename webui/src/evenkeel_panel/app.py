# SPDX-License-Identifier: Apache-2.0
"""The application factory. The service of a board uses it through `service.py`.

A feature is a package in the folder of this file that has a `blueprint`. The package also has the feature's templates,
its styles and scripts (static/), and its entry in the navigation (`NAV`). No other file needs to mention the feature.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import secrets
import sqlite3
import zlib
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, cast

from evenkeel_api.roles import includes
from flask import (
    Flask,
    Request,
    Response,
    abort,
    current_app,
    jsonify,
    render_template,
    request,
)
from flask.sessions import SecureCookieSessionInterface
from flask_wtf.csrf import CSRFError, CSRFProtect  # type: ignore[import-untyped,unused-ignore]
from itsdangerous import BadSignature
from werkzeug.exceptions import HTTPException
from werkzeug.middleware.proxy_fix import ProxyFix

from . import joined, texts
from .agent import Agent, AgentError, AgentRefused, BusAgent
from .board import Board
from .context import KEY, Panel, by_htmx, by_program, by_token, client, identity
from .db import Database
from .live import Shared
from .refusals import Refusals
from .sessions import Sessions
from .times import moment

if TYPE_CHECKING:
    from types import ModuleType

    from flask.sessions import SecureCookieSession
    from werkzeug.wrappers import Response as BaseResponse

STATE_DIR = "/var/lib/evenkeel-panel"
STATIC_DIR = "/usr/share/evenkeel-panel/static"  # nginx serves it as /static/
PACKAGE = Path(__file__).resolve().parent

# Headers of every answer. Pages load only files that nginx serves from /static/: no 'unsafe-inline', no eval.
# nginx adds Strict-Transport-Security if the certificate is not self-signed.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), usb=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


# The only path whose body nginx does not buffer (evenkeel.conf). Whoever reads such a body waits for its sender, so nothing
# may read it before the session, the role and the token are checked. Flask reads no body of UPLOAD_TYPE by itself.
UPLOAD = "/upload/bundle"
UPLOAD_TYPE = "application/octet-stream"


class PanelRequest(Request):
    """A request. The body of an upload has no limit here: nginx limits it, and the route reads it while it arrives."""

    # Flask before 3.1 cannot set the limit of one request.
    @property  # type: ignore[misc,unused-ignore]
    def max_content_length(self) -> int | None:  # type: ignore[override,unused-ignore]
        limit: int | None = current_app.config["MAX_CONTENT_LENGTH"]
        upload = self.path == UPLOAD and self.mimetype == UPLOAD_TYPE
        return None if upload else limit


class Cookies(SecureCookieSessionInterface):
    """The session cookie, signed with HMAC-SHA-256. Flask's default is SHA-1.

    The panel accepts a cookie of any age, because the agent decides how long a session lasts. Flask refuses a cookie whose time
    of signing is in the future. So Flask would log a user out if the clock were set back shortly after the log-in.
    """

    digest_method = staticmethod(hashlib.sha256)

    def open_session(self, app: Flask, request: Request) -> SecureCookieSession | None:
        signer = self.get_signing_serializer(app)
        if signer is None:
            return None
        try:
            return self.session_class(signer.loads(request.cookies.get(self.get_cookie_name(app), "")))
        except BadSignature:
            return self.session_class()


def create_app(
    state_dir: Path | None = None,
    static_dir: Path | None = None,
    agent: Agent | None = None,
    **config: object,
) -> Flask:
    """Make a panel that keeps its state in STATE_DIR. Tests and the development server pass a fake agent."""
    state = state_dir or Path(os.environ.get("EVENKEEL_PANEL_STATE", STATE_DIR))
    static = static_dir or Path(os.environ.get("EVENKEEL_PANEL_STATIC", STATIC_DIR))

    app = Flask("evenkeel_panel", static_folder=None)
    app.request_class = PanelRequest
    app.session_interface = Cookies()
    refusals = Refusals(app.logger)
    db = Database(state / "settings.db")
    secret_key = db.own_setting("secret_key", secrets.token_hex(32))
    app.config.update(
        STATE_DIR=state,
        SECRET_KEY=secret_key,
        # With the prefix __Host-, browsers use the cookie for this host name only. Apps may have other host names.
        SESSION_COOKIE_NAME="__Host-evenkeel",
        SESSION_COOKIE_SECURE=True,
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Strict",
        SESSION_REFRESH_EACH_REQUEST=False,  # A page polls every second and must not get a new cookie each time.
        MAX_CONTENT_LENGTH=64 * 1024,
        MAX_FORM_MEMORY_SIZE=64 * 1024,
        WTF_CSRF_TIME_LIMIT=None,  # The token is valid as long as the session: a page may stay open for hours.
        # The strict check compares the Referer with the Host header. Behind a forwarded port they
        # differ, because nginx passes the Host without its port. refuse_cross_site() replaces this check.
        WTF_CSRF_SSL_STRICT=False,
        WTF_CSRF_CHECK_DEFAULT=False,  # protect() does the check, except for requests with an API token
        TEMPLATES_AUTO_RELOAD=False,
    )
    app.config.update(config)
    agent = agent or BusAgent()
    app.extensions[KEY] = Panel(
        db=db,
        agent=agent,
        board=Board(
            load=lambda: db.setting("last_apps"),
            save=lambda text: _save_apps(app, db, text),
        ),
        sessions=Sessions(agent),
    )

    app.before_request(partial(refuse_cross_site, refusals))
    csrf = CSRFProtect(app)
    navigation = []
    for feature in features():
        app.register_blueprint(feature.blueprint)
        if hasattr(feature, "NAV"):
            navigation.append(feature.NAV)
    # after the check of the session, which is in a feature: this check reads the body
    app.before_request(partial(protect, csrf))
    navigation.sort(key=lambda entry: entry.order)
    app.after_request(add_headers)
    app.register_error_handler(CSRFError, partial(csrf_error, refusals))
    app.register_error_handler(HTTPException, http_error)
    app.register_error_handler(sqlite3.Error, storage_error)
    app.register_error_handler(AgentError, agent_error)
    app.register_error_handler(Exception, any_error)

    app.jinja_env.globals.update(
        static=Static(static),
        navigation=lambda: [
            (group, list(entries))
            for group, entries in groupby(
                (entry for entry in navigation if may(entry.role)), attrgetter("group")
            )
        ],
        may=may,
        identity=identity,
    )
    app.jinja_env.filters["joined"] = joined.joined
    app.jinja_env.filters["rows"] = joined.rows
    app.jinja_env.filters["moment"] = moment
    app.jinja_env.filters["sentence"] = texts.sentence
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
    # ProxyFix trusts two headers. This is safe, because nginx is the only client of the socket and overwrites both.
    proxied = ProxyFix(app.wsgi_app, x_for=1, x_proto=1)
    shared = Shared(proxied, app.extensions[KEY].board, app.extensions[KEY].sessions, HEADERS)
    app.wsgi_app = shared  # type: ignore[method-assign]

    @app.after_request
    def remember(response: Response) -> Response:
        if response.status_code in (200, 304):
            shared.remember()
        return response

    return app


def features() -> list[ModuleType]:
    """All packages in the folder of this file that have a blueprint."""
    found = [
        importlib.import_module(f"{__package__}.{path.parent.name}")
        for path in sorted(PACKAGE.glob("*/__init__.py"))
    ]
    return [module for module in found if hasattr(module, "blueprint")]


def may(role: str) -> bool:
    """Whether the user of this request has ROLE or a higher role. It only affects what a page shows: the agent decides."""
    who = identity()
    return who is not None and includes(who.role, role)


class Static:
    """Makes the URL of a static file, "NAME" or "FEATURE/NAME". It has a checksum, so that browsers may cache the file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._versions: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        if name not in self._versions:
            self._versions[name] = self._version(name)
        return f"/static/{name}?v={self._versions[name]}"

    def _version(self, name: str) -> str:
        path = find_static(self._folder, name)
        return f"{zlib.crc32(path.read_bytes()):08x}" if path else "missing"


def find_static(folder: Path, name: str) -> Path | None:
    """The static file NAME, or None. In the source tree, FEATURE/NAME is in static/ of the feature's package."""
    feature, _, rest = name.partition("/")
    found = (folder / name, PACKAGE / feature / "static" / rest)
    return next((path for path in found if path.is_file()), None)


def _save_apps(app: Flask, db: Database, text: str) -> None:
    try:
        db.set_setting("last_apps", text)
    except sqlite3.Error as error:
        app.logger.warning("cannot save the list of apps in settings.db: %s", error)


def refuse_cross_site(refusals: Refusals) -> None:
    """Refuse a POST if the browser reports that another site sent it. A second check, in addition to the CSRF token."""
    if request.method == "POST" and request.headers.get("Sec-Fetch-Site", "same-origin") not in (
        "same-origin",
        "none",
    ):
        refusals.log("from another site", client(), request.path)
        abort(403, texts.text("from-another-site"))


def protect(csrf: CSRFProtect) -> None:
    """Check the CSRF token: of a form, or in the header X-CSRFToken of an upload.

    A request with an API token needs none: a browser never adds an API token by itself. A change by the API needs an API
    token, because a program has no form.
    """
    if request.path == UPLOAD and request.method != "GET" and request.mimetype != UPLOAD_TYPE:
        abort(415, texts.text("upload-type", type=UPLOAD_TYPE))
    if by_token():
        return
    if request.path.startswith("/api/") and request.method not in ("GET", "HEAD", "OPTIONS"):
        abort(401, texts.text("api-token-needed"))
    csrf.protect()


def agent_error(error: AgentError) -> BaseResponse:
    """The agent refused a call, or does not answer."""
    if (
        isinstance(error, AgentRefused)
        and error.kind in ("NotLoggedIn", "PasswordMustChange")
        and not by_token()
    ):
        from .account.views import redirect_to

        current_app.extensions[KEY].sessions.forget()
        endpoint = "account.login" if error.kind == "NotLoggedIn" else "account.password"
        return redirect_to(endpoint, str(error))
    kind = error.kind if isinstance(error, AgentRefused) else "AgentUnreachable"
    title = texts.heading(kind) or texts.heading("refused")
    response = problem(error.http, title, str(error), error)
    if "seconds" in error.note.parameters:
        response.headers["Retry-After"] = str(error.note.parameters["seconds"])
    return response


def add_headers(response: Response) -> Response:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def csrf_error(refusals: Refusals, _error: CSRFError) -> BaseResponse:
    refusals.log("without a valid form token", client(), request.path)
    return problem(400, texts.heading("form-old"), texts.text("form-old"))


def problem(
    code: int, title: str, text: str, error: AgentError | None = None, heading: str = ""
) -> BaseResponse:
    """An error in the caller's format: an HTML fragment, JSON or a page. HEADING: of the page, if it is not TITLE."""
    if by_htmx():
        response = Response(render_template("message.html", kind="bad", text=text))
    elif by_program():
        more = {"code": error.note.code, "parameters": error.note.parameters} if error else {}
        response = jsonify(error=getattr(error, "kind", title), reason=text, **more)
    else:
        response = Response(render_template("error.html", code=code, title=heading or title, text=text))
    response.status_code = code
    return response


def http_error(error: HTTPException) -> BaseResponse:
    if error.code is None or error.code < 400:  # routing raises redirects as exceptions
        return cast("BaseResponse", error.get_response(request.environ))
    text = error.description or texts.text("http-other")
    if error.description == type(error).description and f"http-{error.code}" in texts.TEXTS:
        text = texts.text(f"http-{error.code}")  # Werkzeug has only a text for programmers
    if error.code == 404 and request.url_rule is None:
        text = texts.text("no-page", path=request.path[:80])
    response = problem(error.code, error.name, text, heading=texts.heading(str(error.code)))
    for name, value in error.get_headers():
        if name.lower() not in ("content-type", "content-length"):
            response.headers[name] = value
    return response


def storage_error(error: Exception) -> BaseResponse:
    current_app.logger.error("settings.db: %s", error)
    return problem(
        503, texts.heading("settings-not-saved"), texts.text("settings-not-saved", reason=str(error))
    )


def any_error(error: Exception) -> BaseResponse:
    current_app.logger.exception("%s %r", request.method, request.path)  # %r: the path may have a line break
    return problem(500, texts.heading("panel-failed"), texts.text("panel-failed"))
