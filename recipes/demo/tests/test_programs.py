# SPDX-License-Identifier: Apache-2.0
"""ek-player and ek-loader as processes, on a real file, and the demo's device script.

EK_BUILD names the build directory; its disk also holds the test file, because
a tmpfs has no real direct I/O.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

MIB = 1 << 20
BUILD = Path(os.environ.get("EK_BUILD", "."))
ROOM = Path(__file__).resolve().parent.parent
PLAYER = str(BUILD / "ek-player")
LOADER = str(BUILD / "ek-loader")


def run(*args: str, limit: float = 30) -> subprocess.CompletedProcess[str]:
    return subprocess.run(args, capture_output=True, text=True, timeout=limit, check=False)


@pytest.fixture(scope="module")
def movie() -> Iterator[str]:
    with tempfile.NamedTemporaryFile(dir=BUILD, prefix="movie-") as f:
        block = os.urandom(MIB)
        for _ in range(48):
            f.write(block)
        f.flush()
        os.fsync(f.fileno())
        probe = run(PLAYER, "--duration", "0.1", "--rate", "1MB", f.name)
        if "io_uring" in probe.stderr:
            pytest.skip(f"this kernel refuses io_uring: {probe.stderr.strip()}")
        yield f.name


def test_plays_without_a_stall(movie: str, tmp_path: Path) -> None:
    stats = tmp_path / "p.json"
    out = run(
        PLAYER,
        "--rate",
        "4MB",
        "--movie",
        "8M",
        "--titles",
        "4",
        "--offset",
        "1M",
        "--duration",
        "2.5",
        "--stats",
        str(stats),
        "--json",
        movie,
    )
    assert (out.returncode, out.stderr) == (0, "")
    summary = json.loads(out.stdout)
    assert summary["stalls"] == summary["stall_ms"] == 0
    assert summary["movies"] >= 1
    final = json.loads(stats.read_text())
    assert final["state"] == "stopped"
    wanted = {"state", "stalls", "stall_ms", "worst_stall_ms", "recent_stalls", "buffered_s", "mbps"}
    assert wanted <= set(final)
    assert not (tmp_path / "p.json.tmp").exists()


def test_a_disk_that_is_too_slow_stalls(movie: str) -> None:
    # no disk gives 10 GB/s in reads of 4 KiB, one at a time
    out = run(
        PLAYER,
        "--rate",
        "10GB",
        "--chunk",
        "4K",
        "--depth",
        "1",
        "--buffer",
        "16M",
        "--movie",
        "8M",
        "--pre-roll",
        "0.0001",
        "--rebuffer",
        "0.0001",
        "--duration",
        "1",
        "--json",
        movie,
    )
    assert out.returncode == 0, out.stderr
    summary = json.loads(out.stdout)
    assert summary["stalls"] > 0
    assert summary["recent_stalls"] > 0
    assert summary["stall_ms"] >= summary["worst_stall_ms"]


def test_through_the_page_cache(movie: str) -> None:
    out = run(PLAYER, "--buffered", "--rate", "8MB", "--duration", "0.5", movie)
    assert out.returncode == 0, out.stderr
    assert "0 stalls" in out.stdout


@pytest.mark.parametrize("program", [PLAYER, LOADER])
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_clean(movie: str, tmp_path: Path, program: str, sig: signal.Signals) -> None:
    stats = tmp_path / "s.json"
    size = ["--size", "8M"] if program == LOADER else []
    with subprocess.Popen(
        [program, *size, "--stats", str(stats), "--json", movie],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as proc:
        time.sleep(1.3)
        live = json.loads(stats.read_text())
        assert live["state"] in ("playing", "buffering", "pre-roll", "running")
        assert live["mbps"] > 0
        asked = time.monotonic()
        proc.send_signal(sig)
        out, err = proc.communicate(timeout=10)
        assert time.monotonic() - asked < 5
    assert (proc.returncode, err) == (0, "")
    assert json.loads(out)["state"] == "stopped"
    assert json.loads(stats.read_text())["state"] == "stopped"


def test_loader_reads_whole_ios(movie: str, tmp_path: Path) -> None:
    out = run(
        LOADER,
        "--size",
        "16M",
        "--depth",
        "2",
        "--offset",
        "4M",
        "--length",
        "40M",
        "--duration",
        "1",
        "--json",
        movie,
    )
    assert (out.returncode, out.stderr) == (0, "")
    summary = json.loads(out.stdout)
    assert summary["completions"] > 0
    assert summary["mbps"] > 0


def test_loader_writes_only_when_told_and_only_its_region(movie: str) -> None:
    with tempfile.NamedTemporaryFile(dir=BUILD) as f:
        f.write(b"\xa5" * (4 * MIB))
        f.flush()
        assert run(LOADER, "--size", "1M", "--duration", "0.2", f.name).returncode == 0
        assert Path(f.name).read_bytes() == b"\xa5" * (4 * MIB)
        out = run(
            LOADER, "--write", "--size", "1M", "--offset", "1M", "--length", "2M", "--duration", "0.5", f.name
        )
        assert out.returncode == 0, out.stderr
        now = Path(f.name).read_bytes()
        assert now == b"\xa5" * MIB + bytes(2 * MIB) + b"\xa5" * MIB


@pytest.mark.parametrize(
    ("args", "status", "says"),
    [
        ([PLAYER], 2, "give one file"),
        ([PLAYER, "a", "b"], 2, "not 2"),
        ([PLAYER, "--rate", "fast", "F"], 2, "--rate: 'fast' is not a number of bytes"),
        ([PLAYER, "--rate", "0", "F"], 2, "--rate: must be between"),
        ([PLAYER, "--rate", "-1", "F"], 2, "--rate"),
        ([PLAYER, "--chunk", "1000", "F"], 2, "--chunk: must be a multiple of 4096"),
        ([PLAYER, "--chunk", "0", "F"], 2, "--chunk"),
        ([PLAYER, "--offset", "1", "F"], 2, "--offset: must be a multiple"),
        ([PLAYER, "--movie", "1500K", "F"], 2, "--movie: must be a multiple of the chunk"),
        ([PLAYER, "--movie", "0", "F"], 2, "--movie: must be longer than 0"),
        ([PLAYER, "--depth", "65", "F"], 2, "--depth: '65' is not a whole number from 1 to 64"),
        ([PLAYER, "--titles", "0", "F"], 2, "--titles"),
        ([PLAYER, "--duration", "1m", "F"], 2, "--duration: '1m' is not a number of seconds"),
        ([PLAYER, "--buffer", "8M", "F"], 2, "the buffer must hold"),
        ([PLAYER, "--pre-roll", "0", "F"], 2, "pre-roll and re-buffering must be longer"),
        ([PLAYER, "--nonsense", "F"], 2, "could not be understood"),
        ([PLAYER, "--offset", "1G", "F"], 1, "before --offset"),
        ([PLAYER, "--movie", "1G", "F"], 1, "is too short"),
        ([PLAYER, "/nonexistent"], 1, "No such file"),
        ([PLAYER, "/dev/null"], 1, "/dev/null"),
        ([PLAYER, "/"], 1, "opening /"),
        ([PLAYER, "--stats", "/nonexistent/s.json", "F"], 1, "writing /nonexistent/s.json: No such"),
        ([LOADER], 2, "give one file"),
        ([LOADER, "--size", "1000", "F"], 2, "--size: must be a multiple of 4096"),
        ([LOADER, "--size", "2G", "F"], 2, "--size"),
        ([LOADER, "--offset", "7", "F"], 2, "--offset"),
        ([LOADER, "--length", "0", "F"], 2, "--length: must be longer than 0"),
        ([LOADER, "--force", "F"], 2, "--force goes with --write"),
        ([LOADER, "--size", "4M", "--length", "1G", "F"], 1, "before the end of the region"),
        ([LOADER, "--size", "100M", "F"], 1, "less than one I/O"),
        ([LOADER, "/nonexistent"], 1, "No such file"),
        ([LOADER, "/dev/null"], 1, "/dev/null"),
        ([LOADER, "--size", "4M", "--stats", "/nonexistent/s.json", "F"], 1, "writing /nonexistent/s.json"),
    ],
)
def test_bad_input_is_refused_clearly(movie: str, args: list[str], status: int, says: str) -> None:
    out = run(*[movie if a == "F" else a for a in args])
    assert out.returncode == status, out.stderr
    assert says in out.stderr
    assert out.stdout == ""


def fake_board(tmp_path: Path, power_ok: bool = True) -> dict[str, str]:
    """A configfs and a sysfs made of plain files, and the two tools that the script calls."""
    (tmp_path / "config/nullb").mkdir(parents=True)
    queue = tmp_path / "sys/block/nullb0/queue"
    queue.mkdir(parents=True)
    (queue / "scheduler").write_text("[none] mq-deadline\n")
    node = tmp_path / "dev/nullb0"
    node.parent.mkdir()
    node.touch()
    node.chmod(0o660)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("udevadm", "modprobe"):
        (tools / name).write_text("#!/bin/sh\nexit 0\n")
        (tools / name).chmod(0o755)
    if not power_ok:
        # a directory where the attribute should be: writing fails
        (tools / "mkdir").write_text('#!/bin/sh\n/bin/mkdir "$1" && /bin/mkdir "$1/power"\n')
        (tools / "mkdir").chmod(0o755)
        (tools / "rmdir").write_text('#!/bin/sh\nrm -r "$1"\n')
        (tools / "rmdir").chmod(0o755)
    return {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "EVENKEEL_CONFIGFS": str(tmp_path / "config"),
        "EVENKEEL_SYSFS": str(tmp_path / "sys"),
        "EVENKEEL_DEV": str(tmp_path / "dev"),
    }


def device(env: dict[str, str], verb: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(BUILD / "demo-device"), verb],
        env=env,
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )


def test_device_is_an_emmc_in_speed_and_depth(tmp_path: Path) -> None:
    out = device(fake_board(tmp_path), "start")
    assert out.returncode == 0, out.stderr
    attrs = {f.name: f.read_text().strip() for f in (tmp_path / "config/nullb/nullb0").iterdir()}
    assert attrs == {
        "size": "4096",
        "blocksize": "512",
        "memory_backed": "0",
        "irqmode": "2",
        "mbps": "51",
        "max_sectors": "1024",
        "submit_queues": "1",
        "poll_queues": "0",
        "hw_queue_depth": "32",
        "power": "1",
    }


def test_device_says_so_without_the_scheduler(tmp_path: Path) -> None:
    env = fake_board(tmp_path)
    queue = tmp_path / "sys/block/nullb0/queue/scheduler"
    queue.unlink()
    queue.symlink_to("/proc/sys/kernel/ostype")  # reads, and takes no name of a scheduler
    out = device(env, "start")
    assert out.returncode == 0
    assert "COULD NOT get the scheduler evenkeel" in out.stderr


def test_device_waits_for_udev(tmp_path: Path) -> None:
    env = fake_board(tmp_path)
    node = tmp_path / "dev/nullb0"
    node.chmod(0o600)
    with subprocess.Popen(["sh", str(BUILD / "demo-device"), "start"], env=env) as proc:
        time.sleep(0.5)
        assert proc.poll() is None
        node.chmod(0o660)
        assert proc.wait(timeout=5) == 0


def test_device_refuses_a_second_one(tmp_path: Path) -> None:
    env = fake_board(tmp_path)
    assert device(env, "start").returncode == 0
    out = device(env, "start")
    assert out.returncode == 1
    assert "exists already" in out.stderr


def test_half_a_device_does_not_stay(tmp_path: Path) -> None:
    out = device(fake_board(tmp_path, power_ok=False), "start")
    assert out.returncode == 1
    assert "setting power of nullb0 to 1 did not work" in out.stderr
    assert not (tmp_path / "config/nullb/nullb0").exists()


def test_device_wants_a_verb(tmp_path: Path) -> None:
    out = device(fake_board(tmp_path), "restart")
    assert out.returncode == 2
    assert "start|stop" in out.stderr


@pytest.mark.parametrize("app", ["player", "loader"])
def test_app_is_listed_with_a_unit_that_writes_its_stats(app: str) -> None:
    listed = tomllib.loads((ROOM / f"apps.d/{app}.toml").read_text())
    assert set(listed) == {"title", "description", "unit", "weight", "stats"}
    assert 1 <= len(listed["title"]) <= 40
    assert 1 <= listed["weight"] <= 10000
    unit = (BUILD / listed["unit"]).read_text()
    assert f"--stats {listed['stats']} /dev/nullb0" in unit
    assert "Slice=evenkeel-apps.slice" in unit
    assert "ConditionCredential=evenkeel.demo" in unit
    assert "@" not in unit.split("SystemCallFilter")[0]
