# SPDX-License-Identifier: Apache-2.0
"""What the service answers from RAM."""

from evenkeel_history.live import Live, Request
from evenkeel_history.period import Sum

START = 1_800_000_000


def filled() -> Live:
    """Two complete minutes, and one that is running."""
    live = Live()
    for at in (START + 1, START + 61, START + 121):
        live.add(at, Sum(ms=1000))
    return live


def starts(before: int | None) -> list[int]:
    return [start for start, _ in filled().answer(Request(0, before=before)).minutes]


def test_an_answer_has_only_minutes_that_start_before_the_time() -> None:
    everything = [START, START + 60, START + 120]
    assert starts(None) == everything
    assert starts(START + 121) == everything
    assert starts(START + 120) == everything[:2], "not the minute that is running"
    assert starts(START + 60) == everything[:1]
    assert starts(START) == []


def test_two_hours_are_kept_by_seconds() -> None:
    live = Live()
    end = START + 2 * 3600 + 60
    for at in range(START, end):
        live.add(at, Sum(ms=1000))
    assert [at for at, _ in live.answer(Request(0, (START + 60, end))).seconds] == list(
        range(START + 60, end)
    )
    assert live.answer(Request(0, (START + 59, end))).seconds == [], (
        "the first minute is not in RAM by seconds"
    )


def test_minutes_of_a_damaged_database_are_not_in_the_log_any_more() -> None:
    """The log begins again after each save, so it has only the minutes that were not saved."""
    live = Live()
    for minute in range(6):
        live.add(START + 60 * minute, Sum(ms=1000))
        if minute in {2, 4}:
            live.logged(2)
        if minute == 2:
            live.saved(2)
    assert [start for start, _ in live.unlogged()] == [START + 240]
    live.replaced()
    assert [start for start, _ in live.unlogged()] == [START, START + 60, START + 240]
