# SPDX-License-Identifier: Apache-2.0
"""Periods survive storage, and sums do not depend on how periods are grouped."""

from collections import Counter
from fractions import Fraction

import pytest
from evenkeel_common.iostat import BUCKETS, bucket, bucket_upper
from evenkeel_history.period import (
    BLAME_BITS,
    COUNT_BITS,
    LARGEST,
    Flow,
    Sum,
    long,
    pack,
    short,
    unpack,
)
from evenkeel_history.testing import busy, total
from evenkeel_history.zstd import MAGIC, compress
from hypothesis import given, settings
from hypothesis import strategies as st

NAMES = st.sampled_from(["", "player", "loader", "x"])
KEYS = st.tuples(NAMES, st.sampled_from(["vda", "mmcblk0"]), st.integers(0, 1))
NUMBER = st.integers(0, 1 << 50)
HISTOGRAM = st.dictionaries(st.integers(0, BUCKETS - 1), st.integers(1, 1 << 40))
FLOW = st.builds(Flow, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, HISTOGRAM)
SUM = st.builds(
    Sum,
    st.integers(0, 86_400_000),
    st.dictionaries(KEYS, FLOW),
    st.dictionaries(st.tuples(NAMES, NAMES), st.integers(1, 1 << 50)),
    st.dictionaries(NAMES, st.tuples(NUMBER, NUMBER)),
)


def assert_close(found: Sum, exact: Sum, times: int = 1) -> None:
    """FOUND equals EXACT, except for the rounding errors of storing it TIMES times."""
    assert (found.ms, found.stalls) == (exact.ms, exact.stalls)
    assert found.flows.keys() == exact.flows.keys()
    for key, flow in exact.flows.items():
        assert found.flows[key].scalars() == flow.scalars()
        assert found.flows[key].latency.keys() == flow.latency.keys()
        for index, count in flow.latency.items():
            assert abs(found.flows[key].latency[index] - count) <= count * times / (1 << COUNT_BITS)
    assert found.blame.keys() == exact.blame.keys()
    for pair, us in exact.blame.items():
        assert abs(found.blame[pair] - us) <= us * times / (1 << BLAME_BITS)


@given(SUM)
def test_what_is_stored_is_what_was_measured(measured: Sum) -> None:
    stored = unpack(pack(measured.period()))
    assert_close(total([stored]), measured)
    assert total([stored]).period() == stored, "storing again changes nothing"


@given(st.integers(0, 1 << 60), st.integers(2, 10))
def test_short_numbers_are_close_and_in_order(number: int, bits: int) -> None:
    code = short(number, bits)
    assert short(number + 1, bits) in (code, code + 1)
    assert abs(long(code, bits) - number) <= number / (1 << bits)
    assert short(long(code, bits), bits) == code


@given(st.lists(SUM, max_size=6), st.integers(0, 6))
def test_the_grouping_does_not_matter(sums: list[Sum], cut: int) -> None:
    periods = [each.period() for each in sums]
    coarse = [total(periods[:cut]).period(), total(periods[cut:]).period()]
    assert_close(total(coarse), total(periods))
    assert total(periods) == total(periods[::-1])
    added = Sum()
    for each in sums:
        added.add(each)
    assert_close(total(periods), added)


@given(st.lists(st.lists(st.integers(0, 1 << 30), min_size=1), min_size=1, max_size=5))
def test_percentiles_of_a_sum_are_those_of_all_requests(minutes: list[list[int]]) -> None:
    added = Sum()
    for latencies in minutes:
        one = Sum()
        one.flow(("a", "vda", 0)).latency = dict(Counter(map(bucket, latencies)))
        added.add(one)
    flow = added.flow(("a", "vda", 0))
    everything = sorted(latency for latencies in minutes for latency in latencies)
    for percent in (50, 99, Fraction("99.9")):
        exact = everything[-(-len(everything) * percent // 100) - 1]
        assert flow.percentile(percent) == bucket_upper(bucket(exact))
    assert flow.longest == bucket_upper(bucket(everything[-1]))


@given(st.binary(max_size=200))
def test_damaged_rows_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="stored period"):
        unpack(data)
    with pytest.raises(ValueError, match="stored period"):
        unpack(compress(data))
    with pytest.raises(ValueError, match="stored period"):
        unpack(MAGIC + data)


@settings(deadline=None)
@given(st.integers(0, 4000), st.integers(1, 255))
def test_changed_bytes_are_noticed(at: int, by: int) -> None:
    data = bytearray(pack(busy(1)))
    data[at % len(data)] ^= by
    try:
        found = unpack(bytes(data))
    except ValueError:
        return
    assert found == busy(1)  # the changed bit has no effect on the content, for example the compression level


def test_a_number_that_is_too_large_is_stored_as_the_largest_one() -> None:
    found = Sum(1 << 70, {("player", "vda", 0): Flow(1 << 64, LARGEST, 5)}, stalls={"player": (1 << 64, 7)})
    period = unpack(pack(found.period()))
    assert (period.ms, period.stalls) == (LARGEST, [0, LARGEST, 7])
    assert period.flows == [[0, 0, 0, LARGEST, LARGEST, 5, 0, 0, 0]]
