# SPDX-License-Identifier: Apache-2.0
"""The apps page, its JSON twin, and every way to set a weight wrongly."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from evenkeel_panel.agent import AgentRefused, AgentUnreachable, App
from evenkeel_panel.apps import model
from evenkeel_panel.fake_agent import FakeAgent
from evenkeel_panel.testing import BASE, Browser

if TYPE_CHECKING:
    from evenkeel_panel.context import Panel

HEALTH = {
    "scheduler": "evenkeel",
    "kernel": "6.12.48-evenkeel",
    "slot": "A",
    "health": "ok",
    "version": "0.1.0",
}


def figures(html: str) -> dict[str, dict[str, str]]:
    """{app: {field: data-value}} of a page."""
    found: dict[str, dict[str, str]] = {}
    for name, row in re.findall(r'<article[^>]* data-app="([^"]+)"(.*?)</article>', html, re.DOTALL):
        found[name] = dict(re.findall(r'data-field="([^"]+)" data-value="([^"]*)"', row))
    return found


@pytest.fixture
def busy(agent: FakeAgent) -> FakeAgent:
    """Player 60 MB/s, loader 20 MB/s, weights 300:100."""
    player, loader = agent.apps
    stats = json.dumps({"state": "playing", "stalls": 3, "stall_ms": 420, "x": None, "deep": {"a": 1}})
    agent.apps = [
        replace(player, weight=300, read_bps=58e6, write_bps=2e6, share=0.75, p99_us=12345.6, stats=stats),
        replace(loader, read_bps=20e6, share=0.25, p99_us=1_200_000.0),
    ]
    return agent


def test_page_shows_figures_weights_and_the_board(admin: Browser, busy: FakeAgent) -> None:
    page = admin.get("/apps").text
    player = figures(page)["player"]
    assert (player["mbps"], player["share"], player["p99"], player["weight"]) == (
        "60.0",
        "0.75",
        "12345.6",
        "300",
    )
    assert (player["state"], player["stalls"], player["stall_ms"]) == ("active", "3", "420")
    assert "12.3 ms" in page
    assert "1.20 s" in page
    for text in ("evenkeel", "6.12.48-evenkeel", "in force", "by weight 75.0 %", "80.0"):
        assert text in page


def test_json_twin_has_the_same_figures(admin: Browser, busy: FakeAgent) -> None:
    shown = figures(admin.get("/apps").text)
    twin = admin.get("/apps.json").json
    assert twin
    assert list(shown) == [app["name"] for app in twin["apps"]]
    keys = {
        "mbps": "mbps",
        "read": "read_mbps",
        "write": "write_mbps",
        "share": "share",
        "p99": "p99_us",
        "weight": "weight",
    }
    for app in twin["apps"]:
        for field, key in keys.items():
            assert float(shown[app["name"]][field]) == app[key]
        for key, value in app["stats"].items():
            assert shown[app["name"]]["own-state" if key == "state" else key] == str(value)
    assert twin["agent"] == {"reachable": True, "reason": ""}
    assert twin["board"]["kernel"] == HEALTH["kernel"]


def test_rows_hold_figures_and_no_input(admin: Browser, busy: FakeAgent) -> None:
    rows = admin.get("/apps/rows").text
    assert "<input" not in rows
    assert "<button" not in rows
    assert "csrf" not in rows
    page = admin.get("/apps").text
    for target in re.findall(r'id="([^"]+)" hx-swap-oob="innerHTML"', rows):
        assert f'id="{target}"' in page


def test_many_polls_ask_the_agent_once(admin: Browser, agent: FakeAgent) -> None:
    agent.calls.clear()
    for _ in range(5):
        admin.get("/apps/rows")
        admin.get("/healthz")
    assert agent.calls.count("ListApps") <= 2  # the view lasts 0.9 s, five polls take less than two of them


@pytest.mark.parametrize("text", ["1", "10000", " 400 ", "0100"])
def test_good_weight(admin: Browser, agent: FakeAgent, text: str) -> None:
    answer = admin.set_weight("player", text)
    assert answer.status_code == 200
    assert f"Weight {int(text)} is in force." in answer.text
    assert agent.apps[0].weight == int(text)
    # the answer brings the new figures along
    assert f'data-field="weight" data-value="{int(text)}"' in answer.text


BAD_WEIGHTS = [
    ("0", "0 is less than 1"),
    ("00", "less than 1"),
    ("-5", "-5 is less than 1"),
    ("-99999", "less than 1"),
    ("10001", "10001 is more than 10000"),
    ("9" * 40, "is more than 10000"),
    ("9" * 40_000, "is more than 10000"),
    ("", "A weight is missing"),
    ("   ", "A weight is missing"),
    ("heavy", "“heavy” is not a number"),
    ("1.5", "“1.5” is not a whole number"),
    ("1e3", "“1e3” is not a whole number"),
    ("0x10", "is not a number"),
    ("٣", "is not a number"),
    ("1 000", "is not a number"),
    ("<b>5</b>", "“&lt;b&gt;5&lt;/b&gt;” is not a number"),
]


@pytest.mark.parametrize(("text", "reason"), BAD_WEIGHTS)
def test_bad_weight_is_named_and_changes_nothing(
    admin: Browser, agent: FakeAgent, text: str, reason: str
) -> None:
    answer = admin.set_weight("player", text)
    assert answer.status_code == 422
    assert reason in answer.text
    assert len(answer.text) < 300
    assert not [call for call in agent.calls if call.startswith("SetWeight")]


def test_without_javascript_the_page_keeps_what_was_typed(admin: Browser) -> None:
    answer = admin.set_weight("player", "10001", htmx=False)
    assert answer.status_code == 422
    assert 'value="10001" data-known="100"' in answer.text
    assert 'aria-invalid="true"' in answer.text
    assert "10001 is more than 10000" in answer.text
    done = admin.set_weight("player", "200", htmx=False)
    assert (done.status_code, done.location) == (303, "/apps#app-player")


def test_body_limit(admin: Browser) -> None:
    answer = admin.client.post("/apps/player/weight", base_url=BASE, data={"weight": "9" * 70_000})
    assert answer.status_code == 413


@pytest.mark.parametrize("htmx", [True, False])
@pytest.mark.parametrize("verb", ["weight", "start", "stop"])
def test_unknown_app(admin: Browser, agent: FakeAgent, verb: str, htmx: bool) -> None:
    answer = admin.post(f"/apps/nobody/{verb}", "/apps", htmx=htmx, weight="5")
    assert answer.status_code == 404
    assert "There is no app “nobody” on this board. Nothing was changed." in answer.text
    assert {app.weight for app in agent.apps} == {100}


def test_weight_of_a_stopped_app_waits_for_its_start(admin: Browser, agent: FakeAgent) -> None:
    agent.stop_app("player")
    answer = admin.set_weight("player", "400")
    assert "Weight 400 is saved. It applies when Player starts." in answer.text
    assert "applies when it starts" in admin.get("/apps").text


def test_refusal_of_the_agent_is_shown(admin: Browser, agent: FakeAgent) -> None:
    agent.refuse = AgentRefused("NotAuthorized", "The panel may not set weights.")
    answer = admin.set_weight("player", "400")
    assert answer.status_code == 403
    assert "The panel may not set weights. The weight stays 100." in answer.text


def test_start_and_stop(admin: Browser, agent: FakeAgent) -> None:
    assert "Player is stopping." in admin.post("/apps/player/stop", "/apps", htmx=True).text
    assert agent.apps[0].active_state == "inactive"
    assert admin.post("/apps/player/start", "/apps").location == "/apps#app-player"
    assert agent.apps[0].active_state == "active"


# ---- a dead agent ----


def kill(agent: FakeAgent, panel: Panel) -> None:
    agent.dead = "The agent does not answer: it is not running."
    panel.board._expire()


def test_dead_agent_is_said_and_the_page_stays_up(admin: Browser, busy: FakeAgent, panel: Panel) -> None:
    admin.get("/apps")
    kill(busy, panel)
    for path in ("/apps", "/apps/rows"):
        answer = admin.get(path)
        assert answer.status_code == 200
        assert 'data-banner="agent"' in answer.text
        assert "it is not running" in answer.text
    player = figures(admin.get("/apps").text)["player"]
    assert player["weight"] == "300"
    assert player["mbps"] == player["share"] == player["p99"] == ""
    assert "—" in admin.get("/apps").text


def test_dead_agent_in_json(admin: Browser, busy: FakeAgent, panel: Panel) -> None:
    admin.get("/apps")
    kill(busy, panel)
    health = admin.get("/healthz")
    assert health.status_code == 503
    assert health.json == {"health": "agent-unreachable", "reason": busy.dead, "version": "0.1.0"}
    twin = admin.get("/apps.json")
    assert twin.status_code == 503
    assert twin.json
    assert [(app["weight"], app["mbps"]) for app in twin.json["apps"]] == [(300, None), (100, None)]


def test_dead_agent_refuses_weights_clearly(admin: Browser, agent: FakeAgent, panel: Panel) -> None:
    admin.get("/apps")
    kill(agent, panel)
    answer = admin.set_weight("player", "5")
    assert answer.status_code == 503
    assert "it is not running. The weight stays 100." in answer.text


def test_silent_agent_leaves_it_open(
    admin: Browser, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(name: str, weight: int) -> App:
        raise AgentUnreachable("The agent did not answer within 2 s.", asked=True)

    monkeypatch.setattr(agent, "set_weight", silent)
    assert "Whether the weight is still 100 is not known." in admin.set_weight("player", "5").text


def test_agent_that_comes_back(admin: Browser, agent: FakeAgent, panel: Panel) -> None:
    kill(agent, panel)
    admin.get("/apps")
    agent.dead = ""
    panel.board._expire()
    assert 'data-banner="agent"' not in admin.get("/apps").text


def test_weights_are_known_to_a_panel_started_beside_a_dead_agent(
    admin: Browser, busy: FakeAgent, panel: Panel
) -> None:
    from evenkeel_panel.board import Board

    admin.get("/apps")
    dead = FakeAgent(dead="gone")
    board = Board(dead, lambda: panel.db.setting("last_apps"), lambda text: None)
    assert [(app.name, app.weight) for app in board.view().apps] == [("player", 300), ("loader", 100)]


def test_no_app_at_all(admin: Browser, agent: FakeAgent, panel: Panel) -> None:
    agent.apps = []
    panel.board._expire()
    assert "/etc/evenkeel/apps.d" in admin.get("/apps").text


def test_problems_are_listed(admin: Browser, agent: FakeAgent, panel: Panel) -> None:
    agent.board = replace(agent.board, health="degraded", problems=("x.toml: weight is missing",))
    panel.board._expire()
    assert "x.toml: weight is missing" in admin.get("/apps").text
    assert (admin.get("/healthz").json or {})["health"] == "degraded"


def test_healthz_needs_no_log_in(browser: Browser) -> None:
    answer = browser.get("/healthz")
    assert (answer.status_code, answer.json) == (200, HEALTH)


# ---- text ----


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (None, "—"),
        (0, "0 µs"),
        (999, "999 µs"),
        (1000, "1.00 ms"),
        (12345.6, "12.3 ms"),
        (250e3, "250 ms"),
        (4.2e6, "4.20 s"),
    ],
)
def test_latency(microseconds: float | None, text: str) -> None:
    assert model.latency(microseconds) == text


@pytest.mark.parametrize("text", ["", "[1]", "{", '"x"', "null", '{"bad key": 1, "1x": 2}', "[" * 100_000])
def test_senseless_stats_are_left_out(text: str) -> None:
    assert model._stats(text) == {}


def test_stats_are_bounded_and_escaped(admin: Browser, agent: FakeAgent, panel: Panel) -> None:
    own = {"state": "<script>alert(1)</script>" + "x" * 100, "nan": float("nan"), "big": 1e300}
    own |= {f"k{i}": i for i in range(20)}
    agent.apps = [replace(agent.apps[0], stats=json.dumps(own))]
    panel.board._expire()
    page = admin.get("/apps").text
    assert "<script>alert" not in page
    stats = (admin.get("/apps.json").json or {})["apps"][0]["stats"]
    assert len(stats) == model.MAX_STATS
    assert len(stats["state"]) == model.MAX_STAT_TEXT
    assert not {"nan", "big"} & stats.keys()


def test_labels() -> None:
    assert model.stat_label("stall_ms") == "Stall time"
    assert model.stat_label("mbps") == "Its own rate"
    assert model.stat_value(10.5, "mbps") == "10.5 MB/s"
    assert model.stat_value(1234567, "read_bytes") == "1.2 MB"
    assert model.stat_value(420, "stall_ms") == "420 ms"
    assert model.stat_value(True) == "yes"
