# SPDX-License-Identifier: Apache-2.0
"""Run the cases on a board: check the conditions, run the programs, clean up.

All files are in one folder on the recorder's partition. It is removed at the end, whether the run completed, failed,
or was interrupted by SIGTERM or SIGINT. After a power cut or SIGKILL the next run removes it. As in the paper, sysctls
stop the kernel's flusher, but only during the cases that require it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .paper import RECORD, Case
from .rows import Row, row

# the recorder's partition on a board; elsewhere any directory can be used
PARTITION = Path("/recorder")
FOLDER = ".bench"
SEGMENTS, SEGMENT_MIB = 17, 8
READ_FILE_MIB = 96
# a channel's segments (or, when it is gone, the 100 MB that write() uses), 100 MB each that a background program truncates
# and allocates, the file that is read, and space for ext4 itself
NEEDED_MIB = SEGMENTS * SEGMENT_MIB + 2 * 96 + READ_FILE_MIB + 32
PATIENCE_S = 60.0
VM = Path("/proc/sys/vm")
# pairs of ratio and bytes: one of a pair is in force, the other is 0
LIMITS = (("dirty_background_ratio", "dirty_background_bytes"), ("dirty_ratio", "dirty_bytes"))
EXPIRY = "dirty_expire_centisecs"
# figures in the reports of ek-recorder and ek-writer, and metrics of rows
METRICS = ("min", "p25", "p50", "p75", "p9999", "max", "avg")


class BoardError(RuntimeError):
    """Something failed. The message is one sentence."""


class RefusedError(BoardError):
    """Nothing can be measured here, and nothing was started."""


@dataclass(frozen=True)
class Settings:
    directory: Path  # directory of the recorder's channels
    recorder: str  # path of ek-recorder
    writes: int
    sets: int
    say: Callable[[str], None]


# --- conditions -----------------------------------------------------------------------------


def program(name: str) -> str:
    found = shutil.which(name)
    if not found:
        raise RefusedError(
            f"{name} is not installed; it is part of Evenkeel's loads and is needed for the comparison with write()"
        )
    return found


def check_not_in_use(directory: Path) -> None:
    """Raise RefusedError if a recorder is recording there: it locks the directory of each of its channels."""
    for channel in sorted(directory.iterdir()):
        if channel.name.startswith(".") or channel.name == "lost+found" or not channel.is_dir():
            continue
        fd = os.open(channel, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RefusedError(
                f"channel {channel.name} in {directory} is being recorded, which would falsify the measurement;"
                " stop the recorder first: systemctl stop ek-recorder.socket ek-recorder"
            ) from None
        finally:
            os.close(fd)


def check_room(directory: Path) -> None:
    stat = os.statvfs(directory)
    free = stat.f_bavail * stat.f_frsize >> 20
    if free < NEEDED_MIB:
        raise RefusedError(f"{directory} has {free} MiB free, but {NEEDED_MIB} MiB are needed")


@contextlib.contextmanager
def folder(directory: Path) -> Iterator[Path]:
    """Create an empty, locked folder; remove it afterwards."""
    at = directory / FOLDER
    at.mkdir(mode=0o700, exist_ok=True)
    fd = os.open(at, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RefusedError(f"{at}: another bench is running") from None
        try:
            empty(at)
            yield at
        finally:
            shutil.rmtree(at, ignore_errors=True)
    finally:
        os.close(fd)


def empty(at: Path) -> None:
    for path in at.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def medium(directory: Path) -> tuple[str, str]:
    """Return a description (device, file system, mount options) and the device's I/O scheduler, or "none"."""
    device = directory.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    description, scheduler = f"device {number}", "none"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        if left.split()[2] == number:
            kind, source, *_ = right.split()
            description = f"{source} ({kind}, {left.split()[5]})"
    block = Path("/sys/dev/block") / number
    # a partition has no queue of its own: use that of the whole device
    for queue in (block / "queue", block / ".." / "queue"):
        with contextlib.suppress(OSError):
            chosen = [w for w in (queue / "scheduler").read_text().split() if w.startswith("[")]
            scheduler = chosen[0].strip("[]") if chosen else "none"
            break
    return description, scheduler


# --- the flusher ----------------------------------------------------------------------------


def may_stop_flusher() -> bool:
    return os.access(VM / EXPIRY, os.W_OK)


