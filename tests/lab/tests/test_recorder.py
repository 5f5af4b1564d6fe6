# SPDX-License-Identifier: Apache-2.0
"""The figures of power cuts, of sets of submissions and of a restart."""

from __future__ import annotations

import json
import re
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


def test_cuts_may_lose_what_is_within_the_window() -> None:
    found = figures(cut(last=2801), cut(torn=1), cut(restart=90))
    assert found == {
        "cuts": recorder.CUTS,
        "in-part": 1,
        "lost_old": 0,
        "torn": 0,
        "lost_ms": 199,
        "restart_ms": 90,
    }


def test_a_cut_that_loses_older_records_counts() -> None:
    assert figures(cut(last=2799))["lost_old"] == 1
    assert figures(cut(missing=1))["lost_old"] == 1


def test_a_run_without_any_record_lost_everything_since_its_start() -> None:
    """In that case the last record on the device is from an earlier run."""
    assert figures(cut(started=2900, last=900))["lost_ms"] == 100
    assert figures(cut(started=2700, last=900))["lost_old"] == 1


@pytest.mark.parametrize("what", ["wrong", "damage"])
def test_wrong_and_damaged_records_count(what: str) -> None:
    assert figures(cut(**{what: 2}))["torn"] == 2


def test_missing_cuts_are_an_error() -> None:
    with pytest.raises(ValueError, match="cuts, not"):
        recorder.cut_figures(Output({"cuts": cut()}))


def report(case: recorder.Case, **more: object) -> str:
    took = dict.fromkeys(("min_us", "avg_us", "p25_us", "p50_us", "p75_us", "p9999_us", "max_us"), 2.0)
    durable = {"late": 0, "lost": 0, "max_us": 600}
    counts = {"writes": case.writes, "sets": case.sets}
    return json.dumps({**counts, "late": 0, "lost": 0, "durable": durable, **took, **more})


@pytest.mark.parametrize("section", ["writer", "quiet"])
def test_an_incomplete_set_is_an_error(section: str) -> None:
    """This holds for the section `quiet`, too, because only maxima of equal numbers of submissions are comparable."""
    case = recorder.CASES["bgall"]
    for less in ({"writes": case.writes - 1}, {"sets": case.sets + 1}, {"durable": None}):
        out = {"writer": report(case), "quiet": report(case), section: report(case, **less)}
        with pytest.raises(ValueError, match=f"section {section} is not the report"):
            recorder.figures(case, Output(out))


def test_the_reference_is_the_longest_submission_before_the_disturbers_start() -> None:
    case = recorder.CASES["bgall"]
    out = Output({"writer": report(case, max_us=9.0, p9999_us=4.0), "quiet": report(case, max_us=5.0)})
    found = {f.metric: f for f in recorder.figures(case, out)}
    assert (found["max"].value, found["max"].target) == (9.0, 7.5)
    assert (found["times-quiet"].value, found["times-quiet"].target) == (1.8, recorder.TIMES_QUIET)
    assert (found["p9999"].value, found["quiet-p9999"].value) == (4.0, 2.0)
    with pytest.raises(KeyError):
        recorder.figures(case, Output({"writer": report(case)}))


def test_quiet_and_loaded_phases_have_the_same_submissions() -> None:
    for name, case in recorder.CASES.items():
        submitted = re.findall(r"^bench (\w+) (.*)$", recorder.script(case), re.MULTILINE)
        phases = ["quiet", "writer"] if case.disturbers else ["writer"]
        assert [phase for phase, _ in submitted] == phases, name
        assert len({options for _, options in submitted}) == 1, name
        assert case.writes >= 10_000, f"{name}: a set without a 99.99th percentile"


def test_the_recorder_is_measured_on_the_scheduler_of_the_board() -> None:
    """With a group for the recorder and another one for what disturbs it."""
    for e in recorder.EXPERIMENTS:
        assert e.subject == "evenkeel", e.name
        assert "echo $$ > /cg/recorder/cgroup.procs && exec ek-recorder run" in e.script, e.name
    for e in recorder.EXPERIMENTS:
        if "ek-disturb" in e.programs:
            assert "echo $$ > /cg/load/cgroup.procs && exec ek-disturb" in e.script, e.name


def test_a_day_is_recorded_at_a_sixteenth() -> None:
    out = Output(
        {"writer": report(recorder.Case(writes=recorder.HOURS_WRITES)), "run": "900\n10\n900\n16890"}
    )
    found = {f.metric: f.value for f in recorder.hours_figures(out)}
    assert (found["of-a-day"], found["segments"], found["grown"]) == (6.25, 16880, 0)


def test_a_restart_has_its_time_and_what_it_read() -> None:
    found = {f.metric: f.value for f in recorder.restart_figures(Output({"restart": "640 131072"}))}
    assert found == {"restart_ms": 640, "read": 64}
