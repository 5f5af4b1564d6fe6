# SPDX-License-Identifier: Apache-2.0
"""Waiting time is attributed completely, in proportion, and only to apps that used the device."""

from collections.abc import Mapping
from fractions import Fraction

from evenkeel_history.attribution import Blame, attribute
from hypothesis import example, given, settings
from hypothesis import strategies as st

APPS = st.sampled_from(["", "player", "loader", "a", "b", "c"])
TIMES = st.dictionaries(APPS, st.integers(0, 10**11) | st.integers(0, 9))
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


def _reference(waited: Mapping[str, int], served: Mapping[str, int], elapsed: int) -> Blame:
    """The same computation with Python's numbers, which never overflow."""
    blame: Blame = {}
    total = sum(served.values())
    for victim, time in waited.items():
        own = served.get(victim, 0)
        if own == total:
            blame[victim, victim] = time
            continue
        excess = time + own - min(elapsed, total) - (own // 16 if total > elapsed else 0)
        excess = min(max(excess, 0), time)
        parts = {
            who: Fraction(excess * own, total)
            if who == victim
            else Fraction((time * total - excess * own) * us, total * (total - own))
            for who, us in served.items()
            if us
        }
        rests = sorted((-(part % 1), who) for who, part in parts.items())
        blame |= {(victim, who): int(part) for who, part in parts.items()}
        for _, who in rests[: time - sum(map(int, parts.values()))]:
            blame[victim, who] += 1
    return {pair: us for pair, us in blame.items() if us}


@settings(deadline=None)
@given(TIMES, TIMES, ELAPSED | st.integers(0, 99))
@example({"a": 2**42 - 1, "b": 2**42 - 1}, {"a": 2**41, "b": 2**41 - 1}, 10**6)
@example({"a": 2**42 - 1}, {"a": 1, "b": 2**42 - 2}, 0)
def test_parts_are_exact(waited: dict[str, int], served: dict[str, int], elapsed: int) -> None:
    assert attribute(waited, served, elapsed) == _reference(waited, served, elapsed)


def test_times_of_a_broken_counter_give_no_blame() -> None:
    assert attribute({"a": 2**42}, {"b": 5}, 1000) == {}
    assert attribute({"a": 5}, {"b": 2**42}, 1000) == {}
    assert attribute({"a": 5}, {"a": 2**41, "b": 2**41}, 1000) == {}


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
