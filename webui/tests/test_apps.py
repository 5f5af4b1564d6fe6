# SPDX-License-Identifier: Apache-2.0
"""The apps page and /apps.json; good and bad weights and fixed shares; an agent that does not answer."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from evenkeel_api.features.apps import App
from evenkeel_history.period import READ, Sum
from evenkeel_panel import __version__
from evenkeel_panel.apps import listing, model, undo, what_if
from evenkeel_panel.board import Board
from evenkeel_panel.fake_agent import FakeAgent, external, refused, unreachable
from evenkeel_panel.testing import BASE, Browser, headings
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

if TYPE_CHECKING:
    from evenkeel_api.features.board import Snapshot
    from evenkeel_history.live import Live
    from evenkeel_history.store import Store
    from evenkeel_panel.context import Panel
    from werkzeug.test import TestResponse

HEALTH = {
    "scheduler": "evenkeel",
    "kernel": "6.12.48-evenkeel",
    "slot": "A",
    "health": "ok",
    "version": "0.1.0",
}


def figures(html: str) -> dict[str, dict[str, str]]:
    """The values that a page shows, as {app: {field: data-value}}."""
    found: dict[str, dict[str, str]] = {}
    for name, row in re.findall(r'<article[^>]* data-app="([^"]+)"(.*?)</article>', html, re.DOTALL):
        found[name] = dict(re.findall(r'data-field="([^"]+)" data-value="([^"]*)"', row))
    return found


@pytest.fixture
def busy(agent: FakeAgent) -> FakeAgent:
    """A busy board: the player has 60 MB/s and the weight 300, the loader 20 MB/s and the weight 100."""
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
    for text in ("evenkeel", "6.12.48-evenkeel", "in force", "expected 75.0 %", "80.0"):
        assert text in page


def test_json_has_the_same_figures(admin: Browser, busy: FakeAgent) -> None:
    shown = figures(admin.get("/apps").text)
    data = admin.get("/apps.json").json
    assert data
    assert list(shown) == [app["name"] for app in data["apps"]]
    keys = {
        "mbps": "mbps",
        "read": "read_mbps",
        "write": "write_mbps",
        "share": "share",
        "p99": "p99_us",
        "weight": "weight",
    }
    for app in data["apps"]:
        for field, key in keys.items():
            assert float(shown[app["name"]][field]) == app[key]
        for key, value in app["stats"].items():
            assert shown[app["name"]]["own-state" if key == "state" else key] == str(value)
    assert data["agent"] == {"reachable": True, "reason": ""}
    assert data["board"]["kernel"] == HEALTH["kernel"]


def test_rows_contain_figures_and_no_input(admin: Browser, busy: FakeAgent) -> None:
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
    assert (
        agent.calls.count("ListApps") <= 2
    )  # the view is cached for 0.9 s; five polls take less than twice that


@pytest.mark.parametrize("text", ["1", "10000", " 400 ", "0100"])
def test_good_weight(admin: Browser, agent: FakeAgent, text: str) -> None:
    answer = admin.set_weight("player", text)
    assert answer.status_code == 200
    assert f"Weight {int(text)} is in force." in answer.text
    assert agent.apps[0].weight == int(text)
    # the answer includes the new figures
    assert f'data-field="weight" data-value="{int(text)}"' in answer.text


BAD_WEIGHTS = [
    ("0", "0 is less than 1"),
    ("00", "less than 1"),
    ("-5", "-5 is less than 1"),
    ("-99999", "less than 1"),
    ("10001", "10001 is more than 10000"),
    ("9" * 40, "is more than 10000"),
    ("9" * 40_000, "is more than 10000"),
    ("", "The weight is missing. Enter a whole number from 1 to 10000."),
    ("   ", "The weight is missing"),
    ("heavy", "“heavy” is not a number"),
    ("1.5", "“1.5” is not a whole number"),
    ("1e3", "“1e3” is not a whole number"),
    ("0x10", "is not a number"),
    ("٣", "is not a number"),
    ("1 000", "is not a number"),
    ("<b>5</b>", "“&lt;b&gt;5&lt;/b&gt;” is not a number"),
]


@pytest.mark.parametrize(("text", "reason"), BAD_WEIGHTS)
def test_bad_weight_is_quoted_and_changes_nothing(
    admin: Browser, agent: FakeAgent, text: str, reason: str
) -> None:
    answer = admin.set_weight("player", text)
    assert answer.status_code == 422
    assert reason in answer.text
    assert len(answer.text) < 300
    assert not [call for call in agent.calls if call.startswith("SetWeight")]


def test_without_javascript_the_page_keeps_the_input(admin: Browser) -> None:
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
@pytest.mark.parametrize("action", ["weight", "fixed-share", "start", "stop"])
def test_unknown_app(admin: Browser, agent: FakeAgent, action: str, htmx: bool) -> None:
    answer = admin.post(f"/apps/nobody/{action}", "/apps", htmx=htmx, weight="5", fixed_share="5")
    assert answer.status_code == 404
    assert "There is no app “nobody” on this board. Nothing was changed." in answer.text
    assert {app.weight for app in agent.apps} == {100}


def test_weight_of_a_stopped_app_applies_when_it_starts(admin: Browser, agent: FakeAgent) -> None:
    agent.stop_app("player")
    answer = admin.set_weight("player", "400")
    assert "Weight 400 is saved. It applies when Player starts." in answer.text
    assert "applies at next start" in admin.get("/apps").text


def test_refusal_of_the_agent_is_shown(admin: Browser, agent: FakeAgent) -> None:
    agent.refuse = refused("NotAuthorized", "The panel may not set weights.")
    answer = admin.set_weight("player", "400")
    assert answer.status_code == 403
    assert "The panel may not set weights. The weight is still 100." in answer.text


@pytest.mark.parametrize(("action", "value"), [("weight", "400"), ("fixed-share", "30")])
def test_a_change_that_was_made_is_reported_although_it_cannot_be_undone(
    admin: Browser, agent: FakeAgent, panel: Panel, monkeypatch: pytest.MonkeyPatch, action: str, value: str
) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(panel.db, "_insert", full)
    field = action.replace("-", "_")
    answer = admin.post(f"/apps/player/{action}", "/apps", htmx=True, **{field: value})
    assert answer.status_code == 200
    assert "Nothing was changed" not in answer.text
    assert getattr(agent.apps[0], field) == int(value)
    assert 'name="undo"' not in answer.text


def test_start_and_stop(admin: Browser, agent: FakeAgent) -> None:
    assert "Player is stopping." in admin.post("/apps/player/stop", "/apps", htmx=True).text
    assert agent.apps[0].active_state == "inactive"
    assert admin.post("/apps/player/start", "/apps").location == "/apps#app-player"
    assert agent.apps[0].active_state == "active"


# ---- fixed share ----


@pytest.mark.parametrize("text", ["1", "10", "10%", " 10 % ", "010", "100"])
def test_good_fixed_share(admin: Browser, agent: FakeAgent, text: str) -> None:
    answer = admin.set_fixed_share("player", text)
    percent = int(text.strip(" %"))
    assert answer.status_code == 200
    assert f"Fixed share {percent} % is in force." in answer.text
    assert agent.apps[0].fixed_share == percent
    # the answer includes the new state
    assert f'data-field="fixed_share" data-value="{percent}"' in answer.text


BAD_FIXED_SHARES = [
    ("0", "0 is less than 1 %"),
    ("0 %", "0 % is less than 1 %"),
    ("-5", "-5 is less than 1 %"),
    ("101", "101 is more than 100 %"),
    ("101%", "101% is more than 100 %"),
    ("9" * 40_000, "is more than 100 %"),
    ("", "The fixed share is missing. Enter a whole number from 1 to 100 %, or “off”."),
    (" % ", "The fixed share is missing"),
    ("fast", "“fast” is not a number"),
    ("1.5", "“1.5” is not a whole number"),
    ("10 %%", "is not a number"),
    ("٣", "is not a number"),
    ("<b>5</b>", "“&lt;b&gt;5&lt;/b&gt;” is not a number"),
]


@pytest.mark.parametrize(("text", "reason"), BAD_FIXED_SHARES)
def test_bad_fixed_share_is_quoted_and_changes_nothing(
    admin: Browser, agent: FakeAgent, text: str, reason: str
) -> None:
    answer = admin.set_fixed_share("player", text)
    assert answer.status_code == 422
    assert reason in answer.text
    assert len(answer.text) < 300
    assert not [call for call in agent.calls if call.startswith("SetFixedShare")]


def test_without_javascript_the_fixed_share_keeps_its_input(admin: Browser) -> None:
    answer = admin.set_fixed_share("player", "101", htmx=False)
    assert answer.status_code == 422
    assert 'value="101" data-known=""' in answer.text
    assert 'value="100" data-known="100"' in answer.text, "the weight must not change"
    assert answer.text.count('aria-invalid="true"') == 1
    assert answer.text.count("101 is more than 100 %") == 1
    message = answer.text.split('id="fixed-share-message-player"')[1].split("</div>")[0]
    assert "101 is more than 100 %" in message
    done = admin.set_fixed_share("player", "20", htmx=False)
    assert (done.status_code, done.location) == (303, "/apps#app-player")
    assert 'value="20" data-known="20"' in admin.get("/apps").text


@pytest.mark.parametrize("text", ["off", " Off"])
def test_off_may_be_typed(admin: Browser, agent: FakeAgent, text: str) -> None:
    admin.set_fixed_share("player", "10")
    assert "The fixed share is off." in admin.set_fixed_share("player", text).text
    assert agent.apps[0].fixed_share == 0


def test_button_off_ignores_the_input(admin: Browser, agent: FakeAgent) -> None:
    assert '<button type="submit" name="off" value="1" data-action="off"' in admin.get("/apps").text
    admin.set_fixed_share("player", "10")
    answer = admin.post("/apps/player/fixed-share", "/apps", htmx=True, fixed_share="x", off="1")
    assert answer.status_code == 200
    assert "The fixed share is off. The weight decides again." in answer.text
    assert 'data-field="fixed_share" data-value="0"' in answer.text
    assert agent.apps[0].fixed_share == 0


def test_refusal_names_the_remaining_share(admin: Browser, agent: FakeAgent) -> None:
    admin.set_fixed_share("loader", "60")
    answer = admin.set_fixed_share("player", "41")
    assert answer.status_code == 422
    assert "40 % that are left" in answer.text
    assert "The fixed share is still off." in answer.text
    admin.set_fixed_share("player", "40")
    assert "The fixed share is still 40 %." in admin.set_fixed_share("player", "41").text


def test_fixed_share_that_is_not_in_force_shows_the_reason(
    admin: Browser, agent: FakeAgent, panel: Panel
) -> None:
    agent.obstacle = "fixed share {percent} % of {app} is not in force: vda has bfq"
    answer = admin.set_fixed_share("player", "10")
    assert answer.status_code == 200
    wanted = "Fixed share 10 % is saved. Fixed share 10 % of player is not in force: vda has bfq."
    assert f'<p class="message wait">{wanted}</p>' in answer.text
    panel.board.expire()
    page = admin.get("/apps").text
    assert (
        'data-field="fixed-share-problem">Fixed share 10 % of player is not in force: vda has bfq.<' in page
    )
    assert "no effect: fixed share" not in page
    data = (admin.get("/apps.json").json or {})["apps"][0]
    assert (data["fixed_share"], data["fixed_share_applied"], data["fixed_share_used"]) == (10, False, None)


def test_fixed_share_of_a_stopped_app_applies_when_it_starts(admin: Browser, agent: FakeAgent) -> None:
    agent.stop_app("player")
    answer = admin.set_fixed_share("player", "10")
    assert "Fixed share 10 % is saved. It applies when Player starts." in answer.text
    assert "applies at next start" in admin.get("/apps").text


def test_page_shows_whether_the_scheduler_keeps_up(admin: Browser, busy: FakeAgent, panel: Panel) -> None:
    player, loader = busy.apps
    used = {"fixed_share": 10, "fixed_share_used": 0.983, "fixed_share_late": 0.01}
    busy.apps = [replace(player, **used), loader]
    page = admin.get("/apps").text
    shown = figures(page)["player"]
    assert (shown["fixed_share"], shown["fixed-share-used"], shown["fixed-share-behind"]) == (
        "10",
        "0.983",
        "0",
    )
    assert "scheduler keeps up" in page
    assert "98 %" in page
    # the weight has no effect, and the weights of the other apps divide the rest
    assert "no effect: fixed share" in page
    data = (admin.get("/apps.json").json or {})["apps"]
    assert [app["share_by_weight"] for app in data] == [None, 0.25]
    busy.apps = [
        replace(player, **{**used, "fixed_share_late": 0.62}, fixed_share_behind=True),
        loader,
    ]
    panel.board.expire()
    page = admin.get("/apps").text
    assert "scheduler cannot keep up" in page
    assert "62 % of the requests are late" in page


def test_weight_has_no_effect_until_the_fixed_share_is_undone(
    admin: Browser, agent: FakeAgent, panel: Panel
) -> None:
    player, loader = agent.apps
    agent.apps = [replace(player, fixed_share=0, fixed_share_applied=False), loader]
    page = admin.get("/apps").text
    assert "still on" in page
    assert page.count("no effect: fixed share") == 1
    agent.apps = [replace(player, fixed_share=0, fixed_share_applied=True), loader]
    panel.board.expire()
    page = admin.get("/apps").text
    assert "still on" not in page
    assert "no effect: fixed share" not in page


def test_fixed_share_has_a_hint(admin: Browser) -> None:
    page = admin.get("/apps").text
    hint = "Same speed whether others are busy or not. Never more than this."
    assert page.count(hint) == 2
    assert page.count('aria-describedby="fixed-share-hint-player fixed-share-message-player"') == 1


def test_refusals_of_fixed_share(admin: Browser, agent: FakeAgent, panel: Panel) -> None:
    agent.refuse = refused("NotAuthorized", "The panel may not set fixed shares.")
    answer = admin.set_fixed_share("player", "10")
    assert answer.status_code == 403
    assert "The panel may not set fixed shares. The fixed share is still off." in answer.text
    agent.refuse = None
    admin.set_fixed_share("player", "10")
    kill(agent, panel)
    answer = admin.set_fixed_share("player", "20")
    assert answer.status_code == 503
    assert "it is not running. The fixed share is still 10 %." in answer.text
    page = admin.get("/apps").text
    assert 'data-field="fixed_share" data-value="10"' in page, "the last known value"


def test_fixed_share_without_an_answer_may_have_changed(
    admin: Browser, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(name: str, percent: int) -> App:
        raise unreachable("The agent did not answer within 2 s.", sent=True)

    monkeypatch.setattr(agent, "set_fixed_share", silent)
    answer = admin.set_fixed_share("player", "5")
    assert "The fixed share was off and may have changed." in answer.text


# ---- an agent that does not answer ----


def kill(agent: FakeAgent, panel: Panel) -> None:
    agent.dead = "The agent does not answer: it is not running."
    panel.board.expire()


def test_dead_agent_is_reported_and_the_page_stays_up(admin: Browser, busy: FakeAgent, panel: Panel) -> None:
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
    assert health.json == {"health": "agent-unreachable", "reason": busy.dead, "version": __version__}
    data = admin.get("/apps.json")
    assert data.status_code == 503
    assert data.json
    assert [(app["weight"], app["mbps"]) for app in data.json["apps"]] == [(300, None), (100, None)]


def test_dead_agent_cannot_set_a_weight(admin: Browser, agent: FakeAgent, panel: Panel) -> None:
    admin.get("/apps")
    kill(agent, panel)
    answer = admin.set_weight("player", "5")
    assert answer.status_code == 503
    assert "it is not running. The weight is still 100." in answer.text


def test_weight_without_an_answer_may_have_changed(
    admin: Browser, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(name: str, weight: int) -> App:
        raise unreachable("The agent did not answer within 2 s.", sent=True)

    monkeypatch.setattr(agent, "set_weight", silent)
    assert "The weight was 100 and may have changed." in admin.set_weight("player", "5").text


@pytest.mark.parametrize("action", ["start", "stop"])
def test_app_that_takes_long_is_no_failure(
    admin: Browser, agent: FakeAgent, panel: Panel, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """While the agent waits for systemd to finish the job, it answers other calls."""

    def silent(name: str) -> None:
        raise unreachable("The agent did not answer within 8 s.", sent=True)

    monkeypatch.setattr(agent, f"{action}_app", silent)
    answer = admin.post(f"/apps/player/{action}", "/apps", htmx=True)
    assert answer.status_code == 200
    assert f'<p class="message wait">Player takes a long time to {action}.' in answer.text
    monkeypatch.setattr(agent, "get_snapshot", lambda: silent(""))
    answer = admin.post(f"/apps/player/{action}", "/apps", htmx=True)
    assert answer.status_code == 503
    assert "did not answer within 8 s" in answer.text


def test_agent_recovers(admin: Browser, agent: FakeAgent, panel: Panel) -> None:
    kill(agent, panel)
    admin.get("/apps")
    agent.dead = ""
    panel.board.expire()
    assert 'data-banner="agent"' not in admin.get("/apps").text


def test_weights_are_known_to_a_panel_that_starts_while_the_agent_is_down(
    admin: Browser, busy: FakeAgent, panel: Panel
) -> None:
    admin.get("/apps")

    def gone() -> Snapshot:
        raise unreachable("gone")

    board = Board(lambda: panel.db.setting("last_apps"), lambda text: None)
    assert [(app.name, app.weight) for app in board.view(gone).apps] == [("player", 300), ("loader", 100)]
    # the same with data that an earlier version of the panel saved, without fixed shares
    board = Board(lambda: '[["player", "Player", "", "p.service", 300]]', lambda text: None)
    assert [(app.name, app.weight, app.fixed_share) for app in board.view(gone).apps] == [("player", 300, 0)]


def test_a_page_that_shows_only_names_needs_no_new_view_for_ten_seconds(agent: FakeAgent) -> None:
    now, asked = [100.0], []

    def query() -> Snapshot:
        asked.append(now[0])
        return agent.get_snapshot()

    board = Board(lambda: None, lambda _: None, lambda: now[0])
    board.view(query)
    times = ((100.5, False), (101.0, True), (109.9, True), (110.0, True), (110.5, False), (111.0, False))
    for now[0], names in times:
        board.view(query, names=names)
    assert asked == [100.0, 110.0, 111.0]
    board.expire()
    board.view(query, names=True)
    assert len(asked) == 4


def test_board_without_apps(admin: Browser, agent: FakeAgent, panel: Panel) -> None:
    agent.apps = []
    panel.board.expire()
    page = admin.get("/apps").text
    assert "No app is listed on this board." in page
    assert 'href="/apps/add"' in page


def test_problems_are_listed(admin: Browser, agent: FakeAgent, panel: Panel) -> None:
    agent.board = replace(agent.board, health="degraded", problems=[external("x.toml: weight is missing")])
    panel.board.expire()
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
def test_invalid_stats_are_left_out(text: str) -> None:
    assert model._stats(text) == {}


def test_stats_are_bounded_and_escaped(admin: Browser, agent: FakeAgent, panel: Panel) -> None:
    own = {"state": "<script>alert(1)</script>" + "x" * 100, "nan": float("nan"), "big": 1e300}
    own |= {f"k{i}": i for i in range(20)}
    agent.apps = [replace(agent.apps[0], stats=json.dumps(own))]
    panel.board.expire()
    page = admin.get("/apps").text
    assert "<script>alert" not in page
    stats = (admin.get("/apps.json").json or {})["apps"][0]["stats"]
    assert len(stats) == model.MAX_STATS
    assert len(stats["state"]) == model.MAX_STAT_TEXT
    assert not {"nan", "big"} & stats.keys()


@pytest.mark.parametrize("text", [r"\ud800", r"\udc00\ud800", r"a\u0000b"])
def test_no_text_of_an_app_takes_down_a_page(admin: Browser, agent: FakeAgent, text: str) -> None:
    """JSON can write texts that are not valid UTF-8, also in keys and in values that the page omits."""
    own = f'{{"mood":"{text}","{text}":1,"deep":{{"{text}":["{text}"]}},"n":1}}'
    agent.apps = [replace(agent.apps[0], stats=own)]
    for path in ("/", "/apps", "/apps/rows", "/apps.json", "/apps.csv", "/metrics", "/overview.json"):
        assert admin.get(path).status_code == 200, path
    shown = model._stats(own)
    assert shown["n"] == 1
    assert shown["mood"] in ("?", "??", "ab")


def test_labels() -> None:
    assert model.stat_label("stall_ms") == "Stall time"
    assert model.stat_label("mbps") == "Reported rate"
    assert model.stat_value(10.5, "mbps") == "10.5 MB/s"
    assert model.stat_value(1234567, "read_bytes") == "1.2 MB"
    assert model.stat_value(420, "stall_ms") == "420 ms"
    assert model.stat_value(True) == "yes"


# ---- what if, undo ----


@given(
    st.lists(
        st.tuples(st.integers(1, 10_000), st.sampled_from([0, 0, 1, 5, 20, 50])), min_size=1, max_size=20
    )
)
def test_parts_when_all_apps_are_busy(settings: list[tuple[int, int]]) -> None:
    claims = [what_if.Claim(str(i), *setting) for i, setting in enumerate(settings)]
    fixed = sum(claim.fixed_share for claim in claims)
    if fixed > 100:
        with pytest.raises(what_if.TooMuch):
            what_if.parts(claims)
        return
    parts = what_if.parts(claims)
    by_weight = [claim for claim in claims if not claim.fixed_share]
    assert list(parts) == [claim.name for claim in claims]
    assert sum(parts.values()) == pytest.approx(1 if by_weight else fixed / 100)
    for claim in claims:
        if claim.fixed_share:
            assert parts[claim.name] == claim.fixed_share / 100
        else:
            first = by_weight[0]
            assert parts[claim.name] * first.weight == pytest.approx(parts[first.name] * claim.weight)


def test_page_says_what_each_app_gets_when_all_are_busy(admin: Browser, busy: FakeAgent) -> None:
    assert [figures(admin.get("/apps").text)[name]["all-busy"] for name in ("player", "loader")] == [
        "0.75",
        "0.25",
    ]
    admin.set_fixed_share("loader", "40")
    rows = admin.get("/apps/rows").text
    assert re.findall(r'data-field="all-busy" data-value="([^"]*)"', rows) == ["0.6", "0.4"]


def test_app_that_is_not_installed_takes_no_part(admin: Browser, busy: FakeAgent) -> None:
    player, loader = busy.apps
    busy.apps = [player, replace(loader, sub_state="not-found", active_state="inactive")]
    apps = (admin.get("/apps.json").json or {})["apps"]
    assert [app["share_all_busy"] for app in apps] == [1.0, None]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("weight=100", "With it, when all apps are busy: Player 50.0 %, Loader 50.0 %."),
        ("weight=900", "Player 90.0 %, Loader 10.0 %."),
        ("fixed_share=20", "Player 20.0 %, Loader 80.0 %."),
        ("weight=300", ""),  # as it is
        ("fixed_share=off", ""),  # as it is
        ("weight=heavy", ""),
        ("fixed_share=101", ""),
        ("", ""),
    ],
)
def test_what_if(admin: Browser, busy: FakeAgent, query: str, text: str) -> None:
    answer = admin.get(f"/apps/player/what-if?{query}")
    assert answer.status_code == 200
    assert text in answer.text
    assert bool(text) == bool(answer.text)
    assert not [call for call in busy.calls if call.startswith("Set")]


def test_what_if_of_a_weight_without_effect_and_of_too_much(admin: Browser, busy: FakeAgent) -> None:
    admin.set_fixed_share("player", "30")
    answer = admin.get("/apps/player/what-if?weight=900").text
    assert "As long as Player has a fixed share, its weight changes nothing: Player 30.0 %" in answer
    assert "the other apps leave 70 %" in admin.get("/apps/loader/what-if?fixed_share=71").text
    assert admin.get("/apps/nobody/what-if?weight=5").status_code == 404


def undo_buttons(html: str) -> list[tuple[str, str]]:
    """The buttons Undo of a page: their value and text."""
    return re.findall(r'<button type="submit" name="undo" value="([^"]*)"[^>]*>([^<]*)</button>', html)


@pytest.mark.parametrize("htmx", [True, False])
def test_undo_of_a_weight(admin: Browser, busy: FakeAgent, htmx: bool) -> None:
    assert undo_buttons(admin.get("/apps").text) == []
    assert ("50", "Undo: back to 300") in undo_buttons(admin.set_weight("player", "50").text)
    assert undo_buttons(admin.get("/apps").text) == [("50", "Undo: back to 300")]
    admin.set_weight("player", "50")  # the same value again is no change
    # the value in the input does not count
    answer = admin.post("/apps/player/weight", "/apps", htmx=htmx, weight="7", undo="50")
    assert answer.status_code == (200 if htmx else 303)
    assert busy.apps[0].weight == 300
    assert undo_buttons(admin.get("/apps").text) == [("300", "Undo: back to 50")]


def test_undo_of_a_fixed_share(admin: Browser, agent: FakeAgent) -> None:
    admin.set_fixed_share("player", "20")
    admin.set_fixed_share("player", "30")
    assert undo_buttons(admin.get("/apps").text) == [("30", "Undo: back to 20 %")]
    admin.post("/apps/player/fixed-share", "/apps", htmx=True, fixed_share="", undo="30")
    assert agent.apps[0].fixed_share == 20
    admin.set_fixed_share("player", "off")
    admin.set_fixed_share("player", "30")
    assert undo_buttons(admin.get("/apps").text) == [("30", "Undo: back to off")]
    admin.post("/apps/player/fixed-share", "/apps", htmx=True, fixed_share="", undo="30")
    assert agent.apps[0].fixed_share == 0


def test_undo_never_replaces_a_later_value(admin: Browser, agent: FakeAgent, panel: Panel) -> None:
    admin.set_weight("player", "50")
    agent.apps[0] = replace(agent.apps[0], weight=60)  # by ekctl
    panel.board.expire()
    assert undo_buttons(admin.get("/apps").text) == []
    answer = admin.post("/apps/player/weight", "/apps", htmx=True, weight="50", undo="50")
    assert answer.status_code == 409
    assert "The weight was changed again and is 60 now, so nothing was undone" in answer.text
    assert agent.apps[0].weight == 60
    answer = admin.post("/apps/player/fixed-share", "/apps", htmx=False, fixed_share="", undo="5")
    assert answer.status_code == 409
    assert "The fixed share was changed again and is off now" in answer.text


@pytest.mark.parametrize("htmx", [True, False])
def test_undo_never_replaces_a_value_that_the_panel_has_not_seen_yet(
    admin: Browser, agent: FakeAgent, htmx: bool
) -> None:
    """The view of the board may be 0.9 s old. So the agent compares, too."""
    admin.set_weight("player", "50")
    agent.apps[0] = replace(agent.apps[0], weight=777)  # by a program
    answer = admin.post("/apps/player/weight", "/apps", htmx=htmx, weight="", undo="50")
    assert answer.status_code == 409
    assert "The weight was changed again and is 777 now, so nothing was undone" in answer.text
    assert "still" not in answer.text
    assert 'value="777"' in admin.get("/apps").text, "the page shows the present value at once"
    admin.set_fixed_share("player", "20")
    agent.apps[0] = replace(agent.apps[0], fixed_share=31)
    answer = admin.post("/apps/player/fixed-share", "/apps", htmx=htmx, fixed_share="", undo="20")
    assert answer.status_code == 409
    assert "The fixed share was changed again and is 31 % now, so nothing was undone" in answer.text
    assert (agent.apps[0].weight, agent.apps[0].fixed_share) == (777, 31)


@pytest.mark.parametrize("htmx", [True, False])
def test_undo_of_start_and_stop(admin: Browser, agent: FakeAgent, htmx: bool) -> None:
    answer = admin.post("/apps/player/stop", "/apps", htmx=htmx)
    if htmx:
        assert undo_buttons(answer.text) == [("0", "Undo: start it again")]
    assert undo_buttons(admin.get("/apps").text) == [("0", "Undo: start it again")]
    answer = admin.post("/apps/player/undo", "/apps", htmx=htmx, undo="0")
    assert answer.status_code == (200 if htmx else 303)
    assert agent.apps[0].active_state == "active"
    # the undo is a change, too
    assert undo_buttons(admin.get("/apps").text) == [("1", "Undo: stop it again")]
    admin.post("/apps/player/undo", "/apps", htmx=htmx, undo="1")
    assert agent.apps[0].active_state == "inactive"
    assert [call for call in agent.calls if call.endswith("App player")] == [
        "StopApp player",
        "StartApp player",
        "StopApp player",
    ]


def test_undo_of_a_stop_is_too_late_if_somebody_has_started_the_app(
    admin: Browser, agent: FakeAgent, panel: Panel
) -> None:
    admin.post("/apps/player/stop", "/apps", htmx=True)
    agent.start_app("player")  # by ekctl
    panel.board.expire()
    assert undo_buttons(admin.get("/apps").text) == []
    agent.calls.clear()
    for htmx in (True, False):
        answer = admin.post("/apps/player/undo", "/apps", htmx=htmx, undo="0")
        assert answer.status_code == 409
        assert "Player was started or stopped again since. Nothing was undone." in answer.text
    assert not [call for call in agent.calls if call.startswith(("Start", "Stop"))]


def test_start_of_an_app_that_runs_and_a_state_that_is_not_known_have_no_undo(
    admin: Browser, agent: FakeAgent, panel: Panel
) -> None:
    admin.post("/apps/player/start", "/apps", htmx=True)
    assert undo_buttons(admin.get("/apps").text) == []
    admin.post("/apps/player/stop", "/apps", htmx=True)
    agent.apps[0] = replace(agent.apps[0], active_state="unknown")
    panel.board.expire()
    assert undo_buttons(admin.get("/apps").text) == []
    assert admin.post("/apps/player/undo", "/apps", undo="0").status_code == 409


def test_a_refused_stop_has_no_undo(admin: Browser, agent: FakeAgent) -> None:
    agent.refuse = refused("Failed", "systemd does not answer.")
    assert admin.post("/apps/player/stop", "/apps", htmx=True).status_code >= 400
    agent.refuse = None
    assert undo_buttons(admin.get("/apps").text) == []


def test_damaged_undo_is_ignored(admin: Browser, agent: FakeAgent, panel: Panel) -> None:
    admin.set_weight("player", "50")
    panel.db.set_setting("undo/weight/player", '{"before": "x"')
    assert undo_buttons(admin.get("/apps").text) == []


# ---- the measured effect, the journal ----


def test_the_effect_of_a_change_is_measured(
    page: Browser, agent: FakeAgent, live: Live, store: Store
) -> None:
    """The player read 10 MB/s before the change of its weight, and reads 30 MB/s since."""
    store.close()
    now = int(time.time())
    changed = now - 400
    for at in range(now - 1000, now):
        found = Sum(ms=1000)
        flow = found.flow(("player", "vda", READ))
        flow.bytes, flow.ios, flow.latency = (10_000_000 if at < changed else 30_000_000), 8, {100: 8}
        live.add(at, found)
    db = page.client.application.extensions["evenkeel"].db
    assert page.get("/apps/player/effect").text == ""
    undo.remember(db, "player", "weight", 300, agent.apps[0].weight, changed)
    html = page.get("/apps").text
    link = re.search(r'hx-get="/apps/player/effect".*?<a href="([^"]+)"', html, re.DOTALL)
    assert link
    assert page.get(link[1].replace("&amp;", "&")).status_code == 200
    text = " ".join(re.sub("<[^>]+>", " ", page.get("/apps/player/effect").text).split())
    assert text.startswith(
        f"After the change of the weight from 300 to {agent.apps[0].weight}, measured so far:"
    )
    assert "read 10.0 MB/s → 30.0 MB/s; p99 of reads" in text
    assert "write" not in text
    assert 'hx-get="/apps/loader/effect"' not in html


def test_the_effect_is_that_of_the_last_change() -> None:
    early, late = undo.Change(1, 2, at=5), undo.Change(0, 20, at=9)
    assert undo.newest({"weight": early, "fixed_share": late}) == ("fixed_share", late)
    assert undo.newest({"weight": early}) == ("weight", early)
    # a change that an earlier panel has saved
    assert undo.newest({"weight": undo.Change(1, 2)}) is None


def test_an_effect_without_a_history_says_so(admin: Browser, agent: FakeAgent) -> None:
    admin.set_weight("player", "50")
    assert "the history has nothing to compare yet" in admin.get("/apps/player/effect").text
    assert admin.get("/apps/nobody/effect").status_code == 404


def test_each_app_leads_to_its_journal(admin: Browser, agent: FakeAgent) -> None:
    agent.apps[0] = replace(agent.apps[0], unit="dash_cam@front.service")
    page = admin.get("/apps").text
    assert 'href="/system/journal?unit=dash_cam%40front.service"' in page
    assert admin.get("/system/journal?unit=dash_cam%40front.service").status_code == 200


# ---- add and remove an app ----

ADD = {"unit": "dashcam.service", "title": "Dashcam", "name": "", "description": "", "weight": "200"}


def add(browser: Browser, **fields: str) -> TestResponse:
    return browser.post("/apps/add", "/apps/add", **{**ADD, **fields})


def test_add_and_remove_an_app(admin: Browser, agent: FakeAgent) -> None:
    assert 'href="/apps/add"' in admin.get("/apps").text
    page = admin.get("/apps/add").text
    assert headings(page) == [1]
    for unit in agent.free_units:
        assert f'<option value="{unit}">' in page
    assert 'name="weight" type="text" inputmode="numeric" value="100"' in page
    answer = add(admin)
    assert (answer.status_code, answer.location) == (303, "/apps#app-dashcam")
    added = next(app for app in agent.apps if app.name == "dashcam")
    assert (added.title, added.unit, added.weight) == ("Dashcam", "dashcam.service", 200)
    assert "dashcam.service" not in admin.get("/apps/add").text.split("</datalist>")[0].split("<datalist")[1]
    assert re.findall(r'href="(/apps/[^"]*/remove)"', admin.get("/apps").text) == ["/apps/dashcam/remove"]
    page = admin.get("/apps/dashcam/remove").text
    assert "Remove Dashcam?" in page
    assert "<code>dashcam.service</code> stays installed" in page
    answer = admin.post("/apps/dashcam/remove", "/apps/dashcam/remove")
    assert (answer.status_code, answer.location) == (303, "/apps")
    assert [app.name for app in agent.apps] == ["loader", "player"]
    assert admin.get("/apps/dashcam/remove").status_code == 404


def test_undo_of_an_added_app(admin: Browser, agent: FakeAgent) -> None:
    add(admin)
    assert undo_buttons(admin.get("/apps").text) == [("added", "Undo: remove it again")]
    answer = admin.post("/apps/dashcam/remove", "/apps", undo="added")
    assert (answer.status_code, answer.location) == (303, "/apps")
    assert [app.name for app in agent.apps] == ["loader", "player"]
    page = admin.get("/apps").text
    assert "Dashcam was removed from this page." in page
    assert 'action="/apps/dashcam/add-again"' in page


def test_undo_of_an_added_app_is_too_late_after_a_change(admin: Browser, agent: FakeAgent) -> None:
    add(admin)
    admin.set_weight("dashcam", "300")
    assert ("added", "Undo: remove it again") not in undo_buttons(admin.get("/apps").text)
    answer = admin.post("/apps/dashcam/remove", "/apps", undo="added")
    assert answer.status_code == 409
    assert "Dashcam was changed since it was added. Nothing was undone." in answer.text
    assert len(agent.apps) == 3
    admin.set_weight("dashcam", "200")  # as it was added
    assert ("added", "Undo: remove it again") in undo_buttons(admin.get("/apps").text)


def remove_with_settings(admin: Browser) -> None:
    """Add an app, make all its settings, and remove it."""
    add(admin, description="Records the road")
    admin.set_weight("dashcam", "300")
    admin.set_fixed_share("dashcam", "30")
    for directory in ("/data/dashcam", "/data/dashcam/index"):
        admin.post("/cache/add", "/cache", app="dashcam", directory=directory)
    assert admin.post("/apps/dashcam/remove", "/apps/dashcam/remove").status_code == 303


def directories_of(agent: FakeAgent, name: str) -> list[str]:
    return [one.path for one in agent.cache.directories if one.app == name]


def test_undo_of_a_removed_app_sets_all_its_settings_again(admin: Browser, agent: FakeAgent) -> None:
    remove_with_settings(admin)
    assert directories_of(agent, "dashcam") == []
    answer = admin.post("/apps/dashcam/add-again", "/apps")
    assert (answer.status_code, answer.location) == (303, "/apps#app-dashcam")
    (app,) = (app for app in agent.apps if app.name == "dashcam")
    assert (app.title, app.description, app.unit) == ("Dashcam", "Records the road", "dashcam.service")
    assert (app.weight, app.fixed_share, app.added) == (300, 30, True)
    assert directories_of(agent, "dashcam") == ["/data/dashcam", "/data/dashcam/index"]
    page = admin.get("/apps").text
    assert "was removed" not in page
    assert ("added", "Undo: remove it again") in undo_buttons(page)  # the undo is a change, too
    assert admin.post("/apps/dashcam/add-again", "/apps").status_code == 409


def test_undo_of_a_removed_app_has_the_settings_of_the_moment_of_the_removal(
    admin: Browser, agent: FakeAgent
) -> None:
    add(admin)
    admin.get("/apps")
    agent.set_weight("dashcam", 444)  # by ekctl
    admin.post("/apps/dashcam/remove", "/apps/dashcam/remove")
    admin.post("/apps/dashcam/add-again", "/apps")
    assert [app.weight for app in agent.apps if app.added] == [444]


def test_undo_of_a_removed_app_says_what_it_could_not_set(admin: Browser, agent: FakeAgent) -> None:
    remove_with_settings(admin)
    admin.set_fixed_share("player", "80")  # 20 % are left
    answer = admin.post("/apps/dashcam/add-again", "/apps")
    assert answer.status_code == 503
    assert "Dashcam is listed again with its weight, but not with all its other settings." in answer.text
    assert "20 % that are left" in answer.text
    (app,) = (app for app in agent.apps if app.name == "dashcam")
    assert (app.weight, app.fixed_share) == (300, 0)
    assert directories_of(agent, "dashcam") == ["/data/dashcam", "/data/dashcam/index"]


def test_undo_of_a_removed_app_while_the_page_pool_does_not_answer(
    admin: Browser, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent cannot forget the directories then, so the app still has them when it is listed again."""
    add(admin)
    admin.post("/cache/add", "/cache", app="dashcam", directory="/data/dashcam")
    kept = agent.cache
    agent.no_cache = refused("Failed", "ek-pool does not answer.")
    assert admin.post("/apps/dashcam/remove", "/apps/dashcam/remove").status_code == 303
    agent.no_cache, agent.cache = None, kept
    assert admin.post("/apps/dashcam/add-again", "/apps").status_code == 303
    assert directories_of(agent, "dashcam") == ["/data/dashcam"]


