# SPDX-License-Identifier: GPL-2.0-only
# ruff: noqa: S311  (random figures need no cryptography)
"""Blame: the matrix of who slows whom agrees with the definition, which a slow reference computes with fractions."""

from __future__ import annotations

import ctypes
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

SECOND = 1_000_000_000
# group, added to the requests that wait, added to those in the device, ns since the last change; two zeros: a reading
Change = tuple[int, int, int, int]
Matrix = dict[tuple[int, int], Fraction]


@pytest.fixture(scope="session")
def blame(user_space: Callable[[str], ctypes.CDLL]) -> ctypes.CDLL:
    lib = user_space("blame")
    c32, c64 = ctypes.c_uint32, ctypes.c_uint64
    for name, result, args in (
        ("begin", None, (c64,)),
        ("change", None, (c32, ctypes.c_int, ctypes.c_int, c64)),
        ("settle", None, (c64,)),
        ("waited", c64, (c32,)),
        ("part", c64, (c32, c32)),
        ("shared", c64, (c32,)),
        ("leave", None, (c32,)),
        ("left", c32, ()),
    ):
        function = lib[f"shim_{name}"]
        function.restype, function.argtypes = result, args
        setattr(lib, name, function)
    return lib


def truth(changes: Iterable[Change]) -> tuple[dict[int, int], Matrix]:
    """The waiting time of each group, and its parts by other group: the definition in core/blame.c, step by step."""
    waiting: dict[int, int] = defaultdict(int)
    inside: dict[int, int] = defaultdict(int)
    waited: dict[int, int] = defaultdict(int)
    parts: Matrix = defaultdict(Fraction)
    for group, more_waiting, more_inside, passed in changes:
        whole = sum(inside.values())
        for victim, count in waiting.items():
            waited[victim] += count * passed
            for by, taken in inside.items():
                if by != victim and taken and count:
                    parts[victim, by] += Fraction(passed * count * taken, whole)
        waiting[group] += more_waiting
        inside[group] += more_inside
    return waited, parts


def run(blame: ctypes.CDLL, changes: Iterable[Change]) -> int:
    """Report the changes. Returns the time of the last one."""
    now = 5 * SECOND
    blame.begin(now)
    for group, waiting, inside, passed in changes:
        now += passed
        if waiting or inside:
            blame.change(group, waiting, inside, now)
        else:
            blame.settle(now)
    return now


def legal(steps: Iterable[tuple[int, str, int]]) -> list[Change]:
    """The changes of those steps that are possible; then all requests end.

    A step is a letter: q queued, m merged, s started, c completed, r a reading.
    """
    waiting: dict[int, int] = defaultdict(int)
    inside: dict[int, int] = defaultdict(int)
    changes = []

    def step(group: int, what: str, passed: int) -> None:
        if (what in "ms" and not waiting[group]) or (what == "c" and not inside[group]):
            return
        more = {"q": (1, 0), "m": (-1, 0), "s": (-1, 1), "c": (0, -1), "r": (0, 0)}[what]
        waiting[group] += more[0]
        inside[group] += more[1]
        changes.append((group, *more, passed))

    for group, what, passed in steps:
        step(group, what, passed)
    for group in list(waiting):
        for what in "s" * waiting[group] + "c" * (waiting[group] + inside[group]):
            step(group, what, 1000)
    return changes


STEPS = st.lists(
    st.tuples(
        st.integers(0, 3), st.sampled_from("qqqsssccmr"), st.integers(0, 10**6) | st.sampled_from((0, 10**10))
    )
)


@settings(deadline=None)
@given(STEPS)
@example(
    [(0, "q", 0), (1, "q", 0), (2, "q", 0), (0, "s", 0), (1, "s", 5000), (0, "c", 10**9), (1, "c", 10**9)]
)
def test_parts_agree_with_the_definition(blame: ctypes.CDLL, steps: list[tuple[int, str, int]]) -> None:
    """For four groups: each division comes in time. Only rounding differs."""
    changes = legal(steps)
    waited, parts = truth(changes)
    blame.settle(run(blame, changes))
    for victim in range(4):
        assert blame.waited(victim) == waited[victim]
        for by in range(4):
            expected = parts[victim, by]
            # 17 bits or more of a share, and 10 bits of the clock with up to len(changes) requests. What rounding
            # loses in a division of a long time, the next division gives to other groups.
            most = 2 * len(changes) + expected / 2**16 + waited[victim] / 2**17
            assert abs(blame.part(victim, by) - expected) <= most, (victim, by)
    assert blame.left() == 0


@settings(deadline=None)
@given(STEPS)
def test_the_parts_of_others_never_exceed_the_waiting_time(
    blame: ctypes.CDLL, steps: list[tuple[int, str, int]]
) -> None:
    now = run(blame, legal(steps)[: len(steps)])
    blame.settle(now + 1000)
    for victim in range(4):
        others = sum(blame.part(victim, by) for by in range(4) if by != victim)
        assert others <= blame.waited(victim) + len(steps)


def test_a_reading_forgets_nothing(blame: ctypes.CDLL) -> None:
    """Group 2 waits only after group 0 has left the device. A reading came while group 0 was in it."""
    changes = [
        (0, 0, 1, 0), (0, 0, 0, 1000), (0, 0, -1, 1000), (1, 0, 1, 1000), (2, 1, 0, 0), (2, 0, 0, 500), (1, 0, -1, 500),
    ]  # fmt: skip
    blame.settle(run(blame, changes))
    assert (blame.part(2, 0), blame.part(2, 1), blame.waited(2)) == (0, 1000, 1000)


