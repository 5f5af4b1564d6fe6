# SPDX-License-Identifier: Apache-2.0
"""The runner: jobs with the same guest share one boot, reports are cached. These tests boot no guest."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import kernels, qemu, runner
from lab.model import Experiment, Figure, LabError, Output
from lab.runner import Job, Lab, Result, run_all


@dataclass
class Guests:
    """Replaces QEMU. Each boot lasts until `release` is set. Its report has the number of boots so far."""

    booted: list[str] = field(default_factory=list)
    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    release: threading.Event = field(default_factory=threading.Event)
    fail: bool = False

    def run(self, machine: qemu.Machine, image: Path, workdir: Path, name: str, append: str = "") -> Output:
        assert image.is_file()
        self.booted.append(name)
        boots = len(self.booted)
        self.arrived.release()
        assert self.release.wait(20)
        if self.fail:
            raise LabError(f"{name}: no end")
        return Output({"boot": str(boots)})


@pytest.fixture
def guests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Guests:
    found = Guests()
    (tmp_path / "bzImage").write_text("kernel")
    kernel = kernels.Kernel("6.12", tmp_path)
    monkeypatch.setattr(kernels, "find", lambda *_: kernel)
    monkeypatch.setattr(qemu, "version", lambda: "an emulator")
    monkeypatch.setattr(qemu, "run", found.run)

    def archive(lab: Lab, job: Job, kernel: object, scheduler: object, image: Path, more: object) -> None:
        image.parent.mkdir(parents=True, exist_ok=True)
        image.write_text(f"{job.experiment.script} {job.scheduler}")

    monkeypatch.setattr(runner, "_archive", archive)
    return found


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(workdir=tmp_path / "work", cache=tmp_path / "cache")


def job(name: str, script: str = ":", **more: object) -> Job:
    def figures(out: Output) -> list[Figure]:
        return [Figure(name, float(out.results["boot"]))]

    return Job(Experiment(name, "", script, figures, **more), "6.12", "none")  # type: ignore[arg-type]


def both(
    lab: Lab, guests: Guests, monkeypatch: pytest.MonkeyPatch, jobs: list[Job], boots: int
) -> dict[str, Result | LabError]:
    """Run the jobs at the same time. Guests end when `boots` guests have booted and each job has asked for its guest."""
    asked = threading.Semaphore(0)
    shared = runner._shared

    def counted(*args: object) -> Result:
        asked.release()
        return shared(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(runner, "_shared", counted)

    def end() -> None:
        for _ in range(boots):
            guests.arrived.acquire(timeout=20)
        for _ in jobs:
            asked.acquire(timeout=20)
        # A job is counted before it looks for a running guest, so give it time to find the guest.
        threading.Event().wait(0.1)
        guests.release.set()

    outcomes: dict[str, Result | LabError] = {}
    ending = threading.Thread(target=end)
    ending.start()
    run_all(lab, jobs, lambda j, o: outcomes.update({j.experiment.name: o}), len(jobs))
    ending.join()
    assert runner._running == {}
    assert not list(lab.workdir.glob("*.cpio"))
    return outcomes


@pytest.mark.parametrize("fresh", [False, True])
def test_jobs_with_the_same_guest_share_one_boot(
    lab: Lab, guests: Guests, monkeypatch: pytest.MonkeyPatch, fresh: bool
) -> None:
    jobs = [job(n) for n in ("cost", "scale", "third")]
    got = both(replace(lab, fresh=fresh), guests, monkeypatch, jobs, 1)
    results = [o for o in got.values() if isinstance(o, Result)]
    assert len(guests.booted) == 1
    assert sorted(r.cached for r in results) == [False, True, True]
    # Each job computes its own figures from the shared report.
    assert {f.metric: f.value for r in results for f in r.figures()} == {"cost": 1, "scale": 1, "third": 1}
    assert len(list(lab.cache.iterdir())) == 1


def test_jobs_with_different_inputs_share_no_boot(
    lab: Lab, guests: Guests, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [job("one"), job("script", "true"), job("cpus", cpus=2), job("append", append="quiet")]
    both(lab, guests, monkeypatch, jobs, 4)
    assert sorted(guests.booted) == sorted(j.name for j in jobs)
    assert len(list(lab.cache.iterdir())) == 4


def test_a_guest_that_failed_is_not_booted_again_for_other_jobs(
    lab: Lab, guests: Guests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, if the user interrupted the lab, the next job would boot a guest and the lab would not end."""
    guests.fail = True
    got = both(lab, guests, monkeypatch, [job("cost"), job("scale")], 1)
    (first,) = guests.booted
    other = next(n for n in ("cost-6.12-none", "scale-6.12-none") if n != first)
    assert {str(o) for o in got.values()} == {
        f"{first}: no end",
        f"{other}, the same guest as {first}: no end",
    }
    assert not lab.cache.exists()


