# SPDX-License-Identifier: Apache-2.0
"""Faults of writers and of the configuration, as listed in docs/reference/recorder.md, and that other channels go on."""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import mmap
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest
from board import (
    ABSENT,
    OPEN,
    OVERRUN,
    RECORD,
    RECORDER,
    REFUSED,
    SYNC,
    WRITER,
    Board,
    RawWriter,
    assert_contiguous,
    cpu_ticks,
    frozen,
    wait_for,
)

Mount = Callable[[Path, int], None]


def send_and_expect_refusal(pair: Board, reason: str, send: Callable[[RawWriter], object]) -> None:
    """The writer gets the reason and loses its connection. Its earlier records are recorded, followed by a gap."""
    with pair.writer("arm") as writer:
        writer.submit(b"good")
        send(writer)
        code, message = writer.reason_for_close()
        assert code == errno.EPROTO
        assert reason in message
    with pair.writer("arm") as writer:
        assert writer.sequence == 2
        writer.submit(b"next")
        assert writer.sync() == 0
    assert pair.payloads("arm") == [b"good", b"next"]
    assert pair.gaps("arm") == [(WRITER, 0)]
    assert_contiguous(pair.records("arm"))


def test_a_record_larger_than_declared(pair: Board) -> None:
    send_and_expect_refusal(pair, "larger than declared", lambda w: w.submit(b"x" * 1001))


def test_a_message_larger_than_any_record(pair: Board) -> None:
    send_and_expect_refusal(pair, "larger than declared", lambda w: w.submit(b"x" * 100_000))


def test_a_record_with_a_wrong_length_field(pair: Board) -> None:
    send_and_expect_refusal(pair, "with a wrong length field", lambda w: w.submit(b"abc", length=4))


def test_a_sequence_that_went_back(pair: Board) -> None:
    send_and_expect_refusal(pair, "with an invalid sequence", lambda w: w.submit(b"x", sequence=0))


def test_a_message_of_unknown_type(pair: Board) -> None:
    send_and_expect_refusal(pair, "an invalid message", lambda w: w.socket.send(struct.pack("<I", 99)))


def test_a_record_without_a_header(pair: Board) -> None:
    send_and_expect_refusal(pair, "without a header", lambda w: w.socket.send(struct.pack("<I", 4)))


def test_an_empty_message(pair: Board) -> None:
    """It looks like the end of a connection, but is not."""
    send_and_expect_refusal(pair, "an invalid message", lambda w: w.socket.send(b""))


def test_a_ring_with_an_implausible_loss_counter(pair: Board) -> None:
    with pair.writer("arm", way=2) as writer:
        writer.put(0, b"good")
        os.write(writer.bell, struct.pack("<Q", 1))
        wait_for(lambda: writer.taken() == 1)
        # more losses than submissions are possible in this time
        writer.ring[8:16] = struct.pack("<Q", 2**32 - 10)
    with wait_for(lambda: opened(pair, "arm")) as writer:
        assert writer.sequence == 2
    wait_for(lambda: pair.stats("arm")["lost"]["writer"] == 1)
    assert pair.stats("arm")["lost"]["overrun"] == 0
    wait_for(lambda: pair.gaps("arm") == [(WRITER, 0)])
    assert pair.payloads("arm") == [b"good"]


def test_protocol_violations_are_logged_ten_times_a_minute(pair: Board) -> None:
    for _ in range(200):
        refused = RawWriter(pair.socket, "arm", version=1).refused
        assert refused
    assert pair.log.read_text().count("its connection is closed") == 10


def test_the_write_command_leaves_out_lines_that_are_too_long(pair: Board) -> None:
    message = pair.write("arm", b"one\n" + b"x" * 5000 + b"\ntwo\n", status=1)
    assert "1 lines were not recorded, because they are longer than 1000 bytes" in message
    assert pair.payloads("arm") == [b"one", b"two"]


def lingering(stack: contextlib.ExitStack, seconds: int) -> socket.socket:
    """A socket whose last close() takes this long, because it has unsent data and lingers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = stack.enter_context(socket.create_connection(server.getsockname()))
        stack.enter_context(server.accept()[0])
    sender.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            sender.send(bytes(65536))
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, seconds))
    return sender


def send_with(to: socket.socket, *fds: int) -> None:
    """Send a channel's first record together with file descriptors."""
    record = struct.pack("<2I2QqQ", RECORD, 1, 0, time.monotonic_ns(), 0, 0) + b"x"
    to.sendmsg([record], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])


