# SPDX-License-Identifier: Apache-2.0
"""A range of a recording is protected from being overwritten."""

from __future__ import annotations

import json
import subprocess
import time
from datetime import UTC, datetime

import pytest
from board import RECORDER, Board, wait_for

SIZE = 16384


def run(board: Board, *args: str, status: int = 0) -> str:
    out = subprocess.run([RECORDER, *args], capture_output=True, text=True, check=False, timeout=60)
    assert out.returncode == status, out.stderr
    return out.stdout + out.stderr


def keep(board: Board, begin: float, end: float, incident: str, status: int = 0) -> str:
    times = [datetime.fromtimestamp(t, UTC).isoformat() for t in (begin, end)]
    return run(
        board, "keep", "--socket", str(board.socket), "--from", times[0], "--to", times[1], "arm", incident,
        status=status,
    )  # fmt: skip


@pytest.fixture
def recording(board: Board) -> Board:
    board.channel(
        "arm", record_size=str(SIZE), writeout="64KiB", segment="256KiB", retain="4MiB", keep="1MiB"
    )
    board.start()
    wait_for(lambda: board.stats("arm")["segments"] == 17)
    return board


def write(board: Board, first: int, count: int) -> None:
    board.write(
        "arm", b"".join(b"%08d" % n * (SIZE // 8) for n in range(first, first + count)), "--size", str(SIZE)
    )


def numbers(board: Board, path: str = "arm") -> list[int]:
    out = subprocess.run(
        [RECORDER, "cat", "--directory", str(board.directory), path], capture_output=True, check=False
    )
    return [int(out.stdout[at : at + 8]) for at in range(0, len(out.stdout), SIZE)]


def test_a_kept_range_survives_what_is_recorded_later(recording: Board) -> None:
    begin = time.time() - 0.5
    write(recording, 0, 40)
    end = time.time() + 0.5
    assert "arm: 4 segments are kept as crash" in keep(recording, begin, end, "crash")
    # four times as much as the channel retains
    for first in range(40, 1100, 100):
        write(recording, first, 100)
    found = numbers(recording)
    assert found == sorted(found)
    assert set(range(40)) <= set(found)
    assert found[-1] == 1139
    assert 200 < len(found) < 400
    # also by itself
    path = str(recording.directory / "arm/kept/crash")
    assert numbers(recording, path) == list(range(40))
    assert "crash" in (
        listed := run(recording, "keep", "--list", "--directory", str(recording.directory), "arm")
    )
    assert "4 segments" in listed
    # other segments took the place of those that moved
    wait_for(lambda: recording.stats("arm")["segments"] == 17)
    run(recording, "keep", "--remove", "crash", "--directory", str(recording.directory), "arm")
    assert min(numbers(recording)) > 40
    assert run(recording, "keep", "--list", "--directory", str(recording.directory), "arm") == ""
    recording.stop()
    assert recording.gaps("arm") == []


def test_sequences_continue_after_the_newest_segment_was_kept(recording: Board) -> None:
    write(recording, 0, 40)
    keep(recording, time.time() - 60, time.time() + 60, "crash")
    recording.kill()
    recording.start()
    write(recording, 40, 10)
    recording.stop()
    report = json.loads(
        run(recording, "verify", "--json", "--directory", str(recording.directory), "arm", status=1)
    )
    (channel,) = report["channels"]
    assert (channel["records"], channel["missing"], channel["damage"]) == (50, 0, 0)
    assert [event["reason"] for event in channel["events"]] == ["restart"]
    assert numbers(recording) == list(range(50))


def test_what_cannot_be_kept_is_refused_and_changes_nothing(recording: Board) -> None:
    write(recording, 0, 40)
    now = time.time()
    before = sorted((recording.directory / "arm").iterdir())
    assert "no records of that time" in keep(recording, now - 7200, now - 3600, "crash", status=1)
    write(recording, 40, 60)
    assert "more than keep = 1048576" in keep(recording, now - 60, now + 60, "crash", status=1)
    assert sorted((recording.directory / "arm").iterdir()) == before
    assert numbers(recording) == list(range(100))
    assert "no such channel" in run(
        recording,
        "keep",
        "--socket",
        str(recording.socket),
        "--from=-1min",
        "--to=now",
        "leg",
        "crash",
        status=1,
    )
    assert "expected --from" in run(recording, "keep", "arm", "crash", status=2)
    assert "a name has" in run(recording, "keep", "--from=-1min", "--to=now", "arm", "../x", status=2)
    recording.stop()


def test_an_incident_has_one_name(recording: Board) -> None:
    write(recording, 0, 10)
    keep(recording, time.time() - 60, time.time() + 60, "crash")
    write(recording, 10, 10)
    assert "there is an incident crash already" in keep(
        recording, time.time() - 1, time.time() + 60, "crash", status=1
    )
    # a writer is not disturbed
    with recording.writer("arm") as arm:
        arm.submit(b"x")
        keep(recording, time.time() - 1, time.time() + 60, "second")
        arm.submit(b"y")
        assert arm.sync() == 0
    recording.stop()
    assert recording.gaps("arm") == []
