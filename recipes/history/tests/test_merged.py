# SPDX-License-Identifier: Apache-2.0
"""A sum with histograms as numbers is the exact sum of its periods, however they are grouped."""

import copy
from collections import Counter

from evenkeel_common import iostat
from evenkeel_history import lanes
from evenkeel_history.merged import Merged, Mix, Spot, by_app, total
from evenkeel_history.period import BLAME_BITS, COUNT_BITS, Period, Sum, long, short
from hypothesis import given, settings
from hypothesis import strategies as st
from test_period import SUM


def stored(measured: Sum) -> Sum:
    """MEASURED with the numbers that a Period of it has."""
    result = Sum()
    result.add(measured)
    for flow in result.flows.values():
        flow.latency = {n: long(short(count, COUNT_BITS), COUNT_BITS) for n, count in flow.latency.items()}
    result.blame = {pair: long(short(us, BLAME_BITS), BLAME_BITS) for pair, us in result.blame.items()}
    return result


def merged(periods: list[Period], mix: Mix | None = None) -> Merged:
    result = Merged()
    for period in periods:
        result.add_period(period, mix)
    return result


@settings(deadline=None)
@given(st.lists(SUM, max_size=4))
def test_the_sum_is_exact(sums: list[Sum]) -> None:
    exact = Sum()
    for each in sums:
        exact.add(stored(each))
    assert total(each.period() for each in sums) == exact


@settings(deadline=None)
@given(st.lists(SUM, max_size=6), st.integers(0, 6))
def test_the_sum_of_packed_parts_is_the_sum_of_all(sums: list[Sum], cut: int) -> None:
    periods = [each.period() for each in sums]
    first, second = merged(periods[:cut]).packed(), merged(periods[cut:]).packed()
    before = copy.deepcopy((first, second))
    for groups in ([[first, second, first]], [[first], [second], [first]], [[first, second], [], [first]]):
        whole = Merged()
        for parts in groups:
            whole.add_packed(parts)
        assert whole.sum() == total([*periods, *periods[:cut]])
    assert (first, second) == before, "a part that was added is unchanged"


@given(SUM)
def test_the_matrix_can_be_left_out(measured: Sum) -> None:
    result = Merged()
    result.add_period(measured.period(), matrix=False)
    exact = stored(measured)
    exact.blame = {}
    assert result.sum() == exact


@settings(deadline=None)
@given(st.lists(SUM, max_size=4), st.integers(0, 4))
def test_a_spot_has_all_io_of_each_app(sums: list[Sum], cut: int) -> None:
    periods = [each.period() for each in sums]
    one, two, both = Mix(), Mix(), Mix()
    merged(periods[:cut], one)
    merged(periods[cut:], two)
    merged(periods, both)
    one.add(two)
    spot, whole = one.spot(), total(periods)
    assert values(spot) == values(both.spot())
    assert spot.ms == whole.ms
    latency: dict[str, Counter[int]] = {}
    moved = Counter[str]()
    for (app, _, _), flow in whole.flows.items():
        moved[app] += flow.bytes
        latency.setdefault(app, Counter()).update(flow.latency)
    assert values(spot) == {
        app: (moved[app], iostat.percentile(found, 99), lanes.bands(number(found)))
        for app, found in latency.items()
    }
    assert spot.bands(None) == lanes.bands(number(sum(latency.values(), Counter())))
    assert (spot.bytes("none"), spot.p99_us("none"), spot.bands("none")) == (0, None, 0)


@settings(deadline=None)
@given(st.lists(SUM, max_size=4), st.lists(st.sampled_from(["player", "loader", "", "none"]), unique=True))
def test_the_values_by_app_are_those_of_the_spots(sums: list[Sum], apps: list[str]) -> None:
    spots = []
    for each in sums:
        mix = Mix()
        merged([each.period()], mix)
        spots.append(mix.spot())
    amounts, latencies = by_app(spots, apps)
    assert amounts == {app: tuple(spot.bytes(app) for spot in spots) for app in apps}
    assert latencies == {app: tuple(spot.p99_us(app) for spot in spots) for app in apps}


def values(spot: Spot) -> dict[str, tuple[int, int | None, int]]:
    return {app: (spot.bytes(app), spot.p99_us(app), spot.bands(app)) for app in spot.apps}


def number(histogram: iostat.Histogram) -> lanes.Lanes:
    return sum(lanes.lanes(index, [lanes.chunk(count)]) for index, count in histogram.items())
