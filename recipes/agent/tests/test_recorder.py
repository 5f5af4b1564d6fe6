# SPDX-License-Identifier: Apache-2.0
"""The problems of the recorder, from the states of its units and from its statistics."""

import json
import time
from pathlib import Path

import pytest
from evenkeel_agent.recorder import PARTITION, SERVICE, STATISTICS, inspect
from evenkeel_agent.settings import Settings
from evenkeel_agent.systemd import Unit

RUNNING = Unit("loaded", "active", "running")
MOUNTED = Unit("loaded", "active", "mounted")


def problems(root: Path, service: Unit = RUNNING, partition: Unit = MOUNTED) -> list[str]:
    return [str(m) for m in inspect(Settings(root=str(root)), {SERVICE: service, PARTITION: partition})]


def write_statistics(root: Path, channels: object, age_s: float = 0.5) -> None:
    path = root / STATISTICS.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    written = time.monotonic_ns() - int(age_s * 1e9)
    path.write_text(json.dumps({"version": 1, "monotonic_ns": written, "channels": channels}))


def channel(state: str = "recording", reason: str = "") -> dict[str, str]:
    return {"state": state, "reason": reason}


def test_a_recorder_that_records_is_no_problem(tmp_path: Path) -> None:
    write_statistics(tmp_path, {"arm": channel(), "can0": channel("preparing")})
    assert problems(tmp_path) == []


def test_a_recorder_that_is_absent_off_or_without_statistics_is_no_problem(tmp_path: Path) -> None:
    assert inspect(Settings(root=str(tmp_path)), {}) == []
    missing = Unit("not-found", "inactive", "dead")
    assert problems(tmp_path, missing, missing) == []
    assert problems(tmp_path) == []
    write_statistics(tmp_path, {"arm": channel("failed", "old news")}, age_s=3600)
    assert problems(tmp_path, Unit("loaded", "inactive", "dead")) == []


@pytest.mark.parametrize("state", ["inactive", "failed"])
def test_a_partition_that_is_not_mounted(tmp_path: Path, state: str) -> None:
    assert problems(tmp_path, partition=Unit("loaded", state, "dead")) == [
        "the recorder's partition is not mounted, so nothing can be recorded;"
        " restart the board on the page System, or see 'systemctl status recorder.mount'"
    ]


def test_a_recorder_that_failed(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, Unit("loaded", "failed", "failed"))
    assert problem.startswith("the recorder has failed, so nothing is recorded; look for ek-recorder")
    (problem,) = problems(tmp_path, Unit("loaded", "activating", "auto-restart"))
    assert problem.startswith("the recorder has failed, and systemd restarts it; look for ek-recorder")


def test_a_recorder_that_does_not_respond(tmp_path: Path) -> None:
    write_statistics(tmp_path, {"arm": channel()}, age_s=60)
    assert problems(tmp_path) == [
        "the recorder has not responded for 60 s; restart the board on the page System,"
        " or look for ek-recorder.service on the page System, Journal, or see 'journalctl -u ek-recorder.service'"
    ]


def test_channels_with_the_same_reason_are_one_problem(tmp_path: Path) -> None:
    channels = {
        "arm": channel("failed", "/recorder: nothing is mounted there"),
        "can0": channel(),
        "lidar": channel("failed", "/recorder: nothing is mounted there"),
        "log": channel("recording", "No space left on device"),
    }
    write_statistics(tmp_path, channels)
    assert problems(tmp_path) == [
        "channels arm, lidar are not recorded: /recorder: nothing is mounted there",
        "channel log is degraded: No space left on device",
    ]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"channels": 1}', '{"channels": {"a": 1}}', "[" * 100_000])
def test_invalid_statistics_are_ignored(tmp_path: Path, text: str) -> None:
    write_statistics(tmp_path, {})
    (tmp_path / STATISTICS.lstrip("/")).write_text(text)
    assert problems(tmp_path) == []
