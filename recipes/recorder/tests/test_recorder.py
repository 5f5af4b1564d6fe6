# SPDX-License-Identifier: Apache-2.0
"""The program ek-recorder: records are read back in order, and losses are reported."""

from __future__ import annotations

import errno
import json
import os
import re
import select
import shlex
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from board import BLOCK, BUILD, OVERRUN, RECORDER, RESTART, Board, RawWriter, assert_contiguous, wait_for

LINES = [b"line %d" % n for n in range(500)]


@pytest.mark.parametrize("way", [[], ["--ring"]])
def test_records_are_read_back_in_order(board: Board, way: list[str]) -> None:
    board.channel("arm")
    board.start()
    board.write("arm", b"\n".join(LINES), *way)
    # the writer exits only when everything is on the medium, so a crash costs nothing
    board.kill()
    assert board.payloads("arm") == LINES
    records = board.records("arm")
    assert_contiguous(records)
    assert [r.sequence for r in records] == list(range(500))
    assert records[0].monotonic_ns <= records[-1].monotonic_ns <= time.monotonic_ns()
    assert abs(records[-1].realtime_ns - time.time_ns()) < 60e9


def test_blocks_of_binary_data(board: Board) -> None:
    data = os.urandom(10_300)
    board.channel("arm")
    board.start()
    board.write("arm", data, "--size", "1000")
    board.stop()
    assert [len(p) for p in board.payloads("arm")] == [1000] * 10 + [300]
    assert b"".join(board.payloads("arm")) == data


def test_overwriting_segments_changes_no_metadata(board: Board) -> None:
    board.channel("arm", record_size="16KiB", retain="1MiB", segment="256KiB", writeout="64KiB")
    board.start()
    wait_for(lambda: board.stats("arm")["segments"] == 5)
    files = sorted((board.directory / "arm").glob("*.seg"))
    before = {f: f.stat() for f in files}
    board.write("arm", os.urandom(5 << 20), "--size", "16384", "--ring")
    assert board.stats("arm")["lost"] == {"overrun": 0, "absent": 0, "failed": 0, "writer": 0, "restart": 0}
    board.stop()
    records = board.records("arm")
    assert_contiguous(records)
    assert records[-1].sequence == 319
    # retain = 1 MiB, minus the unused ends of segments
    assert sum(len(r.payload) for r in records) > 700_000
    for f in files:
        after = f.stat()
        assert (after.st_ino, after.st_size, after.st_blocks) == (
            before[f].st_ino,
            before[f].st_size,
            before[f].st_blocks,
        )
    extents = subprocess.run(["filefrag", "-v", str(files[0])], capture_output=True, text=True, check=False)
    if extents.returncode == 0:
        assert "unwritten" not in extents.stdout


def test_several_writers_share_a_channel_that_declares_them(board: Board) -> None:
    """Each numbers its records by itself; the recorder gives them the sequences of the channel."""
    board.channel("arm", writers="3", retain="4MiB")
    board.start()
    with board.writer("arm") as one, board.writer("arm", 2) as two, board.writer("arm") as three:
        refused = RawWriter(board.socket, "arm").refused
        assert refused
        assert refused == (errno.EBUSY, "channel arm: it has 3 writers, as many as it may have")
        for number in range(100):
            one.submit(b"one %d" % number)
            if number != 50:
                three.submit(b"three %d" % number)
            else:
                three.sequence += 4
        for writer in (one, three):
            assert writer.sync() == (0 if writer is one else errno.ENOBUFS)
        assert two.sync() == 0
        three.socket.send(b"nonsense")
        assert three.reason_for_close()[0] == errno.EPROTO
        one.submit(b"still here")
        assert one.sync() == 0
        with board.writer("arm") as four:
            four.submit(b"four")
            assert four.sync() == 0
    board.stop()
    records = board.records("arm")
    assert_contiguous(records)
    payloads = [r.payload for r in records if not r.gap]
    for name in (b"one", b"three"):
        mine = [int(p.split()[1]) for p in payloads if p.startswith(name + b" ")]
        assert mine == [n for n in range(100) if name == b"one" or n != 50]
    assert payloads[-2:] == [b"still here", b"four"]
    assert [r.gap for r in records if r.gap] == [(1, 4), (4, 0)]


def test_times_of_several_writers_are_in_order_and_true(board: Board) -> None:
    """A record that is taken late gets a later submission time on both clocks, and keeps that of its acquisition."""
    board.channel("arm", writers="2")
    board.start()
    with board.writer("arm") as one, board.writer("arm") as two:
        now, real = time.monotonic_ns(), time.time_ns()
        one.submit(b"first", realtime=real, monotonic=now)
        assert one.sync() == 0
        two.submit(b"late", realtime=real - 40_000_000, monotonic=now - 40_000_000)
        assert two.sync() == 0
        two.submit(b"wrong", realtime=2**63 - 1, monotonic=1)
        assert two.sync() == 0
    board.stop()
    first, late, wrong = board.records("arm")
    assert (first.monotonic_ns, first.realtime_ns, first.acquired_ns) == (now, real, now)
    assert (late.monotonic_ns, late.realtime_ns, late.acquired_ns) == (now, real, now - 40_000_000)
    assert (wrong.monotonic_ns, wrong.realtime_ns) == (now, 2**63 - 1)


