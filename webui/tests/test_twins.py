# SPDX-License-Identifier: Apache-2.0
"""The routes for programs: each is described, and each page links those that have its data.

A page links its data as JSON and, if it has a list or a chart, as CSV. A page without them has a reason here.
test_schemathesis.py compares the answers with the description, for random parameters.
"""

from __future__ import annotations

import csv
import html
import io
import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from evenkeel_api.roles import ROLES, includes
from evenkeel_panel.api.openapi import document, lowest_role, operation_id, twins
from evenkeel_panel.history.model import TABLES
from evenkeel_panel.testing import BASE, ApiBoard, some_history
from jsonschema import Draft202012Validator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from evenkeel_panel.fake_agent import FakeAgent
    from evenkeel_panel.testing import Browser
    from evenkeel_panel.twins import Twin
    from flask import Flask

DESCRIPTION = json.loads(document())
TWINS = {operation_id(twin): twin for twin in twins()}
REPORTS = ("20260131-120000", "20260201-090000")
PARTS = {"id": REPORTS[0], "table": "charts"}
# name of a twin → the query without which it has no answer
QUERIES = {
    "validation_compare": "first={}&second={}".format(*REPORTS),
    "history_comparison": "start=1000&end=2000&start2=3000&end2=4000",
}
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


# ---- the routes ----


def path_of(twin: Twin) -> str:
    """The path of TWIN in the description."""
    return re.sub(r"<(\w+)>", r"{\1}", twin.rule)


def address(twin: Twin) -> tuple[str, str]:
    """A path and a query for which TWIN has data."""
    return path_of(twin).format(**PARTS), QUERIES.get(
        operation_id(twin).removesuffix("_json").removesuffix("_csv"), ""
    )


@pytest.fixture
def board(tmp_path: Path) -> ApiBoard:
    return ApiBoard(tmp_path, HISTORY_FOLDER=some_history(tmp_path / "history"))


def test_every_route_for_programs_is_described(app: Flask) -> None:
    rules = {rule.rule for rule in app.url_map.iter_rules() if "GET" in (rule.methods or ())}
    wanted = {rule for rule in rules if rule.endswith((".json", ".csv"))} | {"/metrics", "/healthz"}
    assert wanted == {twin.rule for twin in TWINS.values()}
    assert len(wanted) > 40
    assert DESCRIPTION["paths"].keys() > {path_of(twin) for twin in TWINS.values()}


@pytest.mark.parametrize("name", TWINS)
def test_a_description_says_what_a_program_needs(name: str) -> None:
    twin = TWINS[name]
    operation = DESCRIPTION["paths"][path_of(twin)]["get"]
    assert operation["operationId"] == name
    assert re.fullmatch(r"[A-Z].*\.", operation["summary"])
    assert f"Lowest role: {lowest_role(twin) or 'none'}." in operation["description"]
    statuses = operation["responses"].keys()
    assert {"200", "503"} <= statuses
    assert {"401", "403"} <= statuses or lowest_role(twin) is None
    for parameter in operation["parameters"]:
        assert parameter["description"], parameter
        assert parameter["schema"], parameter
    assert ("422" in statuses) == any(parameter["in"] == "query" for parameter in operation["parameters"])
    assert ("404" in statuses) == any(parameter["in"] == "path" for parameter in operation["parameters"])


def test_a_user_needs_the_role_of_the_description(board: ApiBoard) -> None:
    for name, twin in TWINS.items():
        (path, query), lowest = address(twin), lowest_role(twin)
        for role in ROLES:
            with board.ask(path, "GET", role, query) as answer:
                allowed = lowest is None or includes(role, lowest)
                assert answer.status_code == (200 if allowed else 403), (name, role)
                assert answer.mimetype == (twin.media if allowed else "application/json"), (name, role)
        for nobody in (None, "nobody"):
            with board.ask(path, "GET", nobody, query) as answer:
                assert answer.status_code == (200 if lowest is None else 401), name
                assert answer.is_json, name


def fits(text: str, schema: dict[str, Any]) -> bool:
    """Whether a cell with TEXT has a value that SCHEMA allows: nothing, a text, or a value in JSON."""
    values: list[Any] = [None if text == "" else text, text.removeprefix("'")]
    with suppress(ValueError):
        values.append(json.loads(text))
    found = Draft202012Validator({**schema, "components": DESCRIPTION["components"]})
    return any(found.is_valid(value) for value in values)


FILES = [name for name, twin in TWINS.items() if twin.media == "text/csv"]
# files that are empty on a board on which nothing happens
EMPTY = {"overview_page_csv", "history_comparison_csv", "changes"}


@pytest.mark.parametrize(
    ("name", "table"),
    [(name, table) for name in FILES for table in (TABLES if name == "history_table_csv" else [""])],
)
def test_the_rows_of_a_file_are_as_described(board: ApiBoard, name: str, table: str) -> None:
    path, query = address(TWINS[name])
    answer = board.ask(path.replace("charts", table or "charts"), "GET", "admin", query)
    head, *lines = csv.reader(io.StringIO(answer.text))
    done = DESCRIPTION["paths"][path_of(TWINS[name])]["get"]["responses"]["200"]
    schema = done["content"]["text/csv"]["schema"]
    assert ",".join(head) in schema["description"]
    rows = schema["contentSchema"]["items"]
    kinds = [each["$ref"].rpartition("/")[2] for each in rows.get("anyOf", [rows])]
    described = [DESCRIPTION["components"]["schemas"][kind]["properties"] for kind in kinds]
    (properties,) = [found for found in described if list(found) == head]
    assert lines or {name, table} & EMPTY
    for line in lines[:20]:
        for column, text in zip(head, line, strict=True):
            assert fits(text, properties[column]), (column, text)


def test_a_program_gets_an_error_as_json_and_a_browser_as_a_page(admin: Browser, agent: FakeAgent) -> None:
    agent.dead = "The agent does not answer: it is not running."
    program, browser = admin.get("/network.csv"), admin.get("/network.csv", Accept="text/html,*/*;q=0.8")
    assert program.status_code == browser.status_code == 503
    assert program.json
    assert "not running" in program.json["reason"]
    assert "<!doctype html>" in browser.text
    other = admin.client.application.test_client()
    assert other.get("/network.csv", base_url=BASE).status_code == 401
    shown = other.get("/network.csv", base_url=BASE, headers={"Accept": "text/html,*/*;q=0.8"})
    assert shown.location == "/login"
