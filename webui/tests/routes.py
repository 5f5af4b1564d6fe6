#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The data of the panel's pages, from its OpenAPI description, as tables in docs/reference/interfaces.md.

routes.py write    write the tables
"""

from __future__ import annotations

import json
import re
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

COMPONENT = Path(__file__).resolve().parents[1]
TOP = COMPONENT.parent
PAGE = TOP / "docs/reference/interfaces.md"
for folder in (
    COMPONENT / "src",
    TOP / "recipes/agent/src",
    TOP / "recipes/history/src",
    COMPONENT / "tests",
):
    sys.path.append(str(folder))

from asvs import renewed, table  # noqa: E402
from evenkeel_panel.api.openapi import document  # noqa: E402


def routes() -> dict[str, dict[str, Any]]:
    """The operations that are data of pages, by path."""
    return {
        path: operations["get"]
        for path, operations in json.loads(document())["paths"].items()
        if not path.startswith("/api/")
    }


def _role(operation: dict[str, Any]) -> str:
    found = re.search(r"Lowest role: (\w+)\.$", operation["description"])
    assert found, operation["operationId"]
    return found[1]


def _values(schema: dict[str, Any]) -> str:
    """What a parameter may be."""
    if "enum" in schema:
        return ", ".join(f"`{value}`" if value != "" else "empty" for value in schema["enum"])
    if "maximum" in schema:
        return f"{schema['minimum']} to {schema['maximum']}"
    if "maxLength" in schema:
        return f"at most {schema['maxLength']} characters"
    return "text"


def _cells(parameter: dict[str, Any]) -> tuple[str, ...]:
    usual = parameter["schema"].get("default")
    shown = "needed" if parameter["required"] else f"`{usual}`" if usual not in ("", None) else ""
    return f"`{parameter['name']}`", _values(parameter["schema"]), shown, parameter["description"]


def parts() -> dict[str, str]:
    """The generated parts of the page, by name."""
    found = routes()
    addresses = [
        (f"`{path}`", operation["summary"].rstrip("."), _role(operation)) for path, operation in found.items()
    ]
    with_query = [
        (path, operation["parameters"]) for path, operation in found.items() if operation["parameters"]
    ]
    parameters = []
    for given, same in groupby(with_query, key=lambda item: item[1]):
        paths = ", ".join(f"`{path}`" for path, _ in same)
        for number, parameter in enumerate(given):
            parameters.append((paths if number == 0 else "", *_cells(parameter)))
    return {
        "data of the pages": table(("address", "what", "lowest role"), *addresses),
        "parameters of the data": table(
            ("address", "parameter", "values", "default", "meaning"), *parameters
        ),
    }


if __name__ == "__main__":
    if sys.argv[1:] != ["write"]:
        sys.exit(__doc__)
    PAGE.write_text(renewed(PAGE.read_text(), parts()))
