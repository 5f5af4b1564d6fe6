# SPDX-License-Identifier: Apache-2.0
"""Samples of tests that take minutes: `make test` runs a few of each kind, `make test DEEP=1` runs all.

EVENKEEL_TEST_SEED repeats the sample of an earlier run, which printed its seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")
SEED = os.environ.get("EVENKEEL_TEST_SEED") or str(random.SystemRandom().randrange(10**6))
DEEP = bool(os.environ.get("DEEP"))


def sample(kind: str, cases: Sequence[T], count: int = 1) -> list[T]:
    """COUNT of `cases`, drawn by the seed and by `kind`; all of them with DEEP=1."""
    return list(cases) if DEEP else random.Random(f"{SEED} {kind}").sample(list(cases), count)  # noqa: S311 no secret


def in_sample(kind: str, *cases: str) -> dict[str, pytest.MarkDecorator]:
    """For each of `cases` a mark that lets a test run only if the case is in the sample of `kind`."""
    drawn = sample(kind, cases)
    return {
        case: pytest.mark.skipif(case not in drawn, reason=f"seed {SEED} drew another test of {kind}")
        for case in cases
    }


def header() -> str:
    """The line for the head of pytest's output."""
    if DEEP:
        return f"all samples (DEEP=1), random moments of seed {SEED}: EVENKEEL_TEST_SEED={SEED} repeats them"
    return f"sample of seed {SEED}: EVENKEEL_TEST_SEED={SEED} repeats it, DEEP=1 runs all"
