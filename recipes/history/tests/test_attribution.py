# SPDX-License-Identifier: Apache-2.0
"""Waiting time is attributed completely, in proportion, and only to apps that used the device."""

from fractions import Fraction

from evenkeel_history.attribution import attribute
from hypothesis import given
from hypothesis import strategies as st

APPS = st.sampled_from(["", "player", "loader", "a", "b", "c"])
TIMES = st.dictionaries(APPS, st.integers(0, 10**15))
ELAPSED = st.integers(0, 10**15)


@given(TIMES, TIMES, ELAPSED)
def test_rows_sum_to_the_waiting_time(waited: dict[str, int], served: dict[str, int], elapsed: int) -> None:
    blame = attribute(waited, served, elapsed)
    for victim, time in waited.items():
        assert sum(us for (who, _), us in blame.items() if who == victim) == time
    assert {victim for victim, _ in blame} == {victim for victim, time in waited.items() if time}
    assert all(us > 0 for us in blame.values())


@given(TIMES, TIMES, ELAPSED)
def test_parts_of_other_apps_are_in_proportion_to_their_device_time(
    waited: dict[str, int], served: dict[str, int], elapsed: int
) -> None:
    blame = attribute(waited, served, elapsed)
    for victim, time in waited.items():
        others = {who: us for who, us in served.items() if us and who != victim}
        own = blame.get((victim, victim), 0)
        if not others:
            assert own == time
            continue
        for who, us in others.items():
            expected = Fraction((time - own) * us, sum(others.values()))
            assert abs(blame.get((victim, who), 0) - expected) <= 1
        assert own <= Fraction(time * served.get(victim, 0), sum(served.values())) + 1
    assert all(served[who] > 0 for victim, who in blame if who != victim)


@given(TIMES, TIMES, ELAPSED, st.permutations(["", "player", "loader", "a", "b", "c"]))
def test_the_order_does_not_matter(
    waited: dict[str, int], served: dict[str, int], elapsed: int, order: list[str]
) -> None:
    again = {who: served[who] for who in order if who in served}
    assert attribute(waited, served, elapsed) == attribute(waited, again, elapsed)


@given(TIMES, TIMES)
def test_without_an_interval_every_part_is_in_proportion(
    waited: dict[str, int], served: dict[str, int]
) -> None:
    total = sum(served.values())
    for (victim, who), us in attribute(waited, served, 0).items():
        assert abs(us - Fraction(waited[victim] * served.get(who, 0), total)) < 1 if total else who == victim


def test_the_loader_costs_the_player_what_it_took() -> None:
    """The player has one request at a time: it waits 0.9 s of this second, and is served for 0.1 s."""
    assert attribute({"player": 900}, {"loader": 900, "player": 100}, 1000) == {("player", "loader"): 900}


def test_an_app_with_many_requests_waits_for_its_own() -> None:
    """The loader has 11 requests at a time, so ten of them wait. Half of the time, one of its own is served."""
    found = attribute({"loader": 10_500}, {"loader": 500, "player": 500}, 1000)
    assert found == {("loader", "loader"): 5000, ("loader", "player"): 5500}


def test_time_in_which_the_device_is_idle_does_not_count() -> None:
    """Eight requests of one app, then 0.9 s of nothing."""
    assert attribute({"a": 350}, {"a": 100, "b": 1}, 1000)["a", "a"] > 340