def test_directories_that_the_agent_has_kept_are_no_problem(admin: Browser, agent: FakeAgent) -> None:
    add(admin)
    admin.post("/cache/add", "/cache", app="dashcam", directory="/data/dashcam")
    kept = agent.cache
    admin.post("/apps/dashcam/remove", "/apps/dashcam/remove")
    agent.cache = kept
    assert admin.post("/apps/dashcam/add-again", "/apps").status_code == 303


@pytest.mark.parametrize(
    ("unit", "name"), [("dashcam.service", "other"), ("dash_cam@front.service", "dashcam")]
)
def test_undo_of_a_removed_app_is_too_late_if_its_name_or_unit_is_taken(
    admin: Browser, agent: FakeAgent, unit: str, name: str
) -> None:
    remove_with_settings(admin)
    add(admin, unit=unit, name=name, title="Other")
    assert "was removed from this page" not in admin.get("/apps").text
    answer = admin.post("/apps/dashcam/add-again", "/apps")
    assert answer.status_code == 409
    assert "The removal of dashcam cannot be undone any more" in answer.text
    assert [app.title for app in agent.apps if app.added] == ["Other"]


def test_a_removal_is_offered_for_a_day(admin: Browser, panel: Panel) -> None:
    now = int(time.time())
    for count in range(undo.REMOVED_MOST + 2):
        gone = undo.Listed(f"a{count}", "A", "", f"a{count}.service", 1, at=now - 86_300 - 50 * (count == 9))
        undo.remember_removed(panel.db, gone)
    found = undo.removed(panel.db, [], now)
    assert [each.name for each in found] == ["a9", "a8", "a7", "a6", "a5", "a4", "a3", "a2"]
    assert [each.name for each in undo.removed(panel.db, [], now + 51)] == [
        "a8", "a7", "a6", "a5", "a4", "a3", "a2"
    ]  # fmt: skip
    assert undo.removed(panel.db, [], now + 101) == []
    panel.db.set_setting("undo/removed", "[{}]")
    panel.db.set_setting("undo/added/player", "{}")
    assert undo.removed(panel.db, [], now) == []
    assert admin.get("/apps").status_code == 200


