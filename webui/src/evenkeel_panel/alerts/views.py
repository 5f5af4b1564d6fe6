# SPDX-License-Identifier: Apache-2.0
"""Routes of the page of alerts."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from evenkeel_api import schema
from evenkeel_api.features.alerts import Alerts, SetAlerts
from evenkeel_api.roles import ADMIN
from flask import render_template, request

from .. import texts
from ..agent import AgentError
from ..context import Nav, call
from ..twins import Feature

blueprint = Feature("alerts", __name__, template_folder="templates")
NAV = Nav(240, "Alerts", "alerts.page", ADMIN)
# state → class of its pill, and what the page calls it
STATES = {
    "off": ("off", "off"),
    "ready": ("wait", "on, nothing sent yet"),
    "sent": ("ok", "the last message was sent"),
    "failed": ("bad", "the last message was not sent"),
}
SECURITY = {"starttls": "STARTTLS", "tls": "TLS", "none": "no encryption"}
PORTS = {"starttls": 587, "tls": 465, "none": 25}
# field → code of the sentence that says what may be entered
RULES = {
    "webhook": "alerts-webhook-rule",
    "mail_to": "alerts-mail-rule",
    "mail_from": "alerts-mail-rule",
    "smtp_server": "alerts-server-rule",
    "smtp_port": "alerts-port-rule",
    "smtp_security": "alerts-security-rule",
    "smtp_user": "alerts-line-rule",
    "smtp_password": "alerts-line-rule",
}
# code of the agent's refusal → field of the form that it is about
FIELD_OF = {"alerts-no-server": "smtp_server", "alerts-plain-password": "smtp_security"}


def _page(status: int = 200, **more: Any) -> tuple[str, int]:
    found: Alerts = call("GetAlerts")
    typed = more.pop("typed", None)
    shown = typed or {name: getattr(found, name) for name in found.__struct_fields__}
    return (
        render_template(
            "alerts/page.html", alerts=found, shown=shown, states=STATES, security=SECURITY, **more
        ),
        status,
    )


def _refused(error: AgentError, typed: dict[str, Any] | None = None) -> tuple[str, int]:
    """The page with the reason, and with what was typed. A refusal that is about the user is shown elsewhere."""
    if error.about_user:
        raise error
    return _page(
        error.http, message=str(error), kind="bad", typed=typed, field=FIELD_OF.get(error.note.code, "")
    )


@blueprint.get("/alerts")
def page() -> tuple[str, int]:
    return _page()


@blueprint.twin("/alerts.json", Alerts, "GetAlerts")
def page_json() -> Alerts:
    """Where the board sends alerts, without the password of the mail server."""
    found: Alerts = call("GetAlerts")
    return found


@blueprint.post("/alerts")
def save() -> tuple[str, int]:
    typed: dict[str, Any] = {name: request.form.get(name, "").strip() for name in RULES}
    typed["smtp_password"] = request.form.get("smtp_password", "")
    port = typed["smtp_port"] or str(PORTS.get(typed["smtp_security"], 587))
    try:
        values = {
            **typed,
            "smtp_port": int(port) if port.isascii() and port.isdigit() and len(port) < 6 else 0,
        }
        wanted: SetAlerts = schema.convert(values, SetAlerts)
    except msgspec.ValidationError as error:
        found = re.search(r"\$\.(\w+)", str(error))
        field = found[1] if found else ""
        text = texts.text(RULES[field]) if field in RULES else str(error)
        return _page(422, message=text, kind="bad", typed=typed, field=field)
    try:
        call("SetAlerts", *(getattr(wanted, name) for name in wanted.__struct_fields__))
    except AgentError as error:
        return _refused(error, typed)
    return _page(message=texts.text("alerts-saved"), kind="ok")


@blueprint.post("/alerts/test")
def test() -> tuple[str, int]:
    try:
        found: Alerts = call("SendTestAlert")
    except AgentError as error:
        return _refused(error)
    # While a test runs, the state is that of an older message.
    if found.state == "failed" and not found.testing:
        return _page(message=texts.text("alert-test-failed"), kind="bad")
    code = "alert-test-sent" if found.state == "sent" and not found.testing else "alert-test-begun"
    return _page(message=texts.text(code), kind="ok")
