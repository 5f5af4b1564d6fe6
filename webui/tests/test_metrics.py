# SPDX-License-Identifier: Apache-2.0
"""/metrics, read with the parser of prometheus_client: values, bounds, failures, and texts that could break the format."""

from __future__ import annotations

import re
from dataclasses import replace as with_fields
from typing import TYPE_CHECKING, Any

import pytest
from evenkeel_api.features.board import Device
from evenkeel_api.messages import Note
from evenkeel_common.iostat import BUCKETS, bucket_upper
from evenkeel_common.wear import Wear
from evenkeel_history.live import Live, Server
from evenkeel_history.period import READ, SYSTEM, WRITE, Flow, Sum
from evenkeel_history.store import Store
from evenkeel_history.totals import Totals
from evenkeel_panel.app import create_app
from evenkeel_panel.board import View
from evenkeel_panel.fake_agent import FakeAgent, demo_apps, demo_status
from evenkeel_panel.metrics import exposition
from evenkeel_panel.testing import COMPONENT, Browser
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from flask import Flask
    from prometheus_client import Metric

DOCS = COMPONENT.parent / "docs"
FULL = replace(
    demo_status(),
    devices=[Device(name="mmcblk0", scheduler="evenkeel", model="DG4064", size_bytes=64 << 30)],
    problems=[Note("counters-unreadable", {}, "x"), Note("counters-unreadable", {}, "y")],
)
VIEW = View(live=True, status=FULL, apps=tuple(demo_apps()))


def totals() -> Sum:
    found = Sum(ms=60_000)
    flow = found.flow(("player", "mmcblk0", READ))
    flow.bytes, flow.ios, flow.wait_us, flow.gate_us, flow.gates, flow.service_us = 4096, 4, 90, 30, 2, 500
    flow.latency = {0: 1, 31: 2, 199: 1}
    found.flow((SYSTEM, "mmcblk0", WRITE)).bytes = 512
    found.blame = {("player", "loader"): 1_500_000}
    found.add_stalls("player", 3, 420)
    return found


def parsed(text: bytes | str) -> dict[str, Metric]:
    found = text.decode() if isinstance(text, bytes) else text
    return {family.name: family for family in text_string_to_metric_families(found)}


def value(families: dict[str, Metric], name: str, **labels: str) -> float:
    """The value of the only sample NAME that has LABELS."""
    (found,) = (
        sample.value
        for family in families.values()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )
    return float(found)


@pytest.fixture
def live() -> Live:
    return Live()


@pytest.fixture
def app(tmp_path: Path, agent: FakeAgent, live: Live) -> Iterator[Flask]:
    server = Server(tmp_path / "live", live)
    agent.board = FULL
    yield create_app(
        tmp_path,
        COMPONENT / "src/static",
        agent,
        HISTORY_FOLDER=tmp_path / "history",
        HISTORY_SOCKET=tmp_path / "live",
    )
    server.close()


def make_token(admin: Browser, role: str = "viewer") -> dict[str, str]:
    page = admin.post("/account/tokens", "/account", name="prometheus", role=role, days="30").text
    found = re.search(r"is (ek_[\w-]+)\.", page)
    assert found
    return {"Authorization": f"Bearer {found[1]}"}


def test_a_viewer_token_reads_all_metrics(admin: Browser, app: Flask, live: Live, tmp_path: Path) -> None:
    live.add(1, totals())
    store = Store(tmp_path / "history")
    store.open()
    store.write([], [Wear("mmcblk0", 10, 30, "normal", 0)], 1)
    program = Browser(app.test_client(), admin.state)
    answer = program.get("/metrics", **make_token(admin))
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-store"
    found = parsed(answer.text)
    assert value(found, "evenkeel_agent_up") == value(found, "evenkeel_history_up") == 1
    assert value(found, "evenkeel_board_info", slot="A", scheduler="evenkeel") == 1
    assert value(found, "evenkeel_problem", code="counters-unreadable") == 1
    # the parser ignores duplicates, but Prometheus refuses them
    assert answer.text.count("evenkeel_problem{") == 1
    assert value(found, "evenkeel_problems") == 2
    assert value(found, "evenkeel_device_size_bytes", device="mmcblk0") == 64 << 30
    assert value(found, "evenkeel_device_life_used_ratio", device="mmcblk0") == 0.3
    assert value(found, "evenkeel_device_spare_blocks", device="mmcblk0", state="normal") == 1
    assert value(found, "evenkeel_device_spare_blocks", device="mmcblk0", state="urgent") == 0
    assert value(found, "evenkeel_app_weight", app="loader") == 100
    assert value(found, "evenkeel_io_bytes_total", app="player", direction="read") == 4096
    assert value(found, "evenkeel_io_bytes_total", app="(rest)", direction="write") == 512
    assert value(found, "evenkeel_io_wait_seconds_total", app="player") == 90e-6
    assert value(found, "evenkeel_io_slowed_seconds_total", app="player", cause="loader") == 1.5
    assert value(found, "evenkeel_app_stalls_total", app="player") == 3
    assert value(found, "evenkeel_app_stall_seconds_total", app="player") == 0.42
    assert value(found, "evenkeel_sampled_seconds_total") == 60


