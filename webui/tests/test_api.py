# SPDX-License-Identifier: Apache-2.0
"""The API keeps its description. A real panel answers, with a fake agent.

test_schemathesis.py tests the same with calls that schemathesis makes. Here is what needs more than the description: names
of apps and users that exist, calls that the agent may refuse only for their meaning, bodies that are not JSON, and an agent
that does not answer.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from evenkeel_panel.api.openapi import document
from evenkeel_panel.api.views import SERVED
from evenkeel_panel.context import KEY
from evenkeel_panel.testing import ApiBoards
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator, validate

if TYPE_CHECKING:
    from werkzeug.test import TestResponse

DESCRIPTION = json.loads(document())
METHODS = {f"/api/v1/{name}" for name in SERVED}
OPERATIONS = {
    path: (verb.upper(), operation)
    for path, verbs in DESCRIPTION["paths"].items()
    for verb, operation in verbs.items()
    if path in METHODS
}
MOST = {"u": 2**32 - 1, "t": 2**64 - 1, "x": 2**63 - 1}  # the largest whole number of each type of D-Bus
NAMES = ("player", "loader", "admin", "eve")  # apps and users that exist, or that a call may add


@pytest.fixture(scope="module")
def boards() -> Any:
    with TemporaryDirectory() as folder:
        yield ApiBoards(Path(folder))


def resolved(part: dict[str, Any]) -> dict[str, Any]:
    """PART of the description, or the component to which it refers."""
    if "$ref" in part:
        *_, kind, name = part["$ref"].split("/")
        found: dict[str, Any] = DESCRIPTION["components"][kind][name]
        return found
    return part


def valid(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that SCHEMA allows."""
    schema = resolved(schema)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema["type"]
    if kind == "object":
        return st.fixed_dictionaries({name: valid(inner) for name, inner in schema["properties"].items()})
    if kind == "integer":
        return st.integers(schema.get("minimum"), schema.get("maximum"))
    if kind == "boolean":
        return st.booleans()
    if kind == "array":
        return st.lists(valid(schema["items"]), max_size=schema["maxItems"])
    assert kind == "string", schema
    if "pattern" in schema:
        most = schema.get("maxLength", 1000)
        return st.from_regex(schema["pattern"]).filter(lambda text: len(text) <= most)
    most = schema.get("maxLength", 200)
    return st.sampled_from(NAMES) | st.text(min_size=schema.get("minLength", 0), max_size=most)


@cache
def arguments(path: str) -> st.SearchStrategy[dict[str, Any]]:
    verb, operation = OPERATIONS[path]
    if verb == "POST":
        return valid(operation["requestBody"]["content"]["application/json"]["schema"])
    return st.fixed_dictionaries({each["name"]: valid(each["schema"]) for each in operation["parameters"]})


def encoded(values: object) -> bytes:
    return json.dumps(values).encode()


@cache
def validator(path: str, status: int) -> Draft202012Validator:
    response = resolved(OPERATIONS[path][1]["responses"][str(status)])
    answer = response["content"]["application/json"]["schema"]
    return Draft202012Validator({**answer, "components": DESCRIPTION["components"]})


def check(path: str, answer: TestResponse) -> None:
    """ANSWER has a documented status, and the documented form."""
    documented = OPERATIONS[path][1]["responses"]
    assert str(answer.status_code) in documented, (answer.status_code, answer.text)
    assert answer.status_code != 500
    assert answer.is_json
    validator(path, answer.status_code).validate(answer.json)


def test_the_description_is_valid_and_complete() -> None:
    validate(DESCRIPTION, cls=OpenAPIV31SpecValidator)
    assert OPERATIONS.keys() == METHODS
    assert not [name for name in DESCRIPTION["components"]["schemas"] if "." in name], (
        "two structs have this name"
    )
    for path, (verb, operation) in OPERATIONS.items():
        method = SERVED[path.rpartition("/")[2]]
        assert verb == ("POST" if method.changes else "GET")
        assert {"200", "401", "403", "422", "503"} <= operation["responses"].keys()
        assert {str(error.http) for error in method.errors} <= operation["responses"].keys()
        for field in method.inputs:
            if field.signature in MOST:  # D-Bus can carry each allowed value
                schema = msgspec.json.schema_components([method.request])[1][method.request.__name__]
                bounds = schema["properties"][field.name]
                assert 0 <= bounds["minimum"] <= bounds["maximum"] <= MOST[field.signature], field
        for response in map(resolved, operation["responses"].values()):
            assert response["description"]
            Draft202012Validator.check_schema(response["content"]["application/json"]["schema"])


@pytest.mark.parametrize("path", OPERATIONS)
def test_a_valid_call_is_refused_only_for_its_meaning(path: str, boards: ApiBoards) -> None:
    verb = OPERATIONS[path][0]

    @settings(deadline=None, max_examples=20, database=None)
    @given(arguments(path))
    def calls(values: dict[str, Any]) -> None:
        board = boards.ready()
        if verb == "GET":
            answer = board.ask(path, verb, "admin", query={key: str(value) for key, value in values.items()})
        else:
            answer = board.ask(path, verb, "admin", body=encoded(values))
        check(path, answer)
        assert answer.status_code != 403
        assert answer.status_code != 422 or answer.json["code"], answer.text  # type: ignore[index]

    calls()


@pytest.mark.parametrize("path", [path for path, (verb, _) in OPERATIONS.items() if verb == "POST"])
def test_a_body_that_is_not_json_is_refused(path: str, boards: ApiBoards) -> None:
    @settings(deadline=None, max_examples=10, database=None)
    @given(st.binary(max_size=200))
    def calls(body: bytes) -> None:
        check(path, boards.ready().ask(path, "POST", "admin", body=body))

    calls()


@pytest.mark.parametrize("path", OPERATIONS)
def test_an_agent_that_does_not_answer_is_documented(path: str, boards: ApiBoards) -> None:
    board = boards.ready()
    verb, operation = OPERATIONS[path]
    board.agent.dead = "The agent does not answer: it is not running."
    try:
        names = {each["name"]: each["schema"].get("type") for each in operation.get("parameters", [])}
        query = {"source": "/bundle", "priority": "info", "profile": "quick"}
        query |= dict.fromkeys(("id", "first", "second"), "20260131-120000") | {
            "topic": "fair",
            "compare": "true",
            "exclusive": "false",
        }
        schema = (
            operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        )
        given = {"hostname": "x", "zone": "UTC", "servers": []}
        body = {
            name: given[name]
            if name in given
            else {
                "string": "/x" if inner.get("minLength") else "",
                "integer": 1,
                "boolean": True,
                "array": [],
            }.get(inner.get("type"), inner.get("enum", [""])[0])
            for name, inner in resolved(schema).get("properties", {}).items()
        }
        answer = board.ask(
            path,
            verb,
            "admin",
            {name: "1" if kind == "integer" else query.get(name, "") for name, kind in names.items()},
            encoded(body),
        )
        assert answer.status_code == 503, answer.text
        check(path, answer)
    finally:
        board.agent.dead = ""
        board.app.extensions[KEY].board.expire()
