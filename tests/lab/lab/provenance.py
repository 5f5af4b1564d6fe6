# SPDX-License-Identifier: Apache-2.0
"""The versions that the figures depend on: revision of this project, emulator, kernel that ran."""

from __future__ import annotations

import re
import subprocess

from lab import qemu
from lab.kernels import TOP
from lab.model import LabError
from lab.runner import Result


def revision() -> str:
    """The revision of the work tree, with `-dirty` if it has changes; `unknown` without git."""
    try:
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", str(TOP), "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    except OSError:
        return "unknown"
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def emulator() -> str:
    """QEMU's version number. Raises LabError."""
    found = re.search(r"version (\S+(?: \([^)]*\))?)", qemu.version())
    return found.group(1) if found else qemu.version()


def release(result: Result) -> str | None:
    """The `uname -r` that the guest reported. Raises LabError if another kernel was asked for."""
    job = result.job
    reported = result.output.results.get("kernel")
    if reported is None:
        return None
    if not re.match(rf"{re.escape(job.kernel)}(?!\d)", reported.strip()):
        raise LabError(
            f"{job.name}: kernel {job.kernel} was asked for, but the guest ran {reported.strip() or 'an unknown one'}"
        )
    return reported.strip()
