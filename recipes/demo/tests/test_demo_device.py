# SPDX-License-Identifier: Apache-2.0
"""Tests of the demo's device script, on a fake board that consists of plain files, and of the units of the demo's apps.

The environment variable EK_BUILD is the path of the build directory.
"""

from __future__ import annotations

import os
import subprocess
import time
import tomllib
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("EK_BUILD", "."))
COMPONENT = Path(__file__).resolve().parent.parent


def fake_board(tmp_path: Path, power_ok: bool = True) -> dict[str, str]:
    """Make a configfs, a sysfs and a /dev of plain files, and fakes of the tools. Returns the script's environment.

    With POWER_OK false, the last step of the script's `start` fails.
    """
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


def device(env: dict[str, str], action: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(BUILD / "demo-device"), action],
        env=env,
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )


def test_device_has_the_speed_and_depth_of_an_emmc(tmp_path: Path) -> None:
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


def test_a_missing_scheduler_is_reported(tmp_path: Path) -> None:
    env = fake_board(tmp_path)
    queue = tmp_path / "sys/block/nullb0/queue/scheduler"
    queue.unlink()
    queue.symlink_to("/proc/sys/kernel/ostype")  # can be read, but not written
    out = device(env, "start")
    assert out.returncode == 0
    assert "cannot set the scheduler evenkeel on /dev/nullb0" in out.stderr


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


def test_an_incomplete_device_is_removed(tmp_path: Path) -> None:
    out = device(fake_board(tmp_path, power_ok=False), "start")
    assert out.returncode == 1
    assert "cannot set power of nullb0 to 1" in out.stderr
    assert not (tmp_path / "config/nullb/nullb0").exists()


def test_an_unknown_action_is_refused(tmp_path: Path) -> None:
    out = device(fake_board(tmp_path), "restart")
    assert out.returncode == 2
    assert "start|stop" in out.stderr


@pytest.mark.parametrize("app", ["player", "loader"])
def test_app_is_listed_with_a_unit_that_writes_its_stats(app: str) -> None:
    listed = tomllib.loads((COMPONENT / f"data/apps.d/{app}.toml").read_text())
    assert set(listed) == {"title", "description", "unit", "weight", "stats"}
    assert 1 <= len(listed["title"]) <= 40
    assert 1 <= listed["weight"] <= 10000
    unit = (BUILD / listed["unit"]).read_text()
    assert f"--stats {listed['stats']} /dev/nullb0" in unit
    assert "Slice=evenkeel-apps.slice" in unit
    assert "ConditionCredential=evenkeel.demo" in unit
    assert "@" not in unit.split("SystemCallFilter")[0]
