# SPDX-License-Identifier: Apache-2.0
"""The guard: it restores the board if the run is killed, and only then."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from evenkeel_validate import guard

RUN = """
import sys, time
sys.path[:0] = sys.argv[2:]
from evenkeel_validate import guard
guard.PROGRAM = sys.argv[1]
with guard.watching():
    print("runs", flush=True)
    time.sleep(float(sys.stdin.readline()))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program in the place of ek-validate. It says that it has run, and with which arguments."""
    path = tmp_path / "ek-validate"
    path.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/new\nmv {tmp_path}/new {tmp_path}/ran\n')
    path.chmod(0o755)
    return path


def started(program: Path) -> subprocess.Popen[str]:
    run = subprocess.Popen(
        [sys.executable, "-c", RUN, str(program), *sys.path],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert run.stdout
    assert run.stdout.readline() == "runs\n"
    return run


def guards(program: Path) -> list[int]:
    """The ids of the guards of PROGRAM that are alive."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"GUARDED={program}\0".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_a_killed_run_is_restored(program: Path, number: signal.Signals) -> None:
    """Also if the signal goes to the whole process group, as from a terminal that closes."""
    run = started(program)
    assert len(guards(program)) == 1
    os.killpg(run.pid, number)
    run.wait()
    ran = program.with_name("ran")
    deadline = time.monotonic() + 20
    while not ran.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert ran.read_text() == "restore\n"


def test_the_guard_of_a_run_that_ends_does_nothing(program: Path) -> None:
    run = started(program)
    run.communicate("0\n")
    assert run.returncode == 0
    deadline = time.monotonic() + 20
    while guards(program) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert guards(program) == []
    assert not program.with_name("ran").exists()


def test_the_guard_has_neither_the_name_nor_the_words_of_the_run(program: Path) -> None:
    """`pkill -9 ek-validate` and `pkill -9 -f ek-validate` must not end it."""
    run = started(program)
    (pid,) = guards(program)
    assert "validate" not in Path(f"/proc/{pid}/comm").read_text()
    assert "validate" not in Path(f"/proc/{pid}/cmdline").read_text()
    run.communicate("0\n")


def test_a_run_goes_on_without_a_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "PROGRAM", "/absent/ek-validate")
    with guard.watching():
        pass