def wait_for_segments(board: Board) -> None:
    """Until all channels have all their segments."""
    wait_for(lambda: all(s["segments"] == 5 for s in board.statistics()["channels"].values()))  # type: ignore[index]


def descriptors(board: Board) -> int:
    assert board.process
    return len(list(Path(f"/proc/{board.process.pid}/fd").iterdir()))


def is_not_delayed(writer: RawWriter) -> bool:
    """Each sync of this writer is fast: other channels do not delay it."""
    began = time.monotonic()
    while time.monotonic() < began + 0.5:
        writer.submit(b"x")
        assert writer.sync() == 0
    return time.monotonic() < began + 1


def test_a_message_with_file_descriptors_is_refused(pair: Board) -> None:
    wait_for_segments(pair)
    before = descriptors(pair)
    with Path("/dev/null").open("rb") as null:
        for count in (1, 8, 253):
            with pair.writer("arm") as writer:
                send_with(writer.socket, *[null.fileno()] * count)
                assert writer.reason_for_close() == (
                    errno.EPROTO,
                    "channel arm: this writer sent file descriptors",
                )
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as unknown:
            unknown.connect(str(pair.socket))
            send_with(unknown, null.fileno())
            assert b"this writer sent file descriptors" in unknown.recv(4096)
    wait_for(lambda: descriptors(pair) <= before)
    with pair.writer("arm") as writer:
        assert writer.sequence == 3
        assert writer.sync() == 0
    assert pair.payloads("arm") == []
    assert pair.gaps("arm") == [(WRITER, 0)] * 3


@pytest.mark.parametrize("ahead", [[], [b"none"], [b"none", b""], [b"", b"", b"end"]])
def test_a_file_descriptor_that_is_slow_to_close(board: Board, ahead: list[bytes]) -> None:
    """close() blocks for the last reference. It delays neither writers of other channels nor a shutdown."""
    board.channel("arm")
    board.channel("leg")
    board.start()
    wait_for_segments(board)
    assert board.process
    with contextlib.ExitStack() as stack, board.writer("leg") as leg, board.writer("arm") as arm:
        board.pause()
        with lingering(stack, 20) as slow:
            for message in ahead[:2]:
                arm.socket.send(message)
            send_with(arm.socket, slow.fileno())
        if ahead[2:]:
            arm.close()
        board.process.send_signal(signal.SIGCONT)
        assert is_not_delayed(leg)
        with board.writer("arm") as again:
            again.submit(b"x")
            assert again.sync() == 0
        assert board.stop() < 2
    assert board.gaps("leg") == []


def test_file_descriptors_that_are_slow_to_close_do_not_accumulate(board: Board) -> None:
    """Existing connections are served or closed. New ones wait until the descriptors are closed."""
    board.channel("leg")
    board.start()
    wait_for_segments(board)
    assert board.process
    with contextlib.ExitStack() as stack:
        leg = stack.enter_context(board.writer("leg"))
        many = [stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) for _ in range(100)]
        for s in many:
            s.connect(str(board.socket))
        null = stack.enter_context(Path("/dev/null").open("rb")).fileno()
        assert is_not_delayed(leg)
        before = descriptors(board)
        board.pause()
        with lingering(stack, 6) as slow:
            send_with(many[0], slow.fileno())
        board.process.send_signal(signal.SIGCONT)
        began = time.monotonic()
        for s in many[1:]:
            send_with(s, *[null] * 253)
        assert is_not_delayed(leg)
        assert 200 < descriptors(board) - before <= 253
        late = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        late.connect(str(board.socket))
        late.send(struct.pack("<3I36sQ", OPEN, 3, 1, b"none", 0))
        assert is_not_delayed(leg)
        assert not select.select([late], [], [], 0)[0]
        late.settimeout(10)
        assert struct.unpack_from("<2I", late.recv(4096)) == (REFUSED, errno.ENOENT)
        assert time.monotonic() > began + 5
        wait_for(lambda: descriptors(board) < before)
    board.stop()
    assert board.gaps("leg") == []
    assert board.log.read_text().count("rings or descriptors of writers are slow to close") == 1


