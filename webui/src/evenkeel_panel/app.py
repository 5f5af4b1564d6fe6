# SPDX-License-Identifier: Apache-2.0
"""The application factory: gunicorn loads `evenkeel_panel.app:create_app()`."""

from __future__ import annotations

import os
import secrets
import sqlite3
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, cast

from flask import Flask, Response, abort, jsonify, redirect, render_template, request, url_for
from flask_wtf.csrf import CSRFError, CSRFProtect  # type: ignore[import-untyped,unused-ignore]
from werkzeug.exceptions import HTTPException
from werkzeug.middleware.proxy_fix import ProxyFix

from . import apps, auth, health
from .agent import Agent, BusAgent
from .auth.limits import limiter
from .auth.users import Users
from .board import Board
from .context import KEY, Panel, by_htmx
from .db import Database

if TYPE_CHECKING:
    from werkzeug.wrappers import Response as BaseResponse

STATE_DIR = "/var/lib/evenkeel-panel"
STATIC_DIR = "/usr/share/evenkeel-panel/static"  # nginx serves it as /static/
STATIC_FILES = (
    "panel.css",
    "panel.js",
    "theme.js",
    "logo.svg",
    "vendor/htmx.min.js",
    "vendor/uPlot.iife.min.js",
    "vendor/uPlot.min.css",
)

# Pages load only files that nginx serves from /static/: no 'unsafe-inline', no eval.
# Strict-Transport-Security is left out on purpose. The board signs its own certificate; once that
# is replaced, a browser that remembers the header would lock the owner out.
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


def create_app(
    state_dir: Path | None = None,
    static_dir: Path | None = None,
    agent: Agent | None = None,
    **config: object,
) -> Flask:
    """A panel that keeps its state in one directory. Tests and the development server pass a fake agent."""
    state = state_dir or Path(os.environ.get("EVENKEEL_PANEL_STATE", STATE_DIR))
    static = static_dir or Path(os.environ.get("EVENKEEL_PANEL_STATIC", STATIC_DIR))

    app = Flask("evenkeel_panel", static_folder=None)
    db = Database(state / "panel.db")
    db.set_setting("secret_key", secrets.token_hex(32), only_new=True)
    app.config.update(
        SECRET_KEY=db.setting("secret_key"),
        SESSION_COOKIE_NAME="evenkeel",
        SESSION_COOKIE_SECURE=True,
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Strict",
        SESSION_REFRESH_EACH_REQUEST=False,  # A page polls every second and must not get a new cookie each time.
        MAX_CONTENT_LENGTH=64 * 1024,
        MAX_FORM_MEMORY_SIZE=64 * 1024,
        WTF_CSRF_TIME_LIMIT=None,  # The token is valid as long as the session: a page may stay open for hours.
        # The strict check compares the Referer with the Host header. Behind a forwarded port these
        # differ, because nginx passes the Host without its port. refuse_cross_site() takes its place.
        WTF_CSRF_SSL_STRICT=False,
        RATELIMIT_STORAGE_URI="memory://",  # enough, because one worker sees every attempt
        RATELIMIT_ENABLED=True,
        TEMPLATES_AUTO_RELOAD=False,
    )
    app.config.update(config)
    app.extensions[KEY] = Panel(
        db=db,
        board=Board(
            agent or BusAgent(),
            load=lambda: db.setting("last_apps"),
            save=lambda text: _save_apps(app, db, text),
        ),
        users=Users(db, state / "first-password"),
    )

    app.before_request(refuse_cross_site)
    CSRFProtect(app)
    limiter.init_app(app)
    for feature in (auth, apps, health):
        app.register_blueprint(feature.blueprint)
    app.add_url_rule("/", "index", lambda: redirect(url_for("apps.page")))
    app.after_request(add_headers)
    app.register_error_handler(CSRFError, lambda error: problem(400, "The form is out of date", _CSRF_TEXT))
    app.register_error_handler(HTTPException, http_error)
    app.register_error_handler(sqlite3.Error, storage_error)
    app.register_error_handler(Exception, any_error)

    versions = {name: _version(static / name) for name in STATIC_FILES}
    app.jinja_env.globals["static"] = lambda name: f"/static/{name}?v={versions[name]}"
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
    # Safe because nginx is the only client of the socket and overwrites both headers.
    app.wsgi_app = ProxyFix(app.wsgi_app, x_for=1, x_proto=1)  # type: ignore[method-assign]
    return app


def _version(path: Path) -> str:
    """A checksum of the content for the URL, so that browsers may cache a file for ever."""
    try:
        return f"{zlib.crc32(path.read_bytes()):08x}"
    except FileNotFoundError:
        return "missing"


def _save_apps(app: Flask, db: Database, text: str) -> None:
    try:
        db.set_setting("last_apps", text)
    except sqlite3.Error as error:
        app.logger.warning("cannot save the list of apps in panel.db: %s", error)


def refuse_cross_site() -> None:
    """Refuse a POST if the browser reports that another site sent it. A second check, in addition to the CSRF token."""
    if request.method == "POST" and request.headers.get("Sec-Fetch-Site", "same-origin") not in (
        "same-origin",
        "none",
    ):
        abort(403, "The request came from another site. Nothing was changed. Use the panel's own pages.")


def add_headers(response: Response) -> Response:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


_CSRF_TEXT = (
    "The form's protection token is missing or no longer valid. Nothing was changed."
    " Reload the page and try again."
)


def problem(code: int, title: str, text: str) -> BaseResponse:
    """An error in the caller's format: an HTML fragment, JSON or a page."""
    if by_htmx():
        response = Response(render_template("message.html", kind="bad", text=text))
    elif request.path.endswith(".json") or request.path == "/healthz":
        response = jsonify(error=title, reason=text)
    else:
        response = Response(render_template("error.html", code=code, title=title, text=text))
    response.status_code = code
    return response


def http_error(error: HTTPException) -> BaseResponse:
    if error.code is None or error.code < 400:  # routing raises redirects as exceptions
        return cast("BaseResponse", error.get_response(request.environ))
    text = error.description or "The panel cannot handle this request."
    if error.code == 404 and request.url_rule is None:
        text = f"This panel has no page {request.path[:80]}. Check the address."
    response = problem(error.code, error.name, text)
    for name, value in error.get_headers():
        if name.lower() not in ("content-type", "content-length"):
            response.headers[name] = value
    return response


def storage_error(error: Exception) -> BaseResponse:
    from flask import current_app

    current_app.logger.error("panel.db: %s", error)
    return problem(
        503,
        "The panel cannot save",
        f"The panel's database reported an error: {error}. Nothing was changed."
        " Check whether the data partition is full, then try again.",
    )


def any_error(error: Exception) -> BaseResponse:
    from flask import current_app

    current_app.logger.exception("%s %s", request.method, request.path)
    return problem(
        500,
        "The panel has failed",
        "The panel has an internal error. Try again. If it fails again, read the board's journal:"
        " journalctl -u evenkeel-panel",
    )
