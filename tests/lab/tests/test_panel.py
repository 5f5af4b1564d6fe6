# SPDX-License-Identifier: Apache-2.0
"""The figures of the panel, and the files that its guest gets. These tests boot no guest."""

from __future__ import annotations

import gzip
import importlib.util
import json
import sys
import tomllib
from configparser import ConfigParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "recipes/agent/src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "recipes/history/src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "webui/src"))

from evenkeel_history.tiers import DAY
from evenkeel_panel.app import create_app
from evenkeel_panel.fake_agent import FakeAgent
from evenkeel_panel.history import model
from evenkeel_panel.testing import Browser
from lab import targets
from lab.experiments import panel
from lab.kernels import TOP
from lab.model import Figure, Output
from lab.scripts import FOLDER

ROUNDS = panel.PLAN["rounds"]
# routes without arguments that answer with a part of a page, or with a file
PARTS = {
    "/apps/rows", "/cache/live", "/healthz", "/metrics", "/overview/chart", "/overview/rows", "/recorder/live",
    "/update/state", "/validation/progress",
}  # fmt: skip
# pages that a new board cannot show: two reports of validations are compared; nobody is logged in
ABSENT = {"/login", "/validation/compare"}


def report(**changed: Any) -> Output:
    """A report in which each page takes 40 ms and each chart 200 ms."""
    each: dict[str, Any] = {
        "pages": {path: [40.0] * ROUNDS for path in panel.PAGES},
        "charts": {path: [200.0] * panel.PLAN["repeats"] for path in panel.CHARTS},
        "zooms": {path: [200.0] * 2 for path in panel.ZOOMS},
        "busy": 99.5,
        "bytes": {path: {"sent": 200_000, "gzip": 90_000} for path in panel.PAGES},
        "memory": {unit: {"Rss": 20480, "Pss": 10240} for unit in panel.SERVICES},
        "sampling": {"evenkeeld": 0.12, "evenkeel-history": 0.3, "evenkeel-panel": 5.0, "nginx": 1.0},
        "live": [0.3, 1.2],
        "exposure": {"evenkeeld": 2.1, "evenkeel-history": 1.1, "evenkeel-panel": 1.3, "nginx": 2.4},
    }
    return Output({name: json.dumps(found) for name, found in {**each, **changed}.items()})


def values(figures: list[Figure]) -> dict[str, float]:
    return {f.metric: f.value for f in figures}


def test_pages() -> None:
    slow = {path: [40.0] * ROUNDS for path in panel.PAGES} | {"/wear": [120.0] * ROUNDS}
    sizes = {"/": {"sent": 100, "gzip": 50_000}, "/history": {"sent": 310_000, "gzip": 70_000}}
    found = values(panel.pages(report(pages=slow, bytes=sizes)))
    assert found == {
        "p50": 40, "p95": 40, "max": 120, "slowest-p50": 120, "flash-busy": 99.5, "gzip": 70, "sent": 310,
    }  # fmt: skip
    slow["/"] = [90.0] * ROUNDS
    assert values(panel.pages(report(pages=slow)))["p95"] == 90


def test_a_page_without_times_is_an_error() -> None:
    short = {path: [40.0] * ROUNDS for path in panel.PAGES[1:]}
    with pytest.raises(ValueError, match="of 20 pages"):
        panel.pages(report(pages=short))
    with pytest.raises(ValueError, match="83 times"):
        panel.pages(report(pages=short | {"/": [40.0] * (ROUNDS - 1)}))


def test_the_slowest_chart_counts() -> None:
    times = {path: [200.0, 180.0, 190.0] for path in panel.CHARTS}
    times[panel.CHARTS[5]] = [250.0, 240.0, 260.0]
    zooms = {path: [210.0, 150.0] for path in panel.ZOOMS}

    def found() -> dict[str, float]:
        return values(panel.chart(report(charts=times, zooms=zooms)))

    assert found() == {"ms": 260, "again": 260, "zoomed": 210}
    times[panel.CHARTS[3]][0] = 1200.0
    zooms[panel.ZOOMS[2]] = [310.0, 170.0]
    assert found() == {"ms": 1200, "again": 260, "zoomed": 310}
    with pytest.raises(ValueError, match="1 charts and 4 zooms"):
        panel.chart(report(charts={panel.CHARTS[0]: [1.0]}, zooms=zooms))


def test_memory_is_the_sum_of_all_services() -> None:
    found = values(panel.memory(report()))
    assert (found["rss"], found["pss"], found["agent.pss"]) == (80, 40, 10)


def test_sampling_counts_agent_and_history_only() -> None:
    assert values(panel.sampling(report())) == {"cpu": 0.7, "agent.cpu": 0.2, "history.cpu": 0.5}