def test_without_a_log_in_there_is_no_redirect(admin: Browser, app: Flask) -> None:
    """A program would follow a redirect and read the page of the log-in."""
    program = Browser(app.test_client(), admin.state)
    for headers in ({}, {"Authorization": "Bearer ek_wrong"}):
        answer = program.get("/metrics", **headers)
        assert (answer.status_code, answer.is_json) == (401, True)


@pytest.mark.parametrize("scheme", ["bearer", "BEARER"])
def test_the_case_of_the_scheme_does_not_matter(admin: Browser, app: Flask, scheme: str) -> None:
    token = make_token(admin)["Authorization"].removeprefix("Bearer ")
    program = Browser(app.test_client(), admin.state)
    assert program.get("/metrics", Authorization=f"{scheme} {token}").status_code == 200


def test_a_scrape_asks_the_agent_about_its_token_only_now_and_then(
    admin: Browser, app: Flask, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers, asked = make_token(admin), []
    call = agent.call
    monkeypatch.setattr(agent, "call", lambda method, *more: (asked.append(method), call(method, *more))[1])
    program = Browser(app.test_client(), admin.state)
    for _ in range(5):
        assert program.get("/metrics", **headers).status_code == 200
    assert asked.count("CheckSession") == 1


def test_history_that_does_not_answer_is_reported(
    admin: Browser, live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = parsed(admin.get("/metrics").text)  # no sample yet
    assert value(found, "evenkeel_history_up") == 0
    assert "evenkeel_io_bytes" not in found
    live.add(1, totals())
    monkeypatch.setattr(Totals, "publish", lambda *_: b"rubbish")
    assert value(parsed(admin.get("/metrics").text), "evenkeel_history_up") == 0
    (tmp_path / "live").unlink()
    found = parsed(admin.get("/metrics").text)
    assert (value(found, "evenkeel_history_up"), value(found, "evenkeel_agent_up")) == (0, 1)


def test_without_an_agent_the_counters_go_on(admin: Browser, agent: FakeAgent, live: Live) -> None:
    live.add(1, totals())
    admin.get("/metrics")
    agent.dead = "The agent does not answer: it is not running."
    admin.get("/apps")
    admin_app: Any = admin.client.application
    admin_app.extensions["evenkeel"].board.expire()
    answer = admin.get("/metrics")
    assert answer.status_code == 200
    found = parsed(answer.text)
    assert value(found, "evenkeel_agent_up") == 0
    assert value(found, "evenkeel_io_bytes_total", app="player") == 4096
    assert "evenkeel_app_weight" not in found  # the last known values may be wrong now


def test_unknown_values_have_no_sample() -> None:
    found = parsed(exposition.text(VIEW, None, {"mmcblk0": [(1, Wear("mmcblk0"))]}))
    assert found["evenkeel_app_fixed_share_used_ratio"].samples == []  # the agent reports -1
    assert found["evenkeel_device_life_used_ratio"].samples == []
    assert found["evenkeel_device_spare_blocks"].samples == []


ANY_TEXT = st.text(
    st.characters() | st.sampled_from('\\"\n\r{},= #\u2028\x85\x00')
)  # also lone surrogates, which have no UTF-8


@settings(deadline=None)
@given(ANY_TEXT, ANY_TEXT)
def test_no_text_breaks_the_format(title: str, model: str) -> None:
    apps = (replace(VIEW.apps[0], title=title), VIEW.apps[1])
    status = replace(
        FULL, devices=[replace(FULL.devices[0], model=model)], kernel=title, problems=[Note(model)]
    )
    found = parsed(exposition.text(with_fields(VIEW, status=status, apps=apps), totals(), {}))
    clean = title.encode("utf-8", "replace").decode().replace("\0", "")
    assert value(found, "evenkeel_app_info", app="player", title=clean) == 1
    assert len(found["evenkeel_problem"].samples) == 1
    assert value(found, "evenkeel_io_bytes_total", app="player") == 4096


@settings(deadline=None)
@given(st.dictionaries(st.integers(0, BUCKETS - 1), st.integers(1, 1 << 40)))
def test_the_histogram_counts_each_request_in_the_right_bucket(latency: dict[int, int]) -> None:
    found = parsed(exposition.text(VIEW, Sum(flows={("a", "vda", READ): Flow(latency=latency)}), {}))
    for us in exposition.BOUNDS_US:
        expected = sum(count for index, count in latency.items() if bucket_upper(index) <= us)
        # no bucket has latencies on both sides of the bound
        below = sum(n for index, n in latency.items() if not index or bucket_upper(index - 1) < us)
        bound = exposition.floatToGoString(us / 1e6)
        assert value(found, "evenkeel_io_latency_seconds_bucket", le=bound) == expected == below
    assert value(found, "evenkeel_io_latency_seconds_count") == sum(latency.values())


FLOWS = st.builds(
    Flow, *[st.integers(0, 1 << 45)] * 6, latency=st.dictionaries(st.integers(0, 199), st.integers(0, 99))
)
STEPS = st.builds(
    Sum,
    st.integers(0, 5000),
    st.dictionaries(
        st.tuples(st.sampled_from(["", "a", "b"]), st.just("vda"), st.sampled_from([0, 1])), FLOWS
    ),
    st.dictionaries(st.tuples(st.just("a"), st.just("b")), st.integers(0, 1 << 40)),
    st.dictionaries(st.just("a"), st.tuples(st.integers(0, 9), st.integers(0, 9999))),
)


def counters(found: dict[str, Metric]) -> dict[Any, float]:
    return {
        (sample.name, *sorted(sample.labels.items())): float(sample.value)
        for family in found.values()
        if family.type in ("counter", "histogram")
        for sample in family.samples
    }


@settings(deadline=None)
@given(STEPS, STEPS)
def test_no_counter_decreases(first: Sum, second: Sum) -> None:
    before = counters(parsed(exposition.text(VIEW, first, {})))
    first.add(second)
    after = counters(parsed(exposition.text(VIEW, first, {})))
    assert all(after[key] >= count for key, count in before.items())


def test_16_apps_have_a_bounded_number_of_series() -> None:
    found = Sum(ms=1)
    names = [SYSTEM, *(f"app-{number}" for number in range(16))]
    for name in names:
        for direction in (READ, WRITE):
            found.flow((name, "mmcblk0", direction)).latency = dict.fromkeys(range(200), 1)
    found.blame = {(victim, cause): 1 for victim in names for cause in names}
    apps = tuple(replace(VIEW.apps[0], name=name) for name in names[1:])
    text = exposition.text(with_fields(VIEW, apps=apps), found, {})
    series = [line for line in text.splitlines() if not line.startswith(b"#")]
    assert len(series) <= 1500


def test_names_units_and_reference() -> None:
    """Each metric has the prefix, a base unit and a row in the reference; the reference has no other rows."""
    wear = {"mmcblk0": [(1, Wear("mmcblk0", 10, 30, "normal", 0))]}
    found = parsed(exposition.text(VIEW, totals(), wear))
    for family in found.values():
        assert family.name.startswith("evenkeel_")
        assert family.documentation.endswith(".")
        assert family.unit in ("", "bytes", "seconds", "ratio")
    shown = {
        family.name + {"counter": "_total", "info": "_info"}.get(family.type, "") for family in found.values()
    }
    text = (DOCS / "reference/metrics.md").read_text()
    assert set(re.findall(r"^\| `(evenkeel_\w+)`", text, re.MULTILINE)) == shown
