# SPDX-License-Identifier: Apache-2.0
"""The tests here share one run of the quick bench."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests/lab"), str(TOP / "tests/bench"), str(TOP / "tests/lab/tests")]

import sample  # noqa: E402
from bench_run import Quick, quick_bench  # noqa: E402


def pytest_report_header() -> str:
    if sample.DEEP:
        return "all mutants and repeated runs (DEEP=1)"
    return f"sample of seed {sample.SEED}: EVENKEEL_TEST_SEED={sample.SEED} repeats it, DEEP=1 runs all"


@pytest.fixture(scope="session")
def quick() -> Quick:
    return quick_bench()