def test_readings_do_not_put_off_divisions(blame: ctypes.CDLL) -> None:
    """A program may read 16 files each second, while requests are rare."""
    changes: list[Change] = [(group, 1, 0, 10) for group in range(4, 20)]
    for _ in range(20):
        changes += [(0, 0, 0, 1000)] * 300
        # group 2 waits only for group 1
        changes += [
            (0, 0, 1, 0),
            (0, 0, -1, 1000),
            (2, 1, 0, 0),
            (1, 0, 1, 0),
            (1, 0, -1, 1000),
            (2, -1, 0, 0),
        ]
    blame.settle(run(blame, changes))
    assert (blame.part(2, 0), blame.part(2, 1)) == (0, 20_000)


def mix(groups: int, depth: int, seed: int, seconds: float) -> list[Change]:
    """Changes of GROUPS groups that compete for a device that serves DEPTH requests at a time, in random order.

    Each group has up to 8 requests and a mean service time of its own. It pauses now and then.
    """
    draw = random.Random(seed)
    mean = [draw.randint(50_000, 5_000_000) for _ in range(groups)]
    most = [draw.choice((1, 1, 2, 8)) for _ in range(groups)]
    asleep = [0] * groups
    waiting = [0] * groups
    ends: list[tuple[int, int]] = []
    now = last = 0
    changes: list[Change] = []

    def change(group: int, more_waiting: int, more_inside: int) -> None:
        nonlocal last
        waiting[group] += more_waiting
        changes.append((group, more_waiting, more_inside, now - last))
        last = now

    while now < seconds * SECOND:
        for group in range(groups):
            while asleep[group] <= now and waiting[group] + sum(by == group for _, by in ends) < most[group]:
                change(group, 1, 0)
        while len(ends) < depth and any(waiting):
            group = draw.choices(range(groups), waiting)[0]
            change(group, -1, 1)
            ends.append((now + int(draw.expovariate(1 / mean[group])) + 1, group))
            ends.sort()
        now, group = ends.pop(0) if ends else (now + 100_000, -1)
        if group >= 0:
            change(group, 0, -1)
            if draw.random() < 0.05:
                asleep[group] = now + draw.randint(0, 100_000_000)
    return changes


@pytest.mark.parametrize(
    ("groups", "depth", "limit"),
    [(2, 1, 1e-5), (8, 1, 1e-5), (8, 4, 1e-4), (16, 1, 1e-5), (16, 4, 0.002), (16, 32, 0.02)],
)
def test_mixes_agree_with_the_definition(blame: ctypes.CDLL, groups: int, depth: int, limit: float) -> None:
    """No part of at least 5 % of a waiting time deviates by more than LIMIT, although some divisions are put off."""
    for seed in range(3):
        changes = mix(groups, depth, seed, 2)
        waited, parts = truth(changes)
        blame.settle(run(blame, changes))
        for (victim, by), expected in parts.items():
            if waited[victim] and expected >= waited[victim] * 0.05:
                assert abs(blame.part(victim, by) / expected - 1) < limit, (seed, victim, by)


@pytest.mark.parametrize("depth", [1, 4])
def test_sixty_groups_that_mix_agree_within_ten_percent(blame: ctypes.CDLL, depth: int) -> None:
    """Most divisions are put off. Less than 10 % of the time that the groups waited for others goes to a wrong group."""
    changes = mix(60, depth, 1, 2)
    _, parts = truth(changes)
    blame.settle(run(blame, changes))
    wrong = sum(abs(blame.part(victim, by) - expected) for (victim, by), expected in parts.items()) / 2
    assert wrong / sum(parts.values()) < 0.1


def test_a_turn_is_divided_once_however_many_requests_it_has(blame: ctypes.CDLL) -> None:
    """The credit that a long turn saves lets the next divisions be exact, for 60 groups."""
    changes: list[Change] = [(group, 4, 0, 10) for group in range(60)]
    for turn in range(30):
        for _ in range(200):
            changes += [(turn, -1, 1, 3000), (turn, 1, -1, 70_000)]
    waited, parts = truth(changes)
    blame.settle(run(blame, changes))
    for (victim, by), expected in parts.items():
        assert abs(blame.part(victim, by) / expected - 1) < 1e-5
    assert waited[59] == blame.waited(59)


def test_requests_in_the_device_longer_than_a_reading_count_in_both(blame: ctypes.CDLL) -> None:
    blame.begin(0)
    blame.change(0, 0, 1, 0)
    blame.change(1, 1, 0, 0)
    for second in range(1, 5):
        blame.settle(second * SECOND)
        assert blame.part(1, 0) == blame.waited(1) == second * SECOND


def test_a_time_in_the_past_changes_nothing(blame: ctypes.CDLL) -> None:
    blame.begin(SECOND)
    blame.change(0, 0, 1, SECOND)
    blame.change(1, 1, 0, SECOND - 1000)
    blame.change(1, -1, 0, SECOND - 500)
    blame.settle(SECOND)
    assert blame.waited(1) == blame.part(1, 0) == 0


def test_groups_without_a_column_share_one(blame: ctypes.CDLL) -> None:
    """The first 127 groups that slow another one get a column. A group that goes makes its column free."""
    blame.begin(0)
    blame.change(199, 1, 0, 0)
    for group in range(140):
        blame.change(group, 0, 1, 1000 * group)
        blame.change(group, 0, -1, 1000 * group + 1000)
    blame.settle(140_000)
    assert [blame.part(199, group) for group in range(127)] == [1000] * 127
    assert blame.shared(199) == 13_000
    blame.leave(5)
    blame.change(150, 0, 1, 200_000)
    blame.settle(203_000)
    assert blame.part(199, 150) == 3000
    assert blame.shared(199) == 13_000
