# SPDX-License-Identifier: Apache-2.0
"""No address of a page makes the panel crash, whatever is written into it.

test_schemathesis.py does this for the API, and for the data of the pages.
"""

from __future__ import annotations

import ast
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import pytest
from evenkeel_panel.api.openapi import twins
from evenkeel_panel.twins import Feature
from sample import DEEP, SEED

if TYPE_CHECKING:
    from evenkeel_panel.testing import Browser
    from flask.sansio.blueprints import Blueprint
    from werkzeug.routing import Rule

TRIES = 400 if DEEP else 40  # of each address
ODD = [
    "", "0", "-1", "1e999", "nan", "inf", "99999999999999999999", "-99999999999999999999", "1.5", "0x10", "١٢", "\x00", "\n",
    "\ud7ff", "1970-01-01T00:00", "0000-01-01T00:00", "9999-12-31T23:59:59", "1970-01-01T00:00:00+14:00", "2y", "1h", "player",
    "loader", "../player", "%00", "<b>", "'; DROP TABLE users; --", "x" * 1500,
]  # fmt: skip


def parameters(feature: Blueprint, module: str) -> list[str]:
    """What may be a parameter of a page of FEATURE, to which MODULE belongs.

    These are the parameters of its data, and each short text in code that reads parameters.
    """
    queries = [twin.query for twin in feature.twins if twin.query] if isinstance(feature, Feature) else []
    found = {name for query in queries for name in query.__struct_fields__}
    for path in Path(sys.modules[module].__file__ or "").parent.glob("*.py"):
        if "request.args" in (text := path.read_text()):
            texts = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
            found |= {text for text in texts if isinstance(text, str) and 0 < len(text) <= 12}
    return sorted(found)


def value(chance: random.Random) -> str:
    return chance.choice((chance.choice(ODD), str(chance.randrange(-(1 << 40), 1 << 40))))


def address(rule: Rule, names: list[str], chance: random.Random) -> str:
    path = rule.rule
    for name in rule.arguments:
        for form in (f"<{name}>", f"<path:{name}>"):
            path = path.replace(form, quote(value(chance), safe=""))
        path = path.replace(f"<int:{name}>", str(chance.choice((0, 1, 1 << 40, 1 << 70))))
    query = [(name, value(chance)) for name in chance.sample(names, min(len(names), chance.randrange(1, 4)))]
    return f"{path}?{urlencode(query)}"


@pytest.mark.parametrize("parts", [False, True], ids=["whole pages", "parts for htmx"])
def test_no_address_crashes_the_panel(page: Browser, parts: bool) -> None:
    app, chance = page.client.application, random.Random(SEED)  # noqa: S311
    described = {twin.rule for twin in twins()}
    rules = sorted(
        (
            rule
            for rule in app.url_map.iter_rules()
            if "GET" in (rule.methods or ()) and rule.rule not in described and "/api/" not in rule.rule
        ),
        key=lambda rule: rule.rule,
    )
    assert len(rules) > 30
    known, statuses = set(), set()
    for rule in rules:
        feature = app.blueprints[rule.endpoint.partition(".")[0]]
        names = parameters(feature, app.view_functions[rule.endpoint].__module__)
        known |= set(names)
        for _ in range(TRIES if names or rule.arguments else 1):
            where = address(rule, names, chance)
            answer = page.get(where, **({"HX-Request": "true"} if parts else {}))
            statuses.add(answer.status_code)
            assert answer.status_code < 500, (where, answer.text[:500])
    assert {"start", "span", "before", "days", "weight", "first"} <= known
    assert {200, 404, 422} <= statuses
