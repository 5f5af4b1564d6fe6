# SPDX-License-Identifier: Apache-2.0
"""Planned reads: a latency counts from the planned moment, and a percentile needs enough samples."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.experiments import latency


def report(*first: int, few: int = 0, ns: int = 200_000) -> str:
    """A guest's report. Each read takes `ns`, with two exceptions for reader 1.

    The first counted reads of reader 1 take the times `first`, and reader 1 does `few` reads less than planned.
    """
    parts = []
    for i, rate in enumerate(latency._rates()):
        planned = int(latency.SECONDS * rate / 4096)
        times = [ns] * latency.SKIPPED + (list(first) if i == 0 else [])
        times += [ns] * (planned - len(times) - (few if i == 0 else 0))
        parts.append(f"reader {i + 1}.log {latency.SECONDS}\n" + "\n".join(f" {t}" for t in times))
    return "\n".join(parts) + "\n"


def test_the_rates_of_the_readers_sum_up_to_the_planned_rate() -> None:
    command = latency._light("x")
    rates = [int(word.partition("=")[2]) for word in command.split() if word.startswith("--rate=")]
    assert len(rates) == latency.READERS
    assert sum(rates) / 4096 == pytest.approx(latency.RATE, rel=0.001)
    assert len(set(rates)) == latency.READERS
    assert latency.SECONDS * latency.RATE - latency.READERS * latency.SKIPPED > latency.BEYOND / 0.001


def test_reads_behind_a_late_read_are_late() -> None:
    interval = 1e6 * 4096 / latency._rates()[0]
    times = latency.reads(report(int(2.5 * interval * 1000)))
    assert len(times) == pytest.approx(
        latency.SECONDS * latency.RATE - latency.READERS * latency.SKIPPED, abs=64
    )
    assert times[0] == 200
    late = [2.5 * interval, 1.5 * interval + 200, 0.5 * interval + 400]
    assert times[-3:] == pytest.approx(sorted(late), abs=0.1)
    assert times[-4] == 200


def test_reads_that_never_started_count_as_late() -> None:
    """Otherwise a slow device would look better, because late readers do fewer reads."""
    times = latency.reads(report(few=20))
    assert len(times) == len(latency.reads(report()))
    interval = 1e6 * 4096 / latency._rates()[0]
    assert 20 * interval <= times[-1] < 21 * interval
    assert sum(t > 200 for t in times) == 20


def test_readers_without_a_runtime_are_refused() -> None:
    with pytest.raises(ValueError, match="x has no --runtime"):
        latency.planned("fio --name=x --time_based", name="x")


def test_a_missing_reader_is_an_error() -> None:
    whole = report()
    with pytest.raises(ValueError, match="63 of 64 readers"):
        latency.reads(whole[: whole.index("reader 64.log")])


@pytest.mark.parametrize(("name", "enough"), [("p50", 20), ("p90", 100), ("p99", 1000), ("p999", 10000)])
def test_a_percentile_of_too_few_samples_is_refused(name: str, enough: int) -> None:
    times = [float(i) for i in range(1, enough + 1)]
    assert latency.percentile(times, name) == enough - 10
    with pytest.raises(ValueError, match=f"{name} of {enough - 1} reads"):
        latency.percentile(times[1:], name)


@pytest.mark.parametrize("count", [20, 1000, 11000])
def test_a_curve_rises_to_the_longest_read(count: int) -> None:
    points = latency.curve([float(i) for i in range(1, count + 1)])
    assert len(points) <= latency.POINTS
    assert points == sorted(points)
    assert len({share for _, share in points}) == len(points)
    assert points[-1] == (count, 1.0)
    assert all(us == pytest.approx(share * count) for us, share in points)
    # the slowest tenth has points of its own
    assert sum(share > 0.9 for _, share in points) >= 2
