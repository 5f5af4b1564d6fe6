# SPDX-License-Identifier: Apache-2.0
"""The page of wear, /wear.json and /wear.csv; the limit from which the panel warns."""

from __future__ import annotations

import csv
import io
import json
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from evenkeel_api.features.board import Device
from evenkeel_common.wear import Wear
from evenkeel_history.period import READ, SYSTEM, WRITE, Sum, pack
from evenkeel_history.store import Store
from evenkeel_history.testing import fill
from evenkeel_history.tiers import DAY, slot
from evenkeel_panel.fake_agent import FakeAgent
from evenkeel_panel.testing import PASSWORD, Browser, headings
from msgspec.structs import replace

if TYPE_CHECKING:
    from pathlib import Path

PAGE_S = 0.3  # the target: the server needs at most this time for any page over two years
GB = 10**9
NOW = int(time.time())
TODAY = slot(NOW, DAY)


def wrote(store: Store, at: int, seconds: int = 3600, **amounts: int) -> None:
    """A row of the finest resolution: in SECONDS, each app wrote so many bytes. "rest" is the rest of the board."""
    found = Sum(ms=seconds * 1000)
    for name, amount in amounts.items():
        found.flow((SYSTEM if name == "rest" else name, "mmcblk0", WRITE)).bytes = amount
    found.flow(("loader", "mmcblk0", READ)).bytes = 1 << 50
    store.write([(store.last() + 1, at, pack(found.period()))])


def reported(store: Store, at: int, *states: Wear) -> None:
    store.write([], states, at)


def fresh(page: Browser) -> None:
    page.client.application.extensions["evenkeel"].board.expire()


def codes(page: Browser) -> list[str]:
    return [problem["code"] for problem in json.loads(page.get("/wear.json").data)["problems"]]


