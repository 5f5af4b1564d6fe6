# SPDX-License-Identifier: Apache-2.0
"""A validation from start to end: facts, plan, test file, cases, report. Everything that it changes is undone.

Order: the lock first, then whatever an earlier run left behind is restored. An entry of the journal precedes each
change (undo.py). A run ends by itself at its budget and its time. It also ends after SIGTERM, SIGINT or SIGHUP. In each
case the report stays, and says why it is partial.
"""

import contextlib
import datetime
import errno
import json
import math
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from evenkeel_agent.health import active_scheduler
from evenkeel_agent.settings import APPS_SLICE
from evenkeel_common import meminfo
from evenkeel_common.files import read_line, why

from . import (
    facts,
    fio,
    lock,
    measure,
    pagepool,
    plan,
    priority,
    probe,
    reader,
    recording,
    report,
    report_page,
    runs,
    target,
    undo,
)
from .cases import MB, Case, Need
from .errors import DeviceGone, Stopped, ValidateError
from .loads import SLICE, SUBJECT, Launcher, Load, Runner
from .measure import Context
from .plan import MOVIE, Budget, Plan, Profile
from .report import Report
from .runs import Places
from .target import Target

# The kernel's other schedulers. The first ones are measured if the time does not suffice for all.
OTHERS = ("bfq", "none", "mq-deadline", "kyber")
PROGRESS_S = 0.5
# The device limits a case that writes less than this part of its bytes, or needs more than this part of its time for them.
SLOW_PART, SLOW_TIME = 0.97, 0.7
# more bytes than any case writes
MANY = 1 << 62
SCRATCH = "scratch"
# files that loads make in the folder of the test file
LOAD_FILES = ("rec", "truncate", "allocate", "discards")


def now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def restore(
    places: Places, launcher: Launcher, *, forget: bool = False, name: str = lock.RESTORE
) -> list[str]:
    """Undo what a validation left behind. Returns what failed. Raises ValidateError if a validation is running.

    FORGET: as of undo.restore(). NAME: of the holder of the lock.
    """
    with lock.held(places.lock, name):
        return undo.restore(places.journal, places.boot, launcher, forget=forget)


@dataclass(frozen=True)
class Request:
    """What the caller wants. `schedulers`: to compare with; None: all that the kernel has, in the profiles that compare.

    `exclusive`: apps are paused meanwhile.
    """

    profile: Profile
    target: Target
    only: Sequence[str] = ()
    schedulers: Sequence[str] | None = None
    budget: int | None = None
    seed: int = 1
    exclusive: bool = False


