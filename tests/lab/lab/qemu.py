# SPDX-License-Identifier: Apache-2.0
"""Boots a kernel and an initramfs in QEMU and collects the guest's report.

On the virtual clock (`-icount`) guest time is executed instructions plus skipped
idle time, so figures do not depend on how busy the host is.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from lab.kernels import digest
from lab.model import LabError, Output

SPLAT = re.compile(
    r"BUG:|WARNING:|Kernel panic|general protection|Oops|UBSAN|KASAN|possible (?:circular|recursive) locking|"
    r"inconsistent lock state|INFO: task .* blocked|soft lockup|suspicious RCU|refcount_t:|memory leak"
)
# one report of KCSAN, up to its last line; KCSAN reports races in the kernel itself, too
_RACE = re.compile(r"BUG: KCSAN: .*?\n(?:\[[^\n]*\] )?={20,}", re.DOTALL)
# The first line names the two racing functions. Their callers do not matter.
OURS = re.compile(r"BUG: KCSAN: .*\[(?:evenkeel|flashsim)\]")
# the most that a guest may write to each of its serial log and its report, MB
OUTPUT_MB = 64


# the section `failed`, up to the next section
_FAILED = re.compile(r"@@@ failed\r?\n(.*?)(?=^@@@ |\Z)", re.DOTALL | re.MULTILINE)
# running guests, and whether new ones are refused
_guests: set[subprocess.Popen[str]] = set()
_refused = False
_guard = threading.Lock()


class GuestError(LabError):
    """The guest failed or did not finish. The message names the serial log."""


@dataclass(frozen=True)
class Machine:
    """A guest's hardware: `kernel` image, memory in MiB, CPUs, clock, and an optional disk.

    - `icount_shift` N: one instruction takes 2**N ns of guest time. None: the guest
      runs on the host's clock, and its CPUs run in parallel.
    - `timeout`: the longest run in seconds of host time.
    - `drive_mb`: size of a virtio disk. QEMU throttles it by `throttle`, always on the
      host's clock.
    - `disk`: the file of a virtio disk that the guest only reads.
    - `seed`: the source of all randomness of a guest on the virtual clock, for example
      of the kernel's load address and of the UUIDs that mke2fs generates.
    """

    kernel: Path
    memory: int = 1024
    cpus: int = 1
    icount_shift: int | None = 0
    timeout: float = 300.0
    drive_mb: int = 0
    throttle: Mapping[str, int] = field(default_factory=dict)
    seed: int = 1
    disk: Path | None = None

    def command(
        self, initramfs: Path, serial: Path, report: Path, drive: Path, append: str = ""
    ) -> list[str]:
        """QEMU's complete command line. The command line (except paths) and the content of the files determine the figures."""
        kernel = f"console=ttyS0 quiet loglevel=5 panic=-1 oops=panic {self._append()} {append}".strip()
        argv = [
            "qemu-system-x86_64", *self._arguments(),
            "-kernel", str(self.kernel), "-initrd", str(initramfs), "-append", kernel,
            "-chardev", f"file,id=con,path={serial}", "-serial", "chardev:con",
            "-chardev", f"file,id=rep,path={report}", "-serial", "chardev:rep",
        ]  # fmt: skip
        if self.drive_mb:
            limits = "".join(f",throttling.{k.replace('_', '-')}={v}" for k, v in self.throttle.items())
            # werror=report: if the host's disk is full, the guest gets an error and does not wait for ever
            argv += [
                "-drive", f"file={drive},format=raw,if=none,id=d,cache=unsafe,werror=report{limits}",
                "-device", "virtio-blk-pci,drive=d,num-queues=1",
            ]  # fmt: skip
        if self.disk:
            argv += [
                "-drive", f"file={self.disk},format=raw,if=none,id=r,readonly=on",
                "-device", "virtio-blk-pci,drive=r",
            ]  # fmt: skip
        return argv

    def _arguments(self) -> list[str]:
        argv = [
            # TCG executes and counts string instructions byte by byte. Without erms and
            # fsrm the kernel does not use them, and a copy costs about what it does on a board.
            "-M", "q35", "-cpu", "max,-erms,-fsrm", "-nodefaults", "-no-user-config", "-display", "none",
            "-no-reboot", "-m", str(self.memory), "-smp", str(self.cpus),
        ]  # fmt: skip
        if self.icount_shift is None:
            return [*argv, "-accel", "tcg,thread=multi"]
        return [
            *argv, "-accel", "tcg", "-icount", f"shift={self.icount_shift},sleep=off",
            "-seed", str(self.seed), "-rtc", "base=2026-01-01T00:00:00,clock=vm",
        ]  # fmt: skip

    def _append(self) -> str:
        """The kernel parameters that this machine needs."""
        if self.icount_shift is None or self.cpus > 1:
            return ""
        # To calibrate the APIC timer, the kernel waits for 200 ms in a loop of `pause`. The emulator leaves its
        # translated code at each `pause`, which takes half of the boot time. The HPET needs no calibration.
        return "nolapic_timer"


