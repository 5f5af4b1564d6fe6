# SPDX-License-Identifier: Apache-2.0
"""Percentiles and curves of counted latencies."""

import math

import pytest
from evenkeel_report import latencies
from hypothesis import given
from hypothesis import strategies as st


@given(st.dictionaries(st.integers(1, 10**10), st.integers(1, 1000), min_size=1))
def test_percentiles_and_curves_agree_with_sorted_samples(bins: dict[int, int]) -> None:
    samples = sorted(ns for ns, count in bins.items() for _ in range(count))
    for share in (0.5, 0.9, 0.99, 1.0):
        index = max(math.ceil(share * len(samples)) - 1, 0)
        assert latencies.percentile(bins, share) == samples[index] / 1000
    curve = latencies.curve(bins)
    assert curve == sorted(curve)
    assert curve[-1] == (samples[-1] / 1000, 1.0)
    assert len(curve) <= latencies.POINTS + 1
    for us, share in curve:
        assert share == pytest.approx(sum(s / 1000 <= us for s in samples) / len(samples))


def test_without_samples_there_is_no_percentile() -> None:
    assert math.isnan(latencies.percentile({}, 0.5))
    assert latencies.curve({}) == []


def test_a_curve_has_points_for_the_slowest() -> None:
    points = latencies.curve({1000 * i: 1 for i in range(1, 11_001)})
    assert points[-1] == (11_000, 1.0)
    assert sum(share > 0.999 for _, share in points) >= 5
