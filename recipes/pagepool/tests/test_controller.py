# SPDX-License-Identifier: Apache-2.0
"""Properties of the controller on random settings, and the examples of the paper."""

from __future__ import annotations

from dataclasses import astuple, replace
from fractions import Fraction

import pytest
from evenkeel_pagepool.controller import (
    Settings,
    SettingsError,
    Window,
    decide,
    exclusive,
    missing_hits,
    mixed,
)
from hypothesis import assume, given
from hypothesis import strategies as st


@st.composite
def settings(draw: st.DrawFn) -> Settings:
    blocks = draw(st.integers(1, 10**7))
    protected_min = draw(st.integers(0, blocks))
    return Settings(
        blocks, draw(st.integers(1, 10**7)), draw(st.integers(0, 100)), draw(st.integers(0, 100)),
        protected_min, draw(st.integers(0, blocks - protected_min)),
    )  # fmt: skip


@st.composite
def windows(draw: st.DrawFn) -> Window:
    protected, normal = draw(st.integers(0, 10**7)), draw(st.integers(0, 10**7))
    return Window(protected, draw(st.integers(0, protected)), normal, draw(st.integers(0, normal)))


targets = st.integers(0, 10**7)


def test_the_papers_example_needs_four_buffers() -> None:
    assert missing_hits(70, 10, 3) == 4


@pytest.mark.parametrize(
    ("profile", "paper"),
    [
        (mixed(296, 32), (296, 95, 85, 89, 32)),
        (mixed(720, 32, larger=False), (720, 100, 85, 216, 32)),
        (exclusive(734, 32), (734, 100, 60, 514, 32)),
    ],
    ids=["compile-296", "compile-720", "web"],
)
def test_profiles_are_the_papers_settings(profile: Settings, paper: tuple[int, ...]) -> None:
    assert astuple(profile)[1:] == paper


@given(st.integers(0, 100), st.integers(0, 10**9), st.data())
def test_missing_hits_are_the_least_that_reach_the_ratio(
    percent: int, accesses: int, data: st.DataObject
) -> None:
    hits = data.draw(st.integers(0, accesses))
    short = missing_hits(percent, accesses, hits)
    assert Fraction(hits + short) >= Fraction(percent, 100) * accesses
    assert short == 0 or Fraction(hits + short - 1) < Fraction(percent, 100) * accesses


@given(settings(), windows(), st.data())
def test_a_target_within_the_bounds_stays_there(s: Settings, w: Window, data: st.DataObject) -> None:
    target = data.draw(st.integers(s.protected_min, s.blocks - s.normal_min))
    assert s.protected_min <= decide(s, target, w) <= s.blocks - s.normal_min


@given(settings(), targets)
def test_no_access_counts_as_full_hits(s: Settings, target: int) -> None:
    assert decide(s, target, Window()) == target


@given(settings(), targets, windows())
def test_a_pool_without_accesses_asks_for_nothing(s: Settings, target: int, w: Window) -> None:
    assert decide(s, target, replace(w, protected_accesses=0, protected_hits=0)) <= max(
        target, s.protected_min
    )
    idle = replace(w, normal_accesses=0, normal_hits=0)
    assert decide(s, target, idle) >= min(target, s.blocks - s.normal_min)


@given(settings(), windows(), st.data())
def test_more_protected_hits_never_raise_the_target(s: Settings, w: Window, data: st.DataObject) -> None:
    target = data.draw(st.integers(s.protected_min, s.blocks - s.normal_min))
    better = replace(w, protected_hits=data.draw(st.integers(w.protected_hits, w.protected_accesses)))
    assert decide(s, target, better) <= decide(s, target, w)


@given(settings(), windows(), st.data())
def test_more_normal_hits_never_lower_the_target(s: Settings, w: Window, data: st.DataObject) -> None:
    target = data.draw(st.integers(s.protected_min, s.blocks - s.normal_min))
    better = replace(w, normal_hits=data.draw(st.integers(w.normal_hits, w.normal_accesses)))
    assert decide(s, target, better) >= decide(s, target, w)


@given(settings(), targets, targets, windows())
def test_a_higher_target_stays_higher(s: Settings, one: int, other: int, w: Window) -> None:
    low, high = sorted((one, other))
    assert decide(s, low, w) <= decide(s, high, w)


@given(settings(), targets, windows())
def test_the_protected_pool_comes_first(s: Settings, target: int, w: Window) -> None:
    short = missing_hits(s.protected_percent, w.protected_accesses, w.protected_hits)
    assume(short > 0)
    assert decide(s, target, w) == min(target + short, s.blocks - s.normal_min)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"blocks": 0}, "blocks is 0. Set it to 1 or more."),
        ({"window": 0}, "window is 0"),
        ({"protected_percent": 101}, "protected_percent is 101. Set it to a percentage"),
        ({"normal_percent": -1}, "normal_percent is -1"),
        ({"protected_min": -1}, "protected_min is -1"),
        ({"protected_min": 90, "normal_min": 11}, "together exceed the cache of 100 blocks"),
    ],
)
def test_bad_settings_are_refused_by_name(change: dict[str, int], text: str) -> None:
    good = Settings(100, 100, 95, 85, 30, 10)
    with pytest.raises(SettingsError, match=text):
        replace(good, **change)
