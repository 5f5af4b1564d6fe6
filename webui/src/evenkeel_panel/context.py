# SPDX-License-Identifier: Apache-2.0
"""Objects that all blueprints share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from flask import current_app, request

if TYPE_CHECKING:
    from .auth.users import Users
    from .board import Board
    from .db import Database

KEY = "evenkeel"


@dataclass(frozen=True, slots=True)
class Panel:
    db: Database
    board: Board
    users: Users


def panel() -> Panel:
    return cast("Panel", current_app.extensions[KEY])


def client() -> str:
    """Address of the browser, as nginx reports it; only nginx can connect to the panel's socket."""
    return request.remote_addr or "local"


def by_htmx() -> bool:
    """Whether a script of the page sent the request and expects an HTML fragment."""
    return request.headers.get("HX-Request") == "true"
