# SPDX-License-Identifier: Apache-2.0
"""Promises: what follows from a case (shares, script, figures), and that draws are sound and repeat."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import experiments, promise
from lab.experiments import promise as table
from lab.model import LabError, Output, flashsim
from lab.promise import Case, Job, shares

DEVICE = flashsim("emmc51")
TWO = Case("two", DEVICE, (Job("r", "randread", "4k", 8, 300), Job("w", "write", "100m", 4)), light=False)


def counts(time: float, *mb: float) -> str:
    """A report of the device's counters at `time`: `mb` has the MB that were read so far in each slice."""
    slices = [*mb, *[0] * (8 - len(mb))]
    return "\n".join([str(time), "slice", *(f"{i} 0 {int(n * 1e6)} 0 0 0 0" for i, n in enumerate(slices))])


def terse(name: str, wait: float, *, writes: bool = False, error: int = 0) -> str:
    words = ["0"] * 130
    words[0], words[2], words[4] = "3", name, str(error)
    words[79 if writes else 38] = str(wait * 1e6)
    return ";".join(words)


def report(
    r: float,
    w: float,
    *,
    alone: tuple[float, float, float] = (40, 120, 120),
    waits: tuple[float, float] = (0.1, 1.0),
) -> Output:
    """A guest's report. Together, the jobs r and w get `r` and `w` MB/s in a window of 10 s.

    `alone`: MB/s of r alone, of w alone before the window, and of w alone after it. `waits`: their longest waits in s.
    """
    sections = {"begin": counts(5, 0, 0), "end_": counts(15, 10 * r, 10 * w)}
    for name, slice_, rate in (
        ("before.r", 0, alone[0]),
        ("before.w", 1, alone[1]),
        ("after.w", 1, alone[2]),
    ):
        sections[f"{name}.begin"] = counts(0, 0, 0)
        sections[f"{name}.end"] = counts(4, *([4 * rate] if slice_ == 0 else [0, 4 * rate]))
    sections["jobs"] = "fio: a warning\n" + "\n".join(
        [terse("r", waits[0]), terse("w", waits[1], writes=True)]
    )
    return Output(sections)


def values(case: Case, out: Output) -> dict[str, float]:
    return {f.metric: f.value for f in promise.figures(case, out)}


def test_exact_shares_are_one() -> None:
    found = values(TWO, report(30, 30))
    assert found["least"] == 1
    assert (found["sum"], found["part-r"], found["part-w"], found["total"]) == (100, 75, 25, 60)


def test_the_least_group_counts() -> None:
    """The reader has three quarters of the weight and gets half of what it gets alone."""
    found = values(TWO, report(20, 60))
    assert (found["least"], found["sum"]) == (0.667, 100)
    assert values(TWO, report(0, 120))["least"] == 0


def test_a_device_that_changes_is_measured_before_and_after() -> None:
    found = values(TWO, report(30, 30, alone=(40, 160, 80)))
    assert (found["least"], found["drift"]) == (1, 100)


@pytest.mark.parametrize(
    ("waits", "ratio"),
    [
        # 8 x 4 KiB at 30 MB/s take a millisecond, so the limit is 2 s
        ((1.0, 1.0), 0.5),
        # 400 MiB at 30 MB/s take 14 s, so the limit is 21 s
        ((1.0, 42.0), 2.003),
    ],
)
def test_a_wait_is_compared_with_what_the_weight_implies(waits: tuple[float, float], ratio: float) -> None:
    found = values(TWO, report(30, 30, waits=waits))
    assert (found["wait"], found["wait-s"]) == (pytest.approx(ratio, abs=2e-3), max(waits))


def test_failed_jobs_and_empty_windows_are_errors() -> None:
    with pytest.raises(LabError, match="no group was served"):
        values(TWO, report(0, 0))
    with pytest.raises(ValueError, match="w alone was not served"):
        values(TWO, report(1, 1, alone=(40, 120, 0)))
    out = report(30, 30)
    with pytest.raises(ValueError, match="w ended with error 5"):
        values(TWO, Output({**out.results, "jobs": terse("w", 1, error=5)}))
    with pytest.raises(ValueError, match="reports are of w"):
        values(TWO, Output({**out.results, "jobs": terse("w", 1)}))


