# SPDX-License-Identifier: Apache-2.0
"""The page of the page cache. recipes/pagepool tests the pool, recipes/agent the orders."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, get_args

import msgspec
import pytest
from evenkeel_api import errors
from evenkeel_api.features.cache import Cache, DirectoryState, HeldDirectory, PoolState, PriorityDirectory
from evenkeel_api.messages import Message
from evenkeel_panel.cache import views
from evenkeel_panel.testing import BASE, headings

if TYPE_CHECKING:
    from evenkeel_panel.fake_agent import FakeAgent
    from evenkeel_panel.testing import Browser
    from flask import Flask


def fields(page: str) -> dict[str, str]:
    """The figures of the page by name, without markup."""
    found = re.findall(r'data-field="(\w+)"[^>]*>(.*?)</(?:dd|span)>', page, re.DOTALL)
    return {name: re.sub(r"\s+", " ", text).strip() for name, text in found}


def rows(page: str) -> dict[str, str]:
    found = re.findall(r'<tr data-directory="([^"]+)">(.*?)</tr>', page, re.DOTALL)
    return {path: re.sub(r"<[^>]+>", " ", text) for path, text in found}


def test_the_page_shows_pools_cost_and_minutes(admin: Browser) -> None:
    page = admin.get("/cache").text
    assert headings(page)
    shown = fields(page)
    assert (shown["state"], shown["protected"], shown["normal"]) == ("on", "99.4 %", "81.2 %")
    assert shown["size"] == "71 MB"
    assert shown["target"] == "96 MB, at most 521 MB of 1.04 GB memory"
    assert shown["cost"] == (
        "71 MB of memory that they cannot use. In the last 10 minutes, their hit ratio was 1.3 points below its"
        " target of 85 %."
    )
    assert len(re.findall(r'<tr><th scope="row">(?:now|\d min ago)', page)) == 10
    assert "99.1 %" in page
    assert 'hx-get="/cache/live"' in page


def test_the_twin_and_the_fragment_have_the_same_data(admin: Browser, agent: FakeAgent) -> None:
    assert msgspec.convert(admin.get("/cache.json").json, Cache) == agent.cache
    live = admin.get("/cache/live").text
    assert fields(live) == fields(admin.get("/cache").text)
    assert "<html" not in live
    agent.cache = msgspec.structs.replace(agent.cache, protected_ratio=-1.0, normal_lack=-1.0)
    shown = fields(admin.get("/cache/live").text)
    assert shown["protected"] == "no accesses"
    assert "They had no accesses." in shown["cost"]
    agent.cache = msgspec.structs.replace(agent.cache, normal_lack=0.0)
    assert "reached its target of 85 %" in fields(admin.get("/cache/live").text)["cost"]


def test_directories_are_added_and_removed(admin: Browser, agent: FakeAgent) -> None:
    page = admin.get("/cache").text
    assert list(rows(page)) == ["/data/player/clips", "/data/player/new"]
    assert "does not exist" in rows(page)["/data/player/new"]
    page = admin.post("/cache/add", "/cache", app="loader", directory=" /srv/top/ ").text
    assert "/srv/top is a priority directory of loader now." in page
    assert "Loader" in rows(page)["/srv/top"]
    page = admin.post("/cache/remove", "/cache", app="player", directory="/data/player/clips").text
    assert "is no priority directory of player any more" in page
    assert list(rows(page)) == ["/data/player/new", "/srv/top"]
    assert agent.calls[-2:] == [
        "AddPriorityDirectory loader /srv/top",
        "RemovePriorityDirectory player /data/player/clips",
    ]
    log = admin.get("/audit.json").text
    assert "AddPriorityDirectory" in log
    assert "RemovePriorityDirectory" in log


@pytest.mark.parametrize(
    ("name", "directory", "status", "text"),
    [
        ("player", "srv", 422, "&#39;srv&#39; is not an absolute path"),
        ("player", "/srv/../etc", 422, "is not an absolute path"),
        ("player", "", 422, "Nothing was changed"),
        ("", "/srv", 422, "Nothing was changed"),
        ("nobody", "/srv", errors.UnknownApp.http, "There is no app"),
        ("player", "/data/player/new", 409, "already is a priority directory of player"),
    ],
)
def test_a_bad_directory_is_explained_and_what_was_typed_stays(
    admin: Browser, name: str, directory: str, status: int, text: str
) -> None:
    answer = admin.post("/cache/add", "/cache", app=name, directory=directory)
    assert answer.status_code == status
    assert text in answer.text
    assert f'value="{directory}" aria-invalid="true"' in answer.text
    assert len(rows(answer.text)) == 2


def test_a_path_is_text(admin: Browser, agent: FakeAgent) -> None:
    page = admin.post("/cache/add", "/cache", app="player", directory="/<b>x</b>&").text
    assert "<b>x" not in page
    assert agent.cache.directories[-1].path == "/<b>x</b>&"
    removed = admin.post("/cache/remove", "/cache", app="player", directory="/<b>x</b>&")
    assert removed.status_code == 200


def test_a_directory_that_a_program_holds_is_shown_and_cannot_be_removed(
    admin: Browser, agent: FakeAgent
) -> None:
    held = [HeldDirectory("/data/<x>", "protected"), HeldDirectory("/y", "failed", "no memory")]
    agent.cache = Cache("on", held=held)
    page = admin.get("/cache").text
    assert "No app has a priority directory." in page
    found = re.findall(r'<p data-held="([^"]+)">(.*?)</p>', page, re.DOTALL)
    assert [path for path, _ in found] == ["/data/&lt;x&gt;", "/y"]
    assert "protected" in found[0][1]
    assert "no memory." in found[1][1]
    assert 'action="/cache/remove"' not in page
    assert msgspec.convert(admin.get("/cache.json").json, Cache).held == held


def test_a_pool_that_is_off_says_why_and_keeps_the_form(admin: Browser, agent: FakeAgent) -> None:
    off = [PriorityDirectory("player", "/a", "off")]
    agent.cache = Cache("off", directories=off, problem=[Message("pool-no-module").note()])
    page = admin.get("/cache").text
    assert "the kernel module evenkeel_pagepool is not loaded; restart the board" in page
    assert "Everything else on the board works." in page
    assert "The page pool is off." in rows(page)["/a"]
    assert 'action="/cache/add"' in page
    assert "Last minutes" not in page
    agent.cache = Cache("idle")
    page = admin.get("/cache").text
    assert "No app has a priority directory." in page
    assert "This costs nothing." in page


def test_a_service_that_does_not_answer_is_a_pool_that_is_off(admin: Browser, agent: FakeAgent) -> None:
    agent.no_cache = errors.Failed(
        "pool-unreachable", path="/run/evenkeel/pool", reason="no", unit="evenkeel-pool"
    )
    answer = admin.get("/cache")
    assert answer.status_code == 200
    assert "see &#39;systemctl status evenkeel-pool&#39;" in answer.text
    assert admin.get("/cache.json").json["state"] == "off"  # type: ignore[index]
    assert "does not answer" not in admin.get("/cache/live").text
    agent.no_cache = errors.NotAuthorized("polkit-no", user="x", action="y")
    assert admin.get("/cache").status_code == 403


def test_others_only_read(admin: Browser, app: Flask, agent: FakeAgent) -> None:
    for role in ("operator", "viewer"):
        made = admin.post("/account/tokens", "/account", name=role, role=role, days="30").text
        found = re.search(r"is (ek_[\w-]+)\.", made)
        assert found
        headers = {"Authorization": f"Bearer {found[1]}"}
        client = app.test_client()
        page = client.get("/cache", base_url=BASE, headers=headers)
        assert page.status_code == 200
        assert "Only an administrator can choose" in page.text
        assert "/cache/add" not in page.text
        assert "/cache/remove" not in page.text
        for path in ("/cache/add", "/cache/remove"):
            form = {"app": "player", "directory": "/data/player/clips"}
            assert client.post(path, base_url=BASE, headers=headers, data=form).status_code == 403
    assert len(agent.cache.directories) == 2


def test_without_an_app_the_page_says_where_to_add_one(admin: Browser, agent: FakeAgent) -> None:
    agent.apps.clear()
    agent.cache = Cache("idle")
    assert "Add an app first." in admin.get("/cache").text


def test_every_state_has_words() -> None:
    assert views.POOL_STATES.keys() == set(get_args(PoolState))
    assert views.DIRECTORY_STATES.keys() == set(get_args(DirectoryState))
