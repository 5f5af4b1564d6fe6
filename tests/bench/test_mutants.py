# SPDX-License-Identifier: Apache-2.0
"""The quick bench catches a scheduler with a known defect, by the row that mutants.toml names for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_run import Quick, cli, drawn, parts
from lab import bench, experiments, kernels, mutants
from lab.model import Row
from sample import sample

KNOWN = experiments.load()


def badness(row: Row, best: float) -> float:
    """The distance between a row's value and the best value, as a factor of at least 1. A value beyond a bound is as good."""
    above, below = row.value / best, best / max(row.value, 1e-3)
    return max(
        1.0, above if row.better == "lower" else below if row.better == "higher" else max(above, below)
    )


def caught_by(names: list[str]) -> list[mutants.Mutant]:
    """The mutants that one of these experiments catches."""
    return [mutant for mutant in mutants.read() if experiments.owner(KNOWN, mutant.caught) in names]


def test_each_part_of_the_quick_bench_catches_a_mutant() -> None:
    assert all(caught_by(part) for part in parts())


@pytest.mark.parametrize("mutant", sample("mutant", caught_by(drawn())), ids=lambda m: m.name)
def test_a_defect_is_caught(mutant: mutants.Mutant, tmp_path: Path, quick: Quick) -> None:
    module = mutants.build(mutant, kernels.find("6.12"), tmp_path)
    experiment = experiments.owner(KNOWN, mutant.caught)
    done = cli(
        "bench",
        "--quick",
        "--only",
        str(experiment),
        "--module",
        str(module),
        "--out",
        str(tmp_path / "bench"),
    )
    assert done.returncode == 1, done.stdout + done.stderr
    (caught,) = [r for r in bench.read(tmp_path / "bench/results.json") if r.id == mutant.caught]
    assert f"MISSED: {mutant.caught} (6.12, {caught.subject})" in done.stderr
    (sound,) = [r for r in quick.rows if r.id == mutant.caught]
    # the middle of a range, or the bound
    best = sum(caught.target) / 2 if isinstance(caught.target, tuple) else caught.target
    assert best is not None
    print(f"{mutant.name}: {mutant.caught} {caught.value}, without the defect {sound.value}")
    assert badness(caught, best) >= mutant.worse * badness(sound, best)
