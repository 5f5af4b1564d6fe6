# SPDX-License-Identifier: Apache-2.0
"""The messages of `make demo`, `make stop`, `make clean` and `make flash` when they refuse an order of the user."""

import fcntl
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

IMAGE = Path(__file__).resolve().parents[1]
TOP = IMAGE.parents[1]


@pytest.fixture
def run_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "run"
    shutil.rmtree(tmp_path, ignore_errors=True)


def call(program: str, run: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(IMAGE / "src" / program), *args],
        env={**os.environ, "EVENKEEL_RUN": str(run), **env},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_a_busy_port_is_named_and_a_free_one_proposed(run_dir: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        out = call("demo", run_dir, EVENKEEL_PORT=str(port))
        assert out.returncode == 1
        assert f"port {port} on" in out.stderr
        advice = re.search(r"Choose another one: make demo EVENKEEL_PORT=(\d+)$", out.stderr)
        assert advice, out.stderr
        with socket.socket() as proposed:
            proposed.bind(("127.0.0.1", int(advice[1])))


def test_no_port_above_65535_is_proposed(run_dir: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 65535))
        out = call("demo", run_dir, EVENKEEL_PORT="65535")
    proposed = re.search(r"EVENKEEL_PORT=(\d+)$", out.stderr)
    assert proposed, out.stderr
    assert 1024 <= int(proposed[1]) < 65535


@pytest.mark.parametrize("port", ["0", "65536", "https", "-1"])
def test_an_invalid_port_is_refused(run_dir: Path, port: str) -> None:
    out = call("demo", run_dir, EVENKEEL_PORT=port)
    assert out.returncode == 1
    assert f"EVENKEEL_PORT={port} is not a port" in out.stderr


@contextmanager
def running(run: Path, **state: object) -> Iterator[None]:
    """A fake machine: it holds the lock of the run directory, and does nothing else."""
    run.mkdir(parents=True)
    if state:
        (run / "demo.json").write_text(json.dumps(state))
    with (run / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


URL = "https://127.0.0.1:8443/"


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"pid": 4711, "url": URL, "up": True}, f"a board is running already (pid 4711). Its panel: {URL}"),
        ({"pid": 4711, "url": URL, "up": False}, f"booting already (pid 4711). Its panel will be at {URL}"),
        ({"pid": 4711, "url": "none"}, "a board is running already (pid 4711)"),
        ({}, "a board is running already (in "),
    ],
)
def test_a_second_demo_names_the_running_one(run_dir: Path, state: dict[str, object], message: str) -> None:
    with running(run_dir, **state):
        out = call("demo", run_dir)
    assert out.returncode == 1
    assert message in out.stderr
    assert "'make stop' shuts it down" in out.stderr


def test_stop_reports_a_board_that_it_could_not_end(run_dir: Path) -> None:
    with running(run_dir):
        out = call("stop", run_dir, "--within", "0")
    assert out.returncode == 1
    assert "the board is still running" in out.stderr


def make(*goals: str) -> subprocess.CompletedProcess[str]:
    # Remove the variables that a make sets when it runs these tests.
    own = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k != "MFLAGS"}
    return subprocess.run(
        ["make", "-C", TOP, "--no-print-directory", *goals],
        env=own, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["run", "test-boot"])
def test_clean_spares_a_board_that_runs(tmp_path: Path, name: str) -> None:
    build = tmp_path / "build"
    goals = ("clean", f"B={build}", f"EVENKEEL_CACHE={build / 'cache'}")
    with running(build / name, pid=4711, url=URL, up=True):
        (build / name / "disk.qcow2").touch()
        out = make(*goals)
        assert out.returncode != 0
        assert URL in out.stderr
        assert "make stop" in out.stderr
        assert (build / name / "disk.qcow2").exists()
    (build / "cache").mkdir()
    out = make(*goals)
    assert (out.returncode, out.stderr) == (0, "")
    assert [path.name for path in build.iterdir()] == ["cache"]


@pytest.mark.parametrize(
    ("goal", "kernel", "message"),
    [
        ("image", "9.9", "no kernel '9.9'"),
        ("demo", "5.10", "5.10 is a binary kernel"),
        ("help", "9.9", ""),
    ],
)
def test_an_unavailable_kernel_is_refused_by_goals_that_need_it(goal: str, kernel: str, message: str) -> None:
    out = make(goal, f"KERNEL={kernel}")
    assert (out.returncode != 0) == bool(message)
    assert message in out.stderr