@functools.lru_cache(maxsize=1)
def version() -> str:
    """QEMU's version line. Raises LabError when QEMU is missing."""
    if shutil.which("qemu-system-x86_64") is None:
        raise LabError(
            "qemu-system-x86_64 is not on PATH; run the lab inside the build root: toolroot/enter …"
        )
    out = subprocess.run(["qemu-system-x86_64", "--version"], capture_output=True, text=True, check=True)
    return out.stdout.splitlines()[0]


@functools.lru_cache(maxsize=1)
def firmware() -> str:
    """SHA-256 of the firmware that runs before the guest's kernel. Raises LabError when QEMU is missing."""
    version()
    found = subprocess.run(["qemu-system-x86_64", "-L", "help"], capture_output=True, text=True, check=True)
    folders = [Path(line.strip()) for line in found.stdout.splitlines() if line.strip()]
    sums = hashlib.sha256()
    for name in ("bios-256k.bin", "linuxboot_dma.bin", "kvmvapic.bin"):
        file = next((f / name for f in folders if (f / name).is_file()), None)
        sums.update(f"{name} {digest(file) if file else '-'}\n".encode())
    return sums.hexdigest()


def _sections(text: str) -> dict[str, str]:
    """The sections of a report by name. A line `@@@ NAME` begins a section."""
    sections: dict[str, str] = {}
    name = ""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("@@@ "):
            if name:
                sections[name] = "\n".join(lines)
            name, lines = line[4:].strip(), []
        else:
            lines.append(line)
    if name:
        sections[name] = "\n".join(lines)
    return sections


