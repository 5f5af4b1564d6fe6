# SPDX-License-Identifier: Apache-2.0
"""Fixtures: a panel with a temporary state directory and a fake agent in this process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "recipes/agent/src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "recipes/history/src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from typing import TYPE_CHECKING

from evenkeel_panel.app import create_app
from evenkeel_panel.context import KEY, Panel
from evenkeel_panel.fake_agent import FakeAgent
from evenkeel_panel.testing import COMPONENT, Browser

if TYPE_CHECKING:
    from flask import Flask


@pytest.fixture
def agent() -> FakeAgent:
    return FakeAgent()


@pytest.fixture
def app(tmp_path: Path, agent: FakeAgent) -> Flask:
    return create_app(tmp_path, COMPONENT / "src/static", agent)


@pytest.fixture
def panel(app: Flask) -> Panel:
    found = app.extensions[KEY]
    assert isinstance(found, Panel)
    return found


@pytest.fixture
def browser(app: Flask, tmp_path: Path) -> Browser:
    return Browser(app.test_client(), tmp_path)


@pytest.fixture
def admin(browser: Browser) -> Browser:
    """A client that has changed the first-boot password and is logged in."""
    return browser.set_up()