def test_a_protocol_error_loses_nothing_that_was_submitted(pair: Board) -> None:
    with pair.writer("arm", way=2) as writer:
        for number in range(3):
            writer.put(number, b"%d" % number)
        # the recorder has not looked into the ring yet
        writer.socket.send(struct.pack("<I", 77))
        assert "an invalid message" in writer.reason_for_close()[1]
    wait_for(lambda: pair.gaps("arm") == [(WRITER, 0)])
    assert pair.payloads("arm") == [b"0", b"1", b"2"]


@pytest.mark.parametrize("way", [1, 2])
def test_a_sync_with_an_implausible_sequence(pair: Board, way: int) -> None:
    """It would take all these sequences from the channel."""
    with pair.writer("arm", way=way) as writer:
        writer.socket.send(struct.pack("<IiQQ", SYNC, 0, 7, writer.sequence + 2**32 - 1))
        assert "a sync with an invalid sequence" in writer.reason_for_close()[1]
    with wait_for(lambda: opened(pair, "arm")) as writer:
        assert writer.sequence == 1


@pytest.mark.parametrize("head", [17, 1 << 63, (1 << 64) - 1])
def test_a_ring_with_an_invalid_head(pair: Board, head: int) -> None:
    with pair.writer("arm", way=2) as writer:
        assert writer.slots >= 16
        writer.fill(head if head != 17 else writer.slots + 1)
        os.write(writer.bell, struct.pack("<Q", 1))
        assert "left an invalid ring" in writer.reason_for_close()[1]
        # the ring itself also shows that it is closed
        assert writer.closed() == errno.EPROTO
    with pair.writer("arm") as writer:
        writer.submit(b"x")
        assert writer.sync() == 0
    assert pair.gaps("arm") == [(WRITER, 0)]


def seconds_until_taken(writer: RawWriter, slot: int) -> float:
    """Submit a record, ring the doorbell, and return how long the recorder takes to accept the record."""
    # without a doorbell the recorder polls the ring every 25 ms
    time.sleep(0.03)
    writer.put(slot, b"x")
    began = time.monotonic()
    os.write(writer.bell, struct.pack("<Q", 1))
    while writer.taken() <= slot and time.monotonic() < began + 5:
        time.sleep(0.0005)
    return time.monotonic() - began


PUNCH_HOLE, KEEP_SIZE = 2, 1  # linux/falloc.h


