# SPDX-License-Identifier: Apache-2.0
"""What the tests of all programs share.

EK_BUILD names the build directory; its disk also holds the test files, because
a tmpfs has no direct I/O and keeps what it is told to drop.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MIB = 1 << 20
BUILD = Path(os.environ.get("EK_BUILD", "."))
PLAYER = str(BUILD / "ek-player")
LOADER = str(BUILD / "ek-loader")
WRITER = str(BUILD / "ek-writer")
DISTURB = str(BUILD / "ek-disturb")
APPSTART = str(BUILD / "ek-appstart")


def run(*args: str, limit: float = 30) -> subprocess.CompletedProcess[str]:
    return subprocess.run(args, capture_output=True, text=True, timeout=limit, check=False)


def summary(*args: str, limit: float = 30) -> dict[str, Any]:
    """Run a program with --json; it must succeed and say nothing else."""
    out = run(*args, "--json", limit=limit)
    assert (out.returncode, out.stderr) == (0, "")
    result: dict[str, Any] = json.loads(out.stdout)
    return result


@contextlib.contextmanager
def running(*args: str) -> Iterator[subprocess.Popen[str]]:
    """A program that goes on until it is told to end; killed if the test ends before."""
    with subprocess.Popen(args, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as proc:
        try:
            yield proc
        finally:
            proc.kill()


def stopped(proc: subprocess.Popen[str], sig: signal.Signals = signal.SIGTERM) -> dict[str, Any]:
    """Tell it to end: it does within seconds, and prints its summary and nothing else."""
    proc.send_signal(sig)
    out, err = proc.communicate(timeout=10)
    assert (proc.returncode, err) == (0, "")
    result: dict[str, Any] = json.loads(out)
    return result


def wait_for(what: Callable[[], bool], limit: float = 20) -> None:
    """Until it is so; however slow the host, no test asks for less than 20 s."""
    end = time.monotonic() + limit
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def refused(out: subprocess.CompletedProcess[str], status: int, says: str) -> None:
    """It ended with that status and one line that says so."""
    assert (out.returncode, out.stdout) == (status, ""), out.stderr
    assert says in out.stderr
    assert out.stderr.count("\n") == 1


def in_order(row: dict[str, Any], name: str) -> None:
    """The percentiles of a latency do not contradict each other."""
    steps = [row[f"{name}_{p}_us"] for p in ("min", "p50", "p99", "p999", "p9999", "max")]
    assert steps == sorted(steps)
    assert row[f"{name}_min_us"] <= row[f"{name}_avg_us"] <= row[f"{name}_max_us"]
