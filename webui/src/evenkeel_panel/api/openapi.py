# SPDX-License-Identifier: Apache-2.0
"""The description of /api/v1 in OpenAPI 3.1, from the schema of the agent."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from evenkeel_api.errors import Failed
from evenkeel_api.interface import METHODS
from evenkeel_api.method import Method

from .. import __version__

# The methods of the API: all except those about a browser's session, those that refuse a token, those for the console only,
# and those whose answer is an open file.
SERVED = {
    name: method
    for name, method in METHODS.items()
    if not (method.panel or method.no_token or method.local or method.out_signature == "h")
}
REF = "#/components/schemas/{name}"


class Problem(msgspec.Struct):
    """Why a call failed."""

    error: str  # kind of the error
    reason: str  # a sentence
    code: str = ""  # code of the agent's message; empty if the panel itself refused the call
    parameters: dict[str, Any] = {}


@cache
def document() -> bytes:
    types: list[Any] = [Problem]
    for method in SERVED.values():
        types += [method.request, *([method.answer] if method.answer else [])]
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    found = iter(schemas[1:])
    paths = {}
    for name, method in SERVED.items():
        request = next(found)
        answer = next(found) if method.answer else {"type": "object"}
        paths[f"/api/v1/{name}"] = {"post" if method.changes else "get": _operation(method, request, answer)}
    page = {
        "openapi": "3.1.0",
        "info": {
            "title": "Evenkeel",
            "version": __version__,
            "description": "The methods of a board's agent.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }
    return msgspec.json.encode(page)


def _operation(method: Method, request: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    problem = {"content": {"application/json": {"schema": {"$ref": REF.format(name="Problem")}}}}
    codes = {"401": "Not logged in.", "403": "Not allowed.", "404": "Not found.", "422": "Bad arguments."}
    codes |= {str(error.http): error.meaning for error in method.errors}
    if method.changes:
        codes["413"] = "The body is too large."
    codes["503"] = f"The agent does not answer. Or: {Failed.meaning}"
    operation: dict[str, Any] = {
        "operationId": method.name,
        "summary": method.meaning.split("](")[0].replace("[", ""),
        "description": f"{method.meaning} Lowest role: {method.role or 'none'}.",
        "responses": {
            "200": {"description": "Done.", "content": {"application/json": {"schema": answer}}},
            **{code: {"description": text, **problem} for code, text in sorted(codes.items())},
        },
    }
    if method.changes:
        content = {"application/json": {"schema": request}}
        # an empty body counts as {}
        operation["requestBody"] = {"required": bool(method.inputs), "content": content}
    else:
        operation["parameters"] = [
            {
                "name": field.name,
                "in": "query",
                "required": True,
                "description": field.meaning,
                "schema": msgspec.json.schema(method.request)["$defs"][method.request.__name__]["properties"][
                    field.name
                ],
            }
            for field in method.inputs
        ]
    return operation
