# SPDX-License-Identifier: Apache-2.0
"""A sum with histograms as numbers is the exact sum of its parts, however they are grouped."""

import copy

from evenkeel_history.merged import Merged, Mix, by_app
from evenkeel_history.period import LARGEST, Sum
from hypothesis import given, settings
from hypothesis import strategies as st
from test_period import SUM
from test_rows import added, total


@settings(deadline=None)
@given(st.lists(SUM, max_size=6), st.integers(0, 6))
def test_the_sum_of_packed_parts_is_the_sum_of_all(sums: list[Sum], cut: int) -> None:
    first, second = added(sums[:cut]).total, added(sums[cut:]).total
    before = copy.deepcopy((first, second))
    for groups in ([[first, second, first]], [[first], [second], [first]], [[first, second], [], [first]]):
        whole = Merged()
        for parts in groups:
            whole.add(parts)
        assert whole.sum() == total([*sums, *sums[:cut]])
    assert (first, second) == before, "a part that was added is unchanged"


@settings(deadline=None)
@given(st.lists(SUM, max_size=4), st.lists(st.sampled_from(["player", "loader", "", "none"]), unique=True))
def test_the_values_by_app_are_those_of_the_spots(sums: list[Sum], apps: list[str]) -> None:
    spots = list(added(sums).spots.values())
    amounts, latencies = by_app(spots, apps)
    assert amounts == {app: tuple(spot.bytes(app) for spot in spots) for app in apps}
    assert latencies == {app: tuple(spot.p99_us(app) for spot in spots) for app in apps}


def test_a_point_with_more_bytes_than_fit_shows_the_largest_number() -> None:
    found = Mix()
    for _ in range(2):
        found.add(Mix(1000, {"player": (LARGEST, 0)}))
    assert found.spot().bytes("player") == LARGEST
