# SPDX-License-Identifier: Apache-2.0
"""Boot a kernel and an initramfs in QEMU and collect what the guest reports.

With the virtual clock (`-icount`), guest time is executed instructions plus
skipped idle time, so figures do not depend on how busy the host is.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

SPLAT = re.compile(
    r"BUG:|WARNING:|Kernel panic|general protection|Oops|UBSAN|KASAN|possible (?:circular|recursive) locking|"
    r"inconsistent lock state|INFO: task .* blocked|soft lockup|suspicious RCU|refcount_t:|memory leak"
)


class GuestError(RuntimeError):
    """The guest did not finish as it should; the message names the serial log."""


@dataclass(frozen=True)
class Machine:
    """A guest: `kernel` image, memory in MiB, CPUs, and its clock.

    `icount_shift` N makes one instruction last 2**N ns of guest time; None
    runs on the host's clock, then several CPUs are allowed.
    """

    kernel: Path
    memory: int = 1024
    cpus: int = 1
    icount_shift: int | None = 0
    timeout: float = 300.0


@dataclass(frozen=True)
class Output:
    """`results` are the sections that the guest wrote, by name; `serial` is the console's log."""

    results: dict[str, str]
    serial: str


def _sections(text: str) -> dict[str, str]:
    """Split `@@@ NAME` … sections; the section `end` must be there."""
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


def run(machine: Machine, initramfs: Path, workdir: Path, name: str, append: str = "") -> Output:
    """Run the guest to its power-off. Raises GuestError on a splat, a panic, a hang or a missing end."""
    workdir.mkdir(parents=True, exist_ok=True)
    serial, report = workdir / f"{name}.serial.log", workdir / f"{name}.report"
    for f in (serial, report):
        f.unlink(missing_ok=True)
    argv = [
        "qemu-system-x86_64", "-M", "q35", "-cpu", "max", "-nodefaults", "-no-user-config",
        "-display", "none", "-no-reboot", "-m", str(machine.memory), "-smp", str(machine.cpus),
        "-kernel", str(machine.kernel), "-initrd", str(initramfs),
        "-append", f"console=ttyS0 quiet loglevel=5 panic=-1 oops=panic {append}".strip(),
        "-chardev", f"file,id=con,path={serial}", "-serial", "chardev:con",
        "-chardev", f"file,id=rep,path={report}", "-serial", "chardev:rep",
    ]  # fmt: skip
    if machine.icount_shift is None:
        argv += ["-accel", "tcg,thread=multi"]
    else:
        argv += ["-accel", "tcg", "-icount", f"shift={machine.icount_shift},sleep=off"]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as qemu:
        try:
            _, err = qemu.communicate(timeout=machine.timeout)
        except subprocess.TimeoutExpired:
            qemu.kill()
            raise GuestError(f"{name}: no end within {machine.timeout:.0f} s; see {serial}") from None
        finally:
            if qemu.poll() is None:
                qemu.kill()
    log = serial.read_text(errors="replace") if serial.exists() else ""
    if qemu.returncode != 0:
        raise GuestError(f"{name}: QEMU failed ({qemu.returncode}): {err.strip()[-400:]}; see {serial}")
    if splat := SPLAT.search(log):
        line = log[log.rfind("\n", 0, splat.start()) + 1 :].splitlines()[0]
        raise GuestError(f"{name}: the guest's kernel complained: {line.strip()}; see {serial}")
    results = _sections(report.read_text(errors="replace") if report.exists() else "")
    if "end" not in results:
        last = log.strip().splitlines()[-1:] or ["(empty)"]
        raise GuestError(f"{name}: the guest ended without a result; last line: {last[0]}; see {serial}")
    if failed := results.get("failed"):
        raise GuestError(f"{name}: in the guest: {failed.strip()}; see {serial}")
    return Output(results, log)
