# SPDX-License-Identifier: Apache-2.0
"""Objects that all features share, and calls to the agent on behalf of the user who sent the request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from flask import current_app, g, request, session

if TYPE_CHECKING:
    from .agent import Agent
    from .board import Board, View
    from .db import Database
    from .sessions import Sessions

KEY = "evenkeel"
# The groups of the navigation, as headings. The first one has none: it is what most users need.
GROUPS = ("", "Storage", "Board", "Access")


@dataclass(frozen=True, slots=True)
class Panel:
    db: Database
    agent: Agent
    board: Board
    sessions: Sessions


@dataclass(frozen=True, slots=True)
class Nav:
    """An entry of the navigation. ENDPOINT: its page. ROLE: the lowest role that sees it.

    ORDER: lowest first; its hundreds are the number of its group in GROUPS.
    """

    order: int
    title: str
    endpoint: str
    role: str = "viewer"

    @property
    def group(self) -> str:
        return GROUPS[self.order // 100]


def panel() -> Panel:
    return cast("Panel", current_app.extensions[KEY])


def client() -> str:
    """Address of the browser, as nginx reports it; only nginx can connect to the panel's socket."""
    return request.remote_addr or "local"


def by_htmx() -> bool:
    """Whether a script of the page sent the request and expects an HTML fragment."""
    return request.headers.get("HX-Request") == "true"


def by_token() -> bool:
    """Whether a program sent the request, with an API token in place of a cookie."""
    return _scheme() == "bearer"


def by_program() -> bool:
    """Whether a program sent the request, so that an error is JSON.

    A browser follows links to CSV files, and shows an error as a page.
    """
    path = request.path
    return (
        by_token()
        or path.startswith(("/api/", "/upload/", "/metrics"))
        or path.endswith(".json")
        or path == "/healthz"
        or (path.endswith(".csv") and "text/html" not in request.headers.get("Accept", ""))
    )


def _scheme() -> str:
    """The scheme of the header Authorization, in lower case, because its case does not matter (RFC 9110, section 11.1)."""
    return request.headers.get("Authorization", "").partition(" ")[0].lower()


def secret() -> str:
    """The secret of the request's session or token; "" without one."""
    if by_token():
        return request.headers["Authorization"].partition(" ")[2].strip()
    found = session.get("token")
    return found if isinstance(found, str) else ""


def call(method: str, *values: Any) -> Any:
    """Call the agent on behalf of the user who sent this request. Raises AgentError."""
    return panel().agent.call(method, secret(), client(), *values)


def view(*, names: bool = False) -> View:
    """The board as the pages show it. NAMES: only names of apps and devices are needed."""
    return panel().board.view(lambda: call("GetSnapshot"), names=names)


def identity() -> Any:
    """The identity of the user who sent the request; None if nobody is logged in."""
    return g.get("identity")
