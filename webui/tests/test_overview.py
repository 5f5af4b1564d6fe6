# SPDX-License-Identifier: Apache-2.0
"""The overview and /overview.json: whether everything is fine, and if not, what to do."""

from __future__ import annotations

import csv
import io
import json
import re
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from evenkeel_api.messages import Message
from evenkeel_common.wear import Wear
from evenkeel_history.live import Live
from evenkeel_history.period import READ, SYSTEM, WRITE, Period, Sum
from evenkeel_history.reader import Reader
from evenkeel_history.store import Store
from evenkeel_history.testing import APPS, busy, total
from evenkeel_panel import texts
from evenkeel_panel.app import create_app
from evenkeel_panel.cached import Cached
from evenkeel_panel.fake_agent import FakeAgent, external
from evenkeel_panel.overview.recent import SPAN_S, STEP_S, Recent, Window
from evenkeel_panel.testing import COMPONENT, Browser, headings
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

if TYPE_CHECKING:
    from werkzeug.test import TestResponse

GB = 10**9
NOW = int(time.time())


def second(**amounts: int) -> Sum:
    """A second in which each app read so many bytes. "rest" is the rest of the board."""
    found = Sum(ms=1000)
    for name, amount in amounts.items():
        found.flow((SYSTEM if name == "rest" else name, "vda", READ)).bytes = amount
    return found


def fresh(page: Browser) -> None:
    """Let the panel ask the agent and the history again."""
    page.client.application.extensions["evenkeel"].board.expire()
    page.client.application.extensions.pop("evenkeel-overview", None)


def data(page: Browser) -> dict[str, Any]:
    return dict(json.loads(page.get("/overview.json").data))


