# SPDX-License-Identifier: Apache-2.0
"""Code that the tests of all programs share.

The environment variable EK_BUILD names the build directory. The test files are in it,
because they must be on a disk: a tmpfs cannot drop pages from the page cache.
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
READER = str(BUILD / "ek-light-reader")
WRITER = str(BUILD / "ek-writer")
DISTURB = str(BUILD / "ek-disturb")
APPSTART = str(BUILD / "ek-appstart")
COMMITS = str(BUILD / "ek-commits")


def run(*args: str, limit: float = 30) -> subprocess.CompletedProcess[str]:
    return subprocess.run(args, capture_output=True, text=True, timeout=limit, check=False)


def summary(*args: str, limit: float = 30) -> dict[str, Any]:
    """Run a program with --json, and return its summary. The program must succeed and print nothing else."""
    out = run(*args, "--json", limit=limit)
    assert (out.returncode, out.stderr) == (0, "")
    result: dict[str, Any] = json.loads(out.stdout)
    return result


@contextlib.contextmanager
def running(*args: str) -> Iterator[subprocess.Popen[str]]:
    """Start a program that runs until a signal ends it. At the end of the `with` block it is killed."""
    with subprocess.Popen(args, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as proc:
        try:
            yield proc
        finally:
            proc.kill()


def stopped(proc: subprocess.Popen[str], sig: signal.Signals = signal.SIGTERM) -> dict[str, Any]:
    """End a program by a signal, and return its summary. It must end within 10 s and print nothing else."""
    proc.send_signal(sig)
    out, err = proc.communicate(timeout=10)
    assert (proc.returncode, err) == (0, "")
    result: dict[str, Any] = json.loads(out)
    return result


def wait_for(condition: Callable[[], bool], limit: float = 20) -> None:
    """Wait until the condition holds, at most `limit` seconds. The default is long enough for slow hosts."""
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, f"the condition did not hold within {limit:g} s"
        time.sleep(0.02)


def refused(out: subprocess.CompletedProcess[str], status: int, message: str) -> None:
    """Assert that a program ended with this status, and printed one line of error that contains the message."""
    assert (out.returncode, out.stdout) == (status, ""), out.stderr
    assert message in out.stderr
    assert out.stderr.count("\n") == 1


def in_order(row: dict[str, Any], name: str) -> None:
    """Assert that the percentiles of a latency do not fall from min to max, and that the mean is between both."""
    steps = [row[f"{name}_{p}_us"] for p in ("min", "p50", "p99", "p999", "p9999", "max")]
    assert steps == sorted(steps)
    assert row[f"{name}_min_us"] <= row[f"{name}_avg_us"] <= row[f"{name}_max_us"]
