# SPDX-License-Identifier: Apache-2.0
"""Routes for log-in, password, code, sessions and tokens, and the check before every other route."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from evenkeel_api import schema
from evenkeel_api.features.accounts import CreateToken, Identity, Session, Token
from evenkeel_api.messages import Note
from evenkeel_api.roles import Role
from evenkeel_api.schema import Struct
from flask import (
    Response,
    after_this_request,
    current_app,
    g,
    jsonify,
    make_response,
    redirect,
    render_template,
    request,
    session,
    url_for,
)
from msgspec import Meta

from .. import texts
from ..agent import AgentError, AgentRefused
from ..context import Nav, by_htmx, by_program, call, client, panel, secret
from ..setup.views import offer as offer_set_up
from ..tables import Table
from ..twins import Feature

if TYPE_CHECKING:
    from evenkeel_api.features.accounts import Login
    from werkzeug.wrappers import Response as BaseResponse

blueprint = Feature("account", __name__, template_folder="templates")
NAV = Nav(310, "Your account", "account.page")

OPEN = {"account.login", "health.healthz", "static"}  # all other endpoints need a session
WHILE_CHANGING = {"account.password", "account.logout"}  # open to a user who must change a first password
LIVE = {
    "apps.page_json",
    "apps.rows",
    "cache.live",
    "cache.page_json",
    "metrics.metrics",
    "overview.chart_only",
    "overview.page_json",
    "overview.rows",
    "recorder.figures",
    "recorder.page_json",
    "update.page_json",
    "update.state",
    "validation.page_json",
    "validation.progress",
}  # polled by a page or a program: such a request is not an action of the user
DEVICE_COOKIE = "-device"  # the device cookie has the name of the session cookie with this suffix
# The maximum number of log-ins at once. Each occupies a thread of gunicorn until the agent has computed a hash. So a storm
# of log-ins leaves threads for the pages of users who are logged in.
MAX_LOG_INS = 2
BUSY_S = 5  # the time after which a log-in that found no place may be tried again
_log_ins = threading.BoundedSemaphore(MAX_LOG_INS)
# The times that a token may be valid: days, and what the page calls them
TOKEN_DAYS = {"30": "30 days", "90": "90 days", "365": "a year", "0": "without limit"}
DEVICE_S = 180 * 86400  # lifetime of the device cookie


@blueprint.before_app_request
def guard() -> BaseResponse | None:
    """Check the session before each request. OPEN needs none. With a first password, only WHILE_CHANGING is allowed."""
    g.identity = None
    if request.endpoint in OPEN:
        return None
    g.identity = panel().sessions.identity(secret(), client(), active=request.endpoint not in LIVE)
    if g.identity is None:
        return redirect_to("account.login", texts.text("log-in-first"))
    if g.identity.must_change and request.endpoint not in WHILE_CHANGING:
        return redirect_to("account.password", texts.text("change-password-first"))
    return None


def redirect_to(endpoint: str, reason: str) -> BaseResponse:
    target = url_for(endpoint)
    if by_htmx():  # htmx would follow a plain redirect and put the whole page into a fragment
        return Response(reason, 401, {"HX-Redirect": target})
    if by_program():
        return make_response(jsonify(error="Unauthorized", reason=reason), 401)
    return redirect(target)


def _browser() -> str:
    return request.headers.get("User-Agent", "")[:200]


def _device_cookie() -> str:
    return str(current_app.config["SESSION_COOKIE_NAME"]) + DEVICE_COOKIE


def _open(login: Login, endpoint: str, **values: object) -> BaseResponse:
    """Log the browser in and redirect it to ENDPOINT. The cookie is cleared first, so that its CSRF token is new, too."""
    previous = session.get("token")
    session.clear()
    session["token"] = login.session
    if isinstance(previous, str):  # nobody can use it any more, but it would stay valid
        with suppress(AgentError):
            panel().agent.call("LogOut", previous, client())
    response = redirect(url_for(endpoint, **values))  # type: ignore[arg-type]
    response.set_cookie(
        _device_cookie(),
        login.device,
        max_age=DEVICE_S,
        path="/",
        secure=bool(current_app.config["SESSION_COOKIE_SECURE"]),
        httponly=True,
        samesite="Strict",
    )
    return response


@blueprint.route("/login", methods=["GET", "POST"])
def login() -> BaseResponse | str | tuple[str, int, dict[str, str]]:
    form = request.form
    user = form.get("username", "admin")[:64]
    # the page after the log-in; after a change of the network, a user has only seconds to confirm it
    asked = request.args if request.method == "GET" else form
    to = "network" if asked.get("to") == "network" else ""
    landing = f"{to or 'overview'}.page"
    if request.method == "GET":
        if panel().sessions.identity(secret(), client(), active=True):
            return redirect(url_for(landing))
        return render_template("account/login.html", user=user, to=to)
    device = request.cookies.get(_device_cookie(), "")[:256]
    values = (user, form.get("password", "")[:256], form.get("code", "")[:16], device, _browser())
    try:
        opened = _log_in(*values)
    except AgentError as error:
        code = isinstance(error, AgentRefused) and (error.kind == "CodeRequired" or bool(values[2]))
        text = texts.text("first-login-code") if getattr(error, "kind", "") == "CodeRequired" else str(error)
        page = render_template("account/login.html", user=user, error=text, code=code, to=to)
        return page, error.http, _retry(error)
    return _open(opened, "account.password" if opened.must_change else landing)


def _log_in(*values: str) -> Login:
    """Ask the agent, or refuse at once while too many others do. Raises AgentError."""
    if not _log_ins.acquire(blocking=False):
        raise AgentRefused("TooManyTries", Note("busy", {"seconds": BUSY_S}))
    try:
        opened: Login = call("LogIn", *values)
        return opened
    finally:
        _log_ins.release()


def _retry(error: AgentError) -> dict[str, str]:
    seconds = error.note.parameters.get("seconds")
    return {"Retry-After": str(seconds)} if seconds else {}


@blueprint.route("/password", methods=["GET", "POST"])
def password() -> BaseResponse | str | tuple[str, int, dict[str, str]]:
    page: dict[str, Any] = {"first": g.identity.must_change, "user": g.identity.user}
    if request.method == "GET":
        return render_template("account/password.html", **page)
    current, new, confirm = (request.form.get(name, "")[:256] for name in ("current", "new", "confirm"))
    if new != confirm:
        page |= {"field": "confirm", "error": texts.text("new-password-differs")}
        return render_template("account/password.html", **page), 422, {}
    try:
        opened = call("ChangePassword", current, new, _browser())
    except AgentError as error:
        field = "new" if getattr(error, "kind", "") == "PasswordRefused" else "current"
        page |= {"field": field, "error": str(error)}
        return render_template("account/password.html", **page), error.http, _retry(error)
    new_board = page["first"] and offer_set_up(page["user"])
    return _open(opened, "setup.page" if new_board else "apps.page", changed=1)


@blueprint.post("/logout")
def logout() -> BaseResponse:
    @after_this_request
    def clear(response: Response) -> Response:
        # Clear the figures that the browser keeps (live.py). Cookies stay, because one of them is DEVICE_COOKIE.
        response.headers["Clear-Site-Data"] = '"cache"'
        return response

    ended = secret()
    try:
        call("LogOut")
    finally:  # the browser forgets the session even if the agent does not answer
        session.clear()
        panel().sessions.end(ended)
    return redirect(url_for("account.login"))


@blueprint.get("/account")
def page() -> str:
    return _page()


class AccountPage(Struct, frozen=True):
    """The answer of /account.json."""

    user: Annotated[str, Meta(description="name of the user")]
    role: Annotated[Role, Meta(description="role of the session or token")]
    totp: Annotated[bool, Meta(description="whether the user needs a code to log in")]
    sessions: Annotated[list[Session], Meta(description="sessions of the user")]
    tokens: Annotated[list[Token], Meta(description="API tokens of the user")]


@blueprint.twin("/account.json", AccountPage, "ListSessions", "ListTokens")
def page_json() -> AccountPage:
    """The user's own account: sessions and API tokens."""
    me: Identity = g.identity
    return AccountPage(me.user, me.role, me.totp, call("ListSessions"), call("ListTokens"))


