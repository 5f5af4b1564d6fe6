# SPDX-License-Identifier: Apache-2.0
"""The page of alerts and /alerts.json. recipes/agent/tests/test_alerts.py tests what the agent sends."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from evenkeel_agent import alerts
from evenkeel_panel.testing import BASE

if TYPE_CHECKING:
    from evenkeel_panel.fake_agent import FakeAgent
    from evenkeel_panel.testing import Browser
    from flask import Flask

MAIL = {
    "webhook": "",
    "mail_to": "ops@example.org",
    "mail_from": "",
    "smtp_server": "mail.example.org",
    "smtp_port": "",
    "smtp_security": "tls",
    "smtp_user": "board",
    "smtp_password": "hunter2-hunter2",
}


def save(admin: Browser, **fields: str) -> Any:
    return admin.post("/alerts", "/alerts", **{**MAIL, **fields})


def test_settings_are_saved_and_shown(admin: Browser) -> None:
    assert "off" in admin.get("/alerts").text
    assert "Send a test" not in admin.get("/alerts").text
    answer = save(admin)
    assert answer.status_code == 200
    assert "settings are saved" in answer.text
    found = admin.get("/alerts.json").json
    assert found
    assert (found["mail_to"], found["smtp_port"], found["state"]) == ("ops@example.org", 465, "ready")
    page = admin.get("/alerts").text
    assert 'value="mail.example.org"' in page
    assert "saved, stays if empty" in page
    for text in (page, answer.text, str(found), admin.get("/audit.json").text):
        assert "hunter2" not in text


def test_the_saved_password_stays_if_the_field_is_empty(admin: Browser, agent: FakeAgent) -> None:
    save(admin)
    save(admin, smtp_password="", mail_from="board@example.org")
    assert agent.alerts._set.smtp_password == MAIL["smtp_password"]


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("webhook", "ftp://host/", "begins with http"),
        ("webhook", "https://ho st/", "begins with http"),
        ("webhook", "https://user:password@host/", "no user before the host"),
        ("mail_to", "ops", "form name@example.org"),
        ("mail_from", "a@b, c@d", "form name@example.org"),
        ("smtp_server", "mail server", "host name of the mail server"),
        ("smtp_port", "0", "whole number from 1 to 65535"),
        ("smtp_port", "65536", "whole number from 1 to 65535"),
        ("smtp_port", "x", "whole number from 1 to 65535"),
        ("smtp_security", "ssl", "from the list"),
        ("smtp_user", "x" * 201, "at most 200 characters"),
        ("smtp_server", "", "need a mail server"),
        ("smtp_security", "none", "needs encryption"),
    ],
)
def test_a_bad_value_changes_nothing_and_stays_in_the_form(
    admin: Browser, field: str, value: str, rule: str
) -> None:
    save(admin, mail_to="first@example.org")
    answer = save(admin, **{field: value})
    assert answer.status_code == 422
    assert rule in answer.text
    assert "hunter2" not in answer.text
    found = admin.get("/alerts.json").json
    assert found
    assert found["mail_to"] == "first@example.org"
    if field != "mail_to":
        assert 'value="ops@example.org"' in answer.text  # what was typed is not lost
    if field not in ("smtp_security", "smtp_server") and value:
        assert f'value="{value}"' in answer.text
    assert re.search(rf'name="{field}"[^>]* aria-invalid="true" aria-describedby="problem"', answer.text)


def test_a_test_says_whether_it_was_sent(admin: Browser, agent: FakeAgent) -> None:
    save(admin)
    agent.alerts.fails = "the server answered 535 no"
    answer = admin.post("/alerts/test", "/alerts")
    assert "test was not sent" in answer.text
    assert "535 no" in answer.text
    agent.alerts.fails = ""
    assert "test was sent" in admin.post("/alerts/test", "/alerts").text
    save(admin, mail_to="")
    answer = admin.post("/alerts/test", "/alerts")
    assert answer.status_code == 409
    assert "alerts are off" in answer.text.lower()


@pytest.mark.parametrize("fails", ["", "the server answered 535 no"])
def test_a_slow_test_does_not_show_the_result_of_an_older_message(
    admin: Browser, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    save(admin)
    agent.alerts.fails = fails
    admin.post("/alerts/test", "/alerts")
    monkeypatch.setattr(alerts, "TEST_S", 0.05)
    agent.alerts.delay_s = 20
    answer = admin.post("/alerts/test", "/alerts").text
    assert "takes longer than usual" in answer
    assert "test was sent" not in answer
    assert "test was not sent" not in answer


def test_only_an_administrator_sees_the_alerts(admin: Browser, app: Flask) -> None:
    page = admin.post("/account/tokens", "/account", name="x", role="operator", days="30").text
    found = re.search(r"is (ek_[\w-]+)\.", page)
    assert found
    for path in ("/alerts", "/alerts.json"):
        headers = {"Authorization": f"Bearer {found[1]}"}
        assert app.test_client().get(path, base_url=BASE, headers=headers).status_code == 403


def test_without_an_agent_the_page_says_so(admin: Browser, agent: FakeAgent) -> None:
    agent.dead = "The agent does not answer: it is not running."
    assert admin.get("/alerts.json").status_code == 503
    page = admin.get("/alerts").text
    assert "agent does not answer" in page
    assert 'href="">Try again<' in page
