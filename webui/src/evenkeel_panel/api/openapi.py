# SPDX-License-Identifier: Apache-2.0
"""The description of the routes for programs in OpenAPI 3.1: the methods of the agent, and the data of the pages.

The methods come from the schema of the agent, the data of the pages from the routes that are declared with Feature.twin().
A panel imports this module when somebody requests the description, and not before: most boards never need the memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
from evenkeel_api.errors import AgentError, Failed, NotAuthorized, NotLoggedIn
from evenkeel_api.interface import METHODS
from evenkeel_api.method import Method
from evenkeel_api.roles import ROLES, VIEWER, Role
from evenkeel_api.schema import Struct, split
from msgspec import Meta

from .. import __version__
from ..app import features
from ..twins import CSV, JSON, Feature, Twin
from .views import SERVED

REF = "#/components/schemas/{name}"
ABOUT = (
    "The methods of a board's agent (`/api/v1`), and the data of the panel's pages as JSON and CSV. A program needs an API"
    " token, which you make on the page *Your account*; only `/healthz` needs none. In a browser, a log-in is enough to read."
)
# the errors that are not errors of the agent: status and name of the response; meanings
NOT_FOUND, BAD, TOO_LARGE = (404, "NotFound"), (422, "BadArguments"), (413, "TooLarge")
OTHERS = {"NotFound": "Not found.", "BadArguments": "Bad arguments.", "TooLarge": "The body is too large."}


class Refusal(msgspec.Struct):
    """Why a call failed."""

    error: Annotated[str, Meta(description="kind of the error")]
    reason: Annotated[str, Meta(description="what failed, why, and what to do: sentences")]
    code: Annotated[
        str, Meta(description="code of the agent's message; absent if the panel itself refused")
    ] = ""
    parameters: Annotated[dict[str, Any], Meta(description="parameters of the agent's message")] = {}


Content = dict[str, Any]


def operation_id(twin: Twin) -> str:
    """The name of the route, for programs that generate code."""
    return f"{twin.feature}_{twin.view.__name__}"


def lowest_role(twin: Twin) -> Role | None:
    """The lowest role that may call it; None: it needs no log-in."""
    if twin.role is None:
        return None
    needed = (twin.role, *(METHODS[name].role or VIEWER for name in twin.calls))
    highest: Role = max(needed, key=list(ROLES).index)
    return highest


def twins() -> list[Twin]:
    """The routes for programs of all features."""
    return [
        twin
        for module in features()
        if isinstance(module.blueprint, Feature)
        for twin in module.blueprint.twins
    ]


@cache
def document() -> bytes:
    routes = twins()
    types: list[Any] = [Refusal]
    for method in SERVED.values():
        types += [method.request, *([method.answer] if method.answer else [])]
    for twin in routes:
        types += _rows(twin) if twin.media == CSV else [twin.content]
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    found = iter(schemas[1:])
    refusal = {"content": {JSON: {"schema": schemas[0]}}}
    paths: dict[str, Content] = {}
    for name, method in SERVED.items():
        request = next(found)
        answer = next(found) if method.answer else {"type": "object"}
        paths[f"/api/v1/{name}"] = {"post" if method.changes else "get": _method(method, request, answer)}
    for twin in routes:
        content = [next(found) for _ in _rows(twin)] if twin.media == CSV else [next(found)]
        paths[re.sub(r"<(\w+)>", r"{\1}", twin.rule)] = {"get": _twin(twin, content, refusal)}
    page = {
        "openapi": "3.1.0",
        "info": {"title": "Evenkeel", "version": __version__, "description": ABOUT},
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": _errors(refusal),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "Authorization: Bearer TOKEN"}
            },
        },
        "security": [{"token": []}],
    }
    return msgspec.json.encode(page)


def _rows(twin: Twin) -> list[type[Struct]]:
    """The structs of the rows of a CSV file."""
    return list(twin.content) if isinstance(twin.content, tuple) else [twin.content]


def _responses(done: Content, methods: Iterable[Method], *more: tuple[int, str]) -> dict[str, Content]:
    """The responses of a route that calls METHODS. DONE: the response 200. MORE: statuses and the names of their responses."""
    errors: list[type[AgentError]] = [NotLoggedIn, NotAuthorized, Failed]
    errors += [error for method in methods for error in method.errors]
    names = dict(more) | {error.http: error.kind for error in errors}
    found = {str(code): {"$ref": f"#/components/responses/{name}"} for code, name in names.items()}
    return {"200": done} | dict(sorted(found.items()))


def _errors(refusal: Content) -> dict[str, Content]:
    """The responses that are errors, by name."""
    meanings = OTHERS | {NotLoggedIn.kind: NotLoggedIn.meaning}
    for method in METHODS.values():
        meanings |= {error.kind: error.meaning for error in method.errors}
    meanings[Failed.kind] = f"The agent does not answer. Or: {Failed.meaning}"
    return {name: {"description": meaning, **refusal} for name, meaning in meanings.items()}


def _method(method: Method, request: Content, answer: Content) -> Content:
    done = {"description": "Done.", "content": {JSON: {"schema": answer}}}
    more = [NOT_FOUND, BAD, *([TOO_LARGE] if method.changes else [])]
    operation: Content = {
        "operationId": method.name,
        "summary": method.meaning.split("](")[0].replace("[", ""),
        "description": f"{method.meaning} Lowest role: {method.role or 'none'}.",
        "responses": _responses(done, [method], *more),
    }
    if method.changes:
        content = {JSON: {"schema": request}}
        # an empty body counts as {}
        operation["requestBody"] = {"required": bool(method.inputs), "content": content}
    else:
        operation["parameters"] = _parameters(method.request)
    return operation


def _twin(twin: Twin, content: list[Content], refusal: Content) -> Content:
    methods = [METHODS[name] for name in twin.calls]
    parameters = _parameters(twin.query, twin.rule) if twin.query else []
    done: Content = {"description": "The data.", "content": {twin.media: {"schema": content[0]}}}
    if twin.media == CSV:
        done["content"] = {CSV: {"schema": _csv(twin, content)}}
        done["headers"] = {
            "Content-Disposition": {"schema": {"type": "string"}, "description": "name of the file"}
        }
    places = {parameter["in"] for parameter in parameters}
    more = [*([NOT_FOUND] if "path" in places else []), *([BAD] if "query" in places else [])]
    responses = _responses(done, methods, *more)
    responses |= {str(code): {"description": text, **refusal} for code, text in (twin.errors or {}).items()}
    if "query" not in places:
        responses.pop("422", None)  # the panel itself chooses the arguments of the methods
    if twin.states:
        known = dict(done["content"])
        answers = [known[JSON]["schema"]] if JSON in known else []
        known[JSON] = {"schema": {"anyOf": [*answers, refusal["content"][JSON]["schema"]]}}
        text = "The agent does not answer. The data are those that are known without it."
        responses["503"] = {"description": text, "content": known}
    if twin.shared:
        responses["304"] = {"description": "The data are the same as those with the ETag in If-None-Match."}
    role, meaning = lowest_role(twin), re.sub(r"\n +", "\n", (twin.view.__doc__ or "").strip())
    operation: Content = {
        "operationId": operation_id(twin),
        "summary": meaning.partition("\n")[0],
        "description": f"{meaning} Lowest role: {role or 'none'}.",
        "parameters": parameters,
        "responses": responses,
    }
    if role is None:
        operation["security"] = []
        del responses["401"], responses["403"]
    return operation


def _csv(twin: Twin, content: list[Content]) -> Content:
    """The schema of a CSV file. `contentSchema` has its rows, each as an object."""
    heads = [",".join(struct.__struct_fields__) for struct in _rows(twin)]
    rows = content[0] if len(content) == 1 else {"anyOf": content}
    return {
        "type": "string",
        "description": f"A first line with the names of the columns: {'; or '.join(heads)}",
        "contentMediaType": CSV,
        "contentSchema": {"type": "array", "items": rows},
    }


def _parameters(struct: type[Struct], rule: str = "") -> list[Content]:
    """The fields of STRUCT as parameters: those that RULE names are in the path."""
    properties = msgspec.json.schema(struct)["$defs"][struct.__name__]["properties"]
    return [
        _parameter(field, dict(properties[field.name]), f"<{field.name}>" in rule)
        for field in msgspec.structs.fields(struct)
    ]


def _parameter(field: msgspec.structs.FieldInfo, schema: Content, in_path: bool) -> Content:
    meaning = schema.pop("description", "")
    plain = split(field.type)[0]
    if get_origin(plain) is Literal:
        schema["enum"] = list(get_args(plain))  # in the order of the source, which means something
    examples = schema.pop("examples", [])
    if field.default is None:  # without the parameter; none has the value null
        del schema["default"]
        schema |= next(kind for kind in schema.pop("anyOf") if kind != {"type": "null"})
    shown: Content = {"examples": {str(value): {"value": value} for value in examples}} if examples else {}
    return {
        "name": field.name,
        "in": "path" if in_path else "query",
        "required": field.required,
        "description": meaning,
        "schema": schema,
        **shown,
    }
