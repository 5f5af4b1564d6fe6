# SPDX-License-Identifier: Apache-2.0
"""Whole runs on the fake board: the report, the budget, cancel, faults, and what is left behind."""

import contextlib
import errno
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_board as board
import pytest
from evenkeel_api.features.cache import Cache
from evenkeel_api.messages import Message
from evenkeel_validate import cases, fio, lock, measure, plan, report, runs, session, undo
from evenkeel_validate.cases import MB, Case, Job
from evenkeel_validate.errors import ValidateError
from evenkeel_validate.plan import Profile
from evenkeel_validate.runs import Places
from evenkeel_validate.session import Request, Session
from evenkeel_validate.target import Target
from fake_pool import Pool
from sample import sample


def few() -> list[Case]:
    """A case of each kind that needs fio alone, all of them short."""
    read, write = Job("job", "read", "1m"), Job("job", "write", "1m")
    a, b = Job("a", "read", "1m", 1, 200), Job("b", "read", "1m", 1, 100)
    short: Mapping[str, Any] = {"settle": 0.2, "seconds": 0.3}
    return [
        Case("device.sequential-read.1m.qd1", "limit", "reads", (read,), **short),
        Case("device.sequential-write.1m.qd1", "limit", "writes", (write,), settle=0, seconds=3, written=8 * MB),
        Case("latency.alone", "latency", "a light reader", (cases.READER,), **short),
        Case("latency.beside.reads", "latency", "beside", (cases.READER, Job("load", "read", "1m")), needs=cases.GROUPS,
             **short),
        Case("fair.read.1m", "ratio", "2:1", (a, b), needs=cases.GROUPS, compared="first", paper={"ratio": 1.96}, **short),
        Case("fair.write.8m", "ratio", "2:1", (replace(a, rw="write"), replace(b, rw="write")), settle=0.5, seconds=9,
             written=20 * MB, needs=cases.GROUPS),
        Case("promise.small-medium", "promise", "unequal", (a, b), needs=cases.GROUPS, **short),
        Case("regulate.30", "fixed", "fixed", (replace(a, fixed=30), b), needs=cases.GROUPS | {"evenkeel"}, **short),
    ]  # fmt: skip


PROFILE = Profile("quick", "for tests", 60, 500 * MB, 64 * MB, few, compares=False)


def places(root: Path) -> Places:
    proc = root / "proc/sys/kernel/random"
    proc.mkdir(parents=True, exist_ok=True)
    (proc / "boot_id").write_text("boot-1\n")
    return Places(root / "sys", root / "proc", root / "state", root / "run", root / "pool")


def make(root: Path, launcher: board.Groups, **more: Any) -> Session:
    target = Target("file", root / "data/.ek-validate/data", board.DISK, board.NUMBER, board.CAPACITY)
    request = Request(more.pop("profile", PROFILE), target, **more)
    return Session(places(root), launcher, request, "1.0", lambda line: None)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    board.make_tree(tmp_path)
    (tmp_path / "data").mkdir()
    return tmp_path


@pytest.fixture
def launcher(root: Path) -> board.Groups:
    return board.Groups(root)


def clean(root: Path, before: Mapping[str, str]) -> None:
    """Asserts that nothing is left of a validation but its report."""
    after = board.values(root / "sys")
    scheduler = after["scheduler"].strip()
    assert scheduler in (board.SCHEDULERS, "evenkeel")
    assert {**after, "scheduler": ""} == {**before, "scheduler": ""}
    assert list((root / "data").iterdir()) == []
    assert not (root / "state/undo.json").exists()
    assert board.alive(root) == []
    assert not (root / "frozen").exists()


def value(found: report.Report, id_: str) -> float:
    return next(row.value for row in found.rows if row.id == id_)


def test_a_run_measures_all_cases_and_restores_everything(root: Path, launcher: board.Groups) -> None:
    before = board.values(root / "sys")
    run = make(root, launcher, schedulers=["bfq"])
    made = run.make_plan()
    found = run.run(made)
    assert (found.state, found.reason, found.skipped, found.not_restored) == ("complete", "", {}, [])
    clean(root, before)
    # the wear is what was announced
    assert found.announced["written"] == made.total == 64 * MB + 28 * MB
    assert found.written == pytest.approx(made.total, rel=0.05)
    # The fake fio moves bytes in proportion to the weights. Its rates depend on a busy host; test_measure.py has exact ones.
    for id_, about in {
        "fair.read.1m.ratio": 2, "fair.write.8m.ratio": 2, "promise.small-medium.least": 1.5, "regulate.30.accuracy": 333,
    }.items():  # fmt: skip
        assert about / 3 < value(found, id_) < about * 3, id_
    assert value(found, "latency.alone.p99") == 200.0
    row = next(r for r in found.rows if r.id == "fair.read.1m.ratio")
    assert (row.subject, row.must, row.paper, row.clock) == ("evenkeel", True, 1.96, "host")
    assert "bfq" in row.baselines
    assert ("a", 200, 30) in launcher.started
    assert report.read(root / "state/runs" / found.id) == found
    assert "fair.read.1m" in (root / "state/runs" / found.id / "report.html").read_text()


