# SPDX-License-Identifier: Apache-2.0
"""The exit status and the verdicts of `lab run`. These tests boot no guest."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import lab.__main__ as cli
from lab import targets
from lab.model import Experiment, Figure, LabError, Output
from lab.runner import Job, Lab, Result


def figures(out: Output) -> list[Figure]:
    ratio = float(out.results["ratio"])
    return [Figure("ratio", ratio), Figure("hoped", ratio)]


TARGETS = targets.read("""
[[target]]
experiment = "fair.mine"
figure = "ratio"
bound = "1.9 .. 2.1"
kind = "promise"
why = "for tests"
[[target]]
experiment = "fair.mine"
figure = "hoped"
bound = "1.9 .. 2.1"
kind = "aim"
why = "for tests"
""")


MINE = Experiment("fair.mine", "for tests", ":", figures)


def ended(
    monkeypatch: pytest.MonkeyPatch, ratios: dict[str, float], *options: str, kernel: str = "6.12.9"
) -> int:
    def run_all(
        _: Lab,
        jobs: Sequence[Job],
        done: Callable[[Job, Result | LabError], None],
        parallel: int | None = None,
    ) -> list[Result]:
        for job in jobs:
            report = {"ratio": str(ratios[job.scheduler]), "kernel": kernel}
            done(job, Result(job, Output(report), 1.0, False))
        return []

    monkeypatch.setattr(cli, "run_all", run_all)
    monkeypatch.setattr(cli.experiments, "load", lambda: {MINE.name: MINE})
    monkeypatch.setattr(cli.targets, "load", lambda: TARGETS)
    monkeypatch.setattr(sys, "argv", ["lab", "run", MINE.name, *options])
    return cli.main()


@pytest.mark.parametrize(("ratio", "code"), [(2.0, 0), (1.5, 1)])
def test_run_fails_if_a_promise_is_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ratio: float, code: int
) -> None:
    assert ended(monkeypatch, {"evenkeel": ratio}) == code
    printed = capsys.readouterr().out
    # one promise and one other target: both are missed, or both are met
    assert printed.count("MISSED") == code
    assert printed.count("open") == code


def test_baselines_have_no_verdicts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    baselines = ("--scheduler", "evenkeel", "--scheduler", "bfq")
    assert ended(monkeypatch, {"evenkeel": 2.0, "bfq": 1.1}, *baselines) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert [(line[2], line[-1]) for line in lines] == [*[("evenkeel", "ok")] * 2, *[("bfq", "1.1")] * 2]


def test_run_fails_if_the_guest_had_another_kernel(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(monkeypatch, {"evenkeel": 2.0}, kernel="6.1.9") == 1
    assert capsys.readouterr().err.startswith(
        "lab: fair.mine-6.12-evenkeel: kernel 6.12 was asked for, but the guest ran 6.1.9"
    )
