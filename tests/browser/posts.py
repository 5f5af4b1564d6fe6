# SPDX-License-Identifier: Apache-2.0
"""Which POST routes of the panel the browser tests use.

A test names its routes: @pytest.mark.posts("/users", "/users/<name>/role"). Two checks keep the names true and complete:

- conftest.py fails a test whose browser did not send a named route, or whose request the panel refused;
- webui/tests/test_browser_posts.py fails if the panel has a POST route that no test names.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from playwright.sync_api import BrowserContext, Response

MARK = "posts"
FOLDER = Path(__file__).resolve().parent
accepted: list[str] = []  # paths of the POST requests that the panel has accepted during the test that runs


def watch(context: BrowserContext) -> None:
    """Let `accepted` get the requests of this context."""

    def note(response: Response) -> None:
        if response.request.method == "POST" and response.status < 400:
            accepted.append(urlsplit(response.url).path)

    context.on("response", note)


@cache
def named() -> dict[str, set[str]]:
    """Route → the tests that name it, from the source of all tests in this folder."""
    found: dict[str, set[str]] = {}
    for file in sorted(FOLDER.glob("test_*.py")):
        for test in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(test, ast.FunctionDef):
                for route in _routes(test.decorator_list):
                    found.setdefault(route, set()).add(f"{file.name}::{test.name}")
    return found


def _routes(decorators: Iterable[ast.expr]) -> list[str]:
    return [
        str(ast.literal_eval(argument))
        for call in decorators
        if isinstance(call, ast.Call) and ast.unparse(call.func) == f"pytest.mark.{MARK}"
        for argument in call.args
    ]


def route_of(path: str, routes: Iterable[str]) -> str:
    """The one of ROUTES to which PATH belongs, or "". As in Flask, a route without a variable prevails."""
    patterns = {
        route: re.sub("<[^>]+>", "[^/]+", route) for route in sorted(routes, key=lambda each: "<" in each)
    }
    return next((route for route, pattern in patterns.items() if re.fullmatch(pattern, path)), "")


def missing(wanted: Iterable[str]) -> list[str]:
    """Those of WANTED to which no accepted request belongs."""
    used = {route_of(path, named()) for path in accepted}
    return [route for route in wanted if route not in used]
