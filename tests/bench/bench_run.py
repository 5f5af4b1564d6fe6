# SPDX-License-Identifier: Apache-2.0
"""Runs the lab as a user does, and the quick bench once for all tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from lab import bench
from lab.model import Row

TOP = Path(__file__).resolve().parents[2]


class Quick(NamedTuple):
    """How the quick bench ended, the folder that it wrote, and its rows."""

    done: subprocess.CompletedProcess[str]
    out: Path
    rows: list[Row]


def cli(*args: str, timeout: float = 1200) -> subprocess.CompletedProcess[str]:
    """`lab ARGS…`, run to its end."""
    return subprocess.run(
        [sys.executable, "-m", "lab", *args], cwd=TOP / "tests/lab", capture_output=True, text=True,
        timeout=timeout, check=False,
    )  # fmt: skip


def quick_bench() -> Quick:
    out = TOP / "build/bench-quick"
    done = cli("bench", "--quick", "--out", str(out))
    print(done.stdout[-3000:], done.stderr[-3000:])
    return Quick(done, out, bench.read(out / "results.json"))