def test_a_slow_device_has_no_time_for_the_last_cases(
    root: Path, launcher: board.Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is slower than the plan assumed. The report is complete all the same."""
    names = ("fair.read.1m", "latency.alone")
    profile = replace(PROFILE, cases=lambda: [c for c in few() if c.name in names])
    run = make(root, launcher, profile=profile)
    made = run.make_plan()
    assert sorted(step.case.name for step in made.steps) == list(names)
    rates: list[float] = []

    def estimate(case: cases.Case, kind: str, file: int, rate: float = 0) -> float:
        rates.append(rate)
        return 10**6 if case.name == "latency.alone" else 1

    monkeypatch.setattr(plan, "estimate", estimate)
    found = run.run(made)
    assert found.state == "complete"
    assert found.skipped == {"latency.alone": plan.no_time(made.profile)}
    assert {row.id for row in found.rows} >= {"fair.read.1m.ratio"}
    # as fast as the test file was written
    assert 0 < min(rates) < 1e12


def test_the_second_run_of_a_slow_device_writes_what_it_announces(
    root: Path, launcher: board.Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run can only say "or less": a case ends after its time if the device is too slow for its bytes."""
    (root / "sys/block" / board.DISK / "device/cid").write_text("1\n")
    write = Job("job", "write", "1m")
    slow = Case(
        "device.sequential-write.1m.qd1", "limit", "writes", (write,), settle=0, seconds=4, written=60 * MB
    )
    fast = Case(
        "device.sequential-write.1m.qd4", "limit", "writes", (write,), settle=0, seconds=20, written=8 * MB
    )
    profile = replace(PROFILE, cases=lambda: [slow, fast])
    written = []
    for proven in (False, True):
        run = make(root, launcher, profile=profile)
        made = run.make_plan()
        assert made.proven is proven
        found = run.run(made)
        assert found.skipped == {}
        assert set(found.reached) == {slow.name}
        written.append(found.written / made.total)
    # the fake device writes 10 MB/s
    assert written[0] < 0.85
    assert written[1] == pytest.approx(1, rel=0.05)
    # after a run in which the device was faster, the case gets all its bytes again
    monkeypatch.setitem(board.RATES, "write", 0)
    launcher.rates = {"job": 200e6}
    found = run.run(run.make_plan())
    assert found.reached == {}
    assert run.make_plan().total == 64 * MB + 68 * MB
    # another device knows nothing of this one
    (root / "sys/block" / board.DISK / "device/cid").write_text("2\n")
    assert not run.make_plan().proven


def test_a_slow_device_keeps_time_for_the_comparison(
    root: Path, launcher: board.Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deciding cases on other schedulers were announced, so they run instead of the last cases of the subject."""
    times = {"fair.read.1m": 300.0, "latency.alone": 500.0, "latency.beside.reads": 1.0}
    profile = replace(PROFILE, seconds=1000, cases=lambda: [c for c in few() if c.name in times])
    run = make(root, launcher, profile=profile, schedulers=["bfq", "none"])
    made = run.make_plan()
    monkeypatch.setattr(plan, "estimate", lambda case, *more: times[case.name])
    found = run.run(made)
    assert found.skipped == {"latency.alone": plan.no_time(made.profile)}
    ratio = next(row for row in found.rows if row.id == "fair.read.1m.ratio")
    assert set(ratio.baselines) == {"bfq", "none"}


def test_what_a_case_wrote_counts_even_if_it_fails(root: Path, launcher: board.Groups) -> None:
    only = next(c for c in few() if c.name == "fair.write.8m")
    run = make(root, launcher, profile=replace(PROFILE, cases=lambda: [only]))

    def written() -> int:
        files = [root / "cgroup" / name / "io.stat" for name in ("a", "b")]
        return sum(fio.io_stat(file.read_text(), board.NUMBER)[1] for file in files if file.exists())

    def cancel() -> None:
        while not written():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    run.say = lambda line: threading.Thread(target=cancel).start() if "fair.write" in line else None
    found = run.run(run.make_plan())
    assert (found.state, found.reason) == ("partial", "cancelled")
    moved = written()
    assert 0 < moved == pytest.approx(found.written - 64 * MB, rel=0.2)


def test_fixed_shares_of_apps_come_back(
    root: Path, launcher: board.Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """evenkeel forgets them when another scheduler replaces it, also the one for a load alone."""
    file = root / "sys/fs/cgroup/evenkeel.slice/evenkeel-apps.slice/app.service/io.evenkeel.fixed"
    file.parent.mkdir(parents=True)
    file.write_text(f"8:0 10\n{board.NUMBER} 30\n")
    choose, seen = undo.set_scheduler, []

    def forget(journal: undo.Journal, queue: Path, name: str) -> None:
        choose(journal, queue, name)
        seen.append(file.read_text())
        file.write_text("")

    monkeypatch.setattr(undo, "set_scheduler", forget)
    run = make(
        root,
        launcher,
        schedulers=["bfq"],
        profile=replace(PROFILE, cases=lambda: [c for c in few() if c.compared]),
    )
    found = run.run(run.make_plan())
    assert found.state == "complete"
    assert len(seen) > 0
    assert file.read_text() == f"{board.NUMBER} 30\n"


def test_a_partition_that_is_smaller_than_the_test_file_has_fewer_cases(
    root: Path, launcher: board.Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session.target, "area_bytes", lambda where, size, sys: min(size, 16 * MB))
    run = make(root, launcher, profile=replace(PROFILE, cases=few))
    made = run.make_plan()
    assert made.profile.file == made.prepared == 16 * MB
    assert all("does not fit into its part" in why for why in made.skipped.values())
    assert run.run(made).state == "complete"


def test_a_full_run_folder_does_not_keep_the_settings(
    root: Path, launcher: board.Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = board.values(root / "sys")

    def full(self: Path, text: str) -> int:
        raise OSError(28, "No space left on device")

    run = make(root, launcher, schedulers=["bfq"], profile=replace(PROFILE, cases=lambda: few()[:2]))
    made = run.make_plan()
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", full)
        with contextlib.suppress(OSError):
            run.run(made)
    clean(root, before)


def test_the_budget_ends_the_run(root: Path, launcher: board.Groups) -> None:
    """The plan fits into the budget. If a device wrote more than it was told, the next cases would get nothing."""
    budget = plan.Budget(100 * MB)
    assert budget.limit(60 * MB) == 60 * MB
    budget.spend(60 * MB)
    assert budget.limit(60 * MB) == 40 * MB
    budget.spend(15 * MB)
    assert budget.limit(0) == 0
    with pytest.raises(session.Stopped, match="budget of 105 MB is used up"):
        budget.limit(60 * MB)


def test_a_group_that_writes_stops_at_its_bytes(root: Path, launcher: board.Groups) -> None:
    """Two loads share the bytes of a case, so neither may write them all. The case ends at their sum, within 1 %."""
    only = [c for c in few() if c.name == "fair.write.8m"]
    big = replace(only[0], written=50 * MB, seconds=20)
    profile = replace(PROFILE, cases=lambda: [big])
    run = make(root, launcher, profile=profile)
    made = run.make_plan()
    found = run.run(made)
    assert found.written == pytest.approx(made.total, rel=0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_cancelled_run_is_partial_and_keeps_its_figures(
    root: Path, launcher: board.Groups, number: signal.Signals, request: pytest.FixtureRequest
) -> None:
    # The tests may run under nohup, or in the background. Then SIGHUP or SIGINT is ignored, and a run goes on.
    old = signal.getsignal(number)
    request.addfinalizer(lambda: signal.signal(number, old))
    signal.signal(number, signal.SIG_DFL)
    before, handler = board.values(root / "sys"), signal.getsignal(number)
    run = make(root, launcher, exclusive=True)
    run.say = lambda line: os.kill(os.getpid(), number) if "latency.alone" in line else None
    found = run.run(run.make_plan())
    assert (found.state, found.reason) == ("partial", "cancelled")
    assert {r.id.rpartition(".")[0] for r in found.rows} == {
        "device.sequential-read.1m.qd1", "device.sequential-write.1m.qd1",
    }  # fmt: skip
    clean(root, before)
    assert (
        "This report is partial: </b>cancelled"
        in (root / "state/runs" / found.id / "report.html").read_text()
    )
    # the signal has its old effect again
    assert signal.getsignal(number) is handler


def test_a_run_with_nohup_goes_on_after_its_terminal(root: Path, launcher: board.Groups) -> None:
    run = make(root, launcher, profile=replace(PROFILE, cases=lambda: few()[:1]))
    run.say = lambda line: os.kill(os.getpid(), signal.SIGHUP)
    old = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run.run(run.make_plan()).state == "complete"
    finally:
        signal.signal(signal.SIGHUP, old)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("No space left on device", "the target is full; free some space"),
        ("Read-only file system", "the device became read-only"),
        ("Input/output error", "the device returned an I/O error"),
        ("No such device", "the device returned an I/O error"),
    ],
)
def test_a_fault_of_the_device_has_a_verdict(
    root: Path, launcher: board.Groups, error: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = board.values(root / "sys")
    monkeypatch.setenv("BOARD_ERROR", error)
    launcher.fault = "write"
    run = make(root, launcher)
    found = run.run(run.make_plan())
    assert found.state == "partial"
    assert words in found.reason
    clean(root, before)


def test_a_removed_device_has_a_verdict(root: Path, launcher: board.Groups) -> None:
    run = make(root, launcher)
    disk = root / "sys/block" / board.DISK

    def remove(line: str) -> None:
        if "latency.alone" in line:
            disk.rename(root / "gone")

    run.say = remove
    found = run.run(run.make_plan())
    assert (found.state, found.reason) == ("partial", f"the device {board.DISK} was removed")
    assert len(found.rows) > 5
    assert found.not_restored == []


@pytest.mark.parametrize("when", ["before a case", "during a case"])
def test_a_target_that_is_unmounted_ends_the_run(
    root: Path, launcher: board.Groups, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Its files stay in the journal, and the report says so. All settings are restored."""
    before = board.values(root / "sys")
    run = make(root, launcher)
    mounted = True
    real = undo.file_system

    def unmount() -> None:
        nonlocal mounted
        mounted = False
        (root / "data").rename(root / "medium")
        (root / "data").mkdir()

    def file_system(path: Path) -> str:
        return real(path) if mounted or (root / "data") not in path.parents else "0"

    def measured(case: Case, context: measure.Context, limit: int) -> measure.Outcome:
        if mounted and case.name == "latency.beside.reads":
            unmount()
            raise ValidateError("No such file or directory")
        return measure_(case, context, limit)

    def say(line: str) -> None:
        if mounted and when == "before a case" and "latency.alone" in line:
            run.say = lambda line: None
            monkeypatch.setattr(measure, "measure", lambda case, *more: done(case, *more))

    def done(case: Case, *more: Any) -> measure.Outcome:
        outcome = measure_(case, *more)
        unmount()
        return outcome

    measure_ = measure.measure
    run.say = say
    monkeypatch.setattr(undo, "file_system", file_system)
    if when == "during a case":
        monkeypatch.setattr(measure, "measure", measured)
    found = run.run(run.make_plan())
    assert found.state == "partial"
    assert "unmounted" in found.reason
    assert found.skipped == {}
    assert {row.id.rpartition(".")[0] for row in found.rows} == {case.name for case in few()[:3]}
    assert any(
        f"cannot remove {root / 'data/.ek-validate/data'}: its file system" in x for x in found.not_restored
    )
    after = board.values(root / "sys")
    assert {**after, "scheduler": ""} == {**before, "scheduler": ""}
    # no validation begins as long as its files are somewhere
    with pytest.raises(ValidateError, match="left something behind"):
        run.run(run.make_plan())
    (root / "data").rmdir()
    (root / "medium").rename(root / "data")
    mounted = True
    assert session.restore(places(root), launcher) == []
    clean(root, before)


def test_a_case_that_fails_does_not_end_the_run(
    root: Path, launcher: board.Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reason is in the report."""
    before = board.values(root / "sys")
    launcher.fault = "read"
    monkeypatch.setenv("BOARD_ERROR", "unknown pattern")
    run = make(root, launcher, profile=replace(PROFILE, cases=lambda: few()[:2]))
    found = run.run(run.make_plan())
    assert found.state == "complete"
    assert "unknown pattern" in found.skipped[few()[0].name]
    assert {r.id.rpartition(".")[0] for r in found.rows} == {few()[1].name}
    clean(root, before)


def test_an_unexpected_exception_is_not_hidden_and_leaves_nothing(
    root: Path, launcher: board.Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = board.values(root / "sys")

    def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(session.measure, "measure", fail)
    run = make(root, launcher)
    with pytest.raises(RuntimeError, match="a defect"):
        run.run(run.make_plan())
    clean(root, before)


def test_an_exclusive_run_pauses_the_apps_and_says_so(root: Path, launcher: board.Groups) -> None:
    before = board.values(root / "sys")
    seen: list[str] = []
    told: list[Mapping[str, Any]] = []

    def look(line: str) -> None:
        seen.append((root / "frozen").read_text())
        told.append(runs.progress(places(root)) or {})
        entries = undo.load(root / "state/undo.json")
        assert ("frozen", "evenkeel-apps.slice") in [(e["kind"], e["path"]) for e in entries]

    run = make(root, launcher, profile=replace(PROFILE, cases=lambda: few()[:1]), exclusive=True)
    run.say = look
    found = run.run(run.make_plan())
    assert set(seen) == {"evenkeel-apps.slice"}
    # what the panel shows meanwhile
    assert (told[-1]["exclusive"], told[-1]["groups"]) == (True, False)
    assert found.exclusive
    assert report.read(root / "state/runs" / found.id).exclusive
    sentence = "All apps were paused, so the figures are those of the device alone."
    assert sentence in (root / "state/runs" / found.id / "report.html").read_text()
    clean(root, before)
    other = make(root, launcher, profile=replace(PROFILE, cases=lambda: few()[:1]))
    found = other.run(other.make_plan())
    assert not found.exclusive
    assert sentence not in (root / "state/runs" / found.id / "report.html").read_text()


def test_the_entry_precedes_the_pause(
    root: Path, launcher: board.Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever happens while systemd pauses the apps, they go on afterwards."""

    def fail(slice_name: str) -> None:
        assert undo.load(root / "state/undo.json")[-1]["kind"] == "frozen"
        (root / "frozen").write_text(slice_name)
        raise OSError("Connection timed out")

    before = board.values(root / "sys")
    monkeypatch.setattr(launcher, "freeze", fail)
    run = make(root, launcher, exclusive=True)
    found = run.run(run.make_plan())
    assert (found.state, found.reason) == (
        "partial",
        "cannot pause the apps: Connection timed out; measure without a pause of the apps",
    )
    clean(root, before)


def test_an_app_that_a_watchdog_would_kill_is_not_paused(root: Path, launcher: board.Groups) -> None:
    launcher.watched = "systemd's watchdog would kill a paused app"
    with pytest.raises(ValidateError, match="watchdog would kill"):
        make(root, launcher, exclusive=True).make_plan()
    make(root, launcher).make_plan()


def test_an_app_with_a_watchdog_that_starts_after_the_plan_is_not_paused(
    root: Path, launcher: board.Groups
) -> None:
    """The person reads the announcement for any time, and then answers."""
    before = board.values(root / "sys")
    run = make(root, launcher, exclusive=True)
    made = run.make_plan()
    launcher.watched = "systemd's watchdog would kill a paused app"
    launcher.freeze = lambda slice_name: pytest.fail("the app was paused")  # type: ignore[method-assign]
    found = run.run(made)
    assert (found.state, found.reason) == ("partial", launcher.watched)
    clean(root, before)


def test_files_of_loads_are_removed(
    root: Path, launcher: board.Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load that was killed leaves its file in the folder of the test file."""
    before = board.values(root / "sys")

    def leave(case: Case, context: measure.Context, limit: int) -> measure.Outcome:
        assert context.folder is not None
        for name in ("rec", "truncate", "allocate", "discards"):
            (context.folder / name).touch()
        return measure.Outcome()

    monkeypatch.setattr(session.measure, "measure", leave)
    run = make(root, launcher)
    run.run(run.make_plan())
    clean(root, before)


def test_the_discards_of_a_file_need_a_device_that_can(root: Path, launcher: board.Groups) -> None:
    run = make(root, launcher, profile=replace(PROFILE, cases=cases.quick))
    assert run.make_plan().skipped["latency.beside.discards"] == "the device has no discard"
    (run.queue / "discard_max_bytes").write_text("2147450880\n")
    assert "latency.beside.discards" not in run.make_plan().skipped


def test_one_validation_at_a_time(root: Path, launcher: board.Groups) -> None:
    run = make(root, launcher)
    with lock.held(run.places.lock, "other"), pytest.raises(ValidateError, match="is running"):
        run.run(run.make_plan())
    assert list((root / "data").iterdir()) == []


def test_a_scheduler_whose_module_is_not_loaded_is_offered(root: Path, launcher: board.Groups) -> None:
    """The kernel of the board lists no such scheduler: all but evenkeel are modules that nothing has loaded yet."""
    run = make(root, launcher, schedulers=["kyber"])
    (run.queue / "scheduler").write_text("none [evenkeel]\n")
    asked = []

    def modprobe(arguments: list[str]) -> tuple[int, str]:
        asked.append(arguments[-1])
        return (0 if arguments[-1] == "kyber-iosched" else 1), ""

    run.run_program = modprobe
    assert [run.subject, *run.others()] == ["evenkeel", "none", "kyber"]
    assert asked == ["bfq-iosched", "mq-deadline-iosched", "kyber-iosched"]
    run.make_plan()


def test_a_scheduler_that_the_kernel_lacks_is_refused(root: Path, launcher: board.Groups) -> None:
    with pytest.raises(ValidateError, match="no scheduler cfq for mmcblk0; it has: evenkeel, bfq"):
        make(root, launcher, schedulers=["cfq"]).make_plan()


def test_cases_that_cannot_run_are_listed_with_the_reason(root: Path, launcher: board.Groups) -> None:
    run = make(root, launcher)
    run.grouped = False
    made = run.make_plan()
    assert made.skipped["fair.read.1m"] == "it needs weights, and so systemd and root"
    assert [s.case.name for s in made.steps][:2] == [c.name for c in few()[:2]]


RUN = """
import sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
import fake_board as board, test_session
root = Path(sys.argv[1])
run = test_session.make(root, board.Groups(root), schedulers=["bfq"], exclusive=True)
run.run(run.make_plan())
"""


@pytest.mark.parametrize("seed", sample("moment of kill -9", range(12)))
def test_kill_9_at_a_random_moment(root: Path, launcher: board.Groups, seed: int) -> None:
    """Whatever the run was doing: `restore` undoes it, and the report that is left says that the run was interrupted."""
    before = board.values(root / "sys")
    process = subprocess.Popen([sys.executable, "-c", RUN, str(root), str(Path(__file__).parent), *sys.path])
    time.sleep(0.25 + (seed + random.Random(seed).random()) * 0.3)  # noqa: S311
    process.kill()
    process.wait()
    here = places(root)
    assert session.restore(here, launcher) == []
    deadline = time.monotonic() + 5
    while board.alive(root) and time.monotonic() < deadline:
        time.sleep(0.02)
    clean(root, before)
    for found in runs.reports(here):
        assert (found.state, found.reason) == ("partial", runs.ENDED_SILENTLY)
    # the next run works
    run = make(root, launcher, profile=replace(PROFILE, cases=lambda: few()[:1]))
    assert run.run(run.make_plan()).state == "complete"


def test_a_plan_for_another_scheduler_is_not_run(root: Path, launcher: board.Groups) -> None:
    """Somebody sets another scheduler while the question waits for its answer."""
    run = make(root, launcher, profile=replace(PROFILE, cases=lambda: few()[:1]))
    made = run.make_plan()
    (root / "sys/block" / board.DISK / "queue/scheduler").write_text("[none] evenkeel\n")
    with pytest.raises(
        ValidateError, match=r"has the scheduler none, but had evenkeel when the run was planned; start again"
    ):
        run.run(made)
    assert runs.reports(places(root)) == []


@pytest.mark.parametrize("case", ["fair.read.1m", "latency.alone"])
def test_figures_of_another_scheduler_are_not_those_of_evenkeel(
    root: Path, launcher: board.Groups, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """Another program sets the scheduler during a case. The next case has the right one again."""
    run = make(root, launcher, profile=replace(PROFILE, cases=lambda: [few()[4], few()[2]]))
    scheduler = root / "sys/block" / board.DISK / "queue/scheduler"
    real = measure.measure

    def changing(one: Case, *more: Any) -> Any:
        found = real(one, *more)
        if one.name == case:
            scheduler.write_text("[none] mq-deadline kyber bfq evenkeel\n")
        return found

    monkeypatch.setattr(session.measure, "measure", changing)
    found = run.run(run.make_plan())
    assert found.skipped == {case: "it failed: another program set the scheduler none meanwhile"}
    assert not found.has(case)
    assert found.has({"fair.read.1m": "latency.alone"}.get(case, "fair.read.1m"))


def test_a_comparison_without_figures_of_the_subject_is_left_out(
    root: Path, launcher: board.Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(one: Case, *more: Any) -> Any:
        raise ValidateError("no I/O")

    run = make(root, launcher, profile=replace(PROFILE, cases=lambda: [few()[4]]), schedulers=["bfq"])
    monkeypatch.setattr(session.measure, "measure", failing)
    found = run.run(run.make_plan())
    assert found.skipped == {
        "fair.read.1m": "it failed: no I/O",
        "fair.read.1m on bfq": "there is no figure of evenkeel to compare with",
    }
    assert (found.state, found.reason) == ("partial", "no case could be measured")


def test_a_terminal_that_fails_does_not_end_the_run(root: Path, launcher: board.Groups) -> None:
    def gone(line: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    run = make(root, launcher, profile=replace(PROFILE, cases=lambda: few()[:1]))
    run.say = gone
    assert run.run(run.make_plan()).state == "complete"


def test_a_state_folder_that_becomes_read_only_loses_no_figure(
    root: Path, launcher: board.Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends and restores the settings. What was measured is in the report, which cannot be saved."""
    real = undo.files.replace
    before = board.values(root / "sys")

    def replaced(path: str, *more: Any) -> None:
        if "report.json" in path and found_rows(path):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        real(path, *more)

    def found_rows(path: str) -> bool:
        return Path(path).exists() and bool(report.read(Path(path)).rows)

    def removed(path: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    monkeypatch.setattr(undo.files, "replace", replaced)
    monkeypatch.setattr(undo.files, "remove", removed)
    run = make(root, launcher, profile=replace(PROFILE, cases=lambda: few()[2:5]))
    given: list[bool] = []
    monkeypatch.setattr(run, "_give_fixed_shares_back", lambda: given.append(True))
    found = run.run(run.make_plan())
    assert found.state == "partial"
    assert found.reason.startswith("the report cannot be saved in ")
    assert found.reason.endswith(": Read-only file system")
    assert [row.id for row in found.rows if row.id.endswith("p99")] == [
        "latency.alone.p99",
        "latency.beside.reads.p99",
    ]
    assert given
    assert run.unsaved
    assert found.not_restored
    assert {**board.values(root / "sys"), "scheduler": ""} == {**before, "scheduler": ""}


def test_a_clock_that_was_set_back_does_not_change_the_order(
    root: Path, launcher: board.Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A board without a clock begins in 1970. The latest report is the last one all the same, and is never removed."""
    here = places(root)
    (here.runs / "20991231-235959").mkdir(parents=True)
    (here.runs / "20991231-235959-10").mkdir()
    monkeypatch.setattr(runs, "MOST_KEPT", 2)
    run = make(root, launcher, profile=replace(PROFILE, cases=lambda: few()[:1]))
    assert run.run(run.make_plan()).id == "20991231-235959-11"
    assert [folder.name for folder in runs.folders(here)] == ["20991231-235959-11", "20991231-235959-10"]


def test_a_run_first_restores_what_an_earlier_one_left(root: Path, launcher: board.Groups) -> None:
    here = places(root)
    here.state.mkdir()
    journal = undo.Journal(here.journal, "boot-1")
    journal.set(root / "sys/block" / board.DISK / "queue/nr_requests", "64")
    run = make(root, launcher, profile=replace(PROFILE, cases=lambda: few()[:1]))
    run.run(run.make_plan())
    assert (root / "sys/block" / board.DISK / "queue/nr_requests").read_text() == "128\n"


def test_progress_and_cancel_of_a_run_in_another_process(root: Path) -> None:
    here = places(root)
    assert runs.progress(here) is None
    with pytest.raises(ValidateError, match="no validation is running"):
        lock.stop(here.lock)
    process = subprocess.Popen([sys.executable, "-c", RUN, str(root), str(Path(__file__).parent), *sys.path])
    try:
        deadline = time.monotonic() + 20
        while (runs.progress(here) or {}).get("index", 0) < 1 and time.monotonic() < deadline:
            time.sleep(0.02)
        seen = runs.progress(here)
        assert seen is not None
        assert seen["count"] == len(few()) + 1
        # the first case is in the report already, so a kill would not lose it
        assert runs.reports(here)[0].state == "running"
        assert runs.reports(here)[0].rows
        assert lock.stop(here.lock) == seen["id"]
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
    found = runs.reports(here)[0]
    assert (found.state, found.reason) == ("partial", "cancelled")


def test_a_run_that_ends_says_so_and_no_signal_takes_its_report(
    root: Path, launcher: board.Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is too late to cancel it, or to stop what restores the settings."""
    here = places(root)
    seen: list[Any] = []

    def restore(self: undo.Journal, launcher: board.Groups) -> list[str]:
        seen.append(runs.progress(here))
        os.kill(os.getpid(), signal.SIGTERM)
        return []

    monkeypatch.setattr(undo.Journal, "restore", restore)
    run = make(root, launcher, profile=replace(PROFILE, cases=lambda: few()[:1]))
    found = run.run(run.make_plan())
    assert found.state == "complete"
    assert runs.reports(here)[0].state == "complete"
    assert (root / "state/runs" / found.id / "report.html").exists()
    assert seen == [{"id": found.id, "ending": True}]
    assert runs.has_ended(here)
    with lock.held(here.lock, lock.RESTORE):
        assert runs.progress(here) == {"id": found.id, "ending": True}
        with pytest.raises(ValidateError, match="is being restored"):
            lock.stop(here.lock)
    # the next one begins
    with lock.held(here.lock, "20260131-120000"):
        runs.forget_end(here)
        assert runs.progress(here) == {"id": "20260131-120000"}


def test_the_time_left_falls_during_a_case(
    root: Path, launcher: board.Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Mapping[str, Any]] = []
    monkeypatch.setattr(Session, "_tell", lambda self, progress, at_once=False: seen.append(progress))
    case = replace(few()[1], written=20 * MB)
    run = make(root, launcher, profile=replace(PROFILE, cases=lambda: [case]))
    made = run.make_plan()
    run.run(made)
    assert 0 < seen[0]["seconds_left"] <= made.seconds
    left = [progress["seconds_left"] for progress in seen if "index" in progress]
    assert left == sorted(left, reverse=True)
    assert left[0] > left[-1] >= 0


# the page cache

CACHE = replace(next(case for case in cases.full() if case.kind == "cache"), seconds=10.0)
CACHE_PROFILE = replace(PROFILE, seconds=600, cases=lambda: [CACHE])


def shorten(patch: pytest.MonkeyPatch) -> None:
    """Shorten the windows to some planned reads."""
    patch.setattr(cases, "CACHE_S", 1.5)


def memory(root: Path, mib: int) -> None:
    """The board has MIB MiB of memory for the page cache."""
    places(root)
    (root / "proc/meminfo").write_text(f"MemTotal: 1000000 kB\nMemFree: {mib << 10} kB\n")


def test_a_run_measures_the_page_pool_and_leaves_nothing(
    root: Path, launcher: board.Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch)
    before = board.values(root / "sys")
    memory(root, 64)
    with Pool(root / "pool") as pool:
        run = make(root, launcher, profile=CACHE_PROFILE)
        made = run.make_plan()
        found = run.run(made)
        assert pool.events[:1] == ["held priority"], found.skipped
    assert (found.state, found.skipped, found.not_restored) == ("complete", {}, [])
    clean(root, before)
    assert found.written == made.total == 64 * MB + cases.PRIORITY_BYTES
    row = next(r for r in found.rows if r.id == "pool.directory.kept")
    assert (row.target, row.must) == (99.0, True)
    assert value(found, "pool.directory.p99") == 200.0
    assert {name for name, _, _ in launcher.started} == {"lay", "reader", "stream"}


@pytest.mark.parametrize(
    ("mib", "off", "words"),
    [
        (65, False, "the test file of 64 MiB fits into the page cache, which can have 65 MiB; run ek-validate with --file 65"),
        (64, True, "it needs the page pool: the page pool is off, because the kernel module"),
    ],
)  # fmt: skip
def test_a_board_that_cannot_measure_the_page_pool_is_told_why(
    root: Path, launcher: board.Groups, mib: int, off: bool, words: str
) -> None:
    memory(root, mib)
    state = Cache("off", problem=[Message("pool-no-module").note()])
    with Pool(root / "pool", state) if off else Pool(root / "pool"):
        made = make(root, launcher, profile=CACHE_PROFILE).make_plan()
    assert made.steps == ()
    assert made.skipped[CACHE.name].startswith(words)


def test_a_board_without_the_page_pool_is_told_so(root: Path, launcher: board.Groups) -> None:
    memory(root, 64)
    made = make(root, launcher, profile=CACHE_PROFILE).make_plan()
    assert "see 'systemctl status evenkeel-pool'" in made.skipped[CACHE.name]


def test_a_caller_that_may_not_ask_the_page_pool_plans_the_case(
    root: Path, launcher: board.Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ek-validation has no right to connect. The run asks again."""
    memory(root, 64)
    monkeypatch.setattr(os, "access", lambda path, mode: path != root / "pool")
    with Pool(root / "pool", Cache("off")):
        assert make(root, launcher, profile=CACHE_PROFILE).make_plan().steps


def test_a_profile_without_the_case_does_not_ask_the_page_pool(root: Path, launcher: board.Groups) -> None:
    """A question would start a service that somebody has stopped."""
    (root / "pool").symlink_to("/dev/null")
    asked: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session.pagepool, "problem", asked.append)
        make(root, launcher).make_plan()
        assert asked == []
        make(root, launcher, profile=CACHE_PROFILE).make_plan()
    assert asked == [root / "pool"]


RUN_CACHE = RUN.replace('schedulers=["bfq"]', "profile=test_session.CACHE_PROFILE").replace(
    "run.run(", "test_session.shorten(test_session.pytest.MonkeyPatch())\nrun.run("
)


@pytest.mark.parametrize("event", ["files", "held"])
def test_kill_9_leaves_no_priority_file_and_no_held_directory(
    root: Path, launcher: board.Groups, event: str
) -> None:
    before = board.values(root / "sys")
    memory(root, 64)
    with Pool(root / "pool") as pool:
        process = subprocess.Popen(
            [sys.executable, "-c", RUN_CACHE, str(root), str(Path(__file__).parent), *sys.path]
        )
        deadline = time.monotonic() + 60
        folder = root / "data/.ek-validate/priority"
        while process.poll() is None and not (folder.exists() if event == "files" else pool.held):
            time.sleep(0.005)
        process.kill()
        assert process.wait() == -signal.SIGKILL, "it ended by itself"
        assert folder.exists()
        while pool.held and time.monotonic() < deadline:
            time.sleep(0.01)
        assert pool.held == []
    assert session.restore(places(root), launcher) == []
    while board.alive(root) and time.monotonic() < deadline:
        time.sleep(0.02)
    clean(root, before)


@pytest.mark.parametrize("bad", ["", "../x", "20260101", "20260101-000000"])
def test_an_id_that_does_not_exist_is_refused(root: Path, bad: str) -> None:
    with pytest.raises(ValidateError, match="ek-validate list"):
        runs.find(places(root), bad)


def test_a_damaged_report_hides_no_other(root: Path, launcher: board.Groups) -> None:
    run = make(root, launcher, profile=replace(PROFILE, cases=lambda: few()[:1]))
    found = run.run(run.make_plan())
    (root / "state/runs/20990101-000000").mkdir()
    (root / "state/runs/20990101-000000/report.json").write_text("{")
    assert [r.id for r in runs.reports(places(root))] == [found.id]


def test_only_the_latest_reports_are_kept(
    root: Path, launcher: board.Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "MOST_KEPT", 3)
    here = places(root)
    ids = [f"2025010{day}-120000" for day in range(1, 6)]
    for name in (*ids, "notes"):
        (here.runs / name).mkdir(parents=True)
    (here.runs / "20240101-000000").symlink_to(root / "sys")
    run = make(root, launcher)
    found = run.run(run.make_plan())
    assert {f.name for f in here.runs.iterdir()} == {"notes", "20240101-000000", *ids[3:], found.id}
    assert (root / "sys/block").is_dir()