@contextlib.contextmanager
def flusher_off() -> Iterator[None]:
    """Apply the paper's settings to the whole machine; restore the previous ones afterwards."""

    def get(name: str) -> str:
        return (VM / name).read_text().strip()

    was = [(ratio, get(ratio)) if get(bytes_) == "0" else (bytes_, get(bytes_)) for ratio, bytes_ in LIMITS]
    was.append((EXPIRY, get(EXPIRY)))
    try:
        for ratio, _ in LIMITS:
            (VM / ratio).write_text("100")
        (VM / EXPIRY).write_text("300000")
        yield
    finally:
        for name, value in was:
            (VM / name).write_text(value)


# --- programs -------------------------------------------------------------------------------


def at_work(process: subprocess.Popen[str]) -> None:
    """Wait until the process handles SIGTERM: from then on it exits with a report. report() handles one that has exited."""
    end = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < end:
        status = Path(f"/proc/{process.pid}/status").read_text()
        caught = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt:"))
        if caught >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.01)


def report(process: subprocess.Popen[str], name: str) -> dict[str, Any]:
    """Return the JSON object that the process prints last. Raises BoardError with its error message otherwise."""
    out, error = process.communicate()
    try:
        parsed: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    except (IndexError, ValueError):
        last = [*error.strip().splitlines(), "no message"][-1 if error.strip() else 0]
        raise BoardError(f"{name} failed (status {process.returncode}): {last}") from None
    return parsed


