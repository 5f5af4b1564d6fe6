# SPDX-License-Identifier: Apache-2.0
"""Verdicts on the papers' results.

A shape whose rows are missing is left out if its experiments were not part of the run. Otherwise the bench fails.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "recipes/validate/src"))

from evenkeel_report.lookup import Rows, Wanted
from evenkeel_report.verdict import Verdict, judge
from lab import bench, experiments, provenance
from lab.model import Experiment, Figure, LabError, Output, Row
from lab.runner import Job, Result


def shape_order(rows: Rows) -> Verdict | None:
    """The paper's order."""
    a, b = rows.value("channel.mine.mbps"), rows.value("channel.mine.mbps", "none")
    if a is None or b is None:
        return None
    return Verdict("the order", "none wins", b > a, f"{a} and {b}")


def figures(out: Output) -> list[Figure]:
    return [Figure("mbps", float(out.results["mbps"]))]


MINE = Experiment("channel.mine", "for tests", ":", figures)
OTHER = Experiment("channel.mine.other", "for tests", ":", figures)
KNOWN = {e.name: e for e in (MINE, OTHER)}


def measured(*schedulers: str) -> list[Row]:
    return bench.merge([Result(Job(MINE, "6.12", s), Output({"mbps": "90"}), 1.0, False) for s in schedulers])


def judged(rows: list[Row], jobs: list[Job]) -> tuple[list[Verdict], list[str]]:
    return judge([shape_order], rows, bench.expected(jobs, KNOWN))


OURS, NONE = Job(MINE, "6.12", "evenkeel"), Job(MINE, "6.12", "none")


def test_a_shape_with_all_its_rows_is_judged() -> None:
    (verdict,), left_out = judged(measured("evenkeel", "none"), [OURS, NONE])
    assert (verdict.reproduced, verdict.word, left_out) == (False, "NOT reproduced", [])


def test_a_failed_baseline_is_named() -> None:
    (verdict,), left_out = judged(measured("evenkeel"), [OURS, NONE])
    assert (verdict.reproduced, verdict.word, left_out) == (None, "NOT JUDGED", [])
    assert verdict.claim == "The paper's order."
    assert verdict.why == "channel.mine.mbps (6.12, none) missing"


def test_a_failed_subject_is_named() -> None:
    (verdict,), _ = judged([], [OURS])
    assert verdict.why == "channel.mine.mbps (6.12) missing"


@pytest.mark.parametrize("jobs", [[], [Job(OTHER, "6.12", "none")], [Job(MINE, "7.3", "none")]])
def test_a_shape_is_left_out_if_its_experiment_was_not_part_of_the_run(jobs: list[Job]) -> None:
    verdicts, left_out = judged([], jobs)
    assert verdicts == []
    assert [name.split()[-1] for name in left_out] == ["order"]


def test_a_shape_is_left_out_if_its_baseline_was_not_part_of_the_run() -> None:
    assert judged(measured("evenkeel"), [OURS])[0] == []


def test_a_row_that_no_experiment_writes_is_a_defect() -> None:
    assert bench.expected([], KNOWN)(Wanted("channel.mien.mbps", "6.12"))
    assert not bench.expected([], KNOWN)(Wanted("channel.mine.mbps", "6.12"))


def test_a_shape_without_a_verdict_that_misses_no_row_is_a_defect() -> None:
    (verdict,), _ = judge([lambda _: None], [], bench.expected([], KNOWN))
    assert verdict.reproduced is None


def test_the_full_bench_measures_the_rows_of_every_shape() -> None:
    """Without any row, each shape reports the rows that it lacks. The full bench is expected to measure all these rows."""
    known = experiments.load()
    jobs = bench.plan(known.values(), quick=False)
    verdicts, left_out = judge(experiments.shapes(), [], bench.expected(jobs, known))
    assert left_out == []
    assert {v.reproduced for v in verdicts} == {None}
    assert len(verdicts) == len(experiments.shapes())
    for shape in experiments.shapes():
        rows = Rows([])
        shape(rows)
        for wanted in rows.missing:
            assert any(wanted.id.startswith(f"{name}.") for name in known), f"no experiment writes {wanted}"


# --- provenance ---


@pytest.mark.parametrize("reported", ["6.12.117-evenkeel", "6.12", "6.12-rc1\n", None])
def test_a_release_of_the_kernel_that_was_asked_for_is_accepted(reported: str | None) -> None:
    found = provenance.release(Result(OURS, Output({"kernel": reported} if reported else {}), 1.0, False))
    assert found == (reported and reported.strip())


@pytest.mark.parametrize("reported", ["6.1.12", "6.120.1", "7.3.4-evenkeel", ""])
def test_another_kernel_than_the_one_asked_for_is_an_error(reported: str) -> None:
    result = Result(OURS, Output({"kernel": reported, "mbps": "90"}), 1.0, False)
    with pytest.raises(LabError, match=r"^channel\.mine-6\.12-evenkeel: kernel 6\.12 was asked for, "):
        provenance.release(result)
    assert isinstance(bench.checked(result), LabError)


def test_written_rows_have_their_origin_and_can_be_read_again(tmp_path: Path) -> None:
    rows = measured("evenkeel", "none")
    origin = {"revision": "abc-dirty", "qemu": "10.0.8", "made": "2026-01-01T00:00:00Z"}
    bench.write(tmp_path, rows, origin, origin=origin, releases={"6.12": "6.12.9"}, verdicts=[], curves={})
    (listed,) = json.loads((tmp_path / "results.json").read_text())
    assert {k: listed[k] for k in bench.ORIGIN} == {"release": "6.12.9", **origin}
    assert bench.read(tmp_path / "results.json") == rows
    text = (tmp_path / "index.html").read_text()
    assert all(v in text for v in origin.values())


# --- distributions ---


def test_distributions_are_grouped_by_case_and_kernel_with_the_subject_first() -> None:
    def curves(out: Output) -> dict[str, list[tuple[float, float]]]:
        return {"latency.mine": [(float(out.results["us"]), 1.0)]}

    e = Experiment("latency.mine", "", ":", lambda _: [], curves=curves)
    results = [
        Result(Job(e, kernel, s), Output({"us": us}), 1.0, False)
        for kernel, s, us in (("6.12", "none", "3"), ("6.12", "evenkeel", "1"), ("7.3", "evenkeel", "2"))
    ]
    found = bench.distributions(results)
    assert found == {
        ("latency.mine", "6.12"): {"evenkeel": [(1, 1)], "none": [(3, 1)]},
        ("latency.mine", "7.3"): {"evenkeel": [(2, 1)]},
    }
    assert next(iter(found["latency.mine", "6.12"])) == "evenkeel"
    bad = bench.checked(Result(Job(e, "6.12", "none"), Output({}), 1.0, False))
    assert str(bad).startswith("latency.mine-6.12-none: the guest's distributions cannot be read: KeyError")
