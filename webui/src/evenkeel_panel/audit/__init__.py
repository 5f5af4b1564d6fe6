# SPDX-License-Identifier: Apache-2.0
"""The page of the audit log, for administrators: log-ins and changes, made in the panel, with an API token or by ekctl."""

from __future__ import annotations

from evenkeel_api.changes import arguments
from evenkeel_api.features.accounts import Before, Entry
from evenkeel_api.interface import METHODS
from evenkeel_api.roles import ADMIN
from evenkeel_api.schema import Struct
from flask import render_template, request

from .. import texts
from ..context import Nav, call
from ..history.changes import name as action_name
from ..parameters import read
from ..tables import Table
from ..twins import Feature

blueprint = Feature("audit", __name__, template_folder="templates")
NAV = Nav(330, "Audit log", "audit.page", ADMIN)
ROWS = 100  # per page
# argument of a method → what the page calls it, if its name is no word of the panel
LABELS = {
    "hostname": "name",
    "id": "number",
    "mail_to": "to",
    "mail_from": "from",
    "smtp_server": "mail server",
    "smtp_port": "port",
    "smtp_security": "encryption",
    "smtp_user": "user",
    "dns": "DNS servers",
    "source": "bundle",
    "allow_older": "also older",
    "keep_recordings": "keep recordings",
    "compare": "other schedulers",
    "exclusive": "pause apps",
    "force": "although browsers insist on HTTPS",
}
# method → what its argument `name` is, if it is not an app
NAMED = dict.fromkeys(("AddUser", "SetRole", "ResetPassword", "RemoveUser"), "user") | {
    "CreateToken": "token"
}
ANSWERS = {"True": "yes", "False": "no"}


class Query(Struct, frozen=True):
    before: Before = 0


def _rows(query: Query) -> list[Entry]:
    found: list[Entry] = call("ListAudit", query.before, ROWS)
    return found


def values(entry: Entry) -> str:
    """The arguments in ENTRY as the page shows them: “app player, weight 300” for “name player, weight 300”."""
    given = arguments(entry.action, entry.detail) if entry.action in METHODS else {}
    labels = LABELS | {"name": NAMED.get(entry.action, "app")}
    shown = ", ".join(f"{labels.get(name, name)} {ANSWERS.get(text, text)}" for name, text in given.items())
    return shown or entry.detail


def outcome(kind: str) -> str:
    """Why the action failed. KIND: the last part of the name of the agent's error."""
    code = f"outcome-{kind}"
    return texts.phrase(code) if code in texts.TEXTS else kind


blueprint.add_app_template_filter(action_name, "audit_action")
blueprint.add_app_template_filter(values, "audit_values")
blueprint.add_app_template_filter(outcome, "audit_outcome")


@blueprint.get("/audit")
def page() -> str:
    rows = _rows(read(Query, request.args))
    return render_template("audit/page.html", rows=rows, more=rows[-1].id if len(rows) == ROWS else 0)


@blueprint.twin("/audit.json", list[Entry], "ListAudit", query=Query)
def page_json(query: Query) -> list[Entry]:
    """Rows of the audit log, at most 100, the newest first."""
    return _rows(query)


@blueprint.twin("/audit.csv", Entry, "ListAudit", query=Query)
def page_csv(query: Query) -> Table:
    """Rows of the audit log, at most 100, the newest first."""
    return Table(_rows(query), "audit")