def plain(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", html))


def text_of(page: Browser, path: str = "/") -> str:
    answer = page.get(path)
    assert answer.status_code == 200, answer.text
    return plain(answer.text)


def heading(page: Browser) -> str:
    (found,) = re.findall(r"<h1>(.*?)</h1>", page.get("/").text, re.DOTALL)
    return plain(found)


def test_everything_is_fine(page: Browser, store: Store) -> None:
    assert heading(page) == "Everything is fine"
    found = data(page)
    assert (found["fine"], found["problems"], found["recorder"]) == (True, [], [])


def test_the_first_page_is_the_overview(page: Browser) -> None:
    page.post("/logout", "/")
    assert page.log_in().location == "/"
    assert 'aria-current="page">Overview' in page.get("/").text
    assert page.get("/login").location == "/"


def test_a_problem_has_a_reason_and_a_remedy(page: Browser, agent: FakeAgent) -> None:
    agent.board = replace(
        agent.board,
        health="degraded",
        problems=[
            Message("scheduler-inactive", device="mmcblk0", scheduler="none").note(),
            Message("app-ignored", file="x.toml", reason=Message("app-key-missing", key="unit")).note(),
        ],
    )
    fresh(page)
    assert heading(page) == "2 problems need attention"
    assert [(problem["reason"], problem["remedy"]) for problem in data(page)["problems"]] == [
        (
            "Evenkeel is not active on mmcblk0: its scheduler is none.",
            "Restart the board on the page System, or run 'echo evenkeel > /sys/block/mmcblk0/queue/scheduler'.",
        ),
        (
            "Apps.d/x.toml is ignored: unit is missing.",
            "The other apps still work. Ask the maker of the app to correct the file. Then restart the board on the page"
            " System, or run 'systemctl reload evenkeeld'.",
        ),
    ]
    assert "What to do: The other apps still work" in text_of(page)
    assert "Everything is fine" not in text_of(page)


# the beginnings of the agent's messages about problems, from docs/reference/error-codes.md
DOCUMENTED = re.findall(
    r"(?m)^\| `([^`]+)`",
    (COMPONENT.parent / "docs/reference/error-codes.md")
    .read_text()
    .partition("## Problems in")[2]
    .partition("## Panel")[0],
)


@pytest.mark.parametrize("beginning", DOCUMENTED)
def test_every_documented_problem_has_a_remedy(beginning: str) -> None:
    """Words in capitals stand for names and numbers."""
    words = re.sub(r"\b[A-Z]+\b", ".*", re.escape(beginning).replace(r"\ ", " "))
    words = (
        words.replace("io\\.evenkeel\\.stat", ".*").replace("/etc/evenkeel/apps\\.d", ".*").replace("/", ".*")
    )
    codes = [code for code, text in texts.TEXTS.items() if re.match(words, re.sub(r"\{[^}]*\}", "X", text))]
    # a part of another message, and the answer to a form
    codes = [code for code in codes if code not in ("fixed-share-no-flash", "wear-over")]
    assert codes, words
    for code in codes:
        _, remedy = texts.explained(Message(code).note())
        named = code in texts.REMEDIES or "; " in texts.TEXTS[code]
        assert named, f"{code} has no remedy"
        assert remedy


def test_the_first_password_is_shown_at_a_start_only() -> None:
    note = Message("accounts-damaged", reason="it is short", path="accounts.db.corrupt").note()
    assert texts.explained(note)[1].startswith("Restart the board")


def test_a_problem_without_a_known_remedy_points_to_the_journal() -> None:
    assert texts.explained(external("it smells; call someone")) == (
        "It smells; call someone.",
        "Look for the reason on the page System, under Journal. If you do not find it, download the support bundle there"
        " for the maker of the board.",
    )


def test_a_crossed_limit_of_wear_is_a_problem(page: Browser, agent: FakeAgent) -> None:
    agent.worn(Wear("mmcblk0", 90))
    fresh(page)
    assert heading(page) == "One problem needs attention"
    assert [problem["code"] for problem in data(page)["problems"]] == ["wear-limit"]
    page.post("/wear/limit", "/wear", limit="off")
    assert heading(page) == "Everything is fine"


def test_a_silent_agent_is_said_first_and_the_rest_is_shown(
    page: Browser, store: Store, live: Live, agent: FakeAgent
) -> None:
    now = int(time.time())
    live.add(now - 5, second(player=10_000_000))
    page.get("/")
    agent.dead = "The agent does not answer: it is not running."
    fresh(page)
    assert heading(page) == "The agent does not answer: it is not running."
    shown = text_of(page)
    assert "cannot tell whether everything is fine" in shown
    assert "Everything is fine" not in shown
    assert "Not known: the agent does not answer." in shown
    answer = page.get("/overview.json")
    assert answer.status_code == 503
    assert (answer.json or {})["fine"] is None
    assert (answer.json or {})["recorder"] is None
    assert (answer.json or {})["throughput"]["rates"]


def test_throughput_by_app(page: Browser, store: Store, live: Live) -> None:
    now = int(time.time())
    for at in range(now - 30, now):
        live.add(at, second(player=20_000_000, loader=5_000_000, rest=0))
    found = data(page)["throughput"]
    assert found["problem"] == ""
    rates = {(rate["app"], rate["mbps"]) for rate in found["rates"]}
    assert rates == {("player", 20.0), ("loader", 5.0), ("", 0.0)}
    written = list(csv.DictReader(io.StringIO(page.get("/overview.csv").text)))
    assert written == [{name: str(value) for name, value in rate.items()} for rate in found["rates"]]
    shown = page.get("/").text
    assert shown.count("<title>Player</title>") == 1
    assert "<title>Rest of the board</title>" not in shown


def test_the_worst_latency_now(page: Browser, agent: FakeAgent) -> None:
    assert "No app uses the flash now." in text_of(page)
    player, loader = agent.apps
    agent.apps = [replace(player, p99_us=1200.0), replace(loader, p99_us=45_600.0)]
    fresh(page)
    assert data(page)["worst"] == {"app": "loader", "title": "Loader", "p99_us": 45600.0}
    assert "45.6 ms Loader has the highest latency." in text_of(page)


def test_stalls_of_the_last_hour(page: Browser, store: Store, live: Live) -> None:
    assert "Not known: nothing is recorded yet." in text_of(page)
    found = second()
    found.add_stalls("player", 2, 300)
    live.add(int(time.time()) - 2, found)
    fresh(page)
    assert data(page)["last_hour"]["stalls"] == [{"app": "player", "stalls": 2, "stall_s": 0.3}]
    assert "Player stalled 2 times, 300 ms together." in text_of(page)
    assert "The history has 1.0 s of this hour." in text_of(page)


def test_a_recorder_with_a_problem(page: Browser, agent: FakeAgent) -> None:
    assert "no problem A recorder that is switched off" in text_of(page)
    note = Message("channels-degraded", channels=["a", "b"], reason="late").note()
    agent.board = replace(agent.board, health="degraded", problems=[note, external("another one")])
    fresh(page)
    assert [problem["code"] for problem in data(page)["recorder"]] == ["channels-degraded"]
    assert "faulty Channels a, b are degraded: late." in text_of(page)


def test_slot_and_version(page: Browser) -> None:
    shown = text_of(page)
    assert "Version0.1.0 SlotA Schedulerevenkeel Kernel6.12.48-evenkeel" in shown.replace(" </dd>", "")


def test_without_a_history_each_part_says_so(tmp_path: Path, agent: FakeAgent) -> None:
    app = create_app(
        tmp_path,
        COMPONENT / "src/static",
        agent,
        HISTORY_FOLDER=tmp_path / "no",
        HISTORY_SOCKET=tmp_path / "none",
    )
    shown = text_of(Browser(app.test_client(), tmp_path).set_up())
    assert "The history service does not answer, so the throughput is not known" in shown
    assert "Not known: nothing is recorded yet." in shown
    assert "The history cannot be read" in shown
    assert "No flash device is known yet." in shown


def test_life_of_the_flash(page: Browser, store: Store) -> None:
    store.write([], [Wear("vda")], NOW)
    assert "The device vda does not report how much of its life is used" in text_of(page)


@pytest.mark.parametrize("path", ["/overview/rows", "/overview/chart", "/overview.json"])
def test_polls_are_shared_and_answered_with_304(page: Browser, agent: FakeAgent, path: str) -> None:
    def poll(**headers: str) -> TestResponse:
        return page.get(path, **headers)

    first = poll()
    asked = len(agent.calls)
    again = poll(If_None_Match=first.headers["ETag"])
    assert (first.status_code, again.status_code) == (200, 304)
    assert len(agent.calls) == asked
    assert first.headers["Cache-Control"] == "private, no-cache"


def test_the_fragments_fit_the_page(page: Browser, live: Live, store: Store) -> None:
    """Each fragment has the content of the element with its id, so that nothing moves at the first update."""
    found = second(player=1)
    for name in ("player", "gone", ""):  # an app, an app that was removed, the rest of the board
        found.add_stalls(name, 1, 1)
    live.add(int(time.time()) - 20, found)
    assert "Rest of the board stalled" in text_of(page)
    whole = re.sub(r"\s+", "", page.get("/").text)
    found = []
    for path in ("/overview/rows", "/overview/chart"):
        _, *fragments = re.split(r'<div id="([a-z]+)" hx-swap-oob="innerHTML">', page.get(path).text)
        for name, content in zip(fragments[::2], fragments[1::2], strict=True):
            packed = re.sub(r"\s+", "", content).removesuffix("</div>")
            assert f'id="{name}">{packed}</' in whole, name
            found.append(name)
    assert found == ["headline", "flash", "latency", "stalls", "recorder", "board", "total", "throughput"]


def test_pages_have_no_inline_script_or_style(page: Browser, live: Live) -> None:
    live.add(int(time.time()) - 20, second(player=1))
    for path in ("/", "/overview/rows", "/overview/chart"):
        shown = page.get(path).text
        assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=|hx-on|javascript:", shown)


def test_headings_are_in_order(page: Browser, store: Store) -> None:
    store.write([], [Wear("vda")], NOW)
    assert max(headings(page.get("/").text)) == 3


def test_names_are_escaped(page: Browser, live: Live, store: Store) -> None:
    found = second(**{"<b>x": 1})
    found.add_stalls("<b>x", 1, 1)
    live.add(int(time.time()) - 20, found)
    store.write([], [Wear("<b>x", 100)], NOW)
    assert "<b>x" not in page.get("/").text


def test_a_poll_of_16_busy_apps_costs_little(
    page: Browser, live: Live, store: Store, agent: FakeAgent
) -> None:
    """The CPU time of a poll each second, with all that its caches spare it: less than 2 % of a core."""
    found = total([busy(1, 1000)])
    now = int(time.time())
    for at in range(now - SPAN_S, now):
        live.add(at, found)
    agent.apps = [replace(agent.apps[0], name=name, title=name) for name in APPS]
    fresh(page)
    board = page.client.application.extensions["evenkeel"].board
    page.get("/overview/rows")
    page.get("/overview/chart")
    costs = []
    for _ in range(5):
        board.expire()
        before = time.thread_time()
        page.get("/overview/rows")
        costs.append(time.thread_time() - before)
    size = len(page.get("/overview/chart").data)
    print(f"{min(costs) * 1000:.1f} ms a poll, {size / 1000:.0f} kB a chart")
    assert min(costs) <= 0.02
    assert size <= 150_000


# ---- the cached parts ----


def test_one_thread_loads_and_the_others_get_the_previous_value() -> None:
    clock = [0.0]
    cached: Cached[int] = Cached(10, lambda: clock[0])
    assert cached.get(lambda: 1) == 1
    assert cached.get(lambda: 2) == 1
    clock[0] = 10.0
    begun, go_on = threading.Event(), threading.Event()

    def slowly() -> int:
        begun.set()
        assert go_on.wait(20)
        return 3

    thread = threading.Thread(target=cached.get, args=(slowly,))
    thread.start()
    assert begun.wait(20)
    assert cached.get(lambda: 4) == 1
    go_on.set()
    thread.join()
    assert cached.get(lambda: 5) == 3


def test_a_failed_load_is_tried_again() -> None:
    cached: Cached[int] = Cached(10, lambda: 0.0)
    with pytest.raises(ZeroDivisionError):
        cached.get(lambda: 1 // 0)
    assert cached.get(lambda: 7) == 7


class Seconds(Reader):
    """A reader of PERIODS, by the time at which each ended."""

    def __init__(self, periods: dict[int, Period]) -> None:
        self.periods = periods
        self.asked: list[tuple[int, int]] = []
        self.problem = ""

    def seconds(self, start: int, end: int) -> list[tuple[int, Period]]:
        self.asked.append((start, end))
        if self.problem:
            raise OSError(self.problem)
        return [(at, period) for at, period in self.periods.items() if start <= at < end]


def shape(recent: Recent) -> dict[int, tuple[int, dict[str, int]]]:
    return {at: (point.ms, point.bytes) for at, point in recent.points.items()}


@given(
    st.dictionaries(st.integers(0, 2000), st.integers(1, 10**9), max_size=30),
    st.lists(st.integers(0, 2000), min_size=1, max_size=20),
)
def test_updates_in_pieces_show_the_same_as_one(amounts: dict[int, int], pieces: list[int]) -> None:
    """Also if the clock jumps back in between."""
    source = Seconds({at: second(player=amount).period() for at, amount in amounts.items()})
    window = Window()
    for now in pieces:
        found = window.update(source, now)
    assert shape(found) == shape(Window().update(source, pieces[-1]))
    assert all(found.start <= at < found.end for at in found.points)
    assert found.end - found.start > SPAN_S - STEP_S - 1


def test_an_update_asks_for_new_seconds_only() -> None:
    source = Seconds({})
    window = Window()
    for now in (1000, 1005, 1005, 1100):
        window.update(source, now)
    assert source.asked == [(400, 1000), (1000, 1005), (1005, 1005), (1005, 1100)]


def test_a_failed_update_keeps_the_chart_and_is_made_up_for() -> None:
    source = Seconds({995: second(player=1).period(), 1001: second(player=2).period()})
    window = Window()
    window.update(source, 1000)
    source.problem = "gone"
    failed = window.update(source, 1010)
    assert (failed.problem, len(failed.points)) == ("gone", 1)
    source.problem = ""
    assert [point.bytes["player"] for point in window.update(source, 1020).points.values()] == [1, 2]


def test_reads_and_writes_count_together() -> None:
    both = second(player=3)
    both.flow(("player", "vda", WRITE)).bytes = 4
    found = Window().update(Seconds({995: both.period()}), 1000)
    assert shape(found) == {990: (1000, {"player": 7})}