def test_refused_undo_of_a_removed_app_stays_offered(admin: Browser, agent: FakeAgent) -> None:
    remove_with_settings(admin)
    agent.free_units = []  # the unit was deleted
    answer = admin.post("/apps/dashcam/add-again", "/apps")
    assert answer.status_code == 409
    assert "there is no unit dashcam.service" in answer.text
    assert 'data-removed="dashcam"' in admin.get("/apps").text


def test_the_undo_of_each_change_needs_its_role(admin: Browser, agent: FakeAgent) -> None:
    remove_with_settings(admin)
    add(admin, unit="dash_cam@front.service", title="Front")
    admin.post("/apps/player/stop", "/apps", htmx=True)
    other = admin.new_user("operator")
    page = other.get("/apps").text
    assert "was removed from this page" not in page
    assert undo_buttons(page) == [("0", "Undo: start it again")]
    assert other.post("/apps/dashcam/add-again", "/apps").status_code == 403
    assert other.post("/apps/dash-cam-front/remove", "/apps", undo="added").status_code == 403
    assert other.post("/apps/player/undo", "/apps", undo="0").status_code == 303
    admin.post("/apps/player/stop", "/apps", htmx=True)
    viewer = admin.new_user("viewer")
    assert 'disabled>\n          <div class="undo" id="running-undo-player">' in viewer.get("/apps").text
    assert viewer.post("/apps/player/undo", "/apps", undo="0").status_code == 403
    assert agent.apps[-1].active_state == "inactive"
    assert [each.name for each in agent.apps] == ["dash-cam-front", "loader", "player"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"unit": " "}, "The unit is missing. Enter its name, such as dashcam.service."),
        ({"unit": "nobody.service"}, "App nobody was not added: there is no unit nobody.service."),
        ({"name": "Dash"}, "its name must be 1 to 32 characters"),
        ({"name": "player"}, "there is already an app with the name player"),
        ({"title": "x" * 41}, "title has 41 characters, at most 40 are allowed"),
        ({"weight": "0"}, "0 is less than 1. Enter a whole number from 1 to 10000."),
        ({"weight": ""}, "The weight is missing"),
        ({"unit": "<b>"}, "unit must be the name of a .service"),
    ],
)
def test_bad_app_is_refused_and_stays_in_the_form(
    admin: Browser, agent: FakeAgent, fields: dict[str, str], reason: str
) -> None:
    answer = add(admin, **fields)
    assert 400 <= answer.status_code < 500
    assert reason in answer.text
    for name, value in {**ADD, **fields}.items():
        assert f'name="{name}"' in answer.text
        assert f'value="{escape(value.strip())}"' in answer.text
    assert len(agent.apps) == 2