@dataclass
class Session:
    """One run. `say` prints a line for a person. `probe_disk` finds flash channels."""

    places: Places
    launcher: Launcher
    request: Request
    version: str
    say: Callable[[str], None] = print
    grouped: bool = True
    run_program: facts.Run = facts.run_program
    probe_disk: Callable[[str, int], Mapping[str, Any]] = lambda path, seconds: probe.run(
        path, seconds=seconds
    )
    # why the report of the run is not in its folder; "" if it is there
    unsaved: str = field(default="", init=False)
    _stop: str = field(default="", init=False)
    _progress_at: float = field(default=0.0, init=False)
    # percentages of the device, by the file of an app's cgroup
    _fixed: dict[Path, str] = field(default_factory=dict, init=False)

    @property
    def queue(self) -> Path:
        return self.places.sys / "block" / self.request.target.disk / "queue"

    @property
    def active(self) -> str:
        """The active scheduler of the disk."""
        return active_scheduler(read_line(str(self.queue / "scheduler")))

    @property
    def subject(self) -> str:
        """The scheduler of the disk while no validation runs. One that runs or was killed may have set another one."""
        return undo.recorded(self.places.journal, self.places.boot, self.queue / "scheduler") or self.active

    def others(self) -> list[str]:
        """The other schedulers that the kernel offers for the disk. It may start a program for each of them.

        A scheduler may be a module that is not loaded. The kernel does not list it, but loads it when it is chosen.
        """
        line = read_line(str(self.queue / "scheduler"))
        subject, offered = self.subject, line.replace("[", " ").replace("]", " ").split()
        return [n for n in OTHERS if n != subject and (n in offered or self._is_module(n))]

    def _is_module(self, scheduler: str) -> bool:
        """Whether the kernel has a module for a scheduler, by the alias with which it asks for one."""
        try:
            return self.run_program(["modprobe", "--dry-run", "--quiet", f"{scheduler}-iosched"])[0] == 0
        except OSError:  # there is no modprobe
            return False

    def make_plan(self) -> Plan:
        if self.request.exclusive and (reason := self.launcher.obstacle(APPS_SLICE)):
            raise ValidateError(reason)
        where = self.request.target
        # A partition may be smaller than the file of the profile.
        area = target.area_bytes(where, self.request.profile.file, self.places.sys)
        profile = replace(self.request.profile, file=area)
        have, reasons = self._needs()
        subject = self.subject
        if self.request.schedulers is None:
            others = self.others() if profile.compares else []
        else:
            others = [s for s in self.request.schedulers if s != subject]
            offered = self.others() if others else []
            if unknown := [s for s in others if s not in offered]:
                raise ValidateError(
                    f"the kernel has no scheduler {unknown[0]} for {self.request.target.disk}; it has:"
                    f" {', '.join((subject, *offered))}"
                )
        return plan.make(
            profile, subject=subject, others=others, have=have, reasons=reasons,
            kind=facts.kind(self.request.target.disk), only=self.request.only, budget=self.request.budget,
            reached=self._reached(area),
        )  # fmt: skip

    def _reached(self, area: int) -> dict[str, int]:
        """Bytes that each case can write in its time on this device, as the latest run with it found. AREA: of the test file.

        A case that wrote all its bytes in time has MANY.
        """
        device, where = facts.identity(self.places.sys, self.request.target.disk), self.request.target
        found: dict[str, int] = {}
        for one in runs.reports(self.places):
            same = (one.device, one.target.get("kind"), one.target.get("span")) == (device, where.kind, area)
            if not device or not same or one.profile != self.request.profile.name:
                continue
            measured = {
                plan.full_name(row.id.rpartition(".")[0], name, one.subject)
                for row in one.rows
                for name in (one.subject, *row.baselines)
            }
            for name in measured - set(found):
                found[name] = one.reached.get(name, MANY)
        return found

    def _needs(self) -> tuple[set[Need], dict[Need, str]]:
        kind = self.request.target.kind
        pool = self._pool_problem()
        file, cache = self.request.profile.file, self._largest_cache()
        discards = read_line(str(self.queue / "discard_max_bytes"))
        has: dict[Need, bool] = {
            "groups": self.grouped,
            "evenkeel": self.subject == SUBJECT,
            "file system": kind == "file",
            "discard": discards not in ("", "0"),
            "ek-player": _installed("ek-player"),
            "ek-light-reader": _installed(reader.PROGRAM),
            "ek-writer": _installed("ek-writer") and _installed("ek-disturb"),
            "ek-pairs": Path(probe.Places().tool).exists(),
            "ek-pool": not pool,
            "ek-recorder": _installed("ek-recorder"),
            "large file": file >= cache,
        }
        reasons: dict[Need, str] = {
            "groups": "it needs weights, and so systemd and root",
            "evenkeel": f"the scheduler of {self.request.target.disk} is not {SUBJECT}",
            "file system": "it needs a test file, and the target is not a file",
            "discard": "the device has no discard",
            "ek-player": "ek-player is not installed (component loads)",
            "ek-light-reader": "ek-light-reader is not installed (component loads)",
            "ek-writer": "ek-writer and ek-disturb are not installed (component loads)",
            "ek-pairs": "ek-pairs is not installed",
            "ek-recorder": "ek-recorder is not installed (component recorder)",
            "ek-pool": f"it needs the page pool: {pool}",
            "large file": f"the test file of {file // MB} MiB fits into the page cache, which can have {cache // MB} MiB; run"
            f" ek-validate with --file {-(-cache // MB)}",
        }
        return {need for need, there in has.items() if there}, reasons

    def _pool_problem(self) -> str:
        """Why ek-pool protects no directory; "" if it does."""
        path = self.places.pool
        if not any("ek-pool" in case.needs for case in self.request.profile.cases()):
            return ""  # a question may start a service that somebody has stopped
        if not path.exists():
            return f"there is no {path}; see 'systemctl status {pagepool.UNIT}'"
        # ek-validation may not connect. The run itself, which has more rights, asks again.
        return pagepool.problem(path) if os.access(path, os.W_OK) else ""

    def _largest_cache(self) -> int:
        """The bytes that the page cache can have; 0 if they are not known."""
        try:
            return meminfo.cache(meminfo.parse((self.places.proc / "meminfo").read_text()))
        except OSError:
            return 0

    def run(self, made: Plan) -> Report:
        """Run the plan. Returns the report, which is saved. Raises ValidateError if the run cannot start."""
        id_ = self._new_id()
        with lock.held(self.places.lock, id_):
            if left := undo.restore(self.places.journal, self.places.boot, self.launcher):
                raise ValidateError(f"an earlier validation left something behind: {'; '.join(left)}")
            if not self.queue.exists():
                raise ValidateError(f"the device {self.request.target.disk} was removed")
            if self.subject != made.subject:
                raise ValidateError(
                    f"{self.request.target.disk} has the scheduler {self.subject}, but had {made.subject} when the run was"
                    " planned; start again"
                )
            runs.forget_end(self.places)
            folder = self.places.runs / id_
            runs.remove_old(self.places)
            folder.mkdir(parents=True)
            found = self._new_report(id_, made)
            report.save(found, folder)
            journal = undo.Journal(self.places.journal, self.places.boot)
            with self._signals():
                try:
                    self._measure(made, found, folder, journal)
                    found.state = "complete"
                    if not found.rows:
                        found.state, found.reason = "partial", "no case could be measured"
                except (Stopped, ValidateError) as error:
                    found.state, found.reason = "partial", str(error)
                except OSError as error:
                    where = f"{error.filename}: " if error.filename else ""
                    found.state, found.reason = "partial", f"{where}{why(error)}"
                finally:
                    # also after an exception that nobody expects: the settings of the board come first
                    self._tell({"id": found.id, "ending": True}, at_once=True)
                    found.not_restored = self._restored(journal)
                    self._give_fixed_shares_back()
                # It is too late to cancel the run, so a signal must not end it before its report is saved.
                found.ended = now()
                try:
                    report.save(found, folder)
                except OSError as error:
                    self.unsaved = f"the report could not be saved in {folder}: {why(error)}"
                # `show --html` makes the page again
                with contextlib.suppress(OSError):
                    report_page.save(found, folder, runs.reports(self.places))
            return found

    def _restored(self, journal: undo.Journal) -> list[str]:
        """Undo all changes. Returns what failed. The folder of the journal may have become read-only."""
        try:
            return journal.restore(self.launcher)
        except OSError as error:
            return [f"cannot change {error.filename or journal.path}: {why(error)}"]
        except ValidateError as error:
            return [str(error)]

    def _new_id(self) -> str:
        """An id after all others in their order, even if the clock was set back."""
        base = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
        latest = max((report.order(folder.name) for folder in runs.folders(self.places)), default=("", 0))
        return base if base > latest[0] else f"{latest[0]}-{latest[1] + 1}"

    def _new_report(self, id_: str, made: Plan) -> Report:
        where = self.request.target
        gathered = facts.gather(self.places.sys, where.disk, self.run_program)
        model = next((f.value for f in gathered if f.title == "model"), "")
        return Report(
            id_, self.version, made.profile.name, now(),
            target={"kind": where.kind, "where": where.where, "disk": where.disk, "model": model, "bytes": where.capacity,
                    "span": target.area_bytes(where, made.profile.file, self.places.sys)},
            device=facts.identity(self.places.sys, where.disk), kernel=os.uname().release, subject=self.subject,
            facts=[f.as_json() for f in gathered], announced={"written": made.total, "seconds": made.seconds},
            skipped=dict(made.skipped), exclusive=self.request.exclusive,
        )  # fmt: skip

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGTERM, SIGINT and SIGHUP end the run at the next check, so that everything is restored.

        A terminal that closes sends SIGHUP. nohup ignores it, and so does the run then.
        """

        def stop(number: int, frame: FrameType | None) -> None:
            self._stop = "cancelled"

        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        heard = [n for n in numbers if n != signal.SIGHUP or signal.getsignal(n) is not signal.SIG_IGN]
        old = {number: signal.signal(number, stop) for number in heard}
        try:
            yield
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)

    def _measure(self, made: Plan, found: Report, folder: Path, journal: undo.Journal) -> None:
        begin = time.monotonic()
        where = self.request.target
        disk = self.places.sys / "block" / where.disk
        budget = Budget(made.total)
        started = _device_written(disk)
        current: dict[str, Any] = {
            "id": found.id,
            "count": len(made.steps),
            "seconds_planned": made.seconds,
            "exclusive": self.request.exclusive,
            "groups": plan.has_groups(made),
        }
        # seconds since `begin` at which the run will end, as far as is known
        expected = float(made.seconds)

        def check() -> None:
            if self._stop:
                raise Stopped(self._stop)
            if time.monotonic() - begin > made.profile.seconds:
                raise Stopped(f"the time of the profile {made.profile.name} is over")
            if not disk.exists():
                raise DeviceGone(f"the device {where.disk} was removed")
            ran = time.monotonic() - begin
            left = round(max(expected - ran, 0))
            self._tell({**current, "seconds": round(ran), "seconds_left": left, "written": budget.written})

        scratch = self.places.run / SCRATCH
        scratch.mkdir(parents=True, exist_ok=True)
        runner = Runner(self.launcher, disk, where.number, scratch, check)
        if self.grouped:
            journal.slice(SLICE)
        if self.request.exclusive:
            self._pause(journal)
        try:
            rate = self._prepare(made, found, journal, runner, budget)
            known: dict[tuple[str, str], float] = {}
            deciding = plan.deciding(made)
            for index, step in enumerate(made.steps):
                if step.case.jobs:
                    self._still_mounted()
                times = [
                    plan.estimate(s.case, facts.kind(where.disk), made.profile.file, rate)
                    for s in made.steps[index:]
                ]
                # A device may be slower than the plan assumed. Then the comparison keeps the time of its deciding cases.
                kept = 0.0
                if step not in deciding:
                    later = zip(made.steps[index:], times, strict=True)
                    kept = sum(took for s, took in later if s in deciding)
                name = plan.full_name(step.case.name, step.scheduler, found.subject)
                if time.monotonic() - begin + times[0] + kept > made.profile.seconds:
                    found.skipped[name] = plan.no_time(made.profile)
                    continue
                if step.scheduler != found.subject and not found.has(step.case.name):
                    found.skipped[name] = f"there is no figure of {found.subject} to compare with"
                    continue
                left = sum(times)
                current.update(
                    index=index, case=step.case.name, about=step.case.about, scheduler=step.scheduler
                )
                expected = time.monotonic() - begin + left
                self._progress_at = 0.0
                check()
                if self.active != step.scheduler:
                    self._choose(journal, step.scheduler)
                context = self._context(made, journal, runner, known, step.scheduler)
                self._say(f"{index + 1}/{len(made.steps)} {step.case.name} ({step.scheduler})")
                self._step(step.case, context, budget, found, known)
                if where.kind != "file" and plan.relaid(step.case, context.size):
                    trimmed = fio.areas(where.path, context.size, 2, where.first)[1]
                    with _counted(runner, budget, found):
                        written = self._lay(runner, where.path, trimmed.offset, trimmed.size, False)
                    budget.spend(written)
                    found.written += written
                found.device_written = _device_written(disk) - started
                try:
                    report.save(found, folder)
                except OSError as error:
                    raise Stopped(f"the report cannot be saved in {folder}: {why(error)}") from error
        finally:
            found.device_written = max(_device_written(disk) - started, found.device_written)

    def _pause(self, journal: undo.Journal) -> None:
        """Pause all apps until restore(). Raises ValidateError."""
        journal.frozen(APPS_SLICE)
        try:
            # once more: an app may have started since the plan was made
            if reason := self.launcher.obstacle(APPS_SLICE):
                raise ValidateError(reason)
            self.launcher.freeze(APPS_SLICE)
        except OSError as error:
            raise ValidateError(
                f"cannot pause the apps: {why(error)}; measure without a pause of the apps"
            ) from error

    def _step(
        self, case: Case, context: Context, budget: Budget, found: Report, known: dict[tuple[str, str], float]
    ) -> None:
        """Measure one case. A case that fails is left out with the reason; the others go on."""
        limit, begin = budget.limit(case.written), time.monotonic()
        name = plan.full_name(case.name, context.subject, found.subject)
        if context.folder:
            # what an earlier case has left in the page cache would be written during this one
            with contextlib.suppress(OSError):
                self.run_program(["sync", "--file-system", str(context.folder)])
        try:
            with _counted(context.runner, budget, found):
                outcome = measure.measure(case, context, limit)
                if (active := self.active) != context.subject and self.queue.exists():
                    raise ValidateError(f"another program set the scheduler {active} meanwhile")
        except ValidateError as error:
            # without its file, each case would fail in the same way
            if case.jobs:
                self._still_mounted()
            found.skipped[name] = f"it failed: {error}"
            self._say(f"  it failed: {error}")
            return
        budget.spend(outcome.written)
        if limit and plan.may_be_slow(case):
            # Next time, the case is planned with what the slowest of its loads can write. If it needed most of its time for
            # that, this is the case's limit on this device, too.
            part = outcome.written / limit if outcome.reached is None else outcome.reached
            if part < SLOW_PART or time.monotonic() - begin > SLOW_TIME * case.longest:
                found.reached[name] = round(part * limit) if part < SLOW_PART else limit
        found.add(case.name, outcome, context.subject, now())
        if context.subject == found.subject:
            usable = [f for f in outcome.figures if f.metric not in outcome.unusable]
            known.update({(case.name, f.metric): f.value for f in usable})

    def _still_mounted(self) -> None:
        """Raises Stopped if the file system of the test file was unmounted."""
        where = self.request.target
        if where.kind == "file" and not where.path.exists():
            raise Stopped(
                f"the test file {where.path} is no longer there: its file system was unmounted, or a program deleted the file"
            )

    def _choose(self, journal: undo.Journal, scheduler: str) -> None:
        self._note_fixed_shares()
        try:
            undo.set_scheduler(journal, self.queue, scheduler)
        except OSError as error:
            hint = "; run ek-validate as root" if error.errno in (errno.EACCES, errno.EPERM) else ""
            raise ValidateError(f"cannot set the scheduler {scheduler}: {why(error)}{hint}") from error
        self._give_fixed_shares_back()

    def _note_fixed_shares(self) -> None:
        """Note the fixed shares of the apps, which evenkeel forgets when another scheduler replaces it.

        After a kill, the agent sets them again within half a minute.
        """
        if active_scheduler(read_line(str(self.queue / "scheduler"))) != SUBJECT:
            return
        self._fixed = {}
        for file in (self.places.sys / "fs/cgroup/evenkeel.slice" / APPS_SLICE).rglob("io.evenkeel.fixed"):
            for words in map(str.split, _text(file).splitlines()):
                if words[:1] == [self.request.target.number]:
                    self._fixed[file] = words[1]

    def _give_fixed_shares_back(self) -> None:
        if active_scheduler(read_line(str(self.queue / "scheduler"))) != SUBJECT:
            return
        for file, percent in self._fixed.items():
            with contextlib.suppress(OSError):  # the app may have ended
                undo.write_attribute(file, f"{self.request.target.number} {percent}")

    def _context(
        self,
        made: Plan,
        journal: undo.Journal,
        runner: Runner,
        known: Mapping[tuple[str, str], float],
        subject: str,
    ) -> Context:
        where = self.request.target
        size = target.area_bytes(where, made.profile.file, self.places.sys)
        return Context(
            runner, where.path, size, where.first, known, where.path.parent if where.kind == "file" else None,
            lambda name: self._choose(journal, name), lambda seconds: self.probe_disk(f"/dev/{where.disk}", seconds),
            subject, self.request.seed, self.places.pool,
        )  # fmt: skip

    def _prepare(
        self, made: Plan, found: Report, journal: undo.Journal, runner: Runner, budget: Budget
    ) -> float:
        """Write the test file and the movie. Blocks that were never written would be read without the flash.

        Returns how fast the device wrote the test file, in bytes per second.
        """
        where, rate = self.request.target, math.inf
        if not made.prepared:
            return rate
        wanted = [(where.path, target.area_bytes(where, made.profile.file, self.places.sys))]
        if where.kind == "file":
            folder = where.path.parent
            journal.folder(folder)
            folder.mkdir(mode=0o700)
            if made.prepared > made.profile.file:
                wanted.append((folder / "movie", MOVIE))
            for path in (*(p for p, _ in wanted), *(folder / name for name in LOAD_FILES)):
                journal.file(path)
            if any(step.case.kind == "recorder" for step in made.steps):
                journal.tree(folder / recording.FOLDER)
            if plan.evicts(made):
                journal.folder(folder / priority.FOLDER)
                for path in priority.paths(folder / priority.FOLDER):
                    journal.file(path)
        target.mark(where, wanted[0][1])
        for path, size in wanted:
            self._say(f"writing {size / 1e6:.0f} MB to {path}")
            first = where.first if path == where.path else 0
            begin = time.monotonic()
            with _counted(runner, budget, found):
                written = self._lay(runner, path, first, size, where.kind == "file")
            if path == where.path:
                rate = written / max(time.monotonic() - begin, 0.001)
            budget.spend(written)
            found.written += written
        return rate

    def _lay(self, runner: Runner, path: Path, first: int, size: int, create: bool) -> int:
        file = runner.scratch / "lay.fio"
        file.write_text(
            f"[lay]\nfilename={fio.name(path)}\noffset={first}\nsize={size}\nrw=write\nbs=1m\niodepth=4\ndirect=1\n"
            f"ioengine=libaio\nthread=1\nrefill_buffers=1\nend_fsync=1\nfallocate=none\n"
            f"allow_file_create={int(create)}\n"
        )
        result = runner.scratch / "lay.json"
        load = Load(
            "lay",
            ["fio", "--eta=never", "--output-format=json+", f"--output={result}", str(file)],
            report=result,
        )
        runner.run([load], settle=0, seconds=self.request.profile.seconds)
        try:
            written = fio.parse(runner.report(load)).written
        except ValueError as error:
            raise ValidateError(f"cannot write the test file {path}: {error}") from error
        if written < size:
            raise Stopped(
                f"the device wrote only {written / 1e6:.0f} of {size / 1e6:.0f} MB of the test file in time"
            )
        return written

    def _say(self, line: str) -> None:
        """Print LINE for a person. The run goes on if nobody can read it any longer."""
        with contextlib.suppress(OSError):
            self.say(line)

    def _tell(self, progress: Mapping[str, Any], at_once: bool = False) -> None:
        """Write progress.json, unless that was less than PROGRESS_S ago. It is in RAM, so it wears nothing.

        Without space for it, the run goes on: to restore the settings matters more.
        """
        if (at := time.monotonic()) - self._progress_at < PROGRESS_S and not at_once:
            return
        self._progress_at = at
        temporary = self.places.progress.with_suffix(".new")
        with contextlib.suppress(OSError):
            temporary.write_text(json.dumps(progress))
            os.replace(temporary, self.places.progress)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


@contextlib.contextmanager
def _counted(runner: Runner, budget: Budget, found: Report) -> Iterator[None]:
    """If what runs inside fails or is cancelled, count what its loads have written until then."""
    before = runner.written
    try:
        yield
    except BaseException:
        moved = runner.written - before
        budget.spend(moved)
        found.written += moved
        raise


def _device_written(disk: Path) -> int:
    words = read_line(str(disk / "stat")).split()
    return int(words[6]) * 512 if len(words) > 6 and words[6].isdigit() else 0


def _installed(program: str) -> bool:
    return any(os.access(Path(folder) / program, os.X_OK) for folder in os.get_exec_path())
