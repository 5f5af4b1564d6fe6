# SPDX-License-Identifier: Apache-2.0
"""The page of the audit log, for administrators: log-ins and changes, made in the panel, with an API token or by ekctl."""

from __future__ import annotations

import msgspec
from evenkeel_api.features.accounts import Entry
from evenkeel_api.roles import ADMIN
from flask import Blueprint, Response, render_template, request

from ..context import Nav, call
from ..tables import csv_file

blueprint = Blueprint("audit", __name__, template_folder="templates")
NAV = Nav(330, "Audit log", "audit.page", ADMIN)
ROWS = 100  # per page


def _rows() -> list[Entry]:
    before = request.args.get("before", "")
    found: list[Entry] = call(
        "ListAudit", int(before) if before.isascii() and before.isdigit() and len(before) < 18 else 0, ROWS
    )
    return found


@blueprint.get("/audit")
def page() -> str:
    rows = _rows()
    return render_template("audit/page.html", rows=rows, more=rows[-1].id if len(rows) == ROWS else 0)


@blueprint.get("/audit.json")
def page_json() -> Response:
    return Response(msgspec.json.encode(_rows()), mimetype="application/json")


@blueprint.get("/audit.csv")
def page_csv() -> Response:
    return csv_file(Entry, _rows(), "audit")