def test_app_of_a_file_is_not_removed(admin: Browser, agent: FakeAgent) -> None:
    answer = admin.post("/apps/player/remove", "/apps/player/remove")
    assert answer.status_code == 409
    assert "its file is /etc/evenkeel/apps.d/player.toml" in answer.text
    assert len(agent.apps) == 2


def test_unit_without_a_suffix_is_a_service(admin: Browser, agent: FakeAgent) -> None:
    assert add(admin, unit="dashcam", title="").status_code == 303
    assert [(app.title, app.unit) for app in agent.apps if app.added] == [("dashcam", "dashcam.service")]


@pytest.mark.parametrize(
    ("unit", "name"),
    [
        ("dashcam.service", "dashcam"),
        ("Dash_Cam@front.service", "dash-cam-front"),
        ("evenkeel-apps-a.slice", "evenkeel-apps-a"),
        ("x" * 40 + ".service", "x" * 32),
        ("\\x2d.service", "x2d"),
        (".service", ""),
    ],
)
def test_short_name(unit: str, name: str) -> None:
    assert listing.short_name(unit) == name


def test_a_box_has_as_many_rows_as_the_grid_also_with_an_effect() -> None:
    """apps.css gives each box five rows. A sixth element would lie over the buttons of another."""
    folder = Path(__file__).resolve().parents[1] / "src/evenkeel_panel/apps"
    rows = int(re.search(r"\.app \{[^}]*grid-row: span (\d+)", (folder / "static/apps.css").read_text())[1])  # type: ignore[index]
    box = (
        (folder / "templates/apps/page.html").read_text().partition("data-app=")[2].partition("</article>")[0]
    )
    children = [line for line in box.splitlines() if re.match(r" {6}(\{%.*?%\})*<(header|div|form)\b", line)]
    assert len(children) == rows, children