@pytest.mark.parametrize(
    ("groups", "leaves", "wanted"),
    [
        ({"a": 200, "b": 100}, ["a", "b"], [2 / 3, 1 / 3]),
        ({"x": 300, "x/a": 200, "x/b": 100, "c": 100}, ["x/a", "x/b", "c"], [1 / 2, 1 / 4, 1 / 4]),
        # a group without a load takes no share
        ({"x": 300, "x/a": 200, "x/b": 100, "c": 100}, ["x/a", "c"], [3 / 4, 1 / 4]),
        ({"x": 1, "x/y": 7, "x/y/a": 3, "x/y/b": 1}, ["x/y/a", "x/y/b"], [3 / 4, 1 / 4]),
    ],
)
def test_shares_multiply_down_the_tree(
    groups: dict[str, int], leaves: list[str], wanted: list[float]
) -> None:
    assert list(shares(groups, leaves).values()) == pytest.approx(wanted)


ALL = [*table.CASES, *(table.drawn(n) for n in range(1, 60))]


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_a_case_is_sound(case: Case) -> None:
    """The shell accepts the case's script, the jobs fit into slices and memory, and no name is used twice."""
    text = promise.script(case)
    subprocess.run(["sh", "-n"], input=text, text=True, check=True)
    names = [name for job in case.jobs for name in job.names()]
    assert len(set(names)) == len(names) >= 2
    assert not {"reader", "one", "fill"} & set(names)
    # one slice more for the light reader
    assert len(names) < case.parts
    part = case.device.capacity_mb // case.parts
    for job in case.jobs:
        assert job.size <= part << 20
        assert 1 <= job.weight <= 1000, "the largest weight of BFQ"
        assert job.qd * job.size <= table.OUTSTANDING or job.qd == 1
    # at most one buffered job, because the device's page cache must belong to one job alone: it is counted by slice
    assert sum(job.buffered for job in case.jobs) <= 1
    assert sum(
        shares(case.groups(), [j.group(n) for j in case.jobs for n in j.names()]).values()
    ) == pytest.approx(1)


def test_draws_repeat_and_differ() -> None:
    assert table.drawn(7) == table.drawn(7)
    assert len({str(table.drawn(n)) for n in range(1, 50)}) == 49


def test_any_draw_can_be_named() -> None:
    known = experiments.load()
    (found,) = experiments.matching(known, ["promise.random.4711"])
    assert found.name == "promise.random.4711"
    assert "promise.random.4711" not in known
    with pytest.raises(LabError, match="no experiment matches"):
        experiments.matching(known, ["promise.random.x"])


def test_the_rows_that_the_promise_was_stated_with_are_first() -> None:
    about = [case.about() for case in table.CASES[: table.ALWAYS]]
    assert about == [
        "random reads 4 KiB QD8 : reads 100 MiB QD4, weights 100:100, emmc50-slow",
        "random reads 4 KiB QD8 : reads 1 MiB QD2, weights 100:100, sd-uhs3",
        "random reads 16 KiB QD4 : writes 512 KiB QD8, weights 100:100, emmc50-slow",
        "random reads 16 KiB QD8 : reads 4 MiB QD2 : writes 1 MiB QD4, weights 300:200:100, emmc51",
        "random reads 4 KiB QD32 : writes 100 MiB QD4, weights 100:100, emmc51",
        "reads 512 KiB QD1 : reads 512 KiB QD1, weights 600:60x10, pipe link_read_mbps=10",
        "random reads 128 KiB QD128 : random reads 128 KiB QD128, weights 100:100,"
        " null_blk irqmode=2 completion_nsec=20000000 hw_queue_depth=256",
        "random reads 128 KiB QD128 : random reads 128 KiB QD128, weights 100:100,"
        " null_blk irqmode=2 completion_nsec=5000000 hw_queue_depth=256",
    ]


def test_the_table_covers_what_it_says() -> None:
    jobs = [job for case in table.CASES for job in case.jobs]
    presets = {case.device.about.split()[0] for case in table.CASES}
    assert set(table.PRESETS) < presets
    assert {min(j.size for j in jobs), max(j.size for j in jobs)} == {4 << 10, 100 << 20}
    assert {j.writes for j in jobs} == {j.buffered for j in jobs} == {j.dsync for j in jobs} == {False, True}
    assert (min(j.qd for j in jobs), max(j.qd for j in jobs)) == (1, 128)
    assert max(len(case.groups()) for case in table.CASES) == 61
    assert any(case.inner for case in table.CASES)