def _one_line(text: str) -> str:
    """A guest's text for use in a message: on one line, printable, at most 400 characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= 400 else f"{line[:400]}…"


def failure(reported: str) -> str | None:
    """The reason that the guest reported in its section `failed`; None without one.

    The section may begin in the middle of a line of another section.
    """
    found = _FAILED.search(reported)
    return None if found is None else _one_line(found[1]) or "a command failed without a message"


def complaint(log: str) -> str | None:
    """The first line of a serial log in which the kernel reports a defect.

    A data race counts only if evenkeel or flashsim takes part in it.
    """
    log = _RACE.sub(lambda race: race[0] if OURS.search(race[0]) else "", log)
    if not (splat := SPLAT.search(log)):
        return None
    return log[log.rfind("\n", 0, splat.start()) + 1 :].splitlines()[0].strip()


def _free_mb(path: Path) -> float:
    stat = os.statvfs(path)
    return stat.f_bavail * stat.f_frsize / 1e6


def need_space(path: Path, name: str, mb: float) -> None:
    """Raises LabError when the file system of `path` has less than `mb` MB free."""
    if (free := _free_mb(path)) < mb:
        raise LabError(f"{name}: the disk of {path} is full: {free:.0f} MB free, a guest needs {mb:.0f}")


@contextmanager
def ending() -> Iterator[None]:
    """Kill all guests, and refuse to start new ones while the context lasts."""
    global _refused
    with _guard:
        _refused = True
        for guest in _guests:
            guest.kill()
    try:
        yield
    finally:
        with _guard:
            _refused = False


def _started(argv: Sequence[str], fds: Sequence[int], name: str) -> subprocess.Popen[str]:
    with _guard:
        if _refused:
            raise LabError(f"{name}: not started, because the lab is ending")
        guest = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", pass_fds=fds
        )
        _guests.add(guest)
        return guest


def _new_file(path: Path) -> BinaryIO:
    """A new empty file at `path`. Another lab that has the old file of that name open keeps it."""
    part = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        opened = part.open("w+b")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return opened


def serial_log(workdir: Path, name: str) -> Path:
    """The console log of the last guest of that name."""
    return workdir / f"{name}.serial.log"


def run(machine: Machine, initramfs: Path, workdir: Path, name: str, append: str = "") -> Output:
    """Run the guest until it switches itself off.

    Raises GuestError for a kernel warning or panic, a hang, or a report without its
    end; LabError when the disk is full; OSError.
    """
    version()
    workdir.mkdir(parents=True, exist_ok=True)
    need_space(workdir, name, OUTPUT_MB + machine.drive_mb)
    serial = serial_log(workdir, name)
    with ExitStack() as files:
        archive = files.enter_context(initramfs.open("rb"))
        console = files.enter_context(_new_file(serial))
        report = files.enter_context(_new_file(workdir / f"{name}.report"))
        # An unnamed file disappears even if the lab is killed.
        drive = files.enter_context(tempfile.TemporaryFile(dir=workdir))
        drive.truncate(machine.drive_mb << 20)
        fds = [f.fileno() for f in (archive, console, report, drive)]
        initrd, log_path, report_path, drive_path = (Path(f"/proc/self/fd/{fd}") for fd in fds)
        # prlimit: a guest that writes without end must not fill the disk.
        # setpriv: if the lab is killed, the kernel kills the emulator, too.
        argv = [
            "prlimit",
            f"--fsize={max(OUTPUT_MB, machine.drive_mb) << 20}",
            "setpriv",
            "--pdeathsig",
            "KILL",
        ]
        argv += machine.command(initrd, log_path, report_path, drive_path, append)
        with _started(argv, fds, name) as qemu:
            try:
                _, err = qemu.communicate(timeout=machine.timeout)
            except subprocess.TimeoutExpired:
                seen = serial.read_text(errors="replace")
                says = complaint(seen) or (seen.strip().splitlines() or ["(nothing)"])[-1]
                raise GuestError(
                    f"{name}: no end within {machine.timeout:.0f} s of host time; the serial log "
                    f"says: {_one_line(says)}; see {serial}"
                ) from None
            finally:
                if qemu.poll() is None:
                    qemu.kill()
                with _guard:
                    _guests.discard(qemu)
        log, reported = (f.read().decode(errors="replace") for f in (console, report))
    if qemu.returncode == -signal.SIGXFSZ:
        raise GuestError(f"{name}: the guest wrote more than {OUTPUT_MB} MB of log or report; see {serial}")
    if qemu.returncode != 0:
        message = "; ".join(line.strip() for line in err.splitlines() if line.strip())[-400:]
        raise GuestError(f"{name}: QEMU failed ({qemu.returncode}): {message}; see {serial}")
    if line := complaint(log):
        raise GuestError(f"{name}: the guest's kernel complained: {_one_line(line)}; see {serial}")
    results = _sections(reported)
    if (failed := failure(reported)) is not None:
        raise GuestError(f"{name}: in the guest: {failed}; see {serial}")
    if "end" not in results:
        # QEMU drops output that it cannot write, and reports no error
        need_space(workdir, name, 1)
        last = log.strip().splitlines()[-1:] or ["(empty)"]
        raise GuestError(
            f"{name}: the guest ended without a result; last line: {_one_line(last[0])}; see {serial}"
        )
    return Output(results, log)
