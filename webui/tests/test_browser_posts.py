# SPDX-License-Identifier: Apache-2.0
"""Every change of the panel has a browser test: each POST route is named by a test in tests/browser (posts.py there)."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Any

import pytest
from evenkeel_panel.app import create_app
from evenkeel_panel.fake_agent import FakeAgent
from evenkeel_panel.testing import COMPONENT

if TYPE_CHECKING:
    from pathlib import Path

# POST routes that no page uses, with the reason
ONLY_FOR_PROGRAMS = {"/api/v1/<name>": "app.protect() refuses a POST without an API token"}


@pytest.fixture(scope="module")
def posts() -> Any:
    """The module tests/browser/posts.py."""
    path = COMPONENT.parent / "tests/browser/posts.py"
    spec = importlib.util.spec_from_file_location("posts", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = writes
    return module


def test_a_browser_test_uses_each_post_route(posts: Any, tmp_path: Path) -> None:
    app = create_app(tmp_path, COMPONENT / "src/static", FakeAgent())
    routes = {rule.rule for rule in app.url_map.iter_rules() if "POST" in (rule.methods or ())}
    assert len(routes) > 40
    named = set(posts.named())
    assert routes - named - ONLY_FOR_PROGRAMS.keys() == set(), "routes without a browser test"
    assert named - routes == set(), "marks that name no route of the panel"
    assert ONLY_FOR_PROGRAMS.keys() <= routes


def test_a_request_belongs_to_the_route_that_flask_chooses(posts: Any) -> None:
    routes = ("/network/<name>", "/network/confirm", "/users/<name>/role")
    assert posts.route_of("/network/confirm", routes) == "/network/confirm"
    assert posts.route_of("/network/eth0", routes) == "/network/<name>"
    assert posts.route_of("/users/mona/role", routes) == "/users/<name>/role"
    assert posts.route_of("/users/mona/reset", routes) == ""
