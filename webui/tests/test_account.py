# SPDX-License-Identifier: Apache-2.0
"""The pages for log-in, sessions, codes, tokens, users and the audit log, with the agent's real code for accounts."""

from __future__ import annotations

import hashlib
import html
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyotp
import pytest
from evenkeel_api import errors as api_errors
from evenkeel_api.features.accounts import Entry
from evenkeel_api.interface import METHODS
from evenkeel_panel import audit, gunicorn_conf
from evenkeel_panel.account.views import MAX_LOG_INS
from evenkeel_panel.fake_agent import unreachable
from evenkeel_panel.history import changes
from evenkeel_panel.recorder.download import MAX_DOWNLOADS
from evenkeel_panel.testing import BASE, FIRST, PASSWORD, Browser
from itsdangerous import URLSafeTimedSerializer

if TYPE_CHECKING:
    from evenkeel_panel.context import Panel
    from evenkeel_panel.fake_agent import FakeAgent
    from flask import Flask

COOKIE = "__Host-evenkeel"


@pytest.fixture
def other(app: Flask, admin: Browser) -> Browser:
    """A second browser, which is not logged in."""
    return Browser(app.test_client(), admin.state)


def user(admin: Browser, browser: Browser, name: str, role: str) -> Browser:
    """Add a user and log in as that user with `browser`."""
    page = admin.post("/users", "/users", name=name, role=role).text
    found = re.search(r"first password ([-a-z0-9]+)", page)
    assert found, page
    assert browser.log_in(found[1], user=name).location == "/password"
    browser.post("/password", "/password", current=found[1], new=PASSWORD + name, confirm=PASSWORD + name)
    return browser


@pytest.mark.parametrize("path", ["/", "/apps", "/wear", "/password", "/account", "/users", "/audit"])
def test_pages_require_log_in(browser: Browser, path: str) -> None:
    answer = browser.get(path)
    assert (answer.status_code, answer.location) == (302, "/login")


@pytest.mark.parametrize(
    "path",
    ["/overview.json", "/apps.json", "/wear.json", "/audit.json", "/api/v1/ListApps", "/api/v1/openapi.json"],
)
def test_data_without_a_log_in_is_401(browser: Browser, path: str) -> None:
    assert browser.get(path).status_code == 401
    assert browser.get(path, Authorization="Bearer ek_guess").status_code == 401


def test_poll_without_a_log_in_leads_to_the_log_in(browser: Browser) -> None:
    polled = browser.get("/apps/rows", **{"HX-Request": "true"})
    assert (polled.status_code, polled.headers["HX-Redirect"]) == (401, "/login")


def test_first_log_in_can_only_change_the_password(browser: Browser) -> None:
    assert browser.log_in(FIRST).location == "/password"
    for path in ("/apps", "/account", "/users"):
        assert browser.get(path).location == "/password"
    assert browser.get("/apps.json").status_code == 401
    refused = browser.post("/apps/player/weight", "/password", weight="5")
    assert refused.location == "/password"


