# SPDX-License-Identifier: Apache-2.0
"""Histograms as numbers have the same buckets and percentiles as histograms as dicts."""

from fractions import Fraction

import pytest
from evenkeel_common import iostat
from evenkeel_common.iostat import BUCKETS, Histogram
from evenkeel_history import lanes
from evenkeel_history.lanes import Lanes
from hypothesis import given
from hypothesis import strategies as st

HISTOGRAMS = st.dictionaries(st.integers(0, BUCKETS - 1), st.integers(1, 2**50), max_size=30)


def made(histogram: Histogram) -> Lanes:
    """The number of HISTOGRAM, from its first used bucket on, as a stored row has it."""
    if not histogram:
        return 0
    used = range(min(histogram), max(histogram) + 1)
    return lanes.lanes(used[0], (lanes.chunk(histogram.get(index, 0)) for index in used))


@given(HISTOGRAMS)
def test_the_buckets_are_the_same(histogram: Histogram) -> None:
    assert lanes.histogram(made(histogram)) == histogram
    assert sum(lanes.counts(made(histogram))) == sum(histogram.values())


@given(HISTOGRAMS, HISTOGRAMS)
def test_a_sum_has_the_requests_of_both(one: Histogram, two: Histogram) -> None:
    added = {index: one.get(index, 0) + two.get(index, 0) for index in one.keys() | two.keys()}
    assert lanes.histogram(made(one) + made(two)) == added


@given(HISTOGRAMS, st.one_of(st.integers(1, 100), st.just(Fraction("99.9"))))
def test_the_percentiles_are_the_same(histogram: Histogram, percent: int | Fraction) -> None:
    assert lanes.percentile(made(histogram), percent) == iostat.percentile(histogram, percent)


@given(HISTOGRAMS)
def test_a_band_has_the_requests_of_its_buckets(histogram: Histogram) -> None:
    expected = [0] * -(-BUCKETS // lanes.BAND)
    for index, count in histogram.items():
        expected[index // lanes.BAND] += count
    found = lanes.counts(lanes.bands(made(histogram)))
    assert list(found) == expected[: len(found)]
    assert not any(expected[len(found) :])


def test_a_count_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(OverflowError):
        lanes.chunk(1 << 64)