def test_a_schema_of_the_configuration_reaches_an_export(board: Board) -> None:
    from mcap.reader import make_reader

    schema = board.top / "pose.json"
    schema.write_text('{"type": "object"}')
    terms = {"schema": str(schema), "schema_name": "my.Pose", "schema_encoding": "jsonschema"}
    board.channel("arm", encoding="json", **terms)
    board.channel("leg", schema=str(board.top / "none.json"), schema_name="x", schema_encoding="y")
    board.start()
    with board.writer("arm") as arm:
        arm.submit(b"{}", realtime=time.time_ns(), acquired=(acquired := time.monotonic_ns() - 1_000_000))
        assert arm.sync() == 0
    # a missing schema is no reason not to record
    assert "reading the schema" in board.log.read_text()
    assert board.wait_state("leg", "recording")
    board.stop()
    (record,) = board.records("arm")
    assert (record.acquired_ns, record.monotonic_ns > acquired) == (acquired, True)
    target = board.top / "out.mcap"
    subprocess.run(
        [RECORDER, "export", "--directory", str(board.directory), "arm", "-o", str(target)], check=True
    )
    with target.open("rb") as f:
        ((found, channel, message),) = make_reader(f, validate_crcs=True).iter_messages()
    assert found
    assert (found.name, found.encoding, found.data) == ("my.Pose", "jsonschema", b'{"type": "object"}')
    assert channel.message_encoding == "json"
    assert message.log_time - message.publish_time == record.monotonic_ns - acquired


def test_a_clean_restart_leaves_no_gap(board: Board) -> None:
    board.channel("arm")
    for start in range(3):
        board.start()
        board.wait_state("arm", "recording")
        with board.writer("arm") as writer:
            assert writer.sequence == start
            writer.submit(b"%d" % start)
        assert board.stop() < 2
    assert board.payloads("arm") == [b"0", b"1", b"2"]
    assert board.gaps("arm") == []
    # recording continued in the same segment
    used = [
        f for f in (board.directory / "arm").glob("*.seg") if struct.unpack_from("<Q", f.read_bytes(), 72)[0]
    ]
    assert len(used) == 1


@pytest.mark.parametrize("generation", [0, 2, 1 << 33])
def test_a_marker_of_another_recording_does_not_count(board: Board, generation: int) -> None:
    """A marker without an end is of a use whose segment was kept. That is not older than the newest, nor much newer."""
    board.channel("arm")
    board.start()
    board.write("arm", b"x\n")
    board.stop()
    marker = board.directory / "arm" / "stopped"
    assert marker.read_text().startswith("generation 1 end 8192 batches 1 next 1\n")
    marker.write_text(f"generation {generation} end 0 batches 0 next 1\n")
    board.start()
    board.stop()
    assert board.gaps("arm") == ([] if generation == 2 else [(RESTART, 0)])


def test_a_killed_recorder_writes_a_gap_and_continues(board: Board) -> None:
    board.channel("arm")
    for start in range(4):
        assert board.start() < 2
        # while segments are still being created, a start reuses the oldest one that exists
        wait_for(lambda: board.stats("arm")["segments"] == 5)
        with board.writer("arm") as writer:
            for n in range(100):
                writer.submit(b"%d/%d" % (start, n))
            assert writer.sync() == 0
            # younger than the window: it may be lost
            writer.submit(b"maybe")
            board.kill()
    board.start()
    board.stop()
    records = board.records("arm")
    assert_contiguous(records)
    assert [r.payload for r in records if not r.gap and r.payload != b"maybe"] == [
        b"%d/%d" % (start, n) for start in range(4) for n in range(100)
    ]
    assert board.gaps("arm") == [(RESTART, 0)] * 4


def test_repeated_crashes_do_not_overwrite_the_recording(board: Board) -> None:
    board.channel("arm")
    board.start()
    board.write("arm", b"precious\n")
    for _ in range(10):
        board.kill()
        board.start()
        time.sleep(0.15)
    board.stop()
    assert board.payloads("arm") == [b"precious"]
    assert board.gaps("arm") == [(RESTART, 0)]


