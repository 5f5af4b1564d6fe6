# SPDX-License-Identifier: Apache-2.0
"""The example in docs/howto/add-an-experiment.md is a valid experiment. tests/bench runs it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]

from lab import bench, experiments  # noqa: E402
from lab.runner import Job  # noqa: E402
from manual import LINES, snippet, target, ten_lines  # noqa: E402


def test_the_example_is_an_experiment_in_ten_lines() -> None:
    # empty lines and closing brackets do not count
    lines = [x for x in snippet().splitlines() if x.strip(" )]}")]
    assert len(lines) <= LINES
    (mine,) = ten_lines()
    assert mine.name not in experiments.load()
    assert [j.scheduler for j in bench.plan([mine], quick=False)] == ["evenkeel", *mine.baselines]
    assert Job(mine, "6.12", "bfq").name == "fair.mine-6.12-bfq"
    assert "--rw=randread" in mine.script
    entry = target().entry("fair.mine", "ratio")
    assert entry is not None
    assert entry.target({}) == (None, (2.9, 3.1))
