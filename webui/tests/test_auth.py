# SPDX-License-Identifier: Apache-2.0
"""Log-in, the forced change of the first-boot password, and the protection of both."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from evenkeel_panel.auth import users as users_module
from evenkeel_panel.testing import BASE, FIRST, PASSWORD, Browser

if TYPE_CHECKING:
    from evenkeel_panel.context import Panel
    from flask import Flask


@pytest.mark.parametrize("path", ["/", "/apps", "/password"])
def test_pages_require_log_in(browser: Browser, path: str) -> None:
    answer = browser.get(path)
    assert (answer.status_code, answer.location) == (302, "/login")


def test_data_without_a_log_in_is_401(browser: Browser) -> None:
    assert browser.get("/apps.json").status_code == 401
    polled = browser.get("/apps/rows", **{"HX-Request": "true"})
    assert (polled.status_code, polled.headers["HX-Redirect"]) == (401, "/login")


def test_first_log_in_can_only_change_the_password(browser: Browser) -> None:
    assert browser.log_in(FIRST).location == "/password"
    assert browser.get("/apps").location == "/password"
    assert browser.get("/apps.json").status_code == 401
    refused = browser.post("/apps/player/weight", "/password", weight="5")
    assert refused.location == "/password"


def test_first_password_ignores_case_and_spaces(browser: Browser) -> None:
    assert browser.log_in(f" {FIRST.upper()} ").location == "/password"


def test_change_ends_the_first_password(browser: Browser) -> None:
    browser.set_up()
    assert not (browser.state / "first-password").exists()
    browser.post("/logout", "/apps")
    assert browser.log_in(FIRST).status_code == 401
    assert browser.log_in(PASSWORD).location == "/apps"


@pytest.mark.parametrize(
    ("new", "confirm", "reason"),
    [
        ("short", "short", "at least 10 characters. This one has 5."),
        (FIRST, FIRST, "must differ"),
        (FIRST.upper(), FIRST.upper(), "must differ"),
        ("a fine password", "a fine passwort", "are not the same"),
        ("x" * 129, "x" * 129, "at most 128"),
        ("", "", "at least 10"),
    ],
)
def test_bad_new_password(browser: Browser, new: str, confirm: str, reason: str) -> None:
    browser.log_in(FIRST)
    answer = browser.post("/password", "/password", current=FIRST, new=new, confirm=confirm)
    assert answer.status_code == 422
    assert reason in answer.text
    assert 'aria-invalid="true"' in answer.text
    assert (browser.state / "first-password").exists()
    assert browser.get("/apps").location == "/password"


def test_wrong_current_password(browser: Browser) -> None:
    browser.log_in(FIRST)
    answer = browser.post("/password", "/password", current="nonsense", new=PASSWORD, confirm=PASSWORD)
    assert answer.status_code == 401
    assert "not the first-boot password" in answer.text


def test_file_left_by_a_power_cut_has_no_effect(admin: Browser) -> None:
    (admin.state / "first-password").write_text(FIRST)
    admin.post("/logout", "/apps")
    assert admin.log_in(FIRST).status_code == 401


def test_log_in_without_first_boot_explains_itself(browser: Browser) -> None:
    (browser.state / "first-password").unlink()
    answer = browser.log_in(FIRST)
    assert answer.status_code == 503
    assert "evenkeel-firstboot.service" in answer.text


def test_log_out_also_ends_a_copied_cookie(admin: Browser) -> None:
    cookie = admin.client.get_cookie("evenkeel", "board")
    assert cookie
    assert admin.post("/logout", "/apps").location == "/login"
    admin.client.set_cookie("evenkeel", cookie.value, domain="board", secure=True)
    assert admin.get("/apps").location == "/login"


def test_new_password_logs_out_others(app: Flask, admin: Browser) -> None:
    other = Browser(app.test_client(), admin.state)
    assert other.log_in().location == "/apps"
    new = "another fine password"
    assert admin.post("/password", "/password", current=PASSWORD, new=new, confirm=new).status_code == 302
    assert admin.get("/apps").status_code == 200
    assert other.get("/apps").location == "/login"


def test_session_ends_after_twelve_hours(admin: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + users_module.SESSION_S + 61)
    assert admin.get("/apps").location == "/login"


def test_cookie_attributes(browser: Browser) -> None:
    cookie = browser.log_in(FIRST).headers["Set-Cookie"]
    assert {"Secure", "HttpOnly", "SameSite=Strict"} <= set(cookie.split("; "))


def test_polls_set_no_cookie(admin: Browser) -> None:
    assert "Set-Cookie" not in admin.get("/apps/rows").headers


def test_sixth_wrong_password_is_refused_with_a_time(browser: Browser) -> None:
    for _ in range(5):
        assert browser.log_in("wrong").status_code == 401
    answer = browser.log_in(FIRST)
    assert answer.status_code == 429
    assert "Too many wrong passwords" in answer.text
    assert 1 <= int(answer.headers["Retry-After"]) <= 61


def test_correct_passwords_do_not_count(admin: Browser) -> None:
    for _ in range(8):
        admin.post("/logout", "/apps")
        assert admin.log_in().location == "/apps"


def test_wrong_passwords_count_on_the_password_page(admin: Browser) -> None:
    for _ in range(5):
        admin.post("/password", "/password", current="wrong", new=PASSWORD, confirm=PASSWORD)
    assert (
        admin.post("/password", "/password", current=PASSWORD, new="x" * 12, confirm="x" * 12).status_code
        == 429
    )


def test_limit_is_per_address(browser: Browser) -> None:
    for _ in range(6):
        browser.log_in("wrong")
    browser.client.environ_base["HTTP_X_FORWARDED_FOR"] = "192.0.2.7"
    assert browser.log_in(FIRST).location == "/password"


@pytest.mark.parametrize(
    "path", ["/login", "/password", "/logout", "/apps/player/weight", "/apps/player/stop"]
)
def test_every_post_needs_the_csrf_token(admin: Browser, path: str) -> None:
    answer = admin.client.post(path, base_url=BASE, data={"weight": "5", "password": PASSWORD})
    assert answer.status_code == 400
    assert "Nothing was changed" in answer.text


def test_post_from_another_site_is_refused(admin: Browser) -> None:
    answer = admin.client.post("/logout", base_url=BASE, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403
    assert admin.get("/apps").status_code == 200


def test_audit(admin: Browser, panel: Panel) -> None:
    admin.set_weight("player", "250")
    admin.post("/logout", "/apps")
    admin.log_in("wrong")
    trail = panel.db.rows("SELECT user, action, detail FROM audit ORDER BY id")
    assert trail == [
        ("admin", "login", ""),
        ("admin", "password-changed", ""),
        ("admin", "set-weight", "player 100 -> 250"),
        ("admin", "logout", ""),
        ("", "login-failed", ""),
    ]


def test_hash_is_argon2id_and_the_database_is_private(admin: Browser, panel: Panel) -> None:
    row = panel.db.one("SELECT hash FROM users")
    assert row
    assert str(row[0]).startswith("$argon2id$")
    assert (Path(panel.db.path).stat().st_mode & 0o777) == 0o600