def test_live_pages_cost_the_difference() -> None:
    assert values(panel.live(report())) == {"cost": 3, "one": 1, "many": 4}


def test_exposure() -> None:
    assert values(panel.exposure(report())) == {"agent": 2.1, "history": 1.1, "panel": 1.3, "nginx": 2.4}


@settings(deadline=None)  # the host may be busy
@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(1, 100))
def test_a_percentile_is_a_value_that_so_many_do_not_exceed(listed: list[float], percent: float) -> None:
    found = panel.percentile(listed, percent)
    assert found in listed
    assert sum(v <= found for v in listed) >= percent / 100 * len(listed)
    assert sum(v < found for v in listed) < percent / 100 * len(listed)


def test_each_target_has_a_figure() -> None:
    wanted = targets.load()
    for e in panel.EXPERIMENTS:
        assert any(entry.of(e.name) for entry in wanted.entries), e.name
        assert wanted.unmatched(e.name, [f.metric for f in e.figures(report())], ()) == []


def test_all_experiments_have_one_guest() -> None:
    """A start of the board takes minutes. Guests with equal inputs start once."""
    first = panel.EXPERIMENTS[0]
    for e in panel.EXPERIMENTS:
        assert (e.script, e.files, e.device, e.append, e.memory) == (
            first.script, first.files, first.device, first.append, first.memory,
        )  # fmt: skip
        assert e.deep


def test_the_pages_are_those_of_the_panel(tmp_path: Path) -> None:
    """A new page must be measured, too."""
    app = create_app(tmp_path, TOP / "webui/src/static", FakeAgent())
    found = {
        rule.rule for rule in app.url_map.iter_rules()
        if "GET" in (rule.methods or ()) and not rule.arguments and "." not in rule.rule
        and not rule.rule.startswith("/api/")
    }  # fmt: skip
    assert found - PARTS - ABSENT == {path.partition("?")[0] for path in panel.PAGES}
    assert set(panel.SPANS) == set(model.SPANS)


def test_each_address_is_a_page(tmp_path: Path) -> None:
    """The guest fails if an answer has another status than 200."""
    page = Browser(
        create_app(tmp_path, TOP / "webui/src/static", FakeAgent()).test_client(), tmp_path
    ).set_up()
    end = panel.NOW - 120
    times = {
        "end": end,
        "hour": end - 3600,
        "hours": end - 7200,
        "middle": end - 365 * DAY,
        "start": end - 730 * DAY,
    }
    statuses = {path: page.get(path.format(**times)).status_code for path in (*panel.PAGES, *panel.CHARTS)}
    assert set(statuses.values()) == {200}, statuses
    assert "ETag" in page.get(panel.PLAN["live"]).headers


class Server:
    """Stands for a connection to the panel. FILES: the bodies by address."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.asked: list[str] = []

    def get(self, path: str) -> Any:
        self.asked.append(path)
        return SimpleNamespace(body=self.files[path])


def test_the_size_of_a_page_includes_each_static_file_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # the guest has visitor.py and onboard.py in the folder of panel.py
    monkeypatch.syspath_prepend(str(TOP / "tests"))
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location("measured", FOLDER / "panel.py")
    assert spec is not None
    assert spec.loader is not None
    guest = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(guest)
    page = b'<link href="/static/a.css?v=1"><script src="/static/b.js"></script><a href="/apps"></a>' * 2
    server = Server({"/static/a.css?v=1": b"x" * 100, "/static/b.js": b"x" * 30})
    found = guest.sizes(server, {"/": page, "/apps": b'<link href="/static/a.css?v=1">'})
    assert found["/"] == {"sent": len(page) + 130, "gzip": len(gzip.compress(page, 6)) + 130}
    assert found["/apps"]["sent"] == 31 + 100
    assert sorted(server.asked) == ["/static/a.css?v=1", "/static/b.js"]


def test_each_app_is_a_unit_in_the_slice_and_has_a_part_of_the_file() -> None:
    files = panel.files()
    parts = set()
    for app in panel.APPS:
        unit = ConfigParser(interpolation=None)
        unit.read_string(files[f"/data/etc/1/upper/systemd/system/{app}.service"])
        assert unit["Service"]["Slice"] == "evenkeel-apps.slice"
        parts.add(unit["Service"]["ExecStart"].partition("--offset=")[2].split()[0])
        listed = tomllib.loads(files[f"/data/etc/1/upper/evenkeel/apps.d/{app}.toml"])
        assert listed["unit"] == f"{app}.service"
    assert len(parts) == 16
    assert json.loads(files["/data/lab/plan.json"])["apps"] == panel.APPS
