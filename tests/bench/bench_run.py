# SPDX-License-Identifier: Apache-2.0
"""Runs the lab as a user does, and the quick bench once for all tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import sample
from lab import bench
from lab.model import Row
from quick_rows import QUICK

TOP = Path(__file__).resolve().parents[2]


# `make test` runs one of this many parts of the quick bench. In each part are reads, writes, a recorder, devices that are
# calibrated, and figures of the README.
PARTS = 3


class Quick(NamedTuple):
    """How the quick bench ended, the folder that it wrote, the experiments that were to run, and their rows."""

    done: subprocess.CompletedProcess[str]
    out: Path
    experiments: list[str]
    rows: list[Row]


def cli(*args: str, timeout: float = 1200) -> subprocess.CompletedProcess[str]:
    """`lab ARGS…`, run to its end."""
    return subprocess.run(
        [sys.executable, "-m", "lab", *args], cwd=TOP / "tests/lab", capture_output=True, text=True,
        timeout=timeout, check=False,
    )  # fmt: skip


def quick_bench() -> Quick:
    """Runs the drawn part of the quick bench."""
    experiments = drawn()
    out = TOP / "build/bench-quick"
    only = [word for name in experiments for word in ("--only", name)]
    done = cli("bench", "--quick", "--out", str(out), *only, timeout=3600)
    print(done.stdout[-3000:], done.stderr[-3000:])
    return Quick(done, out, experiments, bench.read(out / "results.json"))


def parts() -> list[list[str]]:
    """The experiments of the quick bench in PARTS parts. Similar experiments are neighbours in QUICK, so each part has some."""
    return [list(QUICK)[part::PARTS] for part in range(PARTS)]


def drawn() -> list[str]:
    """The experiments of the quick bench that run: one part, drawn by the seed; all with DEEP=1."""
    return [name for part in sample.sample("part of the quick bench", parts()) for name in part]
