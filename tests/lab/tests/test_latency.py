# SPDX-License-Identifier: Apache-2.0
"""Planned reads: a latency counts from the planned moment, and a percentile needs enough samples."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.experiments import latency


def test_a_run_has_enough_reads_for_its_percentiles() -> None:
    planned = (latency.SECONDS - latency.SETTLE) * latency.RATE
    assert planned - latency.READERS > latency.BEYOND / 0.001


def test_the_times_are_counted() -> None:
    assert latency.reads("200000\n1500\n200000\n") == {1500: 1, 200000: 2}


def test_a_reader_without_reads_is_an_error() -> None:
    with pytest.raises(ValueError, match="the light reader has read nothing"):
        latency.reads("")


def test_a_slice_is_that_of_the_loads() -> None:
    """The reader and a load on the same slice access the same part of the device."""
    load = latency.fio("x", rw="read", bs="4k", device=latency.DEVICE, slice_=3).command
    offset, length = (word.partition("=")[2] for word in latency.on_slice(latency.DEVICE, 3).split())
    assert f"--offset={offset.lower()} --size={length.lower()}" in load


@pytest.mark.parametrize(("name", "enough"), [("p50", 20), ("p90", 100), ("p99", 1000), ("p999", 10000)])
def test_a_percentile_of_too_few_samples_is_refused(name: str, enough: int) -> None:
    times = {1000 * i: 1 for i in range(1, enough + 1)}
    assert latency.percentile(times, name) == enough - 10
    del times[1000]
    with pytest.raises(ValueError, match=f"{name} of {enough - 1} reads"):
        latency.percentile(times, name)
