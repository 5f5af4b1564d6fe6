# SPDX-License-Identifier: Apache-2.0
"""Each finer row becomes part of exactly one coarser row, even if the clock jumps."""

from itertools import pairwise

from evenkeel_history.tiers import DAY, HOUR, LIVE_S, TIERS, best, closed, slot
from hypothesis import given
from hypothesis import strategies as st


@given(st.lists(st.integers(0, 100_000)), st.sampled_from([600, 3600]))
def test_groups_are_all_rows_but_those_of_the_open_slot(starts: list[int], seconds: int) -> None:
    rows = list(enumerate(starts, 1))
    groups = closed(rows, seconds)
    covered = [seq for group in groups for seq in group]
    assert covered == list(range(1, len(covered) + 1))
    rest = starts[len(covered) :]
    assert len({slot(start, seconds) for start in rest}) == (1 if starts else 0)
    for group in groups:
        assert len({slot(starts[seq - 1], seconds) for seq in group}) == 1


@given(st.lists(st.integers(0, 20_000)), st.integers(0, 50))
def test_it_does_not_matter_when_rows_are_rolled_up(starts: list[int], cut: int) -> None:
    rows = list(enumerate(starts, 1))
    first = closed(rows[:cut], 600)
    done = first[-1][-1] if first else 0
    assert first + closed(rows[done:], 600) == closed(rows, 600)


def test_spans_of_a_slot_are_multiples_of_finer_ones() -> None:
    for finer, tier in pairwise(TIERS):
        assert tier.seconds % finer.seconds == 0
        # rows of the finer tier are kept until they are in a coarser row
        assert finer.keep_s > 2 * tier.seconds


def test_what_the_design_asks_for_is_kept() -> None:
    kept = {tier.seconds: tier.keep_s for tier in TIERS}
    assert (kept[60], kept[600], kept[HOUR]) == (14 * DAY, 90 * DAY, 730 * DAY)
    assert LIVE_S == 2 * HOUR


@given(st.integers(60, 730 * DAY))
def test_no_chart_has_more_than_200_points(span: int) -> None:
    tier = TIERS[best(span)]
    assert span <= tier.seconds * 200
    assert span <= tier.keep_s
