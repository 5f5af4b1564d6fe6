# SPDX-License-Identifier: Apache-2.0
"""Whatever refuses a form, the page that says why still has what the user typed and chose."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from evenkeel_panel.agent import AgentUnreachable
from evenkeel_panel.fake_agent import refused

if TYPE_CHECKING:
    from evenkeel_panel.fake_agent import FakeAgent
    from evenkeel_panel.testing import Browser
    from flask import Flask


class Form(NamedTuple):
    """A form of the panel: where it is sent, its page, the method of the agent, and what is typed and chosen."""

    path: str
    page: str
    method: str
    typed: dict[str, str]


MAIL = {
    "webhook": "https://hook.example/x", "mail_to": "me@example.org", "mail_from": "board@example.org",
    "smtp_server": "mail.example.org", "smtp_port": "2525", "smtp_security": "tls", "smtp_user": "bob",
}  # fmt: skip
FORMS = [
    Form("/users", "/users", "AddUser", {"name": "bob.smith", "role": "operator"}),
    Form("/account/tokens", "/account", "CreateToken", {"name": "my purpose", "role": "operator", "days": "365"}),
    Form("/update/inspect", "/update", "InspectBundle", {"source": "https://server.example/a/long/url.raucb"}),
    Form("/update/install", "/update", "InstallBundle", {"source": "https://server.example/a/long/url.raucb"}),
    Form("/alerts", "/alerts", "SetAlerts", MAIL),
    Form("/apps/add", "/apps/add", "AddApp", {
        "unit": "dash.service", "title": "My title", "name": "dash", "description": "Long", "weight": "77"}),
    Form("/network/enp1s0", "/network/enp1s0", "SetNetwork", {
        "mode": "fixed", "address": "10.1.2.3/24", "gateway": "10.1.2.1", "dns": "10.1.2.2"}),
    Form("/system/name", "/system", "SetHostName", {"name": "my-board"}),
    Form("/system/time-servers", "/system", "SetTimeServers", {"servers": "ntp.example.org"}),
    Form("/cache/add", "/cache", "AddPriorityDirectory", {"app": "loader", "directory": "/srv/a/long/path"}),
    Form("/wear/limit", "/wear", "SetWearLimit", {"limit": "43"}),
    Form("/validation/start", "/validation", "StartValidation", {
        "profile": "full", "topic": "fair", "compare": "yes", "exclusive": "yes"}),
    Form("/account/totp/confirm", "/account", "ConfirmTotp", {"secret": "ABCDEFGH", "uri": "otpauth://x?y=z"}),
]  # fmt: skip


def shown(page: str) -> set[tuple[str, str]]:
    """Names and values of the inputs, of the ticked boxes and of the selected options of a page."""
    found = set()
    for tag in re.findall(r"<input [^>]*>", page):
        name, value = re.search(r' name="([^"]*)"', tag), re.search(r' value="([^"]*)"', tag)
        if name and value and ("checked" in tag or not re.search('type="(checkbox|radio)"', tag)):
            found.add((name[1], html.unescape(value[1])))
    for name_, options in re.findall(r'<select [^>]*name="([^"]*)"[^>]*>(.*?)</select>', page, re.DOTALL):
        for attributes, text in re.findall(r"<option([^>]*)>([^<]*)", options):
            value = re.search(r'value="([^"]*)"', attributes)
            if "selected" in attributes:
                found.add((name_, value[1] if value else text))
    return found


@pytest.mark.parametrize("answer", ["refused", "slow"])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.path)
def test_a_form_that_fails_keeps_what_was_typed(
    admin: Browser, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch, form: Form, answer: str
) -> None:
    def call(method: str, *values: Any) -> Any:
        if method != form.method:
            return real(method, *values)
        if answer == "slow":
            raise AgentUnreachable("agent-slow", sent=True, seconds=15)
        raise refused("InvalidArgument", "this cannot be")

    real = agent.call
    monkeypatch.setattr(agent, "call", call)
    page = admin.post(form.path, form.page, False, **form.typed)
    assert page.status_code == (503 if answer == "slow" else 422)
    assert ("did not answer within 15 s" if answer == "slow" else "This cannot be") in page.text
    assert set(form.typed.items()) <= shown(page.text)


def test_no_form_with_a_field_is_missing(app: Flask) -> None:
    """A form without a typed field loses nothing, and neither does one of a list: its row is still there."""
    nothing_typed = {
        "/account/sessions/<id>/end", "/account/tokens/<id>/remove", "/account/totp/begin", "/alerts/test",
        "/apps/<name>/add-again", "/apps/<name>/remove", "/apps/<name>/start", "/apps/<name>/stop", "/apps/<name>/undo",
        "/cache/remove", "/logout", "/network/confirm", "/network/revert", "/setup/end", "/setup/next", "/setup/step",
        "/system/power-off", "/system/restart", "/system/support", "/system/time-zone", "/update/remove", "/update/slot",
        "/users/<name>/remove", "/users/<name>/reset", "/users/<name>/role", "/validation/cancel",
    }  # fmt: skip
    secrets_and_files = {
        "/account/totp/end", "/login", "/password", "/system/backup", "/system/backup/check", "/system/certificate",
        "/system/certificate/new", "/system/reset", "/system/restore", "/upload/bundle",
    }  # fmt: skip
    # test_apps.py and test_recorder.py test these
    elsewhere = {"/apps/<name>/weight", "/apps/<name>/fixed-share", "/recorder/download"}
    rules = {rule.rule for rule in app.url_map.iter_rules() if "POST" in (rule.methods or ())}
    posts = {rule for rule in rules if not rule.startswith("/api/")}
    tested = {form.path.replace("/network/enp1s0", "/network/<name>") for form in FORMS}
    assert posts == tested | nothing_typed | secrets_and_files | elsewhere