@pytest.fixture
def recorded(page: Browser, store: Store) -> Browser:
    """The player writes 6 GB and the rest of the board 2 GB a day. 0 to 10 % of the life are used since two days."""
    reported(store, NOW - 2 * DAY, Wear("mmcblk0", 10, 10, "normal", 0))
    wrote(store, TODAY - DAY, DAY // 2, player=3 * GB, rest=GB)
    wrote(store, TODAY, 3600, player=GB // 4, rest=GB // 12)
    reported(store, NOW, Wear("mmcblk0", 10, 10, "normal", 16 * GB))
    return page


def text_of(page: Browser, path: str = "/wear") -> str:
    answer = page.get(path)
    assert answer.status_code == 200, answer.text
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", answer.text))


def device(page: Browser) -> dict[str, Any]:
    found = json.loads(page.get("/wear.json").data)["devices"]
    assert isinstance(found, list)
    assert len(found) == 1
    return dict(found[0])


def test_two_days_give_a_lower_bound_and_no_date(recorded: Browser) -> None:
    shown = text_of(recorded)
    assert "At today&#39;s rate, mmcblk0 lasts at least 18 days." in shown
    assert "This is a lower bound, not a date" in shown
    assert "ends between" not in shown
    found = device(recorded)
    assert (found["life_used_percent"], found["spare_blocks"]) == (10, "normal")
    assert (found["least_bytes"], found["most_bytes"]) == (144 * GB, None)
    assert found["bytes_per_day"] == pytest.approx(8 * GB, rel=1e-6)
    assert found["ends_after"] == pytest.approx(NOW + 18 * DAY, abs=60)
    assert found["ends_before"] is None


def test_who_writes_how_much(recorded: Browser) -> None:
    assert device(recorded)["writers"] == [
        {"app": "player", "bytes_per_day": pytest.approx(6 * GB, rel=1e-6), "part": 0.75},
        {"app": "", "bytes_per_day": pytest.approx(2 * GB, rel=1e-6), "part": 0.25},
    ]
    shown = text_of(recorded)
    assert "Player: 6 GB a day, 75.0 % of all" in shown
    assert "Rest of the board: 2 GB a day, 25.0 % of all" in shown
    day = time.strftime("%Y-%m-%d", time.gmtime(TODAY - DAY))
    assert f"{day}3 GB1 GB4 GB12 h" in shown
    assert "Together3.25 GB1.08 GB4.33 GB" in shown


def test_two_steps_give_dates(page: Browser, store: Store) -> None:
    for n, used in enumerate((10, 20, 20, 30)):
        reported(store, NOW - (3 - n) * DAY, Wear("mmcblk0", used, None, None, n * 100 * GB))
    wrote(store, TODAY - DAY, DAY, player=100 * GB)
    found = device(page)
    assert found["most_bytes"] > found["least_bytes"] > 0
    dates = [
        time.strftime("%d %b %Y", time.gmtime(found[name])).removeprefix("0")
        for name in ("ends_after", "ends_before")
    ]
    assert f"ends between {dates[0]} and {dates[1]}" in text_of(page)
    assert "each written byte wears the device as much as before" in text_of(page)


def test_an_end_on_one_day_is_one_date(page: Browser, store: Store) -> None:
    for n, used in enumerate((10, 20, 20, 30)):
        reported(store, NOW - (3 - n) * 60, Wear("mmcblk0", used, None, None, n * 100_000))
    wrote(store, TODAY - DAY, DAY, player=1000 * GB)
    found = device(page)
    day = time.strftime("%d %b %Y", time.gmtime(found["ends_after"])).removeprefix("0")
    assert f"the life of mmcblk0 ends on {day}." in text_of(page)


def test_csv_and_json_have_the_same_rows(recorded: Browser) -> None:
    for query in ("", "?days=14", "?days=90"):
        rows = json.loads(recorded.get(f"/wear.json{query}").data)["rows"]
        assert {(row["app"], row["device"]) for row in rows} == {("player", "mmcblk0"), ("", "mmcblk0")}
        answer = recorded.get(f"/wear.csv{query}")
        assert answer.mimetype == "text/csv"
        table = list(csv.DictReader(io.StringIO(answer.text)))
        assert [{name: str(value) for name, value in row.items()} for row in rows] == table


def test_90_days_show_more_than_14(page: Browser, store: Store) -> None:
    wrote(store, TODAY - 60 * DAY, 3600, player=7 * GB)
    wrote(store, TODAY - 13 * DAY, 3600, player=3 * GB)
    assert [row["bytes"] for row in json.loads(page.get("/wear.json?days=14").data)["rows"]] == [3 * GB]
    assert [row["bytes"] for row in json.loads(page.get("/wear.json?days=90").data)["rows"]] == [
        7 * GB,
        3 * GB,
    ]
    reported(store, NOW, Wear("mmcblk0", 10))
    rates = [
        json.loads(page.get(f"/wear.json?days={days}").data)["devices"][0]["bytes_per_day"]
        for days in (14, 90)
    ]
    assert rates == [72 * GB, 72 * GB]
    assert "Together10 GB10 GB" in text_of(page, "/wear?days=90")
    assert json.loads(page.get("/wear.json").data)["start"] == TODAY - 13 * DAY


@pytest.mark.parametrize("path", ["/wear", "/wear.json", "/wear.csv"])
@pytest.mark.parametrize("days", ["0", "15", "-14", "x", ""])
def test_a_bad_span_is_refused_with_a_reason(page: Browser, path: str, days: str) -> None:
    answer = page.get(f"{path}?days={days}")
    assert answer.status_code == 422
    assert "must be one of 14, 90" in answer.text


@pytest.mark.parametrize(
    ("states", "sentence"),
    [
        (
            [Wear("vda")],
            "The device vda does not report how much of its life is used, so the panel cannot tell",
        ),
        ([Wear("vda", 10)], "It is not known yet how long vda lasts, because hardly anything was written"),
        ([Wear("vda", 110)], "The life of vda is used up. It may refuse writes at any time."),
        (
            [Wear("vda", 100), Wear("vda", 100, written_bytes=GB)],
            "The life of vda may end any day: 90 % or more",
        ),
        (
            [Wear("vda", 20), Wear("vda", 20, written_bytes=GB)],
            "The device vda can take at least 8 GB more. The panel cannot tell",
        ),
    ],
)
def test_what_is_not_known_is_said(page: Browser, store: Store, states: list[Wear], sentence: str) -> None:
    for n, state in enumerate(states):
        reported(store, NOW + n, state)
    assert sentence in text_of(page)


def test_a_device_without_writes_lasts(page: Browser, store: Store) -> None:
    reported(store, NOW - DAY, Wear("vda", 20))
    reported(store, NOW, Wear("vda", 20, written_bytes=GB))
    wrote(store, TODAY, 7200)
    assert "The device vda can take at least 8 GB more, and nothing is written to it." in text_of(page)


def test_a_board_that_was_off_has_no_rate(page: Browser, store: Store) -> None:
    """In the last two weeks it was off; before, it wrote. Its rate is not known, which is not the same as no writes."""
    for day in range(30, 20, -1):
        wrote(store, TODAY - day * DAY, 80_000, player=GB)
    reported(store, NOW - 40 * DAY, Wear("mmcblk0", 20))
    reported(store, NOW, Wear("mmcblk0", 20, written_bytes=10 * GB))
    for days in (14, 90):
        assert "because the history covers less than an hour" in text_of(page, f"/wear?days={days}")


def test_nothing_yet(page: Browser, folder: Path) -> None:
    assert "The history cannot be read" in text_of(page)
    Store(folder).open()
    shown = text_of(page)
    assert "cannot be read" not in shown
    assert "No flash device is known yet." in shown
    assert "No write is recorded in the last 14 days." in shown


def test_a_device_of_the_board_without_a_report(page: Browser, store: Store, agent: FakeAgent) -> None:
    """Devices that the board no longer has are left out."""
    reported(store, NOW - 300 * DAY, Wear("mmcblk9", 50))
    agent.board = replace(agent.board, devices=[Device("vdb", "evenkeel", "", 10**10)])
    shown = text_of(page)
    assert "No report of vdb is saved yet." in shown
    assert "mmcblk9" not in shown


def test_a_silent_agent_leaves_the_page(recorded: Browser, agent: FakeAgent) -> None:
    recorded.get("/wear")
    agent.dead = "The agent does not answer: it is not running."
    recorded.client.application.extensions["evenkeel"].board.expire()
    assert "Player: 6 GB a day" in text_of(recorded)


def test_a_crossed_limit_is_a_problem(page: Browser, agent: FakeAgent) -> None:
    agent.worn(Wear("mmcblk0", 80, 60, "warning"))
    fresh(page)
    shown = text_of(page)
    assert "Up to 80 % of the life of mmcblk0 may be used, and the wear limit is 80 %." in shown
    assert (
        "Plan to replace mmcblk0, and let the apps write less: the page Wear shows how much each of them writes."
        in shown
    )
    assert "The device mmcblk0 has used 80 % of its spare blocks." in shown
    assert codes(page) == ["wear-limit", "wear-spare"]
    agent.worn(Wear("mmcblk0", 110, 60, "normal"))
    fresh(page)
    assert codes(page) == ["wear-used-up"]


def test_the_limit_can_be_set_and_switched_off(page: Browser, agent: FakeAgent) -> None:
    agent.worn(Wear("mmcblk0", 80))
    fresh(page)
    assert codes(page) == ["wear-limit"]
    for typed, percent, expected in (("81", 81, []), (" 40 % ", 40, ["wear-limit"]), ("off", 0, [])):
        answer = page.post("/wear/limit", "/wear", limit=typed)
        assert (answer.status_code, 'banner ok"' in answer.text) == (200, True)
        assert json.loads(page.get("/wear.json").data)["limit_percent"] == percent
        assert codes(page) == expected
    rows = [(row["action"], row["detail"]) for row in json.loads(page.get("/audit.json").data)]
    assert rows.count(("SetWearLimit", "percent 40")) == 1


def test_without_the_agent_no_limit_is_claimed(page: Browser, store: Store, agent: FakeAgent) -> None:
    reported(store, NOW, Wear("mmcblk0", 90))
    page.get("/wear")
    agent.dead = "the agent does not answer: it is not running"
    fresh(page)
    assert "The wear limit is not known, because the agent does not answer." in text_of(page)
    assert json.loads(page.get("/wear.json").data)["limit_percent"] is None
    answer = page.post("/wear/limit", "/wear", limit="40")
    assert (answer.status_code, 'value="40"' in answer.text) == (503, True)
    agent.dead = ""
    fresh(page)
    assert json.loads(page.get("/wear.json").data)["limit_percent"] == 80


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        ("", "wear limit is missing"),
        ("much", "“much” is not a number"),
        ("101", "more than 100"),
        ("1.5", "not a whole"),
    ],
)
def test_a_bad_limit_changes_nothing_and_keeps_the_input(page: Browser, typed: str, reason: str) -> None:
    page.post("/wear/limit", "/wear", limit="70")
    answer = page.post("/wear/limit?days=90", "/wear", limit=typed)
    assert answer.status_code == 422
    assert reason in answer.text
    assert f'value="{typed}" aria-describedby' in answer.text
    assert 'aria-current="true">90 days' in answer.text
    assert json.loads(page.get("/wear.json").data)["limit_percent"] == 70


