# SPDX-License-Identifier: Apache-2.0
"""Runs the loads of a case, each in a group with a weight, and counts what each group gets in a window.

The groups are systemd scopes, and IOWeight= sets their weights, as for apps. All scopes are in one slice, which is one
group alongside the slice of the apps.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from evenkeel_agent.health import active_scheduler
from evenkeel_common.command import run
from evenkeel_common.files import read_line, why
from evenkeel_common.reading import STAT_FILE

from . import fio
from .errors import DeviceGone, Stopped, ValidateError

SLICE = "evenkeel-validate.slice"
# the scheduler that counts what it dispatches for a group; and the file with what a group has submitted
SUBJECT = "evenkeel"
SUBMITTED = "io.stat"
POLL_S = 0.05
# To read the counters costs a slow processor a millisecond, which a load may miss. So they are read no more often, but for
# the last bytes of a load that writes.
COUNT_S = 0.2
SETTLE_PART = 4
# a load has this long to begin
START_S = 30.0
# the part of the bytes in a window that other programs may move
DISTURBED = 0.05
# A program that does not end after SIGTERM is killed after this time. fio waits for its outstanding I/O.
END_S = 15.0
# Time limit for systemctl. It waits until the last load has ended.
SYSTEMCTL_S = 90.0


@dataclass(frozen=True)
class Load:
    """A program in a group of its own.

    `report`: the file into which it writes its report. `fixed`: its fixed share in percent; 0: none. `lasting`: it
    runs until it is stopped, so the window is `early` if it ends. `moves`: its group counts bytes as soon as it has begun;
    the window waits for that.
    """

    name: str
    arguments: Sequence[str]
    weight: int = 100
    fixed: int = 0
    report: Path | None = None
    lasting: bool = True
    moves: bool = False


@dataclass(frozen=True)
class Window:
    """What the groups got. `seconds`: length of the window. `read`, `written`: bytes by load, in the window.

    `begin`: when it began, on the clock of time.monotonic().

    `total_written`: bytes that all loads wrote from start to end. `early`: a lasting load ended by itself.
    `others`: bytes that other programs moved on the device within the window; 0 if that is not known.
    `dispatched`: `read` and `written` are what the device got, as the scheduler evenkeel counts it. Otherwise they are what
    the groups submitted, and an I/O counts as a whole when it is submitted.
    """

    seconds: float
    read: Mapping[str, int]
    written: Mapping[str, int]
    total_written: int
    early: bool
    dispatched: bool = False
    series: Sequence[tuple[float, float]] = field(default_factory=tuple)
    others: int = 0
    begin: float = 0.0

    @property
    def end(self) -> float:
        return self.begin + self.seconds

    @property
    def disturbed(self) -> bool:
        """Whether other programs moved so much that the loads do not show what they get."""
        own = sum(self.read.values()) + sum(self.written.values())
        return self.others > DISTURBED * (own + self.others)

    def mbps(self, name: str) -> float:
        return (self.read[name] + self.written[name]) / self.seconds / 1e6 if self.seconds else 0.0


class Launcher(Protocol):
    """Starts programs in groups."""

    def start(self, load: Load, log: Path) -> subprocess.Popen[bytes]: ...
    def group(self, load: Load) -> Path | None:
        """The cgroup of a load; None if it has none of its own."""

    def obstacle(self, slice_name: str) -> str:
        """Why the units of a slice must not be paused, and what to do; "" if they may be paused."""

    def stop(self, slice_name: str) -> None: ...
    def freeze(self, slice_name: str) -> None: ...
    def thaw(self, slice_name: str) -> None: ...


def _systemctl(*arguments: str) -> str:
    """What systemctl prints. Raises OSError."""
    # `is-active` prints the state and ends with 3 if the unit is not active.
    return run(
        ("systemctl", *arguments), SYSTEMCTL_S, success=(0, 3) if arguments[0] == "is-active" else (0,)
    )


class Scopes:
    """Groups as systemd scopes. They need systemd, and the rights of root."""

    def __init__(self, cgroups: Path, systemctl: Callable[..., str] = _systemctl) -> None:
        self._cgroups = cgroups
        self._systemctl = systemctl
        self._started = 0
        self._units: dict[str, str] = {}  # by name of the load

    def start(self, load: Load, log: Path) -> subprocess.Popen[bytes]:
        # Each start has a name of its own: systemd may still have the scope of the last one.
        self._started += 1
        unit = f"evenkeel-validate-{load.name}-{os.getpid()}-{self._started}.scope"
        self._units[load.name] = unit
        command = [
            "systemd-run", "--scope", "--quiet", "--collect", f"--unit={unit}", f"--slice={SLICE}",
            f"--property=IOWeight={load.weight}", "--property=IOAccounting=yes", "--", *load.arguments,
        ]  # fmt: skip
        return _start(command, log)

    def group(self, load: Load) -> Path | None:
        return self._cgroups / "evenkeel.slice" / SLICE / self._units.get(load.name, "none.scope")

    def obstacle(self, slice_name: str) -> str:
        # Until systemd 258, the watchdog of a frozen service kills it (systemd issue 38517). Restart= does not start it again
        # after the pause.
        units = sorted(folder.name for folder in services(self._cgroups / "evenkeel.slice" / slice_name))
        if not units:
            return ""
        text = self._systemctl("show", "--property=Id,WatchdogUSec", "--", *units)
        watched = [
            found["Id"]
            for found in (
                dict(line.partition("=")[::2] for line in unit.splitlines()) for unit in text.split("\n\n")
            )
            if found.get("WatchdogUSec", "0") not in ("0", "infinity")
        ]
        if not watched:
            return ""
        return (
            f"systemd's watchdog would kill a paused app (WatchdogSec= of {', '.join(watched)}); stop it, or measure"
            " without a pause of the apps"
        )

    def stop(self, slice_name: str) -> None:
        """Stop all units of the slice. Raises OSError."""
        self._systemctl("stop", slice_name)

    def freeze(self, slice_name: str) -> None:
        """Pause all processes of the slice. Raises OSError."""
        if self._active(slice_name):
            self._systemctl("freeze", slice_name)

    def thaw(self, slice_name: str) -> None:
        """Let the processes of the slice go on. A slice that is not frozen stays as it is. Raises OSError."""
        if self._active(slice_name):
            self._systemctl("thaw", slice_name)

    def _active(self, slice_name: str) -> bool:
        """Whether the slice has ever had a unit. Otherwise systemd refuses to freeze or thaw it."""
        return self._systemctl("is-active", slice_name).strip() == "active"


def services(slice_: Path) -> Iterator[Path]:
    """The cgroups of the services in a slice and in the slices below it. What is below a service is its own business."""
    for folder in slice_.glob("*"):
        if folder.suffix == ".service":
            yield folder
        elif folder.suffix == ".slice":
            yield from services(folder)


class Ungrouped:
    """Programs without groups, where systemd does not run. Only cases without weights can be measured."""

    def start(self, load: Load, log: Path) -> subprocess.Popen[bytes]:
        return _start(load.arguments, log)

    def group(self, load: Load) -> Path | None:
        return None

    def obstacle(self, slice_name: str) -> str:
        return "pausing apps needs systemd and root; run ek-validate as root"

    def stop(self, slice_name: str) -> None:
        pass

    def freeze(self, slice_name: str) -> None:
        pass

    def thaw(self, slice_name: str) -> None:
        pass


def _start(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        try:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        except OSError as error:
            raise ValidateError(f"cannot run {command[0]}: {why(error)}; install it") from error


class Runner:
    """Runs loads on the device NUMBER, whose folder in /sys/block is DISK.

    CHECK is called many times a second; it raises an exception that ends the run. SCRATCH is a folder in RAM.
    """

    def __init__(
        self, launcher: Launcher, disk: Path, number: str, scratch: Path, check: Callable[[], None],
        *, fixed_file: str = "io.evenkeel.fixed",
    ) -> None:  # fmt: skip
        self._launcher = launcher
        self._disk = disk
        self._number = number
        self._scratch = scratch
        self._check = check
        self._fixed_file = fixed_file
        self._written = 0
        self._base = (0, 0)  # the counters of the whole device before the first load started
        # The last known counters, by name of the load and file. They disappear with the last process of the group.
        self._known: dict[tuple[str, str], tuple[int, int]] = {}

    @property
    def scratch(self) -> Path:
        return self._scratch

    @property
    def written(self) -> int:
        """Bytes that all loads have written so far, also those of a run that did not come to its end."""
        return self._written

    def run(
        self, loads: Sequence[Load], *, settle: float, seconds: float, limit: int = 0, series: bool = False
    ) -> Window:
        """Run LOADS until SETTLE and then SECONDS are over, a load ends, or they have written LIMIT bytes (0: no limit).

        The window never goes on without one of its loads: the others would count what they get without contention.
        SERIES: also record the rate of writes in each second. Raises DeviceGone, Stopped or ValidateError.
        """
        self._base, self._known = self._of_device(), {}
        with self._counted(loads), self._running(loads) as processes:
            self._begun(loads, processes)
            begin = time.monotonic()
            # Loads that write settle for a quarter of their bytes at most, or a fast device would leave no window.
            ended = self._wait(loads, processes, begin + settle, limit // SETTLE_PART)
            if ended and not _gone(processes):
                ended = False
            dispatched = active_scheduler(read_line(str(self._disk / "queue/scheduler"))) == SUBJECT
            file = STAT_FILE if dispatched else SUBMITTED
            first, start = self._counts(loads, file), time.monotonic()
            device = sum(self._of_device())
            points: list[tuple[float, float]] = []
            before, at = _written(first), start
            while series and not ended and time.monotonic() < start + seconds:
                ended = self._wait(loads, processes, min(at + 1, start + seconds), limit)
                now, moved = time.monotonic(), _written(self._counts(loads, file))
                if now > at:
                    points.append((round(now - start, 1), round((moved - before) / (now - at) / 1e6, 2)))
                before, at = moved, now
            if not ended:
                ended = self._wait(loads, processes, start + seconds, limit)
            last, end = self._counts(loads, file), time.monotonic()
            device = sum(self._of_device()) - device
            early = not limit and any(
                load.lasting and p.poll() is not None for load, p in zip(loads, processes, strict=True)
            )
            final = self._counts(loads)
            self._end(loads, processes)
            if self._grouped(loads):
                final = self._counts(loads)
        failures = [self._failure(load, p) for load, p in zip(loads, processes, strict=True)]
        if failure := next(filter(None, failures), ""):
            self._explain(failure)
        return Window(
            end - start,
            {n: last[n][0] - first[n][0] for n in last},
            {n: last[n][1] - first[n][1] for n in last},
            _written(final),
            early,
            dispatched and self._grouped(loads),
            points,
            max(device - sum(map(sum, last.values())) + sum(map(sum, first.values())), 0)
            if self._grouped(loads)
            else 0,
            start,
        )

    def pause(self, seconds: float) -> None:
        """Wait. Raises Stopped."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._check()
            time.sleep(POLL_S)

    @contextlib.contextmanager
    def _counted(self, loads: Sequence[Load]) -> Iterator[None]:
        try:
            yield
        finally:
            self._written += max(_written(self._counts(loads)), 0)

    @contextlib.contextmanager
    def _running(self, loads: Sequence[Load]) -> Iterator[list[subprocess.Popen[bytes]]]:
        processes: list[subprocess.Popen[bytes]] = []
        try:
            for load in loads:
                if load.report:
                    load.report.unlink(missing_ok=True)
                processes.append(self._launcher.start(load, self._log(load)))
            for load in loads:
                self._give_fixed_share(load)
            yield processes
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                process.wait()

    def _log(self, load: Load) -> Path:
        return self._scratch / f"{load.name}.log"

    def _grouped(self, loads: Sequence[Load]) -> bool:
        return all(self._launcher.group(load) for load in loads)

    def _give_fixed_share(self, load: Load) -> None:
        group = self._launcher.group(load)
        if not load.fixed or group is None:
            return
        path = group / self._fixed_file
        deadline = time.monotonic() + 5
        while not path.exists() and time.monotonic() < deadline:
            self._check()
            time.sleep(POLL_S)
        try:
            path.write_text(f"{self._number} {load.fixed}\n")
        except OSError as error:
            raise ValidateError(
                f"cannot set a fixed share of {load.fixed} %: {path}: {why(error)}"
            ) from error

    def _wait(
        self, loads: Sequence[Load], processes: Sequence[subprocess.Popen[bytes]], until: float, limit: int
    ) -> bool:
        """Wait until the time UNTIL. Returns True at once if a load has ended, or if LIMIT bytes are written."""
        if not self._grouped(loads):
            # the counters of the whole device also have what other programs write; fio itself ends after its bytes
            limit = 0
        rate, last, at = 0.0, 0, time.monotonic()
        due = at
        while (now := time.monotonic()) < until:
            self._check()
            if _gone(processes):
                return True
            pause = POLL_S
            if limit and now >= due:
                # A load that has written all its bytes ends, and its counters disappear. So all of them are read here.
                self._counts(loads, STAT_FILE)
                written = _written(self._counts(loads))
                if written >= limit:
                    return True
                if now > at:
                    rate, last, at = max((written - last) / (now - at), rate / 2), written, now
                # The nearer the limit, the shorter the pause, because loads may exceed the limit during the pause.
                due = now + (min(COUNT_S, max((limit - written) / rate / 2, 0.002)) if rate else 0.005)
            if limit:
                pause = min(POLL_S, due - now)
            time.sleep(max(min(pause, until - now), 0.001))
        return False

    def _begun(self, loads: Sequence[Load], processes: Sequence[subprocess.Popen[bytes]]) -> None:
        """Wait until the loads have begun: on a busy board, a program takes seconds to start. Raises ValidateError."""
        waits = [load for load in loads if load.moves] if self._grouped(loads) else []
        deadline = time.monotonic() + START_S
        while waits and not _gone(processes):
            self._check()
            if time.monotonic() > deadline:
                names = ", ".join(load.name for load in waits)
                raise ValidateError(f"no I/O of {names} within {START_S:.0f} s: the board is too busy")
            time.sleep(POLL_S)
            waits = [load for load in waits if not sum(self._of_group(load, SUBMITTED))]

    def _counts(self, loads: Sequence[Load], file: str = SUBMITTED) -> dict[str, tuple[int, int]]:
        """(bytes read, bytes written) so far, by load, from FILE of its group.

        Without groups, the first load has those of the whole device.
        """
        if self._grouped(loads):
            return {load.name: self._of_group(load, file) for load in loads}
        now = self._of_device()
        moved = (now[0] - self._base[0], now[1] - self._base[1])
        return {load.name: moved if i == 0 else (0, 0) for i, load in enumerate(loads)}

    def _of_device(self) -> tuple[int, int]:
        words = read_line(str(self._disk / "stat")).split()
        return (int(words[2]) * 512, int(words[6]) * 512) if len(words) > 6 else (0, 0)

    def _of_group(self, load: Load, file: str) -> tuple[int, int]:
        group = self._launcher.group(load)
        assert group is not None
        with contextlib.suppress(OSError):  # before its first and after its last process
            self._known[load.name, file] = fio.io_stat((group / file).read_text(), self._number)
        return self._known.get((load.name, file), (0, 0))

    def _end(self, loads: Sequence[Load], processes: Sequence[subprocess.Popen[bytes]]) -> None:
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + END_S
        for load, process in zip(loads, processes, strict=True):
            try:
                process.wait(max(deadline - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired as error:
                process.kill()
                raise DeviceGone(
                    f"{load.name} did not end within {END_S:.0f} s after SIGTERM: the device does not complete its I/O"
                ) from error

    def _failure(self, load: Load, process: subprocess.Popen[bytes]) -> str:
        """What went wrong with a load that has ended; "" if nothing did. After SIGTERM, fio ends with status 128."""
        text = self.output(load)
        if process.returncode in (0, -signal.SIGTERM, 128) and "error=" not in text:
            return ""
        last = next((line for line in text.splitlines() if "error" in line.lower()), text.strip()[-200:])
        return f"{load.name} ended with status {process.returncode}: {last or 'it printed nothing'}"

    def output(self, load: Load) -> str:
        try:
            return self._log(load).read_text(errors="replace")
        except OSError:
            return ""

    def report(self, load: Load) -> str:
        try:
            return load.report.read_text(errors="replace") if load.report else ""
        except OSError:
            return ""

    def _explain(self, failure: str) -> None:
        """Raises the exception that fits FAILURE."""
        if not self._disk.exists():
            raise DeviceGone(f"the device was removed; {failure}")
        low = failure.lower()
        if os.strerror(28).lower() in low:
            raise Stopped(f"the target is full; free some space. {failure}")
        if os.strerror(30).lower() in low or read_line(str(self._disk / "ro")) == "1":
            raise Stopped(
                f"the device became read-only: it may be at its end of life, or a file system had an error. {failure}"
            )
        if any(os.strerror(number).lower() in low for number in (5, 6, 19)):
            raise DeviceGone(f"the device returned an I/O error. {failure}")
        raise ValidateError(failure)


def _written(counts: Mapping[str, tuple[int, int]]) -> int:
    """The bytes that all loads wrote, of the COUNTS of each."""
    return sum(written for _, written in counts.values())


def _gone(processes: Sequence[subprocess.Popen[bytes]]) -> bool:
    """Whether a load has ended."""
    return any(process.poll() is not None for process in processes)
