# SPDX-License-Identifier: Apache-2.0
"""Figures that experiments compute from a guest's report, such as caps, instructions per request and gains.

Also some shapes: the verdicts on whether the result of a paper is reproduced.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "recipes/validate/src"))

from evenkeel_report.lookup import Rows
from lab import oracle
from lab.experiments import channel, cost, regulate, scale
from lab.model import Output, Row


@pytest.mark.parametrize(("n", "earlier", "paper"), [(2, 4, 8), (3, 2, 7), (4, 1, 6), (5, 1, 5)])
def test_both_rules_give_the_caps_of_the_paper(n: int, earlier: int, paper: int) -> None:
    assert (regulate.earlier_cap(n), regulate.paper_cap(n)) == (earlier, paper)
    assert {earlier, paper} <= set(regulate.CAPS)


def _job(read: tuple[int, float, int], write: tuple[int, float, int] = (0, 0, 0)) -> str:
    """A fio report. Each argument is one direction: bytes/s, mean latency in ns, and number of requests."""
    sides = [{"bw_bytes": b, "iops": b / 4096, "lat_ns": {"mean": m, "N": n}} for b, m, n in (read, write)]
    return "a warning\n" + json.dumps({"jobs": [{"error": 0, "read": sides[0], "write": sides[1]}]})


def _values(name: str, module: object, out: Output) -> dict[str, float]:
    listed = {e.name: e for e in module.EXPERIMENTS}  # type: ignore[attr-defined]
    return {f.metric: f.value for f in listed[name].figures(out)}


def test_the_rule_has_the_papers_gains_at_the_papers_iops() -> None:
    results = {f"cap{cap}": _job((4096 * regulate.PAPER.get(cap, 215), 1e6, 9)) for cap in regulate.CAPS}
    got = _values("regulate.rule", regulate, Output(results))
    assert got == {"n2.gain": 1.24, "n3.gain": 1.54, "n4.gain": 1.9, "n5.gain": 1.79}


def test_instructions_are_nanoseconds_divided_by_requests() -> None:
    over = {"none": 8000, "own": 9000, "mq-deadline": 9500}
    phases = {f"{name}{g}": n for g in cost.GROUPS for name, n in over.items()}
    phases["own64"] = 9500
    out = Output({name: f"{per_io * 10000} 10000" for name, per_io in phases.items()})
    got = _values("cost.read", cost, out)
    assert got["g1.instructions"] == 9000
    assert got["g4.added"] == 1000
    assert got["g1.over-mq-deadline"] == -500
    assert got["g64.over-mq-deadline"] == 0
    assert got["growth"] == 1.5
    assert got["g1.iops"] == pytest.approx(1e9 / 9000, abs=1)


def test_a_phase_with_few_requests_is_refused() -> None:
    with pytest.raises(ValueError, match="only 3 requests in phase own"):
        cost.per_io(Output({"own": "1000 3"}), "own")


def test_scale_is_relative_to_mq_deadline() -> None:
    out = Output({
        "none": "8000000 1000", "mq-deadline": "9000000 1000", "own": "10000000 1000",
        "mq-deadline-one-group": "9900000 1000", "own-one-group": "9000000 1000",
    })  # fmt: skip
    assert _values("scale.2cpu", scale, out) == {"iops": 100000, "ratio": 0.9, "one-group.ratio": 1.1}


def test_channel_compares_with_none_in_the_same_guest(monkeypatch: pytest.MonkeyPatch) -> None:
    best = oracle.Found(*(oracle.Reached(mbps, 1e5 / mbps) for mbps in (100, 112.5, 115)))
    monkeypatch.setattr(oracle, "find", lambda _: best)
    out = Output({
        "none": _job((90_000_000, 1000e3, 900), (10_000_000, 1000e3, 100)),
        "own": _job((99_000_000, 700e3, 900), (11_000_000, 2700e3, 100)),
    })  # fmt: skip
    got = _values("channel.mixed-90-10", channel, out)
    assert got["mbps"] == 110
    assert got["gain_pct"] == 10
    assert got["read_latency_pct"] == -30
    assert got["write_latency_pct"] == 170
    assert got["mean_us"] == 900
    assert got["latency_pct"] == -10
    assert got["gap-mbps_pct"] == 80
    assert got["gap-mean_pct"] == 90
    assert "read_mean_us" not in _values("channel.seqread", channel, out)


@pytest.mark.parametrize(("scheduler", "wanted"), [("none", "64"), ("evenkeel", "128")])
def test_a_device_without_a_scheduler_keeps_its_number_of_requests(
    tmp_path: Path, scheduler: str, wanted: str
) -> None:
    """Without a scheduler the kernel refuses more requests than the device takes."""
    queue = tmp_path / "flashsim0/queue"
    queue.mkdir(parents=True)
    (queue / "nr_requests").write_text("64")
    names = ("device", "scheduler", "fio", "rmmod", "report", "cat")
    stubs = f'SCHEDULER={scheduler} DEV=flashsim0\nfail() {{ echo "$*"; exit 1; }}\n'
    stubs += "".join(f"{name}() {{ :; }}\n" for name in names)
    script = stubs + channel.EXPERIMENTS[0].script.replace(' < "/tmp/$1"', "")
    script = script.replace("/sys/block", str(tmp_path))
    done = subprocess.run(["sh", "-e"], input=script, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (queue / "nr_requests").read_text().strip() == wanted


def _row(id_: str, value: float, subject: str, **baselines: float) -> Row:
    return Row(id_, value, "", None, None, None, "virtual", "6.12", subject, False, dict(baselines))


def test_a_shape_needs_all_its_rows_and_can_fail() -> None:
    curve = [_row(f"regulate.curve.cap{c}.iops", regulate.PAPER.get(c, 215), "none") for c in regulate.CAPS]
    verdict = regulate.shape_curve(Rows(curve))
    assert verdict is not None
    assert verdict.reproduced
    flat = [_row(r.id, 113, "none") for r in curve]
    verdict = regulate.shape_curve(Rows(flat))
    assert verdict is not None
    assert not verdict.reproduced
    assert regulate.shape_curve(Rows(curve[1:])) is None
    baselines = {"none": 100.0, "mq-deadline": 97.0, "bfq": 120.0}
    verdict = channel.shape_order(Rows([_row("channel.mixed-90-10.mbps", 99, "evenkeel", **baselines)]))
    assert verdict is not None
    assert not verdict.reproduced


def test_the_shape_of_the_other_patterns_ignores_small_differences() -> None:
    def rows(**gains: float) -> Rows:
        known = {p.name: 3.0 for p in channel.PATTERNS} | {n.replace("_", "-"): g for n, g in gains.items()}
        return Rows([_row(f"channel.{n}.gain_pct", g, "evenkeel") for n, g in known.items()])

    for gains, expected in (
        ({"seqwrite": -4.0}, True),
        ({"seqwrite": 0.2}, False),
        ({"seqwrite": -4.0, "seqread": 0.1}, False),
    ):
        verdict = channel.shape_patterns(rows(**gains))
        assert verdict is not None
        assert verdict.reproduced is expected
    assert channel.shape_patterns(Rows([])) is None


def test_the_shape_of_the_known_costs_can_fail() -> None:
    def rows(**added: float) -> Rows:
        ids = [f"cost.{d}.g1.added" for d in ("read", "write")]
        listed = {name.replace("_", "-"): value for name, value in added.items()}
        total = _row("cost.read.g1.instructions", 9000, "evenkeel", none=8000.0)
        return Rows([total, *(_row(i, 1000, "evenkeel", **listed) for i in ids)])

    for bfq, expected in ((4000, True), (1600, False)):
        verdict = cost.shape_known(rows(mq_deadline=1500, kyber=1700, bfq=bfq))
        assert verdict is not None
        assert verdict.reproduced is expected
    assert cost.shape_known(rows(bfq=4000)) is None
