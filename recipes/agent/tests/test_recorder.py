# SPDX-License-Identifier: Apache-2.0
"""What is said about the recorder, by the states of its units and by its statistics."""

import json
import time
from pathlib import Path

import pytest
from evenkeel_agent.recorder import PARTITION, SERVICE, STATISTICS, look
from evenkeel_agent.settings import Settings
from evenkeel_agent.systemd import Unit

RUNNING = Unit("loaded", "active", "running")
MOUNTED = Unit("loaded", "active", "mounted")


def problems(root: Path, service: Unit = RUNNING, partition: Unit = MOUNTED) -> list[str]:
    return look(Settings(root=str(root)), {SERVICE: service, PARTITION: partition})


def tell(root: Path, channels: object, age_s: float = 0.5) -> None:
    path = root / STATISTICS.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    written = time.monotonic_ns() - int(age_s * 1e9)
    path.write_text(json.dumps({"version": 1, "monotonic_ns": written, "channels": channels}))


def channel(state: str = "recording", reason: str = "") -> dict[str, str]:
    return {"state": state, "reason": reason}


def test_a_recorder_that_records_is_no_problem(tmp_path: Path) -> None:
    tell(tmp_path, {"arm": channel(), "can0": channel("preparing")})
    assert problems(tmp_path) == []


def test_neither_is_one_that_is_not_there_is_off_or_writes_no_statistics(tmp_path: Path) -> None:
    assert look(Settings(root=str(tmp_path)), {}) == []
    missing = Unit("not-found", "inactive", "dead")
    assert problems(tmp_path, missing, missing) == []
    assert problems(tmp_path) == []
    tell(tmp_path, {"arm": channel("failed", "old news")}, age_s=3600)
    assert problems(tmp_path, Unit("loaded", "inactive", "dead")) == []


@pytest.mark.parametrize("state", ["inactive", "failed"])
def test_a_partition_that_is_not_mounted(tmp_path: Path, state: str) -> None:
    said = ["the recorder's partition is not mounted: nothing can be recorded"]
    assert problems(tmp_path, partition=Unit("loaded", state, "dead")) == said


def test_a_recorder_that_failed(tmp_path: Path) -> None:
    (said,) = problems(tmp_path, Unit("loaded", "failed", "failed"))
    assert said.startswith("the recorder has failed, and nothing is recorded")
    (said,) = problems(tmp_path, Unit("loaded", "activating", "auto-restart"))
    assert said.startswith("the recorder has failed, and is started again")


def test_a_recorder_that_hangs(tmp_path: Path) -> None:
    tell(tmp_path, {"arm": channel()}, age_s=60)
    assert problems(tmp_path) == ["the recorder hangs: it has told nothing for 60 s"]


def test_channels_are_named_with_the_reason_that_they_share(tmp_path: Path) -> None:
    channels = {
        "arm": channel("failed", "/recorder: nothing is mounted there"),
        "can0": channel(),
        "lidar": channel("failed", "/recorder: nothing is mounted there"),
        "log": channel("recording", "No space left on device"),
    }
    tell(tmp_path, channels)
    assert problems(tmp_path) == [
        "channel arm, lidar is not recorded: /recorder: nothing is mounted there",
        "channel log lacks something: No space left on device",
    ]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"channels": 1}', '{"channels": {"a": 1}}', "[" * 100_000])
def test_statistics_that_are_none(tmp_path: Path, text: str) -> None:
    tell(tmp_path, {})
    (tmp_path / STATISTICS.lstrip("/")).write_text(text)
    assert problems(tmp_path) == []