def test_notes_of_an_ended_board_are_no_running_board(run_dir: Path) -> None:
    run_dir.mkdir()
    (run_dir / "demo.json").write_text("{")
    (run_dir / "lock").touch()
    out = call("stop", run_dir)
    assert (out.returncode, out.stdout.strip()) == (0, "stop: no board is running")


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("", "name the medium"),
        ("/dev/null", "not a block device"),
        ("/nonexistent", "there is no /nonexistent"),
    ],
)
@pytest.mark.parametrize("first", [(), ("--check",)])
def test_flash_refuses_anything_but_a_whole_disk(
    run_dir: Path, first: tuple[str, ...], device: str, message: str
) -> None:
    out = call("flash", run_dir, *first, device)
    assert out.returncode == 1
    assert message in out.stderr


@pytest.fixture
def medium(tmp_path: Path) -> Iterator[str]:
    """A loop device of 1 MiB."""
    backing = tmp_path / "medium"
    backing.write_bytes(bytes(1 << 20))
    made = subprocess.run(
        ["losetup", "--find", "--show", backing], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        pytest.skip(f"losetup found no free loop device: {made.stderr.strip()}")
    yield made.stdout.strip()
    subprocess.run(["losetup", "--detach", made.stdout.strip()], check=True)


def test_a_medium_can_be_checked_without_an_image(run_dir: Path, medium: str) -> None:
    out = call("flash", run_dir, "--check", medium)
    assert (out.returncode, out.stdout, out.stderr) == (0, "", "")
    out = call("flash", run_dir, medium)
    assert out.returncode == 1
    assert "has 1 MiB, but the image needs" in out.stderr or "there is no image" in out.stderr


def test_make_flash_checks_the_medium_before_it_builds(tmp_path: Path) -> None:
    build = tmp_path / "build"
    out = make("flash", "DEV=/dev/null", f"B={build}", f"EVENKEEL_CACHE={build / 'cache'}")
    assert out.returncode != 0
    assert "/dev/null is not a block device" in out.stderr
    assert not build.exists()


def test_a_dry_run_of_flash_does_nothing(tmp_path: Path) -> None:
    build = tmp_path / "build"
    out = make("-n", "flash", "DEV=/dev/null", f"B={build}", f"EVENKEEL_CACHE={build / 'cache'}")
    assert "is not a block device" not in out.stderr
    assert not build.exists()


@pytest.fixture
def machine(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(IMAGE / "src"))
    import vm

    monkeypatch.setattr(vm, "PRESS_SECONDS", 0.3)
    return vm.Machine(run_dir)


def test_a_new_note_keeps_the_others(machine: Any) -> None:
    machine.run.mkdir()
    machine.save_state(pid=4711, up=False)
    machine.save_state(stopped=True)
    machine.save_state(up=True)
    assert machine.saved_state() == {"pid": 4711, "up": True, "stopped": True}


def test_the_power_button_is_pressed_until_the_board_reacts(machine: Any) -> None:
    """A booting board ignores the power button. The fake board here ignores the first two presses."""
    presses = []
    with running(machine.run), socket.socket(socket.AF_UNIX) as door:
        door.bind(str(machine.run / "qmp.sock"))
        door.listen()

        def serve() -> None:
            while len(presses) < 3:
                link, _ = door.accept()
                with link, link.makefile("rw") as stream:
                    stream.write("{}\n")
                    stream.flush()
                    for line in stream:
                        presses.extend([line] if "system_powerdown" in line else [])
                        stream.write("{}\n")
                        stream.flush()
            (machine.run / "lock").rename(machine.run / "gone")

        board = threading.Thread(target=serve)
        board.start()
        assert machine.power_down(limit=20)
        board.join()
    assert len(presses) == 3


def test_a_demo_reports_that_make_stop_ended_it(machine: Any) -> None:
    loader = SourceFileLoader("demo", str(IMAGE / "src/demo"))
    demo = importlib.util.module_from_spec(importlib.util.spec_from_loader("demo", loader))
    loader.exec_module(demo)
    machine.run.mkdir()
    machine.save_state(stopped=True)
    ended = subprocess.Popen(["true"])
    ended.wait()
    with pytest.raises(demo.VmError, match="'make stop' ended the board"):
        demo.wait_for_panel(machine, ended, "https://127.0.0.1:1/")