def test_a_shutdown_writes_what_was_submitted(board: Board) -> None:
    board.channel("arm", window="10s", ring="yes")
    board.channel("leg", window="10s")
    board.start()
    with (
        board.writer("leg") as socket_writer,
        subprocess.Popen(
            [RECORDER, "write", "--ring", "--socket", str(board.socket), "arm"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as ring_writer,
    ):
        socket_writer.submit(b"leg")
        assert ring_writer.stdin
        ring_writer.stdin.write(b"arm\n")
        ring_writer.stdin.flush()
        wait_for(lambda: board.stats("arm")["records"] == 1)
        assert board.stop() < 2
        ring_writer.stdin.close()
        # nothing was lost, so it prints nothing
        assert ring_writer.wait(10) == 0
        assert ring_writer.stderr
        assert ring_writer.stderr.read() == b""
    assert board.payloads("arm") == [b"arm"]
    assert board.payloads("leg") == [b"leg"]
    board.start()
    board.stop()
    assert board.gaps("arm") == board.gaps("leg") == []


@pytest.mark.parametrize("last", [False, True])
def test_a_shutdown_does_not_count_what_found_the_ring_full(board: Board, last: bool) -> None:
    """The writer knows of these records. Everything that it submitted is written, so the message says that."""
    board.channel("arm", window="10s")
    board.start()
    assert board.process
    with board.writer("arm", way=2) as arm:
        arm.put(0, b"before")
        if not last:
            arm.sequence += 3
            arm.put(1, b"after")
        struct.pack_into("<Q", arm.ring, 8, 3)
        board.process.terminate()
        assert arm.reason_for_close()[0] == errno.ESHUTDOWN
    board.process.wait(10)
    assert board.payloads("arm") == ([b"before"] if last else [b"before", b"after"])
    assert board.gaps("arm") == [(OVERRUN, 3)]


@pytest.mark.parametrize("way", [1, 2])
def test_a_shutdown_waits_for_the_first_two_segments(board: Board, way: int) -> None:
    """Records that arrive before there is a segment wait in memory. To write zeros to two of 64 MiB takes a moment."""
    board.channel("arm", retain="64MiB", segment="64MiB")
    board.start(ready=False)
    with board.writer("arm", way) as writer:
        if way == 1:
            writer.submit(b"one")
        else:
            writer.put(0, b"one")
        assert not list(board.directory.glob("arm/*1.seg")), "the segments were made too soon"
        board.stop()
    assert board.payloads("arm") == [b"one"]
    board.start()
    board.stop()
    assert board.gaps("arm") == []


def test_a_recorder_that_was_killed_before_its_first_segment_may_have_lost_records(board: Board) -> None:
    board.channel("arm")
    (board.directory / "arm").mkdir()
    (board.directory / "arm/started").write_bytes(bytes(BLOCK))
    board.start()
    board.stop()
    assert board.gaps("arm") == [(RESTART, 0)]


def test_the_first_segments_end_the_wait_of_records(board: Board) -> None:
    """Nothing but the segments wakes the thread that writes: no other record follows."""
    board.channel("arm", retain="16MiB", segment="16MiB")
    board.start(ready=False)
    with board.writer("arm") as writer:
        writer.submit(b"one")
        assert not list(board.directory.glob("arm/*1.seg")), "the segments were made too soon"
        wait_for(lambda: board.payloads("arm"))
    board.stop()


def test_a_shutdown_loses_no_record_that_send_accepted(board: Board) -> None:
    """While a writer submits without pause: each record is recorded, or its send() fails."""
    board.channel("arm", record_size="16", buffer="64MiB")

    def submit(writer: RawWriter) -> None:
        while True:
            writer.submit(b"%d" % writer.sequence)

    for _ in range(5):
        board.start()
        board.wait_state("arm", "recording")
        with board.writer("arm") as writer:
            first = writer.sequence
            end = threading.Timer(0.1, board.stop)
            end.start()
            with pytest.raises((BrokenPipeError, ConnectionResetError)):
                submit(writer)
            end.join()
            # the record whose send() failed used up a sequence, but is not recorded
            assert board.records("arm")[-1].sequence + 2 == writer.sequence > first + 100
    assert board.gaps("arm") == []


@pytest.fixture
def tool(board: Board) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """A function that runs `ek-recorder write arm` in the background."""
    tools: list[subprocess.Popen[bytes]] = []

    def start(*options: str) -> subprocess.Popen[bytes]:
        tools.append(
            subprocess.Popen(
                [RECORDER, "write", *options, "--socket", str(board.socket), "arm"],
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
        return tools[-1]

    yield start
    for process in tools:
        process.kill()
        process.communicate()


def feed(process: subprocess.Popen[bytes], lines: bytes) -> None:
    assert process.stdin
    process.stdin.write(lines)
    process.stdin.flush()


def writer_with_one_record(
    board: Board, tool: Callable[..., subprocess.Popen[bytes]], way: list[str]
) -> subprocess.Popen[bytes]:
    board.channel("arm")
    board.start()
    writer = tool(*way)
    feed(writer, b"one\n")
    wait_for(lambda: board.stats("arm")["durable"] == 1)
    return writer


@pytest.mark.parametrize("way", [[], ["--ring"]])
def test_the_write_command_waits_while_the_recorder_restarts(
    board: Board, tool: Callable[..., subprocess.Popen[bytes]], way: list[str]
) -> None:
    writer = writer_with_one_record(board, tool, way)
    board.stop()
    feed(writer, b"two\nthree\n")
    time.sleep(0.3)
    assert writer.poll() is None
    board.start()
    _, message = writer.communicate(timeout=20)
    assert (writer.returncode, message) == (
        0,
        b"ek-recorder write: channel arm: the recorder was shut down and has written everything submitted;"
        b" waiting for the recorder\n",
    )
    board.stop()
    assert board.payloads("arm") == [b"one", b"two", b"three"]
    assert board.gaps("arm") == []


@pytest.mark.parametrize("way", [[], ["--ring"]])
def test_the_write_command_reports_that_the_recorder_was_killed(
    board: Board, tool: Callable[..., subprocess.Popen[bytes]], way: list[str]
) -> None:
    writer = writer_with_one_record(board, tool, way)
    board.kill()
    board.start()
    feed(writer, b"two\n")
    _, message = writer.communicate(timeout=20)
    assert writer.returncode == 1
    assert message.decode().splitlines() == [
        "ek-recorder write: the recorder exited or closed the connection; waiting for the recorder",
        "ek-recorder write: the recorder did not shut down cleanly: what it had not written is lost; a gap marks the place",
    ]
    # with --no-wait it does not wait for a start: what it reads meanwhile is lost
    no_wait = tool("--no-wait", *way)
    feed(no_wait, b"three\n")
    wait_for(lambda: board.stats("arm")["durable"] == 2)
    board.stop()
    feed(no_wait, b"four\n")
    _, message = no_wait.communicate(timeout=20)
    assert no_wait.returncode == 1
    assert message.decode().splitlines() == [
        "ek-recorder write: channel arm: the recorder was shut down and has written everything submitted;"
        " not waiting for the recorder",
        "ek-recorder write: records were lost before this: the recorder was not running",
        "ek-recorder write: 1 records were lost",
    ]
    assert board.payloads("arm") == [b"one", b"two", b"three"]
    assert board.gaps("arm") == [(RESTART, 0)]


def test_the_write_command_gives_up_if_nobody_listens(
    board: Board, tool: Callable[..., subprocess.Popen[bytes]]
) -> None:
    board.channel("arm")
    board.start()
    writer = tool()
    feed(writer, b"one\n")
    wait_for(lambda: board.stats("arm")["durable"] == 1)
    board.stop()
    began = time.monotonic()
    feed(writer, b"two\n")
    assert writer.wait(30) == 1
    assert 9 < time.monotonic() - began < 20
    assert writer.stderr
    assert b"connecting to the recorder at" in writer.stderr.read()


COMPONENT = Path(__file__).parent.parent


def value_in(file: str, pattern: str) -> float:
    """The number that the pattern finds in a file of the component."""
    found = re.search(pattern, (COMPONENT / file).read_text())
    assert found, f"{file} does not match {pattern}"
    return float(found[1])


def test_timeouts_of_systemd_and_of_writers_cover_the_longest_shutdown() -> None:
    unit = value_in("data/ek-recorder.service", r"\nTimeoutStopSec=(\d+)\n")
    write = value_in("src/storage.h", r"SHUTDOWN_MOST \((\d+) \* NSEC_PER_SEC\)")
    markers = value_in("src/prepare.c", r"END_TIME \((\d+) \* NSEC_PER_SEC\)")
    client = value_in("src/client.c", r"LAST_WORDS_MS (\d+)\n")
    assert write + markers < unit
    assert write * 1000 < client <= unit * 1000


def test_a_crash_writes_no_core_dump() -> None:
    """It would contain all locked buffers, and delay the next start by writing them to the same flash."""
    assert value_in("data/ek-recorder.service", r"\nLimitCORE=(\d+)\n") == 0


def test_init_creates_all_segments_and_a_clean_shutdown_marker(board: Board) -> None:
    board.channel("arm")
    board.channel("leg", retain="512KiB")
    out = subprocess.run(
        [RECORDER, "init", "--config", str(board.conf)], capture_output=True, text=True, check=True
    )
    assert out.stdout == (
        "arm: 5 segments of 262144 bytes, 5 of them new\nleg: 3 segments of 262144 bytes, 3 of them new\n"
    )
    board.start()
    assert board.wait_state("arm", "recording")["segments"] == 5
    board.write("arm", b"x\n")
    board.stop()
    subprocess.run([RECORDER, "init", "--config", str(board.conf)], capture_output=True, check=True)
    board.start()
    board.stop()
    assert board.gaps("arm") == []


def test_init_by_root_creates_files_of_the_directorys_owner(board: Board) -> None:
    if os.geteuid() != 0:
        pytest.skip("becoming another user needs root")
    # other users may have no access to the parent folders
    board.configure(directory="/mnt")
    board.channel("arm")
    os.chown(board.directory, 65534, 65533)
    bind = f"mount --bind {shlex.quote(str(board.directory))} /mnt"
    done = subprocess.run(
        [
            *("unshare", "--mount", "sh", "-c", f'{bind} || exit 77; exec "$@"', "sh"),
            *(RECORDER, "init", "--config", str(board.conf)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip(f"bind mounts do not work here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    created = [board.directory / "arm", *(board.directory / "arm").iterdir()]
    # the directory, five segments, the clean-shutdown marker, the lock, and the file `channel`
    assert len(created) == 9
    assert {(f.stat().st_uid, f.stat().st_gid) for f in created} == {(65534, 65533)}


def trim(board: Board, *options: str, status: int = 0) -> str:
    out = subprocess.run(
        [RECORDER, "trim", *options, "--config", str(board.conf), "arm"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.returncode == status, out.stderr
    return out.stdout + out.stderr


def test_trim_creates_nothing(board: Board) -> None:
    """Root runs it. The recorder could not open what root creates."""
    board.channel("arm")
    assert "opening" in trim(board, status=1)
    assert not list(board.directory.iterdir())
    (board.directory / "arm").mkdir()
    trim(board)
    assert not list((board.directory / "arm").iterdir())


def test_a_lower_retain_deletes_nothing_without_trim(board: Board) -> None:
    """It may be a typing error."""

    def segments() -> set[Path]:
        return set((board.directory / "arm").glob("*.seg"))

    def numbers() -> list[int]:
        return [r.sequence for r in board.records("arm")]

    def retain(size: str, wanted: int, count: int) -> None:
        board.channel("arm", record_size="16KiB", writeout="64KiB", retain=size)
        board.start()
        wait_for(lambda: board.stats("arm")["segments"] == count)
        assert board.stats("arm")["segments_wanted"] == wanted

    retain("2MiB", 9, 9)
    board.write("arm", os.urandom(1 << 20), "--size", "16384")
    board.stop()
    # used segments, oldest first
    used = sorted(
        (use, path) for path in segments() if (use := struct.unpack_from("<Q", path.read_bytes(), 72)[0])
    )
    assert len(used) > 4
    assert numbers() == list(range(64))
    retain("512KiB", 3, 9)
    assert len(segments()) == 9
    reason = board.wait_state("arm", "recording")["reason"]
    assert reason == (
        "it has 6 segments more than retain needs; they are kept and used. 'ek-recorder trim --yes arm' deletes the oldest"
    )
    assert "is being recorded. Stop the recorder first" in trim(board, "--yes", status=1)
    board.stop()
    assert "would delete the 6 oldest segments of 262144 bytes" in trim(board)
    assert numbers() == list(range(64))
    assert "deleted the 6 oldest segments of 262144 bytes" in trim(board, "--yes")
    # the three newest segments remain
    assert segments() == {path for _, path in used[-3:]}
    assert 0 < numbers()[0] < numbers()[-1] == 63
    assert numbers() == list(range(numbers()[0], 64))
    assert "no more segments than retain needs" in trim(board, "--yes")
    # recording continues without a gap, and a higher retain creates segments again
    retain("512KiB", 3, 3)
    assert board.stats("arm")["reason"] == ""
    board.write("arm", b"x" * 1000)
    board.stop()
    retain("1MiB", 5, 5)
    board.stop()
    assert {path for _, path in used[-3:]} < segments()
    assert numbers()[-1] == 64
    assert board.gaps("arm") == []


def test_records_expire_before_segments_are_created(board: Board) -> None:
    terms = {"record_size": "16KiB", "writeout": "64KiB", "segment": "256KiB"}
    board.channel("arm", retain="2MiB", **terms)
    board.start()
    wait_for(lambda: board.stats("arm")["segments"] == 9)
    board.write("arm", os.urandom(1 << 20), "--size", "16384")
    board.stop()
    time.sleep(1.1)
    # creating the missing segments takes many seconds
    board.channel("arm", retain="512MiB", retain_time="1s", **terms)
    board.start()
    wait_for(lambda: "are older than retain_time" in board.log.read_text())
    assert len(list((board.directory / "arm").glob("*.seg"))) < 1000
    board.stop()


def test_retain_time_deletes_old_records_on_the_medium(board: Board) -> None:
    terms = {"record_size": "16KiB", "writeout": "64KiB", "retain": "2MiB"}
    board.channel("arm", **terms)
    board.start()
    wait_for(lambda: board.stats("arm")["segments"] == 9)
    board.write("arm", os.urandom(1 << 20), "--size", "16384")
    board.stop()
    assert [r.sequence for r in board.records("arm")] == list(range(64))
    time.sleep(1.1)
    board.channel("arm", **terms, retain_time="1s")
    board.start()

    def heads() -> int:
        """Number of segments that hold records."""
        files = (board.directory / "arm").glob("*.seg")
        return sum(struct.unpack_from("<Q", f.read_bytes(), 72)[0] > 0 for f in files)

    # the segment in use remains, and perhaps the one before it
    wait_for(lambda: heads() <= 2)
    board.write("arm", b"x\n")
    board.stop()
    numbers = [r.sequence for r in board.records("arm")]
    assert 32 < numbers[0] < 64
    assert numbers == list(range(numbers[0], 65))
    assert len(list((board.directory / "arm").glob("*.seg"))) == 9
    verify = [RECORDER, "verify", "--directory", str(board.directory), "arm"]
    out = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert out.returncode == 0, out


def test_unfinished_segments_of_a_crash_are_removed(board: Board) -> None:
    board.channel("arm", retain="512KiB")
    board.start()
    wait_for(lambda: board.stats("arm")["segments"] == 3)
    board.stop()
    # 3 would be created next, but is not needed; 7 is from a time when there were more segments
    for index in (3, 7):
        (board.directory / "arm" / f"{index:08}.seg.new").write_bytes(bytes(65536))
    others = [board.directory / "arm" / name for name in ("notes.new", "1.seg.new", "stopped.new")]
    for other in others:
        other.write_text("somebody else's file")
    board.start()
    assert not list((board.directory / "arm").glob("????????.seg.new"))
    # an unfinished segment that is needed is created from scratch
    board.stop()
    (board.directory / "arm" / "00000003.seg.new").write_bytes(b"x" * 65536)
    board.channel("arm", retain="768KiB")
    board.start()
    wait_for(lambda: board.stats("arm")["segments"] == 4)
    assert not list((board.directory / "arm").glob("????????.seg.new"))
    board.write("arm", b"x\n")
    board.stop()
    assert [other.exists() for other in others[:2]] == [True, True]
    assert board.payloads("arm") == [b"x"]
    assert board.gaps("arm") == []


def test_notifications_to_systemd_and_its_socket(board: Board) -> None:
    board.channel("arm")
    messages: list[str] = []
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
    ):
        notify.bind(str(board.top / "notify"))
        notify.settimeout(10)
        listener.bind(str(board.socket))
        listener.listen()
        fd = listener.fileno()
        board.start(
            *("bash", "-c", f'LISTEN_PID=$$ exec "$@" 3<&{fd}', "bash"),
            pass_fds=(fd,),
            env={**os.environ, "LISTEN_FDS": "1", "NOTIFY_SOCKET": str(board.top / "notify")},
        )
        while not {"WATCHDOG=1", "STATUS=1 of 1 channels are recording"} <= set(messages):
            messages.append(notify.recv(4096).decode())
        board.write("arm", b"x\n")
        board.stop()
        while "STOPPING=1" not in messages:
            messages.append(notify.recv(4096).decode())
    assert messages[0] == "READY=1"
    # the recorder does not remove systemd's socket
    assert board.socket.exists()
    assert board.payloads("arm") == [b"x"]


def test_clients_at_systemds_socket_are_told_that_the_configuration_is_invalid(board: Board) -> None:
    """Otherwise systemd would start the recorder again and again, because a client waits."""
    board.configure(nonsense="1")
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as early,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent,
    ):
        listener.bind(str(board.socket))
        listener.listen()
        early.connect(str(board.socket))
        early.send(struct.pack("<3I36sQ", 1, 3, 1, b"arm", 0))
        silent.connect(str(board.socket))
        fd, run = listener.fileno(), [RECORDER, "run", "--config", str(board.conf)]
        out = subprocess.run(
            ["bash", "-c", f'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@" 3<&{fd}', "bash", *run],
            pass_fds=(fd,),
            capture_output=True,
            check=False,
        )
        assert out.returncode == 2
        for client in (early, silent):
            client.settimeout(5)
            kind, code, _, why = struct.unpack("<IiQ240s", client.recv(4096))
            assert (kind, code) == (3, errno.EINVAL)
            assert b"the recorder is not running: " in why
            assert b"nonsense = 1: unknown key" in why
            assert client.recv(4096) == b""
        assert select.select([listener], [], [], 0)[0] == []


def test_status_prints_a_table_or_json(board: Board) -> None:
    board.channel("arm", window="10s")
    board.start()
    board.wait_state("arm", "recording")
    board.write("arm", b"x\n")
    wait_for(lambda: board.stats("arm")["durable"] == 1)
    status = [RECORDER, "status", "--config", str(board.conf)]
    out = subprocess.run(status, capture_output=True, text=True, check=True).stdout
    assert [line.split()[:3] for line in out.splitlines()] == [
        ["channel", "state", "records"],
        ["arm", "recording", "1"],
    ]
    out = subprocess.run([*status, "--json"], capture_output=True, text=True, check=True).stdout
    stats = json.loads(out)["channels"]["arm"]
    assert stats["writer"] == 0
    assert stats["record_us"].count(":") == 1
    assert stats["late"] == 0
    assert stats["synced_ms_ago"] < 5000
    board.kill()


def status_error(conf: Path) -> tuple[int, str]:
    """Exit status and standard error of `ek-recorder status`."""
    out = subprocess.run(
        [RECORDER, "status", "--config", str(conf)], capture_output=True, text=True, check=False
    )
    assert out.stdout == ""
    return out.returncode, out.stderr


def test_status_without_a_statistics_file_does_not_use_the_default_one(board: Board) -> None:
    """The statistics at the default path may be those of another recorder."""
    board.configure(statistics="")
    conf = board.conf / "recorder.conf"
    assert status_error(board.conf) == (
        1,
        f"ek-recorder status: {conf}: statistics is empty, so the recorder writes none\n",
    )
    conf.unlink()
    conf.symlink_to(conf)
    status, message = status_error(board.conf)
    assert (status, message.count("\n")) == (2, 1)
    assert message.endswith("recorder.conf: Too many levels of symbolic links\n")
    assert status_error(Path(f"/{'d' * 4095}"))[0] == 2


def test_a_configuration_directory_with_a_long_path(board: Board) -> None:
    deep = board.top / ("d" * 200) / ("e" * 200)
    deep.parent.mkdir()
    board.channel("arm")
    board.conf.rename(deep)
    board.conf = deep
    board.start()
    board.wait_state("arm", "recording")
    out = subprocess.run(
        [RECORDER, "status", "--config", str(deep)], capture_output=True, text=True, check=True
    ).stdout
    assert "arm" in out
    assert bench(board, "--writes", "1", "--record", "64", status=(0, 1))["writes"] == 1
    board.stop()


@pytest.mark.parametrize("little_memory", [False, True])
def test_the_howto_commands_for_other_machines(board: Board, little_memory: bool) -> None:
    """They work for any user, also with the limit for locked memory that users other than root have."""
    limit = ["prlimit", "--memlock=8388608"]
    if os.geteuid() == 0:
        limit = ["setpriv", "--bounding-set=-ipc_lock", *limit]
    text = (Path(__file__).resolve().parents[3] / "docs/howto/record.md").read_text()
    script = text.partition("## Try it without a board")[2].partition("```sh\n")[2].partition("```")[0]
    assert script
    # under the sanitizers it takes longer to start; and the test waits until it has exited
    script = f"trap 'kill $! || :' EXIT\n{script.replace('sleep 2', 'sleep 5')}wait $!\n"
    out = subprocess.run(
        [*(limit if little_memory else []), "sh", "-ec", script],
        cwd=board.top,
        env={**os.environ, "PATH": f"{BUILD.absolute()}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert out.returncode == 0, out.stderr
    lines = [line.split() for line in out.stdout.splitlines()]
    assert [line[:2] for line in lines] == [["channel", "state"], ["can0", "recording"], ["1000"]]


def test_its_threads_do_not_preempt_writers_when_they_wake(board: Board) -> None:
    board.channel("arm")
    board.start()
    assert board.process
    tasks = list(Path(f"/proc/{board.process.pid}/task").iterdir())
    assert len(tasks) >= 3
    for task in tasks:
        # field 41 of proc_pid_stat(5); the name before it may contain whitespace
        policy = int((task / "stat").read_text().rpartition(")")[2].split()[38])
        assert policy == os.SCHED_BATCH, task


def bench(board: Board, *args: str, status: tuple[int, ...]) -> dict[str, Any]:
    out = subprocess.run(
        [RECORDER, "bench", "--json", "--config", str(board.conf), *args, "arm"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.returncode in status, out
    report: dict[str, Any] = json.loads(out.stdout)
    return report


@pytest.mark.parametrize("way", ["ring", "socket"])
def test_bench_measures_and_check_recognizes_its_records(board: Board, way: str) -> None:
    board.channel("arm", record_size="4KiB", period="2ms", window="10s")
    board.start()
    board.wait_state("arm", "recording")
    # status 1: on a busy host a record may be late
    report = bench(board, *["--ring"][: way == "ring"], "--writes", "50", "--sets", "2", status=(0, 1))
    assert (report["way"], report["writes"], report["sets"]) == (way, 50, 2)
    assert (report["record"], report["every_us"]) == (4096, 2000)
    assert 0 < report["min_us"] <= report["p50_us"] <= report["p99_us"] <= report["p9999_us"]
    assert report["p9999_us"] <= report["max_us"] == max(report["sets_max_us"])
    worst = [w["us"] for w in report["worst"]]
    assert (len(worst), worst[0]) == (10, report["max_us"])
    assert worst == sorted(worst, reverse=True)
    assert report["lost"] == report["durable"]["lost"] == report["durable"]["late"] == 0
    found = bench(board, "--check", status=(0,))
    assert found["records"] - 100 == found["wrong"] == found["missing"] == found["damage"] == 0
    assert found["last_index"] == 99
    # a valid record, but not one that bench submitted
    board.write("arm", b"x" * 100 + b"\n")
    assert bench(board, "--check", status=(1,))["wrong"] == 1


def test_bench_counts_nothing_from_statistics_that_end_meanwhile(board: Board) -> None:
    board.channel("arm")
    board.start()
    stats = wait_for(board.statistics)
    stats["channels"]["arm"]["late"] = 5
    old = board.top / "old.json"
    old.write_text(json.dumps(stats))
    # the recorder that runs writes its statistics elsewhere
    board.configure(statistics=str(old))
    report = bench(board, "--writes", "1", "--every", "1s", status=(0,))
    assert report["durable"] is None


def test_bench_check_reports_damage_and_missing_records(board: Board) -> None:
    board.channel("arm", record_size="4KiB", period="2ms")
    board.start()
    board.wait_state("arm", "recording")
    subprocess.run(
        [RECORDER, "bench", "--config", str(board.conf), "--writes", "200", "arm"],
        capture_output=True,
        check=False,
    )
    board.stop()
    with next(iter(sorted((board.directory / "arm").glob("*.seg")))).open("r+b") as segment:
        segment.seek(8 * 4096)
        segment.write(bytes(4096))
    found = bench(board, "--check", status=(1,))
    assert found["damage"] == 1
    assert found["missing"] >= 1


def test_memory_does_not_grow_over_time(board: Board) -> None:
    """Runs for EK_SOAK seconds (default 4)."""
    seconds = float(os.environ.get("EK_SOAK", "4"))
    board.channel("arm", record_size="16KiB", period="5ms", retain="4MiB", segment="512KiB", window="1s")
    board.channel("leg", record_size="100", retain="1MiB", window="1s")
    board.start()

    def resident() -> int:
        assert board.process
        status = Path(f"/proc/{board.process.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))

    with board.writer("arm") as arm:
        end, first, payload = time.monotonic() + seconds, 0, os.urandom(16384)
        submitted = 0
        while time.monotonic() < end:
            arm.submit(payload)
            submitted += 1
            if submitted % 20 == 0:
                with board.writer("leg") as leg:
                    leg.submit(b"leg")
            if not first and time.monotonic() > end - seconds / 2:
                first = resident()
            time.sleep(0.005)
        assert arm.sync() == 0
    grown = resident() - first
    wait_for(lambda: board.stats("arm")["durable"] == submitted)
    for channel in ("arm", "leg"):
        stats = board.stats(channel)
        assert stats["lost"] == {"overrun": 0, "absent": 0, "failed": 0, "writer": 0, "restart": 0}
        # the disk of a busy host is slow now and then
        assert stats["late"] <= submitted / 20, stats
        assert stats["errors"] == 0
    # the sanitizers keep freed memory for a while
    assert grown < 6000, f"grown by {grown} KiB"
    board.stop()
    assert_contiguous(board.records("arm"))


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        ([], 2, "Usage"),
        (["fly"], 2, "unknown command 'fly'"),
        (["run", "--config", "/nonexistent"], 2, "reading /nonexistent/channels.d: No such file"),
        (["run", "now"], 2, "unexpected argument 'now'"),
        (["init", "--config", "/nonexistent"], 2, "No such file"),
        (["write"], 2, "expected CHANNEL"),
        (["write", "--size", "0", "arm"], 2, "--size: '0' must be from 1 to 1MiB"),
        (
            ["write", "--socket", "/nonexistent", "arm"],
            1,
            "connecting to the recorder at /nonexistent: No such file",
        ),
        (["write", "arm", "/nonexistent"], 1, "opening /nonexistent"),
        (["status", "--config", "/nonexistent"], 1, "reading /run/ek-recorder/stats.json"),
        (["bench"], 2, "expected CHANNEL"),
        (["bench", "--writes", "-1", "arm"], 2, "--writes: '-1' must be a whole number"),
        (["bench", "--config", "/nonexistent", "../arm"], 2, "invalid name of a channel"),
        (["bench", "--check", "--config", "/nonexistent", "arm"], 2, "opening the recording /recorder/arm"),
    ],
)
def test_wrong_usage_is_reported_in_one_line(args: list[str], status: int, message: str) -> None:
    out = subprocess.run(
        [RECORDER, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    assert (out.returncode, out.stdout) == (status, "")
    assert message in out.stderr
    assert out.stderr.count("\n") == 1 or not args


@pytest.mark.parametrize(
    "args",
    [["--help"], ["-h"], ["--version"]]
    + [[command, "--help"] for command in ("run", "init", "status", "write", "bench")],
)
def test_help_that_cannot_be_written_is_a_failure(args: list[str]) -> None:
    assert subprocess.run([RECORDER, *args], stdout=subprocess.DEVNULL, check=False).returncode == 0
    with Path("/dev/full").open("w") as full:
        assert subprocess.run([RECORDER, *args], stdout=full, check=False).returncode == 1


def test_sigint_shuts_it_down_cleanly(board: Board) -> None:
    board.channel("arm")
    board.start()
    assert board.process
    board.process.send_signal(signal.SIGINT)
    assert board.process.wait(10) == 0
    assert not board.socket.exists()