def free_memory(memfd: int, size: int) -> None:
    """Free the pages of a memfd. A thread that touches one of them waits in a page fault until all are freed."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.fallocate(memfd, PUNCH_HOLE | KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(size)) == 0


@pytest.mark.parametrize("way", ["close", "free"])
def test_a_ring_with_thousands_of_mappings_delays_no_other_channel(board: Board, way: str) -> None:
    """The kernel needs hundreds of milliseconds to free such a ring. Only its writer waits."""
    board.channel(
        "arm",
        period="1us",
        record_size="16KiB",
        retain="2MiB",
        segment="512KiB",
        buffer="256KiB",
        writeout="64KiB",
    )
    # its ring holds 128 records: the records of 128 ms below
    board.channel("leg", period="5ms")
    board.start()
    with subprocess.Popen(
        [RECORDER, "write", "--ring", "--no-wait", "--socket", str(board.socket), "leg"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as leg:
        assert leg.stdin
        assert leg.stderr
        hostile = board.writer("arm", 2)
        assert len(hostile.ring) > 16 << 20
        maps = [
            mmap.mmap(hostile.memfd, len(hostile.ring), flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
            for _ in range(2400)
        ]
        wait_for(lambda: board.stats("leg")["writer"])
        size = len(hostile.ring)
        freeing = threading.Thread(target=free_memory, args=(hostile.memfd, size))
        if way == "close":
            hostile.close()
        else:
            # the recorder is busy with the ring meanwhile
            for slot in range(hostile.slots):
                hostile.put(slot, bytes(16384))
            freeing.start()
        for number in range(1000):
            leg.stdin.write(b"%d\n" % number)
            leg.stdin.flush()
            time.sleep(0.001)
        leg.stdin.close()
        assert (leg.wait(20), leg.stderr.read()) == (0, b"")
        if way == "free":
            freeing.join()
            hostile.close()
    with wait_for(lambda: opened(board, "arm", 2)) as arm:
        arm.put(0, b"next")
        assert arm.sync(arm.sequence + 1) == 0
    del maps
    board.stop()
    assert board.gaps("leg") == []
    assert len(board.payloads("leg")) == 1000
    assert board.payloads("arm")[-1] == b"next"


def test_a_bell_that_rings_after_the_connection_has_ended(pair: Board) -> None:
    """The recorder gets both events in one turn. The connection has no ring any more when it looks at the second."""
    with pair.writer("arm", way=2) as arm:
        pair.pause()
        arm.socket.send(struct.pack("<I", 99))
        os.write(arm.bell, struct.pack("<Q", 1))
        assert pair.process
        pair.process.send_signal(signal.SIGCONT)
        assert "sent an invalid message" in arm.reason_for_close()[1]


def test_a_sync_may_arrive_after_later_records(pair: Board) -> None:
    """By ring, a writer that gave up a sync goes on submitting."""
    with pair.writer("arm", way=2) as arm:
        arm.put(0, b"one")
        arm.put(1, b"two")
        wait_for(lambda: arm.taken() == 2)
        assert arm.sync(arm.sequence + 1) == 0
        assert arm.sync(arm.sequence + 2) == 0
    assert (pair.payloads("arm"), pair.gaps("arm")) == ([b"one", b"two"], [])


def test_what_writers_say_they_lost_is_limited_by_the_time_since_the_boot(pair: Board) -> None:
    """Otherwise sequences could be counted to their end in some thousands of connections."""
    most = time.monotonic_ns() // 10
    with pair.writer("arm", lost=most * 3 // 4) as arm:
        first = arm.sequence
        assert first > most // 2
    # beyond that, a loss has no number, and its writer is served
    with wait_for(lambda: opened(pair, "arm", lost=most * 3 // 4)) as arm:
        assert arm.sequence == first + 1
        arm.submit(b"x", sequence=arm.sequence)
        assert arm.sync(arm.sequence + 1) == 0
    assert [lost for reason, lost in pair.gaps("arm") if reason == ABSENT][-1] in (0, 2**32 - 1)


def test_records_with_old_times_are_not_due_at_once(board: Board) -> None:
    """Each would be a batch of its own, and other channels on the medium would wait for it."""
    board.channel("arm", window="1s")
    board.start()
    with board.writer("arm") as arm:
        for _ in range(300):
            arm.submit(b"x", monotonic=1)
            time.sleep(0.002)
        assert arm.sync() == 0
    assert wait_for(lambda: (s := board.stats("arm"))["durable"] == 300 and s)["batches"] < 20
    board.stop()


def test_a_doorbell_that_could_block(pair: Board) -> None:
    """Writer and recorder share the open eventfd. The recorder never reads it, because the writer can make that block."""
    with pair.writer("arm", way=2) as writer:
        os.set_blocking(writer.bell, True)
        waited = [seconds_until_taken(writer, slot) for slot in range(15)]
        os.set_blocking(writer.bell, False)
        assert os.read(writer.bell, 8) == struct.pack("<Q", 15), "the recorder read the eventfd"
    assert sorted(waited)[7] < 0.008, "the recorder does not react to each doorbell"


RING_FOREVER = "import os, sys\nwhile True: os.write(int(sys.argv[1]), (1).to_bytes(8, 'little'))"


def test_a_doorbell_that_is_rung_without_pause(board: Board) -> None:
    """It delays no other channel. Once the ringing stops, single doorbells work again."""
    board.channel("arm")
    board.channel("leg")
    board.start()
    wait_for(lambda: board.stats("arm")["segments"] == board.stats("leg")["segments"] == 5)
    assert board.process
    with board.writer("arm", way=2) as arm, board.writer("leg") as leg:
        with subprocess.Popen(
            [sys.executable, "-c", RING_FOREVER, str(arm.bell)], pass_fds=(arm.bell,)
        ) as ringer:
            wait_for(lambda: cpu_ticks(ringer) > 5)
            began = time.monotonic()
            while time.monotonic() < began + 1:
                leg.submit(b"leg")
                assert leg.sync() == 0
                time.sleep(0.05)
            arm.put(0, b"rings")
            # the ring is polled meanwhile
            wait_for(lambda: arm.taken() == 1, 1)
            ringer.kill()
        time.sleep(0.1)
        waited = [seconds_until_taken(arm, slot) for slot in range(1, 16)]
    board.stop()
    assert sorted(waited)[7] < 0.008, "the recorder does not react to each doorbell again"
    assert board.gaps("leg") == board.gaps("arm") == []


def test_a_writer_that_dies_in_the_middle_of_a_record(pair: Board) -> None:
    with pair.writer("arm", way=2) as writer:
        # a submitted slot, and after it one that is only partly written
        writer.ring[4096 : 4096 + 40 + 4] = (
            struct.pack("<2I2QqQ", 4, 0, 0, time.monotonic_ns(), 0, 0) + b"done"
        )
        writer.fill(1)
        at = 4096 + writer.stride
        writer.ring[at : at + 10] = b"unfinished"
    with wait_for(lambda: opened(pair, "arm")) as writer:
        assert writer.sequence == 1
        writer.submit(b"next")
        assert writer.sync() == 0
    assert pair.payloads("arm") == [b"done", b"next"]
    assert pair.gaps("arm") == []


def opened(board: Board, channel: str, way: int = 1, lost: int = 0) -> RawWriter | None:
    writer = RawWriter(board.socket, channel, way, lost=lost)
    return None if writer.refused else writer


def test_a_writer_that_is_killed(pair: Board) -> None:
    with subprocess.Popen(
        [RECORDER, "write", "--ring", "--socket", str(pair.socket), "arm"], stdin=subprocess.PIPE
    ) as writer:
        assert writer.stdin
        writer.stdin.write(b"".join(b"%d\n" % n for n in range(100)))
        writer.stdin.flush()
        wait_for(lambda: pair.stats("arm")["durable"] == 100)
        writer.kill()
        writer.wait()
        with contextlib.suppress(BrokenPipeError):
            writer.stdin.close()
    with wait_for(lambda: opened(pair, "arm")) as again:
        assert again.sequence == 100
    assert pair.payloads("arm") == [b"%d" % n for n in range(100)]


def test_two_writers_on_one_channel(pair: Board) -> None:
    with pair.writer("arm") as writer:
        second = RawWriter(pair.socket, "arm")
        assert second.refused == (errno.EBUSY, f"channel arm: process {os.getpid()} is its writer")
        message = pair.write("arm", b"x\n", status=1)
        assert message == f"ek-recorder write: channel arm: process {os.getpid()} is its writer\n"
        writer.submit(b"first")
        assert writer.sync() == 0
    pair.write("arm", b"second\n")
    assert pair.payloads("arm") == [b"first", b"second"]


@pytest.mark.parametrize("name", ["no-such", "../leg", "", "x" * 36, "ARM"])
def test_an_unknown_or_invalid_channel_name(pair: Board, name: str) -> None:
    refused = RawWriter(pair.socket, name).refused
    assert refused
    assert refused[0] in (errno.ENOENT, errno.EPROTO)


def test_another_protocol_version(pair: Board) -> None:
    refused = RawWriter(pair.socket, "arm", version=1).refused
    assert refused
    assert "does not speak version 3" in refused[1]


def test_a_client_that_stops_reading(pair: Board) -> None:
    with pair.writer("arm") as writer:
        writer.socket.setblocking(False)
        sent = 0
        with contextlib.suppress(BlockingIOError):
            for n in range(20000):
                writer.socket.send(struct.pack("<IiQQ", SYNC, 0, n, 0))
                sent += 1
        assert sent > 100
        writer.socket.setblocking(True)
        writer.submit(b"x")
        wait_for(lambda: pair.stats("arm")["durable"] == 1)


def test_the_oldest_silent_connections_are_closed_at_the_limit(pair: Board) -> None:
    """Connections that have opened a channel stay. Others are closed, the longest waiting first."""
    with contextlib.ExitStack() as stack:
        silent = [
            stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) for _ in range(400)
        ]
        for s in silent:
            s.connect(str(pair.socket))
        began = time.monotonic()
        pair.write("arm", b"x\n")
        assert time.monotonic() - began < 5
        answer = silent[0].recv(4096)
        assert struct.unpack_from("<2I", answer) == (REFUSED, errno.EBUSY)
        assert answer[16:].split(b"\0")[0] == (
            b"the recorder has 128 connections, which is its limit; this one had waited longest without opening a channel"
        )
        assert silent[0].recv(4096) == b""
        # no more connections than necessary were closed
        assert not select.select(silent[300:], [], [], 0)[0]
    assert pair.payloads("arm") == [b"x"]


def waiting_connections(
    board: Board, stack: contextlib.ExitStack, channels: list[str]
) -> list[socket.socket]:
    """Connections that have each asked for a channel."""
    sockets = []
    for channel in channels:
        s = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        s.connect(str(board.socket))
        s.send(struct.pack("<3I36sQ", OPEN, 3, 1, channel.encode(), 0))
        sockets.append(s)
    return sockets


def test_a_new_connection_is_refused_if_none_can_be_closed(board: Board, ext4: Mount) -> None:
    """Each existing connection has asked for a channel and waits for the answer."""
    ext4(board.directory, 64)
    names = [f"arm-{i}" for i in range(8)]
    for name in names:
        board.channel(name, writers="16")
    with contextlib.ExitStack() as stack, frozen(board.directory):
        board.start(ready=False)
        waiting = waiting_connections(board, stack, names * 16)
        refused = RawWriter(board.socket, names[0]).refused
        assert refused == (errno.EBUSY, "the recorder has 128 connections, which is its limit")
        assert not select.select(waiting, [], [], 0)[0]


def test_connections_that_wait_for_one_channel_leave_room_for_others(board: Board, ext4: Mount) -> None:
    at = board.directory / "arm"
    ext4(at, 16)
    board.channel("arm", writers="3", retain="4MiB")
    board.channel("leg")
    with contextlib.ExitStack() as stack, frozen(at):
        board.start(ready=False)
        waiting = waiting_connections(board, stack, ["arm"] * 200)
        refused = RawWriter(board.socket, "arm").refused
        assert refused
        assert refused[0] == errno.EBUSY
        assert "channel arm: as many connections as it accepts wait for it already" in refused[1]
        # one more than it may have
        assert len(waiting) - len(select.select(waiting, [], [], 0)[0]) == 4
        board.write("leg", b"x\n")


@contextlib.contextmanager
def paused_recorder(pair: Board, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """A writer with --no-wait, and a recorder that was paused after the first of 15,001 records."""
    with subprocess.Popen(
        [RECORDER, "write", *options, "--no-wait", "--socket", str(pair.socket), "arm"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as writer:
        assert writer.stdin
        assert pair.process
        writer.stdin.write(b"first\n")
        writer.stdin.flush()
        wait_for(lambda: pair.stats("arm")["durable"] == 1)
        pair.pause()
        for _ in range(15000):
            writer.stdin.write(b"x" * 900 + b"\n")
        writer.stdin.flush()
        # the writer does not wait, so the pipe is empty soon
        time.sleep(0.3)
        yield writer, writer.stdin


@pytest.mark.parametrize("way", [[], ["--ring"]])
def test_a_recorder_that_cannot_keep_up(pair: Board, way: list[str]) -> None:
    """A writer that cannot wait loses records, and a gap reports how many."""
    assert pair.process
    with paused_recorder(pair, *way) as (writer, pipe):
        pair.process.send_signal(signal.SIGCONT)
        time.sleep(0.3)
        pipe.write(b"last\n")
        pipe.close()
        assert writer.wait(20) == 1
        assert writer.stderr
        message = writer.stderr.read().decode()
    lost = int(message.splitlines()[-1].split()[2])
    assert message == (
        "ek-recorder write: records were lost before this: there was no space, because records arrived faster than they"
        f" were written\nek-recorder write: {lost} records were lost\n"
    )
    assert lost > 100

    # each record was accepted or is reported as lost
    def all_are_accounted_for() -> bool:
        stats = pair.stats("arm")
        done = stats["records"] + stats["lost"]["overrun"] == 15002 and stats["durable"] == stats["records"]
        return done and bool(stats["lost"]["overrun"] == lost)

    wait_for(all_are_accounted_for)
    records = pair.records("arm")
    assert_contiguous(records)
    assert {reason for reason, _ in pair.gaps("arm")} == {OVERRUN}
    assert (records[-1].payload, records[-1].sequence) == (b"last", 15001)


@pytest.mark.parametrize("way", [[], ["--ring"]])
@pytest.mark.parametrize("sync", [[], ["--no-sync"]])
def test_losses_at_the_end_are_reported_too(pair: Board, way: list[str], sync: list[str]) -> None:
    assert pair.process
    with paused_recorder(pair, *way, *sync) as (writer, pipe):
        if not sync:
            pair.process.send_signal(signal.SIGCONT)
        pipe.close()
        if sync and way:
            assert writer.wait(20) == 1
        pair.process.send_signal(signal.SIGCONT)
        assert writer.wait(20) == 1
    if way or not sync:
        wait_for(lambda: (s := pair.stats("arm"))["records"] + s["lost"]["overrun"] == 15001)
        with wait_for(lambda: opened(pair, "arm")) as again:
            assert again.sequence == 15001


def test_a_clock_that_jumps(pair: Board) -> None:
    jumps = [0, -(10**18), 2**63 - 1, 5]
    with pair.writer("arm") as writer:
        for jump in jumps:
            writer.submit(b"x", realtime=jump)
        assert writer.sync() == 0
    records = pair.records("arm")
    assert [r.realtime_ns for r in records] == jumps
    assert [r.monotonic_ns for r in records] == sorted(r.monotonic_ns for r in records)
    assert_contiguous(records)


def test_an_invalid_configuration_affects_no_other_channel(board: Board) -> None:
    board.channel("arm", window="soon")
    board.channel("leg")
    board.start()
    board.write("leg", b"x\n")
    refused = RawWriter(board.socket, "arm").refused
    assert refused
    assert refused[0] == errno.EINVAL
    assert "window = soon: must be a time" in refused[1]
    assert "window = soon: must be a time with a unit" in board.log.read_text()
    assert board.wait_state("arm", "failed")["reason"].endswith("such as 5ms, 2s or 7d")
    board.stop()


def test_a_file_name_that_is_not_utf8_keeps_the_statistics_valid_json(board: Board) -> None:
    board.channel("leg")
    Path(os.fsdecode(os.fsencode(board.conf / "channels.d") + b"/x\xe9.conf")).write_text("record_size = 1\n")
    board.start()
    assert board.wait_state("leg", "recording")["reason"] == ""
    assert board.stats("x\xe9")["state"] == "failed"
    board.stop()


def test_a_name_that_is_too_long_is_not_truncated_to_that_of_another_channel(board: Board) -> None:
    good, bad = "a" * 32, "a" * 32 + "-x"
    # one of the invalid names sorts before the valid one
    for name in (good, bad, "a" * 33):
        board.channel(name)
    board.start()
    board.wait_state(good, "recording")
    text = (board.top / "stats.json").read_text()
    assert re.findall('"(aa+[^"]*)":', text) == sorted([good, bad, "a" * 33], key=lambda name: f"{name}.conf")
    for name in (bad, "a" * 33):
        assert "must be named NAME.conf" in board.wait_state(name, "failed")["reason"]
    board.write(good, b"x\n")
    board.stop()
    assert board.payloads(good) == [b"x"]


def test_more_connections_than_file_descriptors(board: Board) -> None:
    """The recorder does not busy-wait for a connection that it cannot accept. Existing connections go on."""
    board.channel("arm")
    board.start("bash", "-c", 'ulimit -n 40; exec "$@"', "bash")
    wait_for(lambda: board.stats("arm")["segments"] == 5)
    assert board.process
    stat = Path(f"/proc/{board.process.pid}/stat")

    def cpu_s() -> float:
        user, system = stat.read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    with board.writer("arm") as writer, contextlib.ExitStack() as stack:
        many = [stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) for _ in range(50)]
        for s in many:
            s.connect(str(board.socket))
        time.sleep(0.5)
        before = cpu_s()
        time.sleep(1)
        assert cpu_s() - before < 0.05
        writer.submit(b"x")
        assert writer.sync() == 0
    # once descriptors are free, it accepts connections again
    wait_for(lambda: opened(board, "arm")).close()
    board.stop()
    assert board.payloads("arm") == [b"x"]


def test_a_writer_of_another_pid_namespace_keeps_its_channel(board: Board) -> None:
    if os.geteuid() != 0:
        pytest.skip("a PID namespace needs root")
    board.channel("arm")
    board.start("unshare", "--pid", "--fork", "--kill-child", ready=False)
    with wait_for(lambda: opened(board, "arm")) as writer:
        refused = RawWriter(board.socket, "arm").refused
        assert refused
        assert refused[0] == errno.EBUSY
        writer.submit(b"x")
        assert writer.sync() == 0


def test_a_journal_that_does_not_read_delays_nothing(board: Board) -> None:
    board.channel("arm", window="soon")
    board.channel("leg")
    journal, stderr = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with journal, stderr:
        stderr.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                stderr.send(bytes(4096))
        with contextlib.suppress(BlockingIOError):
            while True:
                stderr.send(b"x")
        stderr.setblocking(True)
        # the recorder has to log the error in arm's configuration, to a stderr that is full and that nobody reads
        board.start(stderr=stderr)
        board.write("leg", b"x\n")
        board.stop()
    assert board.payloads("leg") == [b"x"]
