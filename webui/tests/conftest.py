# SPDX-License-Identifier: Apache-2.0
"""Fixtures: a panel with a temporary state directory and a fake agent in this process."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "recipes/agent/src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "recipes/history/src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "recipes/history/tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from typing import TYPE_CHECKING

from evenkeel_agent import passwords
from evenkeel_history.live import Live, Server
from evenkeel_history.store import Store
from evenkeel_panel.app import create_app
from evenkeel_panel.context import KEY, Panel
from evenkeel_panel.fake_agent import FakeAgent, demo_validations
from evenkeel_panel.testing import COMPONENT, Browser
from flask import Flask
from history_library import load
from jinja2 import BytecodeCache
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jinja2.bccache import Bucket
    from werkzeug.routing import Rule


class Compiled(BytecodeCache):
    """The compiled templates of all panels of a test run. Otherwise each test would compile them again."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if code := self.kept.get(bucket.key):
            bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self.kept[bucket.key] = bucket.bytecode_to_string()


# Flask makes each panel's environment of templates with these options.
Flask.jinja_options = {"bytecode_cache": Compiled()}


@pytest.fixture(scope="session", autouse=True)
def compiled_library(tmp_path_factory: pytest.TempPathFactory) -> None:
    load(tmp_path_factory.mktemp("library"))


@pytest.fixture(autouse=True)
def same_umask() -> Iterator[None]:
    """The program of the first boot sets the umask, for its own process. Later tests must not see it."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


@pytest.fixture(autouse=True)
def cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly every test here sets a password. recipes/agent/tests/test_passwords.py tests the real cost."""
    monkeypatch.setattr(passwords, "COST", {"time_cost": 1, "memory_cost": 8, "parallelism": 1})


@pytest.fixture
def agent() -> Iterator[FakeAgent]:
    agent = FakeAgent()
    yield agent
    agent.close()


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


# ---- a panel with a history ----


@pytest.fixture
def live() -> Live:
    """The part of the history that is in RAM."""
    return Live()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the database. It does not exist yet."""
    return tmp_path / "history"


@pytest.fixture
def store(folder: Path) -> Store:
    store = Store(folder)
    store.open()
    return store


@pytest.fixture
def page(tmp_path: Path, folder: Path, live: Live, agent: FakeAgent) -> Iterator[Browser]:
    """A client that is logged in to a panel with this history."""
    server = Server(tmp_path / "live", live)
    app = create_app(
        tmp_path, COMPONENT / "src/static", agent, HISTORY_FOLDER=folder, HISTORY_SOCKET=tmp_path / "live"
    )
    yield Browser(app.test_client(), tmp_path).set_up()
    server.close()


# ---- every page ----

NEWEST, OLDEST = list(demo_validations())
# endpoint → the parts of its address that vary
PARTS = {
    "apps.ask": {"name": "player"},
    "apps.measured": {"name": "player"},
    "apps.preview": {"name": "player"},
    "api.method": {"name": "ListApps"},
    "history.table_csv": {"table": "charts"},
    "network.form": {"name": "enp1s0"},
    "users.ask_remove": {"name": "eve"},
    "users.ask_reset": {"name": "eve"},
    "validation.report": {"id_": NEWEST},
    "validation.report_csv": {"id": NEWEST},
    "validation.report_json": {"id": NEWEST},
    "validation.saved_html": {"id_": NEWEST},
    "validation.saved_json": {"id": NEWEST},
}
# endpoint → the query without which it has nothing to show
QUERIES = {
    "history.comparison": "?start=1000&end=2000&start2=3000&end2=4000",
    "validation.compare": f"?first={OLDEST}&second={NEWEST}",
}
QUERIES |= {f"{page}_{kind}": query for page, query in QUERIES.items() for kind in ("json", "csv")}


def _address(rule: Rule) -> str:
    """An address of RULE."""
    parts = PARTS.get(rule.endpoint, {}) if rule.arguments else {}
    assert parts.keys() == rule.arguments, f"PARTS needs an example of {rule.rule}"
    return re.sub(r"<([a-z_]+:)?([a-z_]+)>", lambda found: parts[found[2]], rule.rule) + QUERIES.get(
        rule.endpoint, ""
    )


def _every_page(app: Flask, admin: Browser, agent: FakeAgent) -> Iterator[tuple[str, str]]:
    """The endpoint and the text of each page that an administrator can open."""
    admin.post("/users", "/users", name="eve", role="viewer")
    agent.apps[0] = replace(agent.apps[0], added=True)
    for rule in app.url_map.iter_rules():
        if "GET" not in (rule.methods or ()):
            continue
        with admin.get(_address(rule)) as answer:  # the end of a download frees its place
            text = answer.text
        # a user who is logged in does not see the log-in
        wanted = 302 if rule.endpoint == "account.login" else 200
        assert answer.status_code == wanted, (rule.rule, answer.status_code)
        if wanted == 200 and "<!doctype html>" in text.lower():
            yield rule.endpoint, text


@pytest.fixture
def pages(app: Flask, admin: Browser, agent: FakeAgent) -> Iterator[tuple[str, str]]:
    """The endpoint and the text of each page that an administrator can open."""
    return _every_page(app, admin, agent)


# The host may be busy, so the time of an example says nothing.
settings.register_profile("evenkeel", deadline=None)
settings.load_profile("evenkeel")
