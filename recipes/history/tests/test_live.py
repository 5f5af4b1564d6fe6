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
