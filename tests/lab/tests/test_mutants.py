# SPDX-License-Identifier: Apache-2.0
"""Each known defect can be stated in today's sources, and names a row of the quick bench with a target."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import experiments, mutants, targets
from lab.model import LabError

MUTANTS = mutants.read()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_a_defect_changes_one_file(mutant: mutants.Mutant, tmp_path: Path) -> None:
    mutants.mutate(mutant, tmp_path)
    names = {f.relative_to(mutants.SOURCE) for f in mutants.SOURCE.rglob("*") if f.is_file()}
    changed = [n for n in names if (tmp_path / "src" / n).read_bytes() != (mutants.SOURCE / n).read_bytes()]
    assert [str(n) for n in changed] == [mutant.file]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_the_quick_bench_has_the_row_that_catches_it(mutant: mutants.Mutant) -> None:
    known = experiments.load()
    experiment = experiments.owner(known, mutant.caught)
    assert experiment is not None
    assert known[experiment].quick
    target = targets.load().entry(experiment, mutant.caught.removeprefix(f"{experiment}."))
    assert target is not None
    assert target.promise


def test_a_defect_that_no_longer_fits_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        LabError, match=r"bytes-only: the text to replace is 0 times in core/core\.c; state the defect again"
    ):
        mutants.mutate(replace(MUTANTS[0], old="absent"), tmp_path)
