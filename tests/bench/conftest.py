# SPDX-License-Identifier: Apache-2.0
"""The tests here share one run of the quick bench."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests/lab"), str(TOP / "tests/bench"), str(TOP / "tests/lab/tests")]

from bench_run import Quick, quick_bench  # noqa: E402


@pytest.fixture(scope="session")
def quick() -> Quick:
    return quick_bench()
