# SPDX-License-Identifier: Apache-2.0
"""What is counted of a power cut and of a set."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.experiments import recorder
from lab.model import Output


def cut(*, started: int = 1000, at: int = 3000, restart: int = 70, last: int = 2950, **found: int) -> str:
    """One line of the guest's report; times in ms."""
    report = {"wrong": 0, "missing": 0, "damage": 0, "torn": 0, "last_monotonic_ns": last * 1000000, **found}
    return f"tear {started} {at} {restart} {json.dumps(report)}"


def figures(*lines: str) -> dict[str, float]:
    every = [*lines, *[cut()] * (recorder.CUTS - len(lines))]
    return {f.metric: f.value for f in recorder.cut_figures(Output({"cuts": "\n".join(every)}))}


def test_cuts_that_lose_nothing_old() -> None:
    found = figures(cut(last=2801), cut(torn=1), cut(restart=90))
    assert found == {
        "cuts": recorder.CUTS,
        "in-part": 1,
        "lost_old": 0,
        "torn": 0,
        "lost_ms": 199,
        "restart_ms": 90,
    }


def test_what_was_older_than_the_window_counts() -> None:
    assert figures(cut(last=2799))["lost_old"] == 1
    assert figures(cut(missing=1))["lost_old"] == 1


def test_a_run_of_which_nothing_is_there_lost_what_it_had() -> None:
    """What is there then is of the run before."""
    assert figures(cut(started=2900, last=900))["lost_ms"] == 100
    assert figures(cut(started=2700, last=900))["lost_old"] == 1


@pytest.mark.parametrize("what", ["wrong", "damage"])
def test_what_is_torn_and_taken_counts(what: str) -> None:
    assert figures(cut(**{what: 2}))["torn"] == 2


def test_a_cut_that_is_not_there_is_no_success() -> None:
    with pytest.raises(ValueError, match="cuts, not"):
        recorder.cut_figures(Output({"cuts": cut()}))


def test_a_set_that_was_cut_short_is_none() -> None:
    case = recorder.CASES["quiet"]
    writer = {"writes": case.writes - 1, "sets": case.sets, "durable": {}}
    with pytest.raises(ValueError, match="not the report"):
        recorder.figures(case, Output({"writer": json.dumps(writer)}))
