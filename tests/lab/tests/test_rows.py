# SPDX-License-Identifier: Apache-2.0
"""How guest reports become rows: the subject's figure with its baselines, and shares of a baseline."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "recipes/validate/src"))

from evenkeel_report.row import RowError
from lab import bench, experiments, targets
from lab.model import Better, Experiment, Figure, Output, Row, Target
from lab.runner import Job, Result


def figures(out: Output) -> list[Figure]:
    total = Figure("total", float(out.results["total"]), "MB/s", "higher", share_of=("none",))
    return [Figure("ratio", 2.0), total]


MINE = Experiment("fair.mine", "for tests", ":", figures)
TARGETS = targets.read("""
[[target]]
experiment = "fair.mine"
figure = "ratio"
bound = "1.96 .. 2.04"
kind = "promise"
why = "for tests"
[[target]]
experiment = "fair.mine"
figure = "total-of-none"
bound = ">= 99"
kind = "aim"
why = "for tests"
""")


def merge(results: Sequence[Result], subject: str | None = None) -> list[Row]:
    return bench.merge(results, subject, TARGETS)


def result(
    scheduler: str, total: float, kernel: str = "6.12", measured: str | None = None, seed: int | None = None
) -> Result:
    return Result(Job(MINE, kernel, scheduler, seed), Output({"total": str(total)}), 1.0, False, measured)


def test_a_share_of_a_baseline_is_a_row_with_a_target() -> None:
    rows = merge([result("evenkeel", 218), result("none", 220), result("bfq", 209)])
    assert [r.id for r in rows] == ["fair.mine.ratio", "fair.mine.total", "fair.mine.total-of-none"]
    total, share = rows[1:]
    assert (total.value, total.target, total.baselines) == (218, None, {"none": 220, "bfq": 209})
    assert (share.value, share.unit, share.better, share.target) == (99.09, "%", "higher", 99)
    assert share.baselines == {"none": 100, "bfq": 95}
    assert (share.kernel, share.subject, share.clock) == ("6.12", "evenkeel", "virtual")
    assert share.holds() is True
    assert Row.from_json(share.as_json()) == share


@pytest.mark.parametrize(("total", "holds"), [(217.8, True), (217.7, False), (230, True)])
def test_a_missed_share_that_is_no_promise_is_open(total: float, holds: bool) -> None:
    rows = merge([result("evenkeel", total), result("none", 220)])
    held, missed, still = bench.judge(rows)
    assert [r.id.rpartition(".")[2] for r in held] == ["ratio", *(["total-of-none"] if holds else [])]
    assert missed == []
    assert [r.id for r in still] == ([] if holds else ["fair.mine.total-of-none"])


@pytest.mark.parametrize("baselines", [[], [result("bfq", 209)], [result("none", 0)]])
def test_there_is_no_share_of_a_baseline_that_was_not_measured(baselines: list[Result]) -> None:
    rows = merge([result("evenkeel", 218), *baselines])
    assert [r.id for r in rows] == ["fair.mine.ratio", "fair.mine.total"]


def test_a_share_compares_figures_of_the_same_kernel() -> None:
    rows = merge([result("evenkeel", 218), result("none", 220), result("evenkeel", 110, "7.3")])
    assert [(r.kernel, r.value) for r in rows if r.id.endswith("-of-none")] == [("6.12", 99.09)]
    rows = merge([result("evenkeel", 110, "7.3"), result("none", 220, "7.3"), result("none", 110)])
    assert [(r.kernel, r.value) for r in rows if r.id.endswith("-of-none")] == [("7.3", 50)]


def test_another_subject_has_the_same_target_for_its_share() -> None:
    rows = merge([result("fifo", 110), result("none", 220)], "fifo")
    assert (rows[-1].id, rows[-1].subject, rows[-1].value) == ("fair.mine.total-of-none", "fifo", 50)


def test_figures_of_a_program_have_the_programs_name_as_subject() -> None:
    mine = replace(MINE, subject="none", figures_of="ek-recorder")
    rows = merge([replace(result(s, 1), job=Job(mine, "6.12", s)) for s in ("none", "bfq")])
    assert [(r.subject, list(r.baselines)) for r in rows] == [("ek-recorder", ["bfq"])] * 2
    known = experiments.load().values()
    assert {e.figures_of for e in known if e.name.startswith("rec.ek.")} == {"ek-recorder"}


OLD, NEW = "2026-01-01T23:59:59Z", "2026-01-03T00:00:00Z"


def test_a_row_says_when_its_subject_was_measured() -> None:
    rows = merge([result("evenkeel", 218, measured=OLD), result("none", 220, measured=NEW)])
    assert [r.measured for r in rows] == [OLD] * 3
    assert [Row.from_json(r.as_json()) for r in rows] == rows
    # rows of older files lack the field
    fields = rows[0].as_json()
    del fields["measured"]
    assert Row.from_json(fields).measured is None
    with pytest.raises(RowError, match="measured is 5"):
        Row.from_json({**fields, "measured": 5})


@pytest.mark.parametrize(
    ("measured", "expected"),
    [(OLD, {"oldest guest": OLD}), ("2026-01-02T00:00:00Z", {}), (NEW, {}), (None, {})],
)
def test_the_page_says_if_a_report_is_older_than_a_day(
    measured: str | None, expected: dict[str, str]
) -> None:
    results = [result("evenkeel", 1, measured=NEW), result("none", 1, measured=measured)]
    assert bench.older(results, NEW) == expected
    assert bench.older([], NEW) == {}


def test_experiments_on_fairness_have_the_baseline_none() -> None:
    """`none` shows that sharing costs no bandwidth. Experiments on 5.10 have no targets and do not need it."""
    ours = [e for n, e in experiments.load().items() if n.startswith("fair.") and e.subject == "evenkeel"]
    assert ours
    assert [e.name for e in ours if "none" not in e.baselines or "none" not in e.later_baselines] == []


def test_the_worst_seed_counts() -> None:
    rows = merge([
        *(result("evenkeel", v, seed=s) for s, v in enumerate((218, 216, 219))),
        *(result("none", v, seed=s) for s, v in enumerate((220, 221))),
    ])  # fmt: skip
    assert {r.id.rpartition(".")[2]: r.value for r in rows} == {
        "ratio": 2.0, "total": 216, "total-of-none": 98.18,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("values", "target", "better", "worst"),
    [
        ((1.97, 2.05, 2.03), (1.96, 2.04), None, 2.05),
        ((1.97, 2.02), (1.96, 2.04), None, 1.97),
        ((5, 7, 6), 6, "lower", 7),
        ((5, 7, 6), 6, "higher", 5),
        ((5, 7, 6), None, "higher", 5),
        ((5, 7, 6), None, None, 5),
    ],
)
def test_the_worst_row_is_furthest_from_its_target(
    values: tuple[float, ...], target: Target | None, better: Better | None, worst: float
) -> None:
    found = [Row("a.b", v, "", better, target, None, "virtual", "6.12", "evenkeel") for v in values]
    assert functools.reduce(bench.worse, found).value == worst


def test_the_best_baseline_is_the_one_with_most() -> None:
    (row, _) = merge([result("evenkeel", 300), result("none", 220), result("bfq", 240)])[1:]
    share = row.as_share_of("best")
    assert share is not None
    assert (share.id, share.value) == ("fair.mine.total-of-best", 125)
    assert share.baselines == {"none": 91.67, "bfq": 100}
    assert replace(row, baselines={}).as_share_of("best") is None
