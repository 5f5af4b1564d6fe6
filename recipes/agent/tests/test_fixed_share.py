# SPDX-License-Identifier: Apache-2.0
"""Valid fixed shares, when one is in force, and the evaluation of the counters."""

import pytest
from evenkeel_agent import fixed_share
from evenkeel_agent.fixed_share import Counters, Usage, usage
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize("value", [-1, 101, 1 << 32, 1 << 64, True, 10.0, "10", None, [10]])
def test_invalid_values(value: object) -> None:
    assert "a whole number of percent from 1 to 100, or 0 for none" in str(fixed_share.problem(value))


def test_a_number_that_python_cannot_print() -> None:
    assert "a far larger number" in str(fixed_share.problem(10**5000))


@pytest.mark.parametrize("value", [0, 1, 10, 100])
def test_valid_values(value: int) -> None:
    assert fixed_share.problem(value) is None


@pytest.mark.parametrize(
    ("text", "percent"),
    [("10", 10), ("10%", 10), ("10 %", 10), ("010", 10), ("100%", 100), ("101", 101), ("off", 0)],
)
def test_valid_text(text: str, percent: int) -> None:
    assert fixed_share.from_text(text) == percent


@pytest.mark.parametrize(
    "text", ["", "%", "x", "-1", "+1", "1.5%", " 10", "10%%", "1_0", "٣", "0", "0%", "000", "Off", "9" * 5000]
)
def test_invalid_text(text: str) -> None:
    assert fixed_share.from_text(text) is None


@pytest.mark.parametrize(
    ("content", "percent", "result"),
    [
        ("259:0 10\n254:0 10\n", 10, True),
        ("254:0 10\n259:0 10\n8:0 50\n", 10, True),
        ("259:0 10\n", 10, False),
        ("259:0 10\n254:0 11\n", 10, False),
        ("", 10, False),
        ("", 0, True),
        ("8:0 50\n", 0, True),
        ("259:0 10\n", 0, False),
        ("259:0\n", 10, False),
    ],
)
def test_in_force_if_every_device_has_the_value(content: str, percent: int, result: bool) -> None:
    assert fixed_share.in_force(content, ["259:0", "254:0"], percent) is result


def test_without_a_device_only_off_is_in_force() -> None:
    assert not fixed_share.in_force("259:0 10\n", [], 10)
    assert fixed_share.in_force("259:0 10\n", [], 0)


def test_no_requests_give_no_usage() -> None:
    assert (
        usage([], 3.0)
        == usage([Counters()], 3.0)
        == usage([Counters(5, 0, 9, 9)], 0.0)
        == Usage(-1.0, -1.0, False)
    )


@pytest.mark.parametrize(
    ("done", "used", "behind"),
    [
        # one request at a time, without pauses, on time
        (Counters(30, 1, 3_000_000, 3_000_000), 1.0, False),
        # the same, but each request takes 12 % longer than it should
        (Counters(27, 20, 2_680_000, 3_000_000), 0.893, True),
        # many requests are late, but the requests after them are early
        (Counters(30, 15, 2_970_000, 3_000_000), 0.99, False),
        # eight requests at once: each waits for the earlier ones, which is the app's own choice
        (Counters(30, 1, 3_000_000, 24_000_000), 1.0, False),
        # eight requests at once, and the device delivers half of the fixed share
        (Counters(15, 14, 1_500_000, 24_000_000), 0.5, True),
        # an app with few requests
        (Counters(3, 0, 300_000, 300_000), 0.1, False),
        # bursts of four requests
        (Counters(4, 0, 400_000, 1_000_000), 0.133, False),
        # a request that began before the window
        (Counters(1, 0, 9_000_000, 9_000_000), 1.0, False),
    ],
)
def test_usage_of_one_device(done: Counters, used: float, behind: bool) -> None:
    found = usage([done], 3.0)
    assert found.used == pytest.approx(used, abs=0.001)
    assert found.late == pytest.approx(done.late / done.ios)
    assert found.behind is behind


def test_usage_is_of_the_busiest_device_and_behind_is_of_any() -> None:
    found = usage([Counters(30, 0, 3_000_000, 3_000_000), Counters(4, 4, 100_000, 400_000)], 3.0)
    assert (found.used, found.late, found.behind) == (1.0, 0.0, True)


# a queue depth above 1 increases only the actual times
@given(
    used=st.floats(0.01, 1.0),
    accuracy=st.floats(1.0, 4.0),
    at_once=st.integers(1, 64),
    late=st.floats(0.11, 1.0),
)
def test_behind_depends_on_the_delivered_part_and_not_on_the_queue_depth(
    used: float, accuracy: float, at_once: int, late: float
) -> None:
    """The app always has requests for 3 s, and the device delivers 1/accuracy of the fixed share."""
    ideal = int(3e6 / accuracy)
    found = usage([Counters(1000, int(1000 * late), ideal, 3_000_000 * at_once)], 3.0)
    if abs(accuracy - fixed_share.SLOW) > 0.001:
        assert found.behind is (accuracy > fixed_share.SLOW)
    # If the app pauses and has one request at a time, the sums of ideal and actual times shrink alike.
    found = usage([Counters(1000, int(1000 * late), int(ideal * used), int(3e6 * used))], 3.0)
    if abs(accuracy - fixed_share.SLOW) > 0.001:
        assert found.behind is (accuracy > fixed_share.SLOW)
