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


@given(st.lists(HISTOGRAMS, max_size=4), st.sampled_from([1, 2**20]))
def test_packed_bands_are_those_of_each_histogram(histograms: list[Histogram], less: int) -> None:
    """LESS makes the counts small, so that they have 4 bytes."""
    numbers = [made({index: count // less + 1 for index, count in each.items()}) for each in histograms]
    found = lanes.Bands.of(numbers)
    assert [found.one(number) for number in range(len(numbers))] == [lanes.bands(each) for each in numbers]
    assert found.whole == lanes.bands(sum(numbers))


@pytest.mark.parametrize(("count", "width"), [(1, 4), ((1 << 31) - 1, 4), (1 << 31, 8)])
def test_bands_have_few_bytes(count: int, width: int) -> None:
    one, two = made({40: count}), made({47: count, 50: 1})
    found = lanes.Bands.of([one, two])
    assert (found.width, found.length, len(found.data)) == (width, 3 * width, 6 * width)
    assert (found.one(0), found.one(1)) == (lanes.bands(one), lanes.bands(two))


def test_a_count_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(OverflowError):
        lanes.chunk(1 << 64)
