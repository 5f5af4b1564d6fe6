# SPDX-License-Identifier: Apache-2.0
"""What systemd says about a unit file. The test is skipped where systemd-analyze cannot run."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest


def exposure(unit: Path) -> float:
    """The overall exposure level of the unit, from 0 (safe) to 10, by `systemd-analyze security`."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"Overall exposure level for .*: ([0-9.]+)", done.stdout)
    if not found:
        pytest.skip(f"systemd-analyze cannot run here: {done.stderr.strip()}")
    return float(found[1])
