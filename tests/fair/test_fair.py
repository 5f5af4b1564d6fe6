# SPDX-License-Identifier: Apache-2.0
"""Weights 2:1 hold at any block size and with a device queue of 64 and of 1, on the virtual clock."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/lab"))

from lab import experiments, runner  # noqa: E402
from lab.model import Experiment, Row  # noqa: E402

BENCH = runner.Bench(TOP / "build/6.12", TOP / "build/lab")
CASES = [e for e in experiments.load().values() if "first-light" in e.tags]


def measure(experiment: Experiment, scheduler: str) -> dict[str, Row]:
    rows = runner.run(BENCH, experiment, scheduler)
    for row in rows:
        print(f"{row.id} {scheduler} {row.value} {row.unit}")
    return {row.id.rsplit(".", 1)[1]: row for row in rows}


@pytest.mark.parametrize("experiment", CASES, ids=lambda e: e.name)
def test_weights_hold(experiment: Experiment) -> None:
    ratio = measure(experiment, "evenkeel")["ratio"]
    assert ratio.target == (1.94, 2.06)
    assert ratio.holds(), f"{ratio.id} is {ratio.value}, must be within {ratio.target}"


def test_the_experiment_can_fail() -> None:
    """Without a scheduler the same experiment finds no weights."""
    small = next(e for e in CASES if e.name == "fair.read.1m.depth64.qd1")
    ratio = measure(small, "none")["ratio"]
    assert not ratio.holds()
    assert ratio.value < 1.2


def test_the_virtual_clock_repeats() -> None:
    small = next(e for e in CASES if e.name == "fair.read.1m.depth1.qd1")
    first, second = (measure(small, "evenkeel")["ratio"].value for _ in range(2))
    assert first == pytest.approx(second, rel=0.01)
