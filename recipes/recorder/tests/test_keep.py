# SPDX-License-Identifier: Apache-2.0
"""A range of a recording is protected from being overwritten."""

from __future__ import annotations

import json
import struct
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from board import BLOCK, RECORDER, Board, wait_for
from board import recording as recording_of
from read_harness import crc32c

SIZE = 16384


def run(board: Board, *args: str, status: int = 0) -> str:
    out = subprocess.run([RECORDER, *args], capture_output=True, text=True, check=False, timeout=60)
    assert out.returncode == status, out.stderr
    return out.stdout + out.stderr


def keep(board: Board, begin: float, end: float, incident: str, *channels: str, status: int = 0) -> str:
    times = [datetime.fromtimestamp(t, UTC).isoformat() for t in (begin, end)]
    return run(
        board, "keep", "--socket", str(board.socket), "--directory", str(board.directory), "--from", times[0],
        "--to", times[1], incident, *channels, status=status,
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
    # what was overwritten between a kept range and the rest is no fault
    assert (out.returncode, out.stderr) == (0, b"")
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
    assert ": clean" in run(recording, "verify", "--directory", str(recording.directory), "arm")
    # also by itself
    path = str(recording.directory / "arm/kept/crash")
    assert numbers(recording, path) == list(range(40))
    assert "crash" in (
        listed := run(recording, "keep", "--list", "--directory", str(recording.directory), "arm")
    )
    assert "4 segments" in listed
    # other segments took the place of those that moved
    wait_for(lambda: recording.stats("arm")["segments"] == 17)
    run(recording, "keep", "--remove", "crash", "--directory", str(recording.directory))
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


@pytest.mark.parametrize("restarts", [0, 1])
@pytest.mark.parametrize("remove", [False, True])
def test_a_clean_shutdown_after_the_newest_segment_was_kept_leaves_no_gap(
    recording: Board, restarts: int, remove: bool
) -> None:
    write(recording, 0, 40)
    for _ in range(restarts):
        # then nothing was written since the start
        recording.stop()
        recording.start()
    keep(recording, time.time() - 60, time.time() + 60, "crash")
    if remove:
        run(recording, "keep", "--remove", "crash", "--directory", str(recording.directory))
    for _ in range(2):
        recording.stop()
        recording.start()
    write(recording, 40, 10)
    recording.stop()
    assert recording.gaps("arm") == []
    assert [r.sequence for r in recording.records("arm")] == list(range(40, 50))


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
        "crash",
        "leg",
        status=1,
    )
    assert "expected --from" in run(recording, "keep", "crash", "arm", status=2)
    assert "expected INCIDENT" in run(recording, "keep", status=2)
    assert "is not a valid name" in run(recording, "keep", "--from=-1min", "--to=now", "../x", status=2)
    assert "there is no incident crash" in run(
        recording, "keep", "--remove", "crash", "--directory", str(recording.directory), status=2
    )
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


@pytest.mark.parametrize("way", [1, 2])
def test_records_that_are_not_written_yet_are_kept(board: Board, way: int) -> None:
    """A range that ends now includes what is in the ring, in the socket and in memory."""
    board.channel("arm", window="10s", keep="1MiB")
    board.start()
    wait_for(lambda: board.stats("arm")["segments"] == 5)
    with board.writer("arm", way) as arm:
        if way == 1:
            arm.submit(b"late")
        else:
            arm.put(0, b"late")
        keep(board, time.time() - 60, time.time() + 60, "crash", "arm")
        kept = recording_of(board.directory / "arm/kept/crash")
        assert [r.payload for r in kept] == [b"late"]
    board.stop()


def test_an_incident_concerns_all_channels(board: Board) -> None:
    board.channel("arm", keep="1MiB")
    board.channel("leg", keep="1MiB")
    board.channel("eye")
    board.start()
    wait_for(lambda: all(board.stats(name)["segments"] == 5 for name in ("arm", "leg", "eye")))
    for name in ("arm", "leg", "eye"):
        board.write(name, b"x\n")
    out = keep(board, time.time() - 60, time.time() + 60, "crash", status=1)
    assert "arm: 1 segments are kept as crash" in out
    assert "leg: 1 segments are kept as crash" in out
    assert "channel eye: 1 segments of 262144 bytes" in out
    assert "more than keep = 0" in out
    listed = run(board, "keep", "--list", "--directory", str(board.directory))
    assert [line.split()[:2] for line in listed.splitlines()] == [["arm", "crash"], ["leg", "crash"]]
    out = run(board, "keep", "--remove", "crash", "--directory", str(board.directory))
    assert out.count("deleted 1 segments") == 2
    board.stop()


def change_head(directory: Path, forward: float, boot: bytes | None) -> None:
    """Date the start of the newest use later (s), and set its boot id."""

    def generation(path: Path) -> int:
        return int(struct.unpack_from("<Q", path.read_bytes()[:BLOCK], 72)[0])

    path = max(directory.glob("*.seg"), key=generation)
    with path.open("r+b") as f:
        block = bytearray(f.read(BLOCK))
        (realtime,) = struct.unpack_from("<q", block, 136)
        struct.pack_into("<q", block, 136, realtime + int(forward * 1e9))
        if boot:
            block[120:136] = boot
        block[12:16] = bytes(4)
        struct.pack_into("<I", block, 12, crc32c(bytes(block)))
        f.seek(0)
        f.write(block)


@pytest.mark.parametrize("boot", [None, b"an earlier boot "])
def test_a_clock_that_was_set_back_hides_nothing(board: Board, boot: bytes | None) -> None:
    """Heads are dated by the real-time clock. Those of this boot also tell when it was set."""
    board.channel("arm", record_size="16KiB", writeout="64KiB", segment="256KiB", retain="4MiB", keep="2MiB")
    board.start()
    wait_for(lambda: board.stats("arm")["segments"] == 17)
    write(board, 0, 10)
    now = time.time()
    board.stop()
    # as if the newest use had begun two hours later, before the clock was set back
    change_head(board.directory / "arm", 7200, boot)
    board.start()
    write(board, 10, 40)
    keep(board, now - 5, now + 5, "crash", "arm")
    kept = [int(r.payload[:8]) for r in recording_of(board.directory / "arm/kept/crash") if not r.gap]
    assert set(range(10)) <= set(kept)
    board.stop()