def test_the_guests_with_the_longest_timeout_start_first(lab: Lab, guests: Guests) -> None:
    guests.release.set()
    jobs = [
        job("short", "1"),
        job("long", "2", timeout=900),
        job("longer", "3", timeout=1800),
        job("last", "4"),
    ]
    results = run_all(lab, jobs, lambda j, o: None, 1)
    assert guests.booted == [j.name for j in (jobs[2], jobs[1], jobs[0], jobs[3])]
    assert [r.job for r in results] == jobs


def test_a_cached_report_is_used_unless_it_is_damaged_or_fresh_is_set(lab: Lab, guests: Guests) -> None:
    guests.release.set()
    assert [runner.run(lab, job(n)).cached for n in ("cost", "scale")] == [False, True]
    assert runner.run(replace(lab, fresh=True), job("scale")).output.results == {"boot": "2"}
    assert runner.run(lab, job("cost")).output.results == {"boot": "2"}
    (kept,) = lab.cache.iterdir()
    for boots, damaged in enumerate(("{", "", "[]", '{"results": {}, "seconds": 1}', '{"results": 1}'), 3):
        kept.write_text(damaged)
        assert not runner.run(lab, job("cost")).cached, damaged
        assert len(guests.booted) == boots


def test_an_unreadable_report_names_experiment_and_log_and_is_not_cached(lab: Lab, guests: Guests) -> None:
    guests.release.set()

    def figures(_: Output) -> list[Figure]:
        raise LabError("no group was served")

    silent = replace(job("fair.mine"), experiment=Experiment("fair.mine", "", ":", figures))
    with pytest.raises(LabError) as caught:
        runner.run(lab, silent)
    assert str(caught.value) == (
        f"fair.mine-6.12-none: no group was served; see {lab.workdir}/fair.mine-6.12-none.serial.log"
    )
    assert not lab.cache.exists()


def test_a_cached_report_keeps_the_time_at_which_it_was_measured(lab: Lab, guests: Guests) -> None:
    guests.release.set()
    begin = runner.utc(time.time())
    first = runner.run(lab, job("cost"))
    assert first.measured is not None
    assert begin <= first.measured <= runner.utc(time.time())
    (kept,) = lab.cache.iterdir()
    report = json.loads(kept.read_text())
    kept.write_text(json.dumps({**report, "measured": "2026-01-02T03:04:05Z"}))
    assert runner.run(lab, job("cost")).measured == "2026-01-02T03:04:05Z"
    # An older report lacks the field. Then the file's time is used.
    del report["measured"]
    kept.write_text(json.dumps(report))
    os.utime(kept, (86400, 86400))
    assert runner.run(lab, job("scale")).measured == "1970-01-02T00:00:00Z"


RACE = """[   12.0] ==================================================================
[   12.0] BUG: KCSAN: data-race in blk_mq_get_tag / {there}{module}
[   12.0]
[   12.0] write to 0xffff88800 of 4 bytes by task 7 on cpu 1:
[   12.0]  {there}+0x33/0x90{module}
[   12.0]  ek_completed_request+0x33/0x90 [evenkeel]
[   12.0] ==================================================================
"""


@pytest.mark.parametrize(
    ("log", "first"),
    [
        ("[ 1.0] all is well\n", None),
        ("[ 1.0] x\n[ 1.1] WARNING: CPU: 0 PID: 1 at block/blk-mq.c:1\nmore\n", "[ 1.1] WARNING: CPU: 0 PID: 1 at"),
        (RACE.format(there="sbitmap_get", module=""), None),
        (RACE.format(there="ek_next", module=" [evenkeel]"), "[   12.0] BUG: KCSAN: data-race in blk_mq_get_tag / ek_next"),
        (RACE.format(there="a", module="") + "[ 13.0] BUG: KASAN: slab\n", "[ 13.0] BUG: KASAN: slab"),
    ],
)  # fmt: skip
def test_defects_are_found_and_races_only_if_our_modules_take_part(log: str, first: str | None) -> None:
    found = qemu.complaint(log)
    assert found == first if first is None else found is not None and found.startswith(first)
