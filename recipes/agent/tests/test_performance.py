# SPDX-License-Identifier: Apache-2.0
"""What is a performance, when it is in force, and what the counters say of it."""

import pytest
from evenkeel_agent import performance
from evenkeel_agent.performance import Regulated, Use, use
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize("value", [-1, 101, 1 << 32, 1 << 64, True, 10.0, "10", None, [10]])
def test_what_is_no_performance(value: object) -> None:
    assert "a whole number of percent from 1 to 100, or 0 for none" in str(performance.problem(value))


def test_a_number_too_long_to_print_is_none_either() -> None:
    assert "a far larger number" in str(performance.problem(10**5000))


@pytest.mark.parametrize("value", [0, 1, 10, 100])
def test_what_is_one(value: int) -> None:
    assert performance.problem(value) is None


@pytest.mark.parametrize(
    ("text", "percent"),
    [("10", 10), ("10%", 10), ("10 %", 10), ("010", 10), ("100%", 100), ("101", 101), ("off", 0)],
)
def test_text_that_is_one(text: str, percent: int) -> None:
    assert performance.from_text(text) == percent


@pytest.mark.parametrize(
    "text", ["", "%", "x", "-1", "+1", "1.5%", " 10", "10%%", "1_0", "٣", "0", "0%", "000", "Off", "9" * 5000]
)
def test_text_that_is_none(text: str) -> None:
    assert performance.from_text(text) is None


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
def test_in_force_is_what_every_device_reads_back(content: str, percent: int, result: bool) -> None:
    assert performance.in_force(content, ["259:0", "254:0"], percent) is result


def test_without_a_device_nothing_is_regulated() -> None:
    assert not performance.in_force("259:0 10\n", [], 10)
    assert performance.in_force("259:0 10\n", [], 0)


def test_nothing_done_is_nothing_known() -> None:
    assert (
        use([], 3.0) == use([Regulated()], 3.0) == use([Regulated(5, 0, 9, 9)], 0.0) == Use(-1.0, -1.0, False)
    )


@pytest.mark.parametrize(
    ("done", "used", "behind"),
    [
        # one at a time, all the time, on time
        (Regulated(30, 1, 3_000_000, 3_000_000), 1.0, False),
        # the same, but each takes 12 % longer than it should
        (Regulated(27, 20, 2_680_000, 3_000_000), 0.893, True),
        # many are late, yet what one is late the next makes up for
        (Regulated(30, 15, 2_970_000, 3_000_000), 0.99, False),
        # eight at once: each waits for those before it, and that is the app's own doing
        (Regulated(30, 1, 3_000_000, 24_000_000), 1.0, False),
        # and eight at once that get half of what they should
        (Regulated(15, 14, 1_500_000, 24_000_000), 0.5, True),
        # an app that asks for little
        (Regulated(3, 0, 300_000, 300_000), 0.1, False),
        # in bursts of four
        (Regulated(4, 0, 400_000, 1_000_000), 0.133, False),
        # a request that began before the window
        (Regulated(1, 0, 9_000_000, 9_000_000), 1.0, False),
    ],
)
def test_what_the_counters_say(done: Regulated, used: float, behind: bool) -> None:
    found = use([done], 3.0)
    assert found.used == pytest.approx(used, abs=0.001)
    assert found.late == pytest.approx(done.late / done.ios)
    assert found.behind is behind


def test_the_device_that_does_most_counts_and_the_one_that_is_behind() -> None:
    found = use([Regulated(30, 0, 3_000_000, 3_000_000), Regulated(4, 4, 100_000, 400_000)], 3.0)
    assert (found.used, found.late, found.behind) == (1.0, 0.0, True)


# what one at a time and an idle app's counters can be; more at once only adds to `actual`
@given(
    used=st.floats(0.01, 1.0),
    accuracy=st.floats(1.0, 4.0),
    at_once=st.integers(1, 64),
    late=st.floats(0.11, 1.0),
)
def test_an_app_that_always_asks_is_behind_when_it_is_slow(
    used: float, accuracy: float, at_once: int, late: float
) -> None:
    """Backlogged for 3 s: it is served 1/accuracy of what it should be, however much it has outstanding."""
    ideal = int(3e6 / accuracy)
    found = use([Regulated(1000, int(1000 * late), ideal, 3_000_000 * at_once)], 3.0)
    if abs(accuracy - performance.SLOW) > 0.001:
        assert found.behind is (accuracy > performance.SLOW)
    # with pauses, one at a time: both shrink alike
    found = use([Regulated(1000, int(1000 * late), int(ideal * used), int(3e6 * used))], 3.0)
    if abs(accuracy - performance.SLOW) > 0.001:
        assert found.behind is (accuracy > performance.SLOW)