def test_only_an_administrator_sets_the_limit(page: Browser) -> None:
    made = page.post("/users", "/users", name="vera", role="operator")
    first = re.search(r"first password ([a-z0-9]{4}-[a-z0-9]{4}-[a-z0-9]{4})", made.text)
    assert first, made.text
    vera = Browser(page.client.application.test_client(), page.state)
    vera.log_in(first[1], user="vera")
    vera.post("/password", "/password", current=first[1], new=PASSWORD + "v", confirm=PASSWORD + "v")
    assert "Only an administrator may change the wear limit." in text_of(vera)
    assert vera.post("/wear/limit", "/wear", limit="5").status_code == 403
    assert json.loads(page.get("/wear.json").data)["limit_percent"] == 80


def test_the_form_needs_its_token(page: Browser) -> None:
    answer = page.client.post("/wear/limit", base_url="https://board", data={"limit": "5"})
    assert answer.status_code == 400
    assert json.loads(page.get("/wear.json").data)["limit_percent"] == 80


def test_the_page_has_no_inline_style_or_script(recorded: Browser) -> None:
    shown = recorded.get("/wear").text
    assert " style=" not in shown
    assert "<script>" not in shown


def test_headings_are_in_order(recorded: Browser) -> None:
    assert max(headings(recorded.get("/wear").text)) == 3


def test_names_are_escaped(page: Browser, store: Store) -> None:
    found = Sum(ms=4_000_000)
    found.flow(("<b>x", "<i>y", WRITE)).bytes = 1
    store.write([(1, TODAY, pack(found.period()))], [Wear("<i>y", 110)], NOW)
    shown = page.get("/wear").text
    assert "<b>x" not in shown
    assert "<i>y" not in shown


def test_90_days_of_16_busy_apps_are_fast(page: Browser, store: Store) -> None:
    """The test measures the CPU time of the server: other programs share this machine."""
    fill(store, slot(NOW, 4 * DAY))
    for query in ("/wear?days=14", "/wear?days=90", "/wear.json?days=90"):
        times = []
        for _ in range(3):
            before = time.thread_time()
            assert page.get(query).status_code == 200
            times.append(time.thread_time() - before)
        print(query, round(min(times) * 1000), "ms")
        assert min(times) <= PAGE_S