@blueprint.twin("/account/sessions.csv", Session, "ListSessions")
def sessions_csv() -> Table:
    """The user's own sessions."""
    return Table(call("ListSessions"), "sessions")


@blueprint.twin("/account/tokens.csv", Token, "ListTokens")
def tokens_csv() -> Table:
    """The user's own API tokens."""
    return Table(call("ListTokens"), "tokens")


def _page(**more: Any) -> str:
    return render_template(
        "account/page.html",
        me=panel().sessions.identity(secret(), client(), active=True),
        sessions=call("ListSessions"),
        tokens=call("ListTokens"),
        token_days=TOKEN_DAYS,
        **more,
    )


def _do(code: str, method: str, *values: Any, totp: dict[str, str] | None = None) -> str | tuple[str, int]:
    """Call METHOD, then show the page with the message CODE, or with the reason of a failure.

    TOTP: the secret of a code that is being set up; after a failure, the page shows it again.
    """
    try:
        call(method, *values)
    except AgentError as error:
        if getattr(error, "kind", "") in ("NotLoggedIn", "PasswordMustChange"):
            raise
        return _page(message=str(error), kind="bad", totp=totp), error.http
    panel().sessions.forget()
    return _page(message=texts.text(code), kind="ok")


@blueprint.post("/account/sessions/<id>/end")
def end_session(id: str) -> str | tuple[str, int]:
    return _do("session-ended", "EndSession", id)


@blueprint.post("/account/tokens")
def create_token() -> str | tuple[str, int]:
    typed = {name: request.form.get(name, "").strip()[:200] for name in ("name", "role", "days")}
    days = typed["days"]
    values = {**typed, "days": int(days) if days.isascii() and days.isdigit() and len(days) < 6 else -1}
    try:
        wanted: CreateToken = schema.convert(values, CreateToken)
        made = call("CreateToken", wanted.name, wanted.role, wanted.days)
    except msgspec.ValidationError:
        return _page(message=texts.text("token-rule"), kind="bad", typed=typed), 422
    except AgentError as error:
        if getattr(error, "kind", "") in ("NotLoggedIn", "PasswordMustChange"):
            raise
        return _page(message=str(error), kind="bad", typed=typed), error.http
    return _page(message=texts.text("token-made", name=wanted.name, token=made.token), kind="ok")


@blueprint.post("/account/tokens/<id>/remove")
def remove_token(id: str) -> str | tuple[str, int]:
    return _do("token-removed", "RemoveToken", id)


@blueprint.post("/account/totp/begin")
def begin_totp() -> str:
    return _page(totp=call("BeginTotp"))


@blueprint.post("/account/totp/confirm")
def confirm_totp() -> str | tuple[str, int]:
    form = request.form
    return _do(
        "totp-on",
        "ConfirmTotp",
        form.get("code", "")[:16],
        form.get("password", "")[:256],
        totp={name: form.get(name, "")[:400] for name in ("secret", "uri")},
    )


@blueprint.post("/account/totp/end")
def end_totp() -> str | tuple[str, int]:
    return _do("totp-off", "EndTotp", request.form.get("password", "")[:256])
