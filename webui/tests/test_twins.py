# SPDX-License-Identifier: Apache-2.0
"""Each page links its data as JSON and, if it has a list or a chart, as CSV. A page without them has a reason here."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

import pytest
from evenkeel_panel.fake_agent import demo_validations
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evenkeel_panel.fake_agent import FakeAgent
    from evenkeel_panel.testing import Browser
    from flask import Flask
    from werkzeug.routing import Rule

NEWEST, OLDEST = list(demo_validations())
# endpoint → the parts of its address that vary
PARTS = {
    "apps.ask": {"name": "player"},
    "apps.measured": {"name": "player"},
    "apps.preview": {"name": "player"},
    "api.method": {"name": "ListApps"},
    "history.page_csv": {"table": "charts"},
    "network.form": {"name": "enp1s0"},
    "users.ask_remove": {"name": "eve"},
    "users.ask_reset": {"name": "eve"},
    "validation.download": {"id_": NEWEST, "kind": "html"},
    "validation.report": {"id_": NEWEST},
    "validation.report_csv": {"id_": NEWEST},
    "validation.report_json": {"id_": NEWEST},
}
# endpoint → the query without which it has nothing to show
QUERIES = {
    "history.comparison": "?start=1000&end=2000&start2=3000&end2=4000",
    "validation.compare": f"?first={OLDEST}&second={NEWEST}",
}
QUERIES |= {f"{page}_{kind}": query for page, query in QUERIES.items() for kind in ("json", "csv")}
QUESTION = "It asks before a change, and shows nothing but the question."
# endpoint of a page → why it has no data of its own
NO_DATA = {
    "account.password": "A form.",
    "apps.ask": QUESTION,
    "apps.form": "A form.",
    "system.ask_restart": QUESTION,
    "users.ask_remove": QUESTION,
    "users.ask_reset": QUESTION,
}
# endpoint of a page → why it has no CSV
NO_LIST = {
    "alerts.page": "Its data are settings, not a list.",
    "system.page": "Its data are settings, not a list.",
}


def address(rule: Rule) -> str:
    """An address of RULE."""
    parts = PARTS.get(rule.endpoint, {}) if rule.arguments else {}
    assert parts.keys() == rule.arguments, f"PARTS needs an example of {rule.rule}"
    return re.sub(r"<([a-z_]+:)?([a-z_]+)>", lambda found: parts[found[2]], rule.rule) + QUERIES.get(
        rule.endpoint, ""
    )


@pytest.fixture
def pages(app: Flask, admin: Browser, agent: FakeAgent) -> Iterator[tuple[str, str]]:
    """The endpoint and the text of each page that an administrator can open."""
    admin.post("/users", "/users", name="eve", role="viewer")
    agent.apps[0] = replace(agent.apps[0], added=True)

    def found() -> Iterator[tuple[str, str]]:
        for rule in app.url_map.iter_rules():
            if "GET" not in (rule.methods or ()):
                continue
            answer = admin.get(address(rule))
            # a user who is logged in does not see the log-in
            wanted = 302 if rule.endpoint == "account.login" else 200
            assert answer.status_code == wanted, (rule.rule, answer.status_code)
            if wanted == 200 and "<!doctype html>" in answer.text.lower():
                yield rule.endpoint, answer.text

    return found()


def linked(text: str, kind: str) -> list[str]:
    """The addresses of files of KIND that a page links."""
    found = (html.unescape(link) for link in re.findall(r'href="(/[^"]*)"', text))
    return [
        link for link in found if link.partition("?")[0].endswith(f".{kind}") and not link.startswith("/api/")
    ]


def test_each_page_links_its_data(admin: Browser, pages: Iterator[tuple[str, str]]) -> None:
    seen = set()
    for endpoint, text in pages:
        seen.add(endpoint)
        as_json, as_csv = linked(text, "json"), linked(text, "csv")
        assert bool(as_json) != (endpoint in NO_DATA), (endpoint, as_json)
        assert bool(as_csv) != (endpoint in NO_DATA or endpoint in NO_LIST), (endpoint, as_csv)
        for link in as_json:
            answer = admin.get(link)
            assert (answer.status_code, answer.mimetype) == (200, "application/json"), (endpoint, link)
        for link in as_csv:
            answer = admin.get(link)
            assert (answer.status_code, answer.mimetype) == (200, "text/csv"), (endpoint, link)
            assert answer.headers["Content-Disposition"].startswith('attachment; filename="'), link
            assert re.match(r"[a-z0-9_]+(,[a-z0-9_]+)*\r?\n", answer.text), link
    assert len(seen) > 20
    assert seen > NO_DATA.keys() | NO_LIST.keys()