def test_a_storm_of_log_ins_leaves_threads_for_the_pages(
    app: Flask, admin: Browser, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the agent answers no log-in, the panel refuses further ones at once, and still serves pages."""
    real, waiting, go_on = agent.call, threading.Semaphore(0), threading.Event()

    def call(method: str, *rest: str) -> object:
        if method == "LogIn":
            waiting.release()
            assert go_on.wait(20)
        return real(method, *rest)

    monkeypatch.setattr(agent, "call", call)
    assert gunicorn_conf.threads > MAX_LOG_INS + MAX_DOWNLOADS
    with ThreadPoolExecutor(MAX_LOG_INS) as pool:
        others = [Browser(app.test_client(), admin.state) for _ in range(MAX_LOG_INS + 1)]
        storm = [pool.submit(other.log_in, PASSWORD) for other in others[:-1]]
        try:
            for _ in storm:
                assert waiting.acquire(timeout=20)
            refused = others[-1].log_in(PASSWORD)
            assert (refused.status_code, refused.headers["Retry-After"]) == (429, "5")
            assert "Too many log-ins at once; try again in 5 s." in refused.text
            assert admin.get("/apps").status_code == 200
        finally:
            go_on.set()
        assert [done.result().status_code for done in storm] == [302] * MAX_LOG_INS
    assert others[-1].log_in(PASSWORD).status_code == 302, "places are free again"


def test_change_ends_the_first_password(browser: Browser) -> None:
    browser.set_up()
    browser.post("/logout", "/apps")
    assert browser.log_in(FIRST).status_code == 401
    assert browser.log_in(PASSWORD).location == "/"


@pytest.mark.parametrize(
    ("new", "confirm", "reason"),
    [
        ("short", "short", "at least 10 characters, and this one has 5."),
        (FIRST, FIRST, "must differ"),
        (FIRST.upper(), FIRST.upper(), "must differ"),
        ("a fine password", "a fine passwort", "are not the same"),
        ("x" * 129, "x" * 129, "at most 128"),
        ("password2026", "password2026", "it is a common password"),
        ("", "", "at least 10"),
    ],
)
def test_bad_new_password(browser: Browser, new: str, confirm: str, reason: str) -> None:
    browser.log_in(FIRST)
    answer = browser.post("/password", "/password", current=FIRST, new=new, confirm=confirm)
    assert answer.status_code == 422
    assert reason in answer.text
    assert 'aria-invalid="true"' in answer.text
    assert browser.get("/apps").location == "/password"


def test_wrong_current_password(browser: Browser) -> None:
    browser.log_in(FIRST)
    answer = browser.post("/password", "/password", current="nonsense", new=PASSWORD, confirm=PASSWORD)
    assert answer.status_code == 401
    assert "This is not the present password; enter it again." in answer.text


def test_log_out_also_ends_a_copied_cookie(admin: Browser) -> None:
    cookie = admin.client.get_cookie(COOKIE, "board")
    assert cookie
    assert admin.post("/logout", "/apps").location == "/login"
    admin.client.set_cookie(COOKIE, cookie.value, domain="board", secure=True)
    assert admin.get("/apps").location == "/login"


def test_log_out_clears_the_cache_of_the_browser(admin: Browser, agent: FakeAgent) -> None:
    assert admin.post("/logout", "/apps").headers["Clear-Site-Data"] == '"cache"'
    admin.log_in()
    page = admin.get("/apps").text
    token = re.search(r'name="csrf_token" value="([^"]+)"', page)
    assert token
    agent.dead = "gone"
    answer = admin.client.post("/logout", base_url=BASE, data={"csrf_token": token[1]})
    assert (answer.status_code, answer.headers["Clear-Site-Data"]) == (503, '"cache"')


def test_a_new_log_in_ends_the_previous_session(admin: Browser) -> None:
    cookie = admin.client.get_cookie(COOKIE, "board")
    assert cookie
    token = re.search(r'name="csrf_token" value="([^"]+)"', admin.get("/apps").text)
    assert token
    form = {"csrf_token": token[1], "username": "admin", "password": PASSWORD}
    assert admin.client.post("/login", base_url=BASE, data=form).location == "/"
    assert admin.get("/apps").status_code == 200
    admin.client.set_cookie(COOKIE, cookie.value, domain="board", secure=True)
    assert admin.get("/apps").location == "/login"


def test_a_forged_cookie_is_ignored(app: Flask, admin: Browser) -> None:
    """Without the key, with another key, and with the key but SHA-1, which Flask uses by default."""
    with admin.client.session_transaction(base_url=BASE) as session:
        secret = session["token"]
    signer = app.session_interface.get_signing_serializer(app)  # type: ignore[attr-defined]
    assert signer.signer_kwargs["digest_method"] is hashlib.sha256

    def opens(cookie: str) -> bool:
        admin.client.set_cookie(COOKIE, cookie, domain="board", secure=True)
        return admin.get("/apps").status_code == 200

    content = {"token": secret}
    good = signer.dumps(content)
    assert opens(good)
    assert not opens(good.rpartition(".")[0] + ".")
    for key, digest in ((b"another key", hashlib.sha256), (app.secret_key, hashlib.sha1)):
        other = URLSafeTimedSerializer(
            key,
            salt="cookie-session",
            serializer=signer.serializer,
            signer_kwargs={"key_derivation": "hmac", "digest_method": digest},
        )
        assert not opens(other.dumps(content))


def test_a_clock_that_is_set_back_logs_nobody_out(other: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is set back by half a minute after the cookie was made. NTP may do so shortly after a start."""
    ahead = time.time() + 30
    monkeypatch.setattr("itsdangerous.timed.time.time", lambda: ahead)
    other.log_in()
    monkeypatch.undo()
    assert other.get("/apps").status_code == 200
    assert other.post("/logout", "/apps").location == "/login"


def test_new_password_logs_out_others(other: Browser, admin: Browser) -> None:
    assert other.log_in().location == "/"
    new = "another fine phrase"
    assert admin.post("/password", "/password", current=PASSWORD, new=new, confirm=new).status_code == 302
    assert admin.get("/apps").status_code == 200
    assert other.get("/apps").location == "/login"


def test_cookies_are_for_this_host_only(browser: Browser) -> None:
    """Apps may have other host names. A browser never sends a cookie with the prefix __Host- to another host name."""
    cookies = browser.log_in(FIRST).headers.getlist("Set-Cookie")
    assert [cookie.partition("=")[0] for cookie in cookies] == [f"{COOKIE}-device", COOKIE]
    for cookie in cookies:
        assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
        assert "Domain" not in cookie


def test_polls_set_no_cookie_and_share_one_rendering(
    admin: Browser, other: Browser, agent: FakeAgent
) -> None:
    other.log_in()
    first = admin.get("/apps/rows")
    assert "Set-Cookie" not in first.headers
    asked = len(agent.calls)
    assert other.get("/apps/rows").headers["ETag"] == first.headers["ETag"]
    again = other.get("/apps/rows", **{"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    assert len(agent.calls) == asked


def test_sixth_wrong_password_is_refused_with_a_time(browser: Browser) -> None:
    for _ in range(5):
        assert browser.log_in("wrong").status_code == 401
    answer = browser.log_in("wrong")
    assert answer.status_code == 429
    assert "too many wrong passwords" in answer.text
    assert 1 <= int(answer.headers["Retry-After"]) <= 61


def test_wrong_passwords_of_others_do_not_lock_out_a_known_browser(admin: Browser, other: Browser) -> None:
    admin.post("/logout", "/apps")
    for _ in range(6):
        other.log_in("wrong")
    assert other.log_in().status_code == 429
    assert admin.log_in().location == "/"


def test_wrong_passwords_count_on_the_password_page(admin: Browser) -> None:
    for _ in range(5):
        admin.post("/password", "/password", current="wrong", new=PASSWORD, confirm=PASSWORD)
    last = admin.post("/password", "/password", current=PASSWORD, new="x" * 12, confirm="x" * 12)
    assert last.status_code == 429


@pytest.mark.parametrize(
    "path",
    ["/login", "/password", "/logout", "/apps/player/weight", "/apps/player/stop", "/users", "/users/x/remove",
     "/account/tokens", "/account/totp/begin", "/account/sessions/x/end"],
)  # fmt: skip
def test_every_post_needs_the_csrf_token(admin: Browser, path: str) -> None:
    answer = admin.client.post(path, base_url=BASE, data={"weight": "5", "password": PASSWORD})
    assert answer.status_code == 400
    assert "Nothing was changed" in answer.text


def test_post_from_another_site_is_refused(admin: Browser) -> None:
    for site in (
        "same-site",
        "cross-site",
    ):  # same-site: a page of an app under another name of the same domain
        answer = admin.client.post("/logout", base_url=BASE, headers={"Sec-Fetch-Site": site})
        assert answer.status_code == 403
    assert admin.get("/apps").status_code == 200


def test_audit(admin: Browser, other: Browser) -> None:
    admin.set_weight("player", "250")
    other.log_in("wrong")
    rows = [
        (row["user"], row["action"], row["detail"], row["outcome"])
        for row in admin.get("/audit.json").json or []
    ]
    assert rows == [
        ("admin", "LogIn", "", "WrongPassword"),
        ("admin", "SetWeight", "name player, weight 250", ""),
        ("admin", "ChangePassword", "", ""),
        ("admin", "LogIn", "", ""),
    ]
    page = admin.get("/audit").text
    for words in ("Log in", "wrong password", "Weight", "app player, weight 250", "Change password"):
        assert f">{words}<" in page, words
    for raw in ("SetWeight", "WrongPassword", "name player"):
        assert raw not in page


def test_the_audit_log_has_words_for_everything() -> None:
    for error in api_errors.AgentError.__subclasses__():
        assert audit.outcome(error.kind) != error.kind
    assert audit.outcome("OfTomorrow") == "OfTomorrow"
    for method in METHODS.values():
        shown = [one.name for one in method.inputs if one.name not in method.secret]
        entry = Entry(1, 1, "a", "panel", "", method.name, ", ".join(f"{name} True" for name in shown), "")
        assert not re.search(r"_|\bname True|True|[a-z][A-Z]", audit.values(entry).replace("DNS", "")), (
            method.name
        )
        assert not re.search(r"[a-z][A-Z]|[Tt]otp", changes.name(method.name)) or not method.changes, (
            method.name
        )
    for detail in ("with a code", "something of tomorrow"):
        assert audit.values(Entry(1, 1, "a", "panel", "", "LogIn", detail, "")) == detail
    assert audit.values(Entry(1, 1, "a", "panel", "", "OfTomorrow", "x 1", "")) == "x 1"


def test_roles(admin: Browser, other: Browser) -> None:
    """A viewer can only look, and an operator can set weights. Neither can see the users or the audit log."""
    user(admin, other, "ben", "viewer")
    page = other.get("/apps")
    assert page.status_code == 200
    assert page.text.count('<fieldset class="bare" disabled>') == 8
    assert "/users" not in page.text
    for path in ("/users", "/audit", "/audit.json"):
        assert other.get(path).status_code == 403
    refused = other.set_weight("player", "5")
    assert refused.status_code == 403
    assert "The user ben has the role viewer" in refused.text
    assert "ask an administrator" in refused.text
    assert other.post("/users", "/account", name="eve", role="admin").status_code == 403
    assert (
        "The user ben has the role operator now"
        in admin.post("/users/ben/role", "/users", role="operator").text
    )
    assert other.get("/apps").location == "/login"
    other.log_in(PASSWORD + "ben", user="ben")
    assert 'class="bare" disabled' not in other.get("/apps").text
    assert other.set_weight("player", "5").status_code == 200
    assert other.get("/users").status_code == 403
    admin.post("/users/ben/remove", "/users")
    assert other.get("/apps").location == "/login"


@pytest.mark.parametrize(
    ("action", "title"), [("reset", "Reset the password of ben?"), ("remove", "Remove ben?")]
)
def test_a_change_that_logs_a_user_out_is_asked_first(
    admin: Browser, other: Browser, action: str, title: str
) -> None:
    user(admin, other, "ben", "operator")
    page = admin.get("/users").text
    assert f'href="/users/ben/{action}"' in page
    assert f'action="/users/ben/{action}"' not in page
    asked = admin.get(f"/users/ben/{action}").text
    assert f"<h1>{title}</h1>" in asked
    assert f'action="/users/ben/{action}"' in asked
    assert other.get(f"/users/ben/{action}").status_code == 403  # and still logged in
    admin.post(f"/users/ben/{action}", f"/users/ben/{action}")
    assert other.get("/apps").location == "/login"
    gone = admin.get(f"/users/eve/{action}")
    assert (gone.status_code, "no user &#39;eve&#39;" in gone.text) == (404, True)


def test_a_refused_change_is_in_the_audit_log(admin: Browser, other: Browser) -> None:
    user(admin, other, "ben", "viewer")
    other.set_weight("player", "5")
    newest = (admin.get("/audit.json").json or [])[0]
    assert (newest["user"], newest["action"], newest["outcome"]) == ("ben", "SetWeight", "NotAuthorized")


def test_code(admin: Browser, other: Browser) -> None:
    page = admin.post("/account/totp/begin", "/account").text
    found = re.search(r'class="secret">([A-Z2-7]+)<', page)
    assert found
    totp = pyotp.TOTP(found[1])
    link = re.search(r'href="(otpauth://totp/[^"]+)"', page)
    assert link
    assert pyotp.parse_uri(html.unescape(link[1])).now() == totp.now(), "for a phone that shows this page"
    assert admin.post("/account/totp/confirm", "/account", code="000000").status_code in (401, 429)
    foreign = {"secret": found[1], "uri": "javascript:alert(1)", "code": "000000", "password": "guess"}
    again = admin.post("/account/totp/confirm", "/account", **foreign).text
    assert found[1] in again
    assert 'href="otpauth://totp/javascript:alert(1)"' in again, "no other address is a link"
    refused = admin.post("/account/totp/confirm", "/account", code=totp.now(), password="guess")  # noqa: S106
    assert (refused.status_code, "not the present password" in refused.text) == (401, True)
    begun = admin.post("/account/totp/begin", "/account").text
    found = re.search(r'class="secret">([A-Z2-7]+)<', begun)
    assert found
    totp = pyotp.TOTP(found[1])
    done = admin.post("/account/totp/confirm", "/account", code=totp.now(), password=PASSWORD)
    assert "needs a code" in done.text
    asked = other.log_in()
    assert asked.status_code == 401
    assert 'name="code"' in asked.text
    assert other.log_in(code="000000").status_code == 401
    admin.post("/account/totp/end", "/account", password=PASSWORD)
    assert other.log_in().location == "/"


def test_sessions(admin: Browser, other: Browser) -> None:
    other.log_in()
    page = admin.get("/account").text
    (other_id,) = re.findall(r"/account/sessions/([0-9a-f]+)/end", page)
    assert "this browser" in page
    assert "was ended" in admin.post(f"/account/sessions/{other_id}/end", "/account").text
    assert other.get("/apps").location == "/login"
    assert admin.post(f"/account/sessions/{other_id}/end", "/account").status_code == 404


def test_tokens(admin: Browser, app: Flask) -> None:
    page = admin.post("/account/tokens", "/account", name="cron", role="operator", days="30").text
    found = re.search(r"is (ek_[\w-]+)\.", page)
    assert found
    program = Browser(app.test_client(), admin.state)
    headers = {"Authorization": f"Bearer {found[1]}"}
    assert program.get("/apps.json", **headers).status_code == 200
    apps = program.get("/api/v1/ListApps", **headers).json or []
    assert [each["name"] for each in apps] == ["player", "loader"]

    def post(method: str, body: str) -> tuple[int, object]:
        answer = program.client.post(f"/api/v1/{method}", base_url=BASE, headers=headers, data=body)
        return answer.status_code, answer.json

    status, answer = post("SetWeight", '{"name": "player", "weight": 7}')
    assert (status, answer["weight"]) == (200, 7)  # type: ignore[index]
    for body in (
        "{",
        "[]",
        "{}",
        '{"name": "player", "weight": 0}',
        '{"name": "player", "weight": "7"}',
        "\xff",
    ):
        assert post("SetWeight", body)[0] == 422
    status, answer = post("SetWeight", '{"name": "nobody", "weight": 7}')
    assert (status, answer["error"], answer["code"]) == (404, "UnknownApp", "unknown-app")  # type: ignore[index]
    assert post("AddUser", '{"name": "eve", "role": "admin"}')[0] == 403
    assert post("LogIn", "{}")[0] == 404
    assert post("ListApps", "{}")[0] == 405
    wrong = program.get("/api/v1/SetWeight", **headers)
    assert (wrong.status_code, wrong.headers["Allow"]) == (405, "POST, OPTIONS")
    assert program.client.head("/api/v1/ListApps", base_url=BASE, headers=headers).status_code == 200
    assert program.client.post("/api/v1/SetWeight", base_url=BASE, data="{}").status_code == 401
    (token_id,) = re.findall(r"/account/tokens/([0-9a-f]+)/remove", admin.get("/account").text)
    admin.post(f"/account/tokens/{token_id}/remove", "/account")
    assert program.get("/apps.json", **headers).status_code == 401


@pytest.mark.parametrize(
    ("name", "role", "days"),
    [("", "viewer", "30"), ("x" * 65, "viewer", "30"), ("x", "", "30"), ("x", "root", "30"), ("x", "viewer", ""),
     ("x", "viewer", "-1"), ("x", "viewer", "soon"), ("x", "viewer", "9999"), ("x", "viewer", "٣")],
)  # fmt: skip
def test_a_bad_token_form_is_refused_with_a_reason(admin: Browser, name: str, role: str, days: str) -> None:
    answer = admin.post("/account/tokens", "/account", name=name, role=role, days=days)
    assert answer.status_code == 422
    assert "No token was made." in answer.text
    assert (admin.get("/account.json").json or {})["tokens"] == []


def test_cookie_alone_changes_nothing_by_the_api(admin: Browser) -> None:
    answer = admin.client.post("/api/v1/StopApp", base_url=BASE, data='{"name": "player"}')
    assert answer.status_code == 401
    assert "needs a token" in (answer.json or {})["reason"]


def test_who_was_logged_in_sees_the_last_state_without_an_agent(
    admin: Browser, other: Browser, agent: FakeAgent, panel: Panel
) -> None:
    admin.get("/apps")
    agent.dead = "The agent does not answer: it is not running."
    panel.board.expire()
    page = admin.get("/apps")
    assert page.status_code == 200
    assert 'data-banner="agent"' in page.text
    assert admin.set_weight("player", "5").status_code == 503
    assert other.get("/apps").location == "/login"
    refused = other.log_in()
    assert refused.status_code == 503
    assert "The agent does not answer: it is not running." in refused.text


def test_a_user_who_was_removed_sees_nothing_without_an_agent(admin: Browser, agent: FakeAgent) -> None:
    """Also if the agent has ended before the user's next request."""
    users = admin.new_user("viewer"), admin.new_user("operator")
    for user in users:
        assert user.get("/history").status_code == 200
    assert admin.post("/users/the-viewer/remove", "/users").status_code == 200
    assert [user.get("/apps").status_code for user in users] == [302, 200]
    assert admin.post("/users/the-operator/remove", "/users").status_code == 200
    assert admin.get("/history").status_code == 200
    agent.dead = "gone"
    for path in ("/apps", "/apps.json", "/history", "/history.json", "/wear.json", "/metrics"):
        assert [user.get(path).status_code for user in users] == [503, 503], path
    assert admin.get("/history").status_code == 200


def test_log_out_without_an_agent_forgets_the_session(admin: Browser, agent: FakeAgent) -> None:
    """Also for a copy of the cookie. It does not end what others see, whose sessions it does not concern."""
    viewer = admin.new_user("viewer")
    page = admin.get("/apps").text
    assert viewer.get("/apps").status_code == 200
    token = re.search(r'name="csrf_token" value="([^"]+)"', page)
    cookie = admin.client.get_cookie("__Host-evenkeel", domain="board")
    assert token
    assert cookie
    agent.dead = "gone"
    answer = admin.client.post("/logout", base_url=BASE, data={"csrf_token": token[1]})
    assert answer.status_code == 503
    copy = admin.client.application.test_client(use_cookies=False)
    headers = {"Cookie": f"{cookie.key}={cookie.value}"}
    assert copy.get("/apps", base_url=BASE, headers=headers).status_code == 503
    assert viewer.get("/apps").status_code == 200
    agent.dead = ""
    assert admin.get("/apps").location == "/login"
    assert unreachable("gone").http == 503


def test_features_are_found_by_themselves() -> None:
    from evenkeel_panel.app import features

    assert {feature.__name__.rpartition(".")[2] for feature in features()} == {
        "account", "alerts", "api", "apps", "audit", "cache", "health", "history", "metrics", "network", "overview", "recorder",
        "setup", "system", "update", "users", "validation", "wear",
    }  # fmt: skip
