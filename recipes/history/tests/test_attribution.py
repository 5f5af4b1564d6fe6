# SPDX-License-Identifier: Apache-2.0
"""Waiting time is attributed completely, in proportion, and only to apps that used the device."""

from fractions import Fraction

from evenkeel_history.attribution import attribute
from hypothesis import given
from hypothesis import strategies as st

APPS = st.sampled_from(["", "player", "loader", "a", "b", "c"])
TIMES = st.dictionaries(APPS, st.integers(0, 10**15))


@given(TIMES, TIMES)
def test_rows_sum_to_the_waiting_time(waited: dict[str, int], served: dict[str, int]) -> None:
    blame = attribute(waited, served)
    for victim, time in waited.items():
        assert sum(us for (who, _), us in blame.items() if who == victim) == time
    assert {victim for victim, _ in blame} == {victim for victim, time in waited.items() if time}


@given(TIMES, TIMES)
def test_a_part_is_in_proportion_to_the_device_time(waited: dict[str, int], served: dict[str, int]) -> None:
    total = sum(served.values())
    for (victim, who), us in attribute(waited, served).items():
        assert us > 0
        if total:
            assert served[who] > 0
            assert abs(us - Fraction(waited[victim] * served[who], total)) < 1
        else:
            assert who == victim


@given(TIMES, TIMES, st.permutations(["", "player", "loader", "a", "b", "c"]))
def test_the_order_does_not_matter(waited: dict[str, int], served: dict[str, int], order: list[str]) -> None:
    again = {who: served[who] for who in order if who in served}
    assert attribute(waited, served) == attribute(waited, again)


@given(TIMES, TIMES, st.integers(2, 1000))
def test_only_proportions_of_device_time_count(
    waited: dict[str, int], served: dict[str, int], by: int
) -> None:
    assert attribute(waited, served) == attribute(waited, {who: us * by for who, us in served.items()})


def test_the_loader_costs_the_player_what_it_took() -> None:
    assert attribute({"player": 1000}, {"loader": 900, "player": 100}) == {
        ("player", "loader"): 900,
        ("player", "player"): 100,
    }
