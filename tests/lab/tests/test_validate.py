# SPDX-License-Identifier: Apache-2.0
"""The rows that compare ek-validate with the lab. These tests boot no guest."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "recipes/agent/src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "recipes/validate/src"))

from evenkeel_report.lookup import Rows
from evenkeel_report.row import Row
from evenkeel_validate import cases, whatif
from evenkeel_validate.report import Report
from lab import experiments, runner, targets
from lab.experiments import validate
from lab.model import Experiment, LabError, Output, flashsim

KNOWN = experiments.load()
PAIRS = {
    **{
        f"validate.{preset}.{ours}": theirs
        for preset, (_, pairs) in validate.PAIRS.items()
        for ours, theirs in pairs.items()
    },
    **{f"validate.player.{ours}": theirs for ours, theirs in validate.PLAYER.items()},
}


def row(id_: str, value: float, **more: Any) -> Row:
    return Row(
        id_,
        value,
        "",
        None,
        None,
        None,
        "virtual",
        "6.12",
        "evenkeel",
        False,
        {},
        "2026-01-31T12:00:00Z",
        **more,
    )


def output(rows: list[Row], subject: str = "evenkeel") -> Output:
    found = Report("x", "0.1.0", "full", "2026-01-31T12:00:00Z", subject=subject, rows=rows)
    return Output({"suite": json.dumps(found.as_json())})


@pytest.mark.parametrize(("ours", "theirs"), PAIRS.items())
def test_each_pair_has_a_case_and_an_experiment(ours: str, theirs: str) -> None:
    case = ours.split(".", 2)[2].rpartition(".")[0]
    assert case in {c.name for c in cases.full()}
    assert experiments.owner(KNOWN, theirs)


def test_each_option_chooses_one_case() -> None:
    """ek-validate takes beginnings of names."""
    for pairs in (*(pairs for _, pairs in validate.PAIRS.values()), validate.PLAYER):
        names = validate.only(pairs)[1::2]
        chosen = [c.name for c in cases.full() if c.name.startswith(tuple(names))]
        assert sorted(chosen) == sorted(names)


def test_a_row_is_the_figure_of_the_report() -> None:
    rows = [row(id_, 1 + n) for n, id_ in enumerate(validate.PAIRS["sd-uhs3"][1])]
    found = validate.suite("sd-uhs3").figures(output([*rows, row("promise.small-medium.sum", 99)]))
    assert [(f.metric, f.value) for f in found] == [(r.id, r.value) for r in rows]


def test_the_lab_reports_the_percentiles_of_the_light_reader() -> None:
    """Both sections have 1,999 reads of 100 us, and one of 1 ms."""
    text = "100000\n" * 1999 + "1000000\n"
    found = validate.by_lab("emmc51").figures(Output({"alone": text, "beside": text}))
    assert {f.metric: f.value for f in found} == {
        f"{where}.{p}": 100.0 for where, names in validate.PERCENTILES.items() for p in names
    }


@pytest.mark.parametrize(
    ("ratio", "subject", "told"), [(1.0, "none", 1), (2.0, "none", 0), (1.0, "evenkeel", 0)]
)
def test_a_device_without_weights_is_told_so(ratio: float, subject: str, told: int) -> None:
    measured = replace(row("fair.read.30m.ratio", ratio), target=(1.96, 2.04))
    assert [f.value for f in validate.without_weights().figures(output([measured], subject))] == [told]


def agreement(changed: dict[str, float]) -> Any:
    rows = [row(id_, changed.get(id_, 2.0)) for id_ in (*PAIRS, *PAIRS.values())]
    return validate.suite_agrees(Rows(rows))


def test_equal_figures_agree() -> None:
    assert agreement({}).reproduced


@pytest.mark.parametrize("changed", sorted({*PAIRS} - {*validate.BY_CHANCE}))
def test_one_figure_that_differs_is_named(changed: str) -> None:
    assert agreement({changed: 2.0 * 1.019}).reproduced
    found = agreement({changed: 2.0 * 1.03})
    assert not found.reproduced
    assert changed in found.why


@pytest.mark.parametrize("changed", validate.BY_CHANCE)
def test_a_figure_of_chance_is_named_and_not_judged(changed: str) -> None:
    found = agreement({changed: 3.0})
    assert found.reproduced
    assert f"{changed}: 50.0 %" in found.why


def test_a_stall_that_the_lab_does_not_see_is_a_difference() -> None:
    zero = dict.fromkeys(validate.PLAYER.values(), 0.0)
    ours = {id_: 0.0 for id_ in PAIRS if id_.startswith("validate.player.")}
    assert agreement(zero | ours).reproduced
    assert not agreement({**zero, **ours, next(iter(ours)): 1.0}).reproduced


def test_each_bound_belongs_to_an_experiment() -> None:
    wanted = targets.load()
    for name in ("validate.none", *(f"validate.model.{preset}" for preset in validate.PAIRS)):
        assert any(entry.of(name) for entry in wanted.entries), name


def test_a_fitted_device_needs_no_preset(tmp_path: Path) -> None:
    """The README of ek-validate says how an experiment takes the parameters that `ek-validate model` has fitted."""
    path = tmp_path / "measured.toml"
    path.write_text('[measured]\nabout = "x"\nset = "channels=1,dies=4"\n')
    device = flashsim("", **whatif.read(path).params)
    assert "channels=1,dies=4" in device.setup
    one = Experiment("a.b", "", "", list, device=device)  # type: ignore[arg-type]
    runner._check_preset(one)
    with pytest.raises(LabError, match="no flash preset 'absent'"):
        runner._check_preset(replace(one, device=flashsim("absent")))
