# SPDX-License-Identifier: Apache-2.0
"""What figures were measured with: the revision of this project, the emulator, the kernel that really ran."""

from __future__ import annotations

import re
import subprocess

from lab import qemu
from lab.kernels import TOP
from lab.model import LabError
from lab.runner import Result


def revision() -> str:
    """Of the work tree; `-dirty` where it has changes, `unknown` where there is no git."""
    try:
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", str(TOP), "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    except OSError:
        return "unknown"
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def emulator() -> str:
    """QEMU's version, without its makers. Raises LabError."""
    found = re.search(r"version (\S+(?: \([^)]*\))?)", qemu.version())
    return found.group(1) if found else qemu.version()


def release(result: Result) -> str | None:
    """The `uname -r` that the guest reported. Raises LabError when that is not the kernel that was asked for."""
    job = result.job
    said = result.output.results.get("kernel")
    if said is None:
        return None
    if not re.match(rf"{re.escape(job.kernel)}(?!\d)", said.strip()):
        raise LabError(f"{job.name}: kernel {job.kernel} was asked for, {said.strip() or 'none'} has run")
    return said.strip()