@contextlib.contextmanager
def started(*command: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Start a program; kill it at the end if it still runs."""
    with subprocess.Popen(
        [str(c) for c in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def run(*command: str | Path) -> dict[str, Any]:
    with started(*command) as process:
        return report(process, Path(command[0]).name)


class Bench:
    """Runs cases in one folder. Methods return rows, and raise BoardError and OSError."""

    def __init__(self, settings: Settings, at: Path, scheduler: str) -> None:
        self._settings = settings
        self._at = at
        self._scheduler = scheduler
        self._kernel = os.uname().release
        self._writer, self._disturb = program("ek-writer"), program("ek-disturb")
        self._alone: float | None = None

    def _rows(self, prefix: str, found: Mapping[str, float], unit: str = "us") -> list[Row]:
        return [row(f"{prefix}.{m}", v, unit, self._kernel, self._scheduler) for m, v in found.items()]

    def _read_file(self) -> tuple[Path, float]:
        """Return a file of incompressible data on the medium, and its read throughput without other load, MB/s."""
        path = self._at / "read"
        if not path.exists():
            with path.open("wb") as f:
                for _ in range(READ_FILE_MIB):
                    f.write(os.urandom(1 << 20))
                f.flush()
                os.fsync(f.fileno())
        if self._alone is None:
            self._alone = float(run(self._disturb, "--json", "--duration", "3s", "read", path)["mbps"])
        return path, self._alone

    @contextlib.contextmanager
    def _beside(self, what: Sequence[str], keeps: dict[str, float]) -> Iterator[None]:
        """Run background programs; then store in `keeps` the throughput that a reader kept, percent."""
        alone = self._read_file()[1] if "read" in what else 0.0
        with contextlib.ExitStack() as stack:
            running = [
                (w, stack.enter_context(started(self._disturb, "--json", w, self._at / w))) for w in what
            ]
            for _, process in running:
                at_work(process)
            yield
            for name, process in running:
                process.send_signal(signal.SIGTERM)
                mbps = float(report(process, f"ek-disturb {name}")["mbps"])
                if name == "read" and alone:
                    keeps["reader-keeps"] = round(100 * mbps / alone, 1)

    def write(self, case: Case) -> list[Row]:
        """Run the case with write(), as in the paper. Returns the figures of the worst set."""
        keeps: dict[str, float] = {}
        worst: dict[str, Any] = {}
        late = 0
        with contextlib.ExitStack() as stack:
            if not case.flusher:
                stack.enter_context(flusher_off())
            stack.enter_context(self._beside(case.beside, keeps))
            for _ in range(self._settings.sets):
                found = run(
                    self._writer, "--replace", "--record", str(RECORD), "--every", "5ms", "--total", "100MB",
                    "--writes", str(self._settings.writes), "--sync-every", "2MB", "--sync-thread", "--json",
                    "--allocate", case.allocate, "--sync", case.sync, self._at / "rec",
                )  # fmt: skip
                late += found["late"]
                worst = max(worst or found, found, key=lambda f: float(f["write_max_us"]))
        (self._at / "rec").unlink()
        return [
            *self._rows(case.row, {m: worst[f"write_{m}_us"] for m in METRICS}),
            *self._rows(case.row, {"late": late}, "writes"),
            *self._rows(case.row, keeps, "%"),
        ]

    def _configure(self, at: Path) -> None:
        (at / "channels.d").mkdir()
        keys = {
            "directory": self._at,
            "mountpoint": "no",
            "socket": at / "socket",
            "group": "",
            "statistics": at / "stats",
        }
        channel = {
            "record_size": RECORD, "period": "5ms", "window": "1s",
            "retain": f"{(SEGMENTS - 1) * SEGMENT_MIB}MiB", "segment": f"{SEGMENT_MIB}MiB",
        }  # fmt: skip
        for path, lines in ((at / "recorder.conf", keys), (at / "channels.d/bench.conf", channel)):
            path.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))

    def _ready(self, process: subprocess.Popen[str], stats: Path) -> None:
        """Wait until the recorder records and has created all segments, so that this work is not measured."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if process.poll() is not None:
                said = process.stderr.read().strip().splitlines() if process.stderr else []
                raise BoardError(f"ek-recorder exited: {said[-1] if said else 'no message'}")
            with contextlib.suppress(OSError, ValueError, KeyError):
                channel = json.loads(stats.read_text())["channels"]["bench"]
                if channel["state"] == "recording" and channel["segments"] == SEGMENTS:
                    return
                if channel["state"] == "failed":
                    raise BoardError(f"ek-recorder: {channel['reason']}")
            time.sleep(0.1)
        raise BoardError(f"ek-recorder did not create its segments within {PATIENCE_S:.0f} s")

    def record(self, name: str, beside: Sequence[str]) -> list[Row]:
        """Run the case with a recorder of its own, by ring. The flusher and all sysctls stay as they are."""
        keeps: dict[str, float] = {}
        with tempfile.TemporaryDirectory(prefix="ek-bench-") as conf:
            at = Path(conf)
            self._configure(at)
            if "read" in beside:
                self._read_file()
            with started(self._settings.recorder, "run", "--config", at) as recorder:
                self._ready(recorder, at / "stats")
                with self._beside(beside, keeps):
                    found = run(
                        self._settings.recorder, "bench", "--json", "--ring", "--config", at,
                        "--writes", str(self._settings.writes), "--sets", str(self._settings.sets), "bench",
                    )  # fmt: skip
                recorder.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    recorder.wait(PATIENCE_S)
        shutil.rmtree(self._at / "bench")
        durable = found["durable"] or {"late": 0, "lost": 0}
        prefix = f"rec.ek.{name}"
        return [
            *self._rows(prefix, {m: found[f"{m}_us"] for m in METRICS}),
            *self._rows(
                prefix, {"late": durable["late"], "lost": found["lost"] + durable["lost"]}, "records"
            ),
            *self._rows(prefix, keeps, "%"),
        ]


def measure(cases: Sequence[Case], settings: Settings) -> list[Row]:
    """Run all cases. Raises BoardError and OSError; KeyboardInterrupt on a signal."""
    directory = settings.directory
    if not directory.is_dir():
        raise RefusedError(
            f"{directory} is not a directory; set --directory to where the recorder's partition is mounted"
        )
    if directory == PARTITION and not directory.is_mount():
        raise RefusedError(f"{directory}: nothing is mounted there; mount the recorder's partition")
    check_not_in_use(directory)
    rows: list[Row] = []
    with folder(directory) as at:
        # after folder() has removed what an earlier run may have left
        check_room(directory)
        description, scheduler = medium(directory)
        bench = Bench(settings, at, scheduler)
        settings.say(f"measuring on {description}, scheduler {scheduler}, Linux {os.uname().release}")
        # the recorder first: a problem with it shows before the long cases
        recorder_cases: dict[str, tuple[str, ...]] = {}
        for case in cases:
            recorder_cases.setdefault(case.recorder_case, case.beside)
        for name, beside in recorder_cases.items():
            settings.say(f"case {name} with ek-recorder")
            rows += bench.record(name, beside)
        for case in cases:
            if not case.flusher and not may_stop_flusher():
                settings.say(
                    f"case {case.name.upper()} with write(): skipped, because only root may stop the flusher"
                )
                continue
            settings.say(f"case {case.name.upper()} with write()")
            rows += bench.write(case)
    return rows
