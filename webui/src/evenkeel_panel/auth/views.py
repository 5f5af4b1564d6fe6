# SPDX-License-Identifier: Apache-2.0
"""Routes for log-in and password, and the check before every other route."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from flask import (
    Blueprint,
    Response,
    g,
    jsonify,
    make_response,
    redirect,
    render_template,
    request,
    session,
    url_for,
)
from flask_limiter import RateLimitExceeded

from ..context import by_htmx, client, panel
from . import limits
from .limits import limiter, network, tries
from .users import ADMIN

if TYPE_CHECKING:
    from werkzeug.wrappers import Response as BaseResponse

blueprint = Blueprint("auth", __name__, template_folder="templates")

OPEN = {"auth.login", "health.healthz", "static"}  # all other endpoints need a session
WHILE_CHANGING = {"auth.password", "auth.logout"}  # endpoints of a session with the first-boot password


@blueprint.before_app_request
def guard() -> BaseResponse | None:
    """Allow OPEN without a session, WHILE_CHANGING with the first-boot password, and all else after that."""
    users = panel().users
    g.user = None
    if request.endpoint in OPEN:
        return None
    g.user = users.session_user(session.get("token"))
    if g.user is None:
        return _redirect("auth.login", "Log in first.")
    if request.endpoint not in WHILE_CHANGING and users.must_change():
        return _redirect("auth.password", "Change the first-boot password first.")
    return None


def _redirect(endpoint: str, reason: str) -> BaseResponse:
    target = url_for(endpoint)
    if by_htmx():  # htmx would follow a plain redirect and put the whole page into a fragment
        return Response(reason, 401, {"HX-Redirect": target})
    if request.path.endswith(".json"):
        return make_response(jsonify(error="Unauthorized", reason=reason), 401)
    return redirect(target)


@blueprint.route("/login", methods=["GET", "POST"])
@tries
def login() -> BaseResponse | str | tuple[str, int]:
    users, db = panel().users, panel().db
    if request.method == "GET":
        if users.session_user(session.get("token")):
            return redirect(url_for("apps.page"))
        return render_template("auth/login.html")
    if not users.has_password():
        text = (
            "This panel has no password yet, because evenkeel-firstboot.service has not run."
            " Restart the board, or start that service."
        )
        return render_template("auth/login.html", error=text), 503
    if not users.check(request.form.get("password", "")):
        db.audit("", client(), "login-failed")
        return render_template("auth/login.html", error="Wrong password. Try again."), 401
    session.clear()  # also drops the CSRF token of the log-in form
    session["token"] = users.open_session()
    db.audit(ADMIN, client(), "login")
    return redirect(url_for("auth.password" if users.must_change() else "apps.page"))


@blueprint.route("/password", methods=["GET", "POST"])
@tries
def password() -> BaseResponse | str | tuple[str, int]:
    users, db = panel().users, panel().db
    first = users.must_change()
    if request.method == "GET":
        return render_template("auth/password.html", first=first)
    current, new, confirm = (request.form.get(name, "") for name in ("current", "new", "confirm"))
    if not users.check(current):
        db.audit(g.user, client(), "password-refused", "current")
        which = "first-boot" if first else "current"
        text = f"This is not the {which} password. Try again."
        return render_template("auth/password.html", first=first, field="current", error=text), 401
    refusal = users.refusal(current, new, confirm)
    if refusal is not None:
        field, text = refusal
        return render_template("auth/password.html", first=first, field=field, error=text), 422
    users.set_password(new)
    session.clear()
    session["token"] = users.open_session()
    db.audit(g.user, client(), "password-changed")
    return redirect(url_for("apps.page", changed=1))


@blueprint.route("/logout", methods=["POST"])
def logout() -> BaseResponse:
    panel().users.close_session(session.get("token"))
    session.clear()
    panel().db.audit(g.user, client(), "logout")
    return redirect(url_for("auth.login"))


@blueprint.app_errorhandler(RateLimitExceeded)
def too_many(error: RateLimitExceeded) -> tuple[str, int, dict[str, str]]:
    limit = limiter.current_limit
    wait = max(1, math.ceil(limit.reset_at - time.time())) if limit else 60
    until = f"{wait} s" if wait < 120 else f"{math.ceil(wait / 60)} minutes"
    if limits.should_audit(network(), limit.reset_at if limit else time.time() + 60):
        panel().db.audit("", client(), "login-limited")
    text = f"Too many wrong passwords from this address. Try again in {until}."
    changing = request.endpoint == "auth.password"
    page = render_template(
        "auth/password.html" if changing else "auth/login.html",
        error=text,
        field="current" if changing else None,
        first=changing and panel().users.must_change(),
    )
    return page, 429, {"Retry-After": str(wait)}
