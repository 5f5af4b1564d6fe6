# SPDX-License-Identifier: Apache-2.0
"""The projection of wear: its bounds always contain the truth, and it claims no more than it can know."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from evenkeel_common.wear import Wear
from evenkeel_panel.wear.projection import Left, Report, days, project, project_device, reports
from hypothesis import given
from hypothesis import strategies as st

GB = 10**9


def told(used: Fraction) -> int:
    """What a device reports that has USED percent of its life."""
    return min(max(math.ceil(used / 10), 1), 11) * 10


def worn(used: Fraction, per_byte: Fraction, amounts: list[int]) -> list[Report]:
    """The reports of a device that has USED percent at the first report, and writes AMOUNTS bytes after each."""
    result, written = [], 0
    for at, amount in enumerate([0, *amounts]):
        written += amount
        result.append(Report(at, written, told(used + per_byte * written)))
    return result


AMOUNTS = st.lists(st.integers(0, 10**9), max_size=40)
USED = st.fractions(0, 99, max_denominator=1000)


@given(USED, st.integers(1, 400), AMOUNTS)
def test_the_truth_is_between_the_bounds(used: Fraction, speed: int, amounts: list[int]) -> None:
    per_byte = Fraction(speed, 100 * GB)
    found = worn(used, per_byte, amounts)
    left = project(found)
    assert left is not None
    truth = (100 - used) / per_byte - found[-1].written
    if left.used_up:
        assert truth < 0
    else:
        assert left.least <= truth
        assert left.most is None or truth <= left.most
        assert left.since == 0


@given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(1, 11)), min_size=1, max_size=40))
def test_any_reports_give_bounds_in_order(steps: list[tuple[int, int]]) -> None:
    """Also those of a device that was replaced, or that corrects itself."""
    written = sorted(amount for amount, _ in steps)
    found = [Report(at, written[at], used * 10) for at, (_, used) in enumerate(steps)]
    left = project(found)
    assert left is not None
    assert left.least >= 0
    assert left.most is None or left.least <= left.most
    assert left.since <= left.last == found[-1].at
    assert left.used_up == (found[-1].used > 100)


@given(USED, st.integers(1, 400), AMOUNTS, st.integers(2, 1000))
def test_the_unit_of_bytes_does_not_matter(
    used: Fraction, speed: int, amounts: list[int], factor: int
) -> None:
    found = worn(used, Fraction(speed, 100 * GB), amounts)
    scaled = [Report(report.at, report.written * factor, report.used) for report in found]
    one, other = project(found), project(scaled)
    assert one
    assert other
    assert one.least * factor <= other.least <= (one.least + 1) * factor
    assert (one.most is None) == (other.most is None)


@given(st.integers(1, 10), AMOUNTS)
def test_without_a_step_there_is_no_upper_bound(used: int, amounts: list[int]) -> None:
    found = [Report(at, sum(amounts[:at]), used * 10) for at in range(len(amounts) + 1)]
    left = project(found)
    assert left is not None
    assert left.most is None
    # at worst, the device has used a full step, and each further step takes as many bytes
    assert left.least == (10 - used) * sum(amounts)


def test_two_days_at_0_to_10_percent_give_a_lower_bound() -> None:
    left = project([Report(0, 0, 10), Report(2 * 86400, 20 * GB, 10)])
    assert left == Left(180 * GB, None, 0, 2 * 86400)
    assert days(left.least, 10 * GB) == 18


def test_one_step_gives_no_upper_bound_yet() -> None:
    left = project([Report(0, 0, 10), Report(1, 50 * GB, 10), Report(2, 50 * GB, 20)])
    assert left is not None
    assert left.most is None


def test_two_steps_give_both_bounds() -> None:
    """20 % are used at 150 GB. At 0, it was at most 10 %, and at 50 GB at least 10 %: 10 to 15 GB take a percent."""
    left = project(
        [Report(0, 0, 10), Report(1, 50 * GB, 20), Report(2, 150 * GB, 20), Report(3, 150 * GB, 30)]
    )
    assert left is not None
    assert (left.least, left.most) == (800 * GB, 1200 * GB)


def test_only_the_newest_reports_count_if_the_wear_of_a_byte_has_changed() -> None:
    slow = [Report(0, 0, 10), Report(1, 900 * GB, 10)]
    fast = [Report(2 + n, 900 * GB + n * 10 * GB, 10 * n) for n in range(2, 6)]
    left = project([*slow, *fast])
    assert left is not None
    assert left.since > 0
    assert left.most is not None
    assert left.most <= 100 * GB


def test_a_jump_without_written_bytes_begins_a_new_line() -> None:
    assert project([Report(0, 0, 10), Report(1, 0, 50)]) == Left(0, None, 1, 1)


def test_more_than_100_percent_is_used_up() -> None:
    left = project([Report(0, 0, 100), Report(9, GB, 110)])
    assert left is not None
    assert (left.least, left.most, left.used_up) == (0, 0, True)


def test_no_report_gives_no_projection() -> None:
    assert project([]) is None
    assert project_device([(0, Wear("vda", written_bytes=5)), (9, Wear("vda", written_bytes=50))]) is None


def test_the_counter_of_written_bytes_begins_again_at_each_boot() -> None:
    states = [(at, Wear("mmcblk0", 10, None, None, count)) for at, count in enumerate((100, 700, 50, 60))]
    assert [report.written for report in reports(states, "life_a")] == [0, 600, 650, 660]
    assert reports(states, "life_b") == []


def test_a_report_without_a_value_still_counts_its_bytes() -> None:
    states = [
        (0, Wear("m", 10, None, None, 0)),
        (1, Wear("m", None, None, None, 70)),
        (2, Wear("m", 20, None, None, 90)),
    ]
    assert [(report.at, report.written) for report in reports(states, "life_a")] == [(0, 0), (2, 90)]


def test_the_life_ends_with_that_of_the_first_type_of_memory() -> None:
    states = [(at, Wear("mmcblk0", 10, 10 * (at + 1), None, at * 10 * GB)) for at in range(5)]
    left = project_device(states)
    assert left is not None
    only_b = project(reports(states, "life_b"))
    assert only_b is not None
    assert (left.least, left.most) == (only_b.least, only_b.most)


@pytest.mark.parametrize(
    ("amount", "rate", "found"), [(None, 5.0, None), (10, None, None), (10, 0.0, None), (10, 5.0, 2.0)]
)
def test_days(amount: int | None, rate: float | None, found: float | None) -> None:
    assert days(amount, rate) == found
