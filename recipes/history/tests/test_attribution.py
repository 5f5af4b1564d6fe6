# SPDX-License-Identifier: Apache-2.0
"""Waiting time is attributed completely, and to the apps whose cgroups the device served."""

from collections.abc import Mapping

from evenkeel_history.attribution import Wait, attribute
from hypothesis import given
from hypothesis import strategies as st

APPS = ["", "player", "loader", "a", "b"]
CGROUPS = range(8)  # 0 stands for all that have no number of their own
TIMES = st.integers(0, 10**11) | st.integers(0, 9)
PARTS = st.dictionaries(st.sampled_from(CGROUPS), TIMES)


def wait(us: int, parts: Mapping[int, int]) -> Wait:
    return Wait(us, list(parts), list(parts.values()))


WAIT = st.builds(wait, TIMES, PARTS)
WAITS = st.lists(st.tuples(st.sampled_from(APPS), WAIT), max_size=8)
OWNERS = st.dictionaries(st.sampled_from(CGROUPS), st.sampled_from(APPS))


@given(WAITS, OWNERS)
def test_rows_sum_to_the_waiting_time(waits: list[tuple[str, Wait]], owners: Mapping[int, str]) -> None:
    blame = attribute(waits, owners, "")
    for app in APPS:
        row = [us for (victim, _), us in blame.items() if victim == app]
        assert sum(row) == sum(one.us for name, one in waits if name == app)
        assert all(us > 0 for us in row)


@given(WAITS, OWNERS)
def test_a_part_goes_to_the_app_of_its_cgroup(
    waits: list[tuple[str, Wait]], owners: Mapping[int, str]
) -> None:
    """If no parts exceed their waiting time, each other app gets exactly the parts of its cgroups."""
    for _, one in waits:
        one.us += sum(one.parts)
    blame = attribute(waits, owners, "")
    for victim in APPS:
        for by in set(APPS) - {victim}:
            expected = sum(
                us
                for app, one in waits
                for cgroup, us in zip(one.cgroups, one.parts, strict=True)
                if app == victim and owners.get(cgroup, "") == by
            )
            assert blame.get((victim, by), 0) == expected


@given(WAIT, OWNERS)
def test_parts_that_exceed_the_waiting_time_lose_the_excess(one: Wait, owners: Mapping[int, str]) -> None:
    """Only so much: the parts are rounded, and no more than a few µs can be wrong."""
    excess = max(0, sum(one.parts) - one.us)
    blame = attribute([("victim", one)], owners, "")
    lost = sum(one.parts) - sum(blame.get(("victim", by), 0) for by in APPS)
    assert lost == excess


@given(WAITS, OWNERS)
def test_the_arguments_do_not_change(waits: list[tuple[str, Wait]], owners: Mapping[int, str]) -> None:
    before = [(app, Wait(one.us, list(one.cgroups), list(one.parts))) for app, one in waits]
    assert attribute(waits, owners, "") == attribute(waits, owners, "")
    assert waits == before


def test_the_loader_costs_the_player_what_it_took() -> None:
    waits = [("player", wait(900, {7: 850})), ("loader", wait(10_500, {5: 500}))]
    assert attribute(waits, {5: "player", 7: "loader"}, "") == {
        ("player", "loader"): 850,
        ("player", "player"): 50,
        ("loader", "player"): 500,
        ("loader", "loader"): 10_000,
    }


def test_cgroups_of_one_app_do_not_slow_each_other() -> None:
    """It is the app that waits for itself."""
    waits = [("player", wait(900, {8: 300, 9: 100}))]
    assert attribute(waits, {5: "player", 8: "player"}, "rest") == {
        ("player", "player"): 800,
        ("player", "rest"): 100,
    }
