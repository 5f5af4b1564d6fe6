# SPDX-License-Identifier: Apache-2.0
"""Buckets match their definition, and the parser handles any text."""

import contextlib
import math
from collections import Counter
from fractions import Fraction

import pytest
from evenkeel_common.iostat import (
    BUCKETS,
    COUNTERS,
    HISTOGRAMS,
    StatError,
    bucket,
    bucket_upper,
    parse,
    percentile,
    percentiles,
)
from hypothesis import given
from hypothesis import strategies as st

LATENCY = st.integers(0, 1 << 40)
HISTOGRAM = st.dictionaries(st.integers(0, BUCKETS - 1), st.integers(1, 10**12))


@pytest.mark.parametrize(
    ("latency_us", "index"), [(0, 0), (7, 7), (8, 8), (15, 15), (16, 16), (1000, 63), (1 << 50, 199)]
)
def test_known_buckets(latency_us: int, index: int) -> None:
    assert bucket(latency_us) == index


@pytest.mark.parametrize(("index", "upper"), [(0, 0), (7, 7), (8, 8), (16, 17), (63, 1023), (64, 1151)])
def test_known_upper_bounds(index: int, upper: int) -> None:
    assert bucket_upper(index) == upper


def test_buckets_cover_all_latencies_without_overlap() -> None:
    lower = 0
    for index in range(BUCKETS - 1):
        assert bucket(lower) == index
        assert bucket(bucket_upper(index)) == index
        lower = bucket_upper(index) + 1


@given(LATENCY)
def test_the_upper_bound_is_at_most_one_eighth_above(latency_us: int) -> None:
    index = bucket(latency_us)
    assert index < BUCKETS
    if index < BUCKETS - 1:
        assert latency_us <= bucket_upper(index) <= latency_us * 9 / 8


@given(st.lists(LATENCY, min_size=1, max_size=300), st.sampled_from([50, 90, 99, 100]))
def test_percentiles_match_sorted_latencies(latencies: list[int], percent: int) -> None:
    exact = sorted(latencies)[math.ceil(len(latencies) * percent / 100) - 1]
    assert percentile(Counter(map(bucket, latencies)), percent) == bucket_upper(bucket(exact))


@given(st.lists(st.integers(0, 1 << 30), min_size=1))
def test_a_percentile_may_be_a_fraction(latencies: list[int]) -> None:
    exact = sorted(latencies)[math.ceil(len(latencies) * Fraction("0.999")) - 1]
    assert percentile(Counter(map(bucket, latencies)), Fraction("99.9")) == bucket_upper(bucket(exact))


@given(HISTOGRAM, st.lists(st.sampled_from([1, 50, 99, Fraction("99.9"), 100])))
def test_several_percentiles_are_each_of_them(
    histogram: dict[int, int], percents: list[int | Fraction]
) -> None:
    assert percentiles(histogram, percents) == [percentile(histogram, percent) for percent in percents]


def test_no_requests_have_no_percentile() -> None:
    assert percentile({}, 99) is None
    assert percentile({5: 0}, 99) is None


def _text(histogram: dict[int, int]) -> str:
    return ",".join(f"{i}:{c}" for i, c in histogram.items()) or "-"


@given(
    st.dictionaries(
        st.tuples(st.integers(0, 4095), st.integers(0, 1 << 20)).map(lambda d: f"{d[0]}:{d[1]}"),
        st.tuples(
            st.integers(1, 10000),
            st.fixed_dictionaries({key: st.integers(0, (1 << 64) - 1) for key in sorted(COUNTERS)}),
            st.fixed_dictionaries(dict.fromkeys(sorted(HISTOGRAMS), HISTOGRAM)),
        ),
        max_size=4,
    ),
    st.sampled_from(["", " later=1:2,3", " flag", " depth=-1 x=y"]),
)
def test_parsing_returns_all_values(
    devices: dict[str, tuple[int, dict[str, int], dict[str, dict[int, int]]]], unknown: str
) -> None:
    lines = []
    for name, (weight, counters, histograms) in devices.items():
        words = [name, f"weight={weight}", *(f"{k}={v}" for k, v in counters.items())]
        words += [f"{k}={_text(h)}" for k, h in histograms.items()]
        lines.append(" ".join(words) + unknown)
    parsed = parse("\n".join(lines) + "\n")
    assert list(parsed) == list(devices)
    for name, (weight, counters, histograms) in devices.items():
        assert (parsed[name].weight, parsed[name].counters) == (weight, counters)
        assert parsed[name].histograms == histograms


def test_a_bucket_that_is_printed_twice_counts_twice() -> None:
    assert parse("8:0 rtotal=3:2,4:1,3:5")["8:0"].histograms == {"rtotal": {3: 7, 4: 1}}


def test_only_the_wanted_histograms_are_read() -> None:
    stat = parse("8:0 rwait=1:1 rtotal=2:2", ("rtotal",))["8:0"]
    assert stat.histograms == {"rtotal": {2: 2}}


@pytest.mark.parametrize(
    "text",
    [
        "rbytes=1",
        "8 rbytes=1",
        "8:0 rbytes=",
        "8:0 rbytes=-1",
        "8:0 rbytes=1_0",
        "8:0 rbytes=+1",
        "8:0 rbytes=٣",
        "8:0 rbytes=" + "9" * 5000,
        "8:0 rtotal=1",
        "8:0 rtotal=1:",
        "8:0 rtotal=200:1",
        "8:0 rtotal=1:1,",
        "8:0 rtotal=1:1:1,1:1",
        "8:0 rtotal=1:" + "9" * 21,
        "8:0 rtotal=1:٣",
        "8:0 weight=x",
        "8:0 rbytes=1\n8:0 rbytes=2",
    ],
)
def test_invalid_text_is_refused(text: str) -> None:
    with pytest.raises(StatError):
        parse(text)


@given(st.text(alphabet=st.sampled_from("8:0 =,-\nrtoalbyes19x\0é"), max_size=80))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(StatError):
        parse(text)
