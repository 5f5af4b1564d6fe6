# SPDX-License-Identifier: Apache-2.0
"""The tests here share one run of the quick bench."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / folder) for folder in ("tests", "tests/lab", "tests/bench", "tests/lab/tests")]

import sample  # noqa: E402
from bench_run import Quick, quick_bench  # noqa: E402


def pytest_report_header() -> str:
    return sample.header()


@pytest.fixture(scope="session")
def quick() -> Quick:
    return quick_bench()
