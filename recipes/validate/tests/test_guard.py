# SPDX-License-Identifier: Apache-2.0
"""The guard: it restores the board if the run is killed, and only then."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from evenkeel_validate import guard

GUARD = """
import sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from evenkeel_validate import guard
Path(sys.argv[1]).write_text("killed" if guard.killed() else "ended")
"""
RUN = """
import sys, time
sys.path[:0] = sys.argv[3:]
from evenkeel_validate import guard
with guard.watching([sys.executable, "-c", sys.argv[1], sys.argv[2], *sys.argv[3:]]):
    print("runs", flush=True)
    time.sleep(float(sys.stdin.readline()))
"""


@pytest.mark.parametrize("killed", [True, False])
def test_the_guard_knows_how_the_run_ended(tmp_path: Path, killed: bool) -> None:
    found = tmp_path / "found"
    run = subprocess.Popen(
        [sys.executable, "-c", RUN, GUARD, str(found), *sys.path],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert run.stdin
    assert run.stdout
    assert run.stdout.readline() == "runs\n"
    run.stdin.write("30\n" if killed else "0\n")
    run.stdin.flush()
    if killed:
        run.send_signal(signal.SIGKILL)
    run.wait()
    deadline = time.monotonic() + 20
    while not found.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert found.read_text() == ("killed" if killed else "ended")


def test_a_run_goes_on_without_a_guard() -> None:
    with guard.watching(["/absent/ek-validate"]):
        pass
