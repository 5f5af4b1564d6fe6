# SPDX-License-Identifier: Apache-2.0
"""What `make demo`, `make stop` and `make flash` say to a person who cannot have what they asked for."""

import fcntl
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

IMAGE = Path(__file__).resolve().parents[1]
TOP = IMAGE.parents[1]


@pytest.fixture
def run_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "run"
    shutil.rmtree(tmp_path, ignore_errors=True)


def call(program: str, run: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(IMAGE / program), *args],
        env={**os.environ, "EVENKEEL_RUN": str(run), **env},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_a_busy_port_is_named_with_a_way_out(run_dir: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        out = call("demo", run_dir, EVENKEEL_PORT=str(port))
    assert out.returncode == 1
    assert str(port) in out.stderr
    assert f"EVENKEEL_PORT={port + 1}" in out.stderr
    assert "Traceback" not in out.stderr


@pytest.mark.parametrize("port", ["0", "65536", "https", "-1"])
def test_what_is_no_port_is_refused(run_dir: Path, port: str) -> None:
    out = call("demo", run_dir, EVENKEEL_PORT=port)
    assert out.returncode == 1
    assert f"EVENKEEL_PORT={port} is not a port" in out.stderr


def test_a_second_demo_says_which_one_runs(run_dir: Path) -> None:
    run_dir.mkdir()
    state = {"pid": 4711, "port": 8443, "url": "https://127.0.0.1:8443/"}
    (run_dir / "demo.json").write_text(json.dumps(state))
    with (run_dir / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        out = call("demo", run_dir)
    assert out.returncode == 1
    assert "https://127.0.0.1:8443/" in out.stderr
    assert "4711" in out.stderr
    assert "make stop" in out.stderr


def test_a_stale_note_is_not_a_running_demo(run_dir: Path) -> None:
    run_dir.mkdir()
    (run_dir / "demo.json").write_text("{")
    (run_dir / "lock").touch()
    out = call("stop", run_dir)
    assert (out.returncode, out.stdout.strip()) == (0, "stop: no board is running")


@pytest.mark.parametrize(
    ("device", "says"),
    [("", "say which medium"), ("/dev/null", "not a block device"), ("/nonexistent", "not a block device")],
)
def test_flash_refuses_what_is_no_medium(run_dir: Path, device: str, says: str) -> None:
    out = call("flash", run_dir, device)
    assert out.returncode == 1
    assert says in out.stderr
