# SPDX-License-Identifier: Apache-2.0
"""Each line of the README's table of bad input: its outcome, and that the other channels go on."""

from __future__ import annotations

import array
import contextlib
import errno
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest
from board import (
    OPEN,
    OVERRUN,
    RECORD,
    RECORDER,
    REFUSED,
    SYNC,
    WRITER,
    Board,
    RawWriter,
    complete,
    cpu_ticks,
    frozen,
    wait_for,
)

Mount = Callable[[Path, int], None]


def sent_and_refused(pair: Board, says: str, send: Callable[[RawWriter], object]) -> None:
    """It is told why and loses the connection; what it submitted before is recorded, and then a gap."""
    with pair.writer("arm") as writer:
        writer.submit(b"good")
        send(writer)
        code, words = writer.last_words()
        assert code == errno.EPROTO
        assert says in words
    with pair.writer("arm") as writer:
        assert writer.sequence == 2
        writer.submit(b"next")
        assert writer.sync() == 0
    assert pair.payloads("arm") == [b"good", b"next"]
    assert pair.gaps("arm") == [(WRITER, 0)]
    complete(pair.records("arm"))


def test_a_record_larger_than_declared(pair: Board) -> None:
    sent_and_refused(pair, "larger than declared", lambda w: w.submit(b"x" * 1001))


def test_a_message_larger_than_any(pair: Board) -> None:
    sent_and_refused(pair, "larger than declared", lambda w: w.submit(b"x" * 100_000))


def test_a_record_that_lies_about_its_length(pair: Board) -> None:
    sent_and_refused(pair, "not as long as it says", lambda w: w.submit(b"abc", length=4))


def test_a_number_that_went_back(pair: Board) -> None:
    sent_and_refused(pair, "whose number cannot be", lambda w: w.submit(b"x", sequence=0))


def test_a_message_that_is_none(pair: Board) -> None:
    sent_and_refused(pair, "a message that is none", lambda w: w.socket.send(struct.pack("<I", 99)))


def test_a_record_without_a_head(pair: Board) -> None:
    sent_and_refused(pair, "without a head", lambda w: w.socket.send(struct.pack("<I", 4)))


def test_a_message_without_anything(pair: Board) -> None:
    """It looks like the end of a connection."""
    sent_and_refused(pair, "a message that is none", lambda w: w.socket.send(b""))


def test_a_ring_that_has_lost_more_than_can_be(pair: Board) -> None:
    with pair.writer("arm", way=2) as writer:
        put(writer, 0, b"good")
        os.write(writer.bell, struct.pack("<Q", 1))
        wait_for(lambda: struct.unpack_from("<Q", writer.ring, 128)[0] == 1)
        # in less than the time that as many attempts take
        writer.ring[72:80] = struct.pack("<Q", 2**32 - 10)
    with wait_for(lambda: opened(pair, "arm")) as writer:
        assert writer.sequence == 2
    wait_for(lambda: pair.stats("arm")["lost"]["writer"] == 1)
    assert pair.stats("arm")["lost"]["overrun"] == 0
    wait_for(lambda: pair.gaps("arm") == [(WRITER, 0)])
    assert pair.payloads("arm") == [b"good"]


def test_who_comes_again_and_again_with_what_cannot_be_does_not_fill_the_journal(pair: Board) -> None:
    for _ in range(200):
        refused = RawWriter(pair.socket, "arm", version=2).refused
        assert refused
    assert pair.log.read_text().count("its connection is closed") == 10


def test_the_tool_leaves_out_lines_that_are_too_long(pair: Board) -> None:
    said = pair.write("arm", b"one\n" + b"x" * 5000 + b"\ntwo\n", status=1)
    assert "1 lines were longer than 1000 bytes and left out" in said
    assert pair.payloads("arm") == [b"one", b"two"]


def lingering(stack: contextlib.ExitStack, seconds: int) -> socket.socket:
    """To close its last descriptor takes that long: it has sent what nobody reads."""
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
    """A record that would be a channel's first but for these."""
    record = struct.pack("<2I2Qq", RECORD, 1, 0, time.monotonic_ns(), 0) + b"x"
    to.sendmsg([record], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])


def settled(board: Board) -> None:
    """No segment is being made any more."""
    wait_for(lambda: all(s["segments"] == 5 for s in board.statistics()["channels"].values()))  # type: ignore[index]


def descriptors(board: Board) -> int:
    assert board.process
    return len(list(Path(f"/proc/{board.process.pid}/fd").iterdir()))


def in_time(writer: RawWriter) -> bool:
    """It waits for no other channel's: in all for less than a second."""
    began = time.monotonic()
    while time.monotonic() < began + 0.5:
        writer.submit(b"x")
        assert writer.sync() == 0
    return time.monotonic() < began + 1


def test_descriptors_that_nobody_asked_for(pair: Board) -> None:
    settled(pair)
    before = descriptors(pair)
    with Path("/dev/null").open("rb") as null:
        for count in (1, 8, 253):
            with pair.writer("arm") as writer:
                send_with(writer.socket, *[null.fileno()] * count)
                assert writer.last_words() == (errno.EPROTO, "channel arm: this writer sent descriptors")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as unknown:
            unknown.connect(str(pair.socket))
            send_with(unknown, null.fileno())
            assert b"this writer sent descriptors" in unknown.recv(4096)
    wait_for(lambda: descriptors(pair) <= before)
    with pair.writer("arm") as writer:
        assert writer.sequence == 3
        assert writer.sync() == 0
    assert pair.payloads("arm") == []
    assert pair.gaps("arm") == [(WRITER, 0)] * 3


@pytest.mark.parametrize("ahead", [[], [b"none"], [b"none", b""], [b"", b"", b"end"]])
def test_a_descriptor_that_takes_long_to_be_closed(board: Board, ahead: list[bytes]) -> None:
    """Whoever lets go of the last one waits: no other channel's writer does, nor a stop."""
    board.channel("arm")
    board.channel("leg")
    board.start()
    settled(board)
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
        assert in_time(leg)
        with board.writer("arm") as again:
            again.submit(b"x")
            assert again.sync() == 0
        assert board.stop() < 2
    assert board.gaps("leg") == []


def test_descriptors_that_take_long_to_be_closed_do_not_pile_up(board: Board) -> None:
    """Who is connected is heard on, or cut off; no one else comes until they are closed."""
    board.channel("leg")
    board.start()
    settled(board)
    assert board.process
    with contextlib.ExitStack() as stack:
        leg = stack.enter_context(board.writer("leg"))
        many = [stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) for _ in range(100)]
        for s in many:
            s.connect(str(board.socket))
        null = stack.enter_context(Path("/dev/null").open("rb")).fileno()
        assert in_time(leg)
        before = descriptors(board)
        board.pause()
        with lingering(stack, 6) as slow:
            send_with(many[0], slow.fileno())
        board.process.send_signal(signal.SIGCONT)
        began = time.monotonic()
        for s in many[1:]:
            send_with(s, *[null] * 253)
        assert in_time(leg)
        assert 200 < descriptors(board) - before <= 253
        late = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        late.connect(str(board.socket))
        late.send(struct.pack("<3I36s", OPEN, 1, 1, b"none"))
        assert in_time(leg)
        assert not select.select([late], [], [], 0)[0]
        late.settimeout(10)
        assert struct.unpack_from("<2I", late.recv(4096)) == (REFUSED, errno.ENOENT)
        assert time.monotonic() > began + 5
        wait_for(lambda: descriptors(board) < before)
    board.stop()
    assert board.gaps("leg") == []
    assert board.log.read_text().count("descriptors that writers sent do not close") == 1


@pytest.mark.parametrize("head", [17, 1 << 63, (1 << 64) - 1])
def test_a_ring_that_cannot_be(pair: Board, head: int) -> None:
    with pair.writer("arm", way=2) as writer:
        assert writer.slots >= 16
        writer.ring[64:72] = struct.pack("<Q", head if head != 17 else writer.slots + 1)
        os.write(writer.bell, struct.pack("<Q", 1))
        assert "left a ring that cannot be" in writer.last_words()[1]
        # and it can see that nobody looks any more
        assert struct.unpack_from("<I", writer.ring, 136)[0] == errno.EPROTO
    with pair.writer("arm") as writer:
        writer.submit(b"x")
        assert writer.sync() == 0
    assert pair.gaps("arm") == [(WRITER, 0)]


def put(writer: RawWriter, slot: int, payload: bytes) -> None:
    """As the library does, but for the bell."""
    at = 4096 + slot % writer.slots * writer.stride
    head = struct.pack("<2I2Qq", len(payload), 0, writer.sequence + slot, time.monotonic_ns(), 0)
    writer.ring[at : at + 32 + len(payload)] = head + payload
    writer.ring[64:72] = struct.pack("<Q", slot + 1)


def heard_after(writer: RawWriter, slot: int) -> float:
    """How long until a record by whose submission the bell is rung is taken, s."""
    # the recorder looks each 25 ms by itself
    time.sleep(0.03)
    put(writer, slot, b"x")
    began = time.monotonic()
    os.write(writer.bell, struct.pack("<Q", 1))
    while struct.unpack_from("<Q", writer.ring, 128)[0] <= slot and time.monotonic() < began + 5:
        time.sleep(0.0005)
    return time.monotonic() - began


def test_a_bell_that_could_block(pair: Board) -> None:
    """The writer has the same open file: who reads it may find that it blocks, and that it is empty by then."""
    with pair.writer("arm", way=2) as writer:
        os.set_blocking(writer.bell, True)
        waited = [heard_after(writer, slot) for slot in range(15)]
        os.set_blocking(writer.bell, False)
        assert os.read(writer.bell, 8) == struct.pack("<Q", 15), "nobody but the writer may read it"
    assert sorted(waited)[7] < 0.008, "each is heard"


RINGS = "import os, sys\nwhile True: os.write(int(sys.argv[1]), (1).to_bytes(8, 'little'))"


def test_a_bell_that_is_rung_without_end(board: Board) -> None:
    """It keeps the recorder from nothing, and is heard again when it has come to its senses."""
    board.channel("arm")
    board.channel("leg")
    board.start()
    wait_for(lambda: board.stats("arm")["segments"] == board.stats("leg")["segments"] == 5)
    assert board.process
    with board.writer("arm", way=2) as arm, board.writer("leg") as leg:
        with subprocess.Popen([sys.executable, "-c", RINGS, str(arm.bell)], pass_fds=(arm.bell,)) as ringer:
            wait_for(lambda: cpu_ticks(ringer) > 5)
            began = time.monotonic()
            while time.monotonic() < began + 1:
                leg.submit(b"leg")
                assert leg.sync() == 0
                time.sleep(0.05)
            put(arm, 0, b"rings")
            # 25 ms is how often it would be looked into by itself
            wait_for(lambda: struct.unpack_from("<Q", arm.ring, 128)[0] == 1, 1)
            ringer.kill()
        time.sleep(0.1)
        waited = [heard_after(arm, slot) for slot in range(1, 16)]
    board.stop()
    assert sorted(waited)[7] < 0.008, "each is heard again"
    assert board.gaps("leg") == board.gaps("arm") == []


def test_a_writer_that_dies_in_the_middle_of_a_record(pair: Board) -> None:
    with pair.writer("arm", way=2) as writer:
        # a slot that is begun, and one that is submitted before it
        writer.ring[4096 : 4096 + 32 + 4] = struct.pack("<2I2Qq", 4, 0, 0, time.monotonic_ns(), 0) + b"done"
        writer.ring[64:72] = struct.pack("<Q", 1)
        at = 4096 + writer.stride
        writer.ring[at : at + 10] = b"unfinished"
    with wait_for(lambda: opened(pair, "arm")) as writer:
        assert writer.sequence == 1
        writer.submit(b"next")
        assert writer.sync() == 0
    assert pair.payloads("arm") == [b"done", b"next"]
    assert pair.gaps("arm") == []


def opened(board: Board, channel: str) -> RawWriter | None:
    writer = RawWriter(board.socket, channel)
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
        said = pair.write("arm", b"x\n", status=1)
        assert said == f"ek-recorder write: channel arm: process {os.getpid()} is its writer\n"
        writer.submit(b"first")
        assert writer.sync() == 0
    pair.write("arm", b"second\n")
    assert pair.payloads("arm") == [b"first", b"second"]


@pytest.mark.parametrize("name", ["no-such", "../leg", "", "x" * 36, "ARM"])
def test_a_channel_that_is_none(pair: Board, name: str) -> None:
    refused = RawWriter(pair.socket, name).refused
    assert refused
    assert refused[0] in (errno.ENOENT, errno.EPROTO)


def test_another_version(pair: Board) -> None:
    refused = RawWriter(pair.socket, "arm", version=2).refused
    assert refused
    assert "does not speak version 1" in refused[1]


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


def test_clients_that_say_nothing_give_way(pair: Board) -> None:
    """Who has opened a channel keeps it; the others go when there are too many, first who waits longest."""
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
        assert answer[8:].split(b"\0")[0] == (
            b"the recorder has all the 128 connections that it takes; this one had opened no channel for the longest time"
        )
        assert silent[0].recv(4096) == b""
        # no more than have to
        assert not select.select(silent[300:], [], [], 0)[0]
    assert pair.payloads("arm") == [b"x"]


def test_a_connection_too_many_is_told_so(board: Board, ext4: Mount) -> None:
    """None of them can give way: each has said what it wants, and waits for it."""
    at = board.directory / "arm"
    ext4(at, 16)
    board.channel("arm", retain="4MiB")
    with contextlib.ExitStack() as stack, frozen(at):
        board.start(ready=False)
        wanting = [
            stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) for _ in range(128)
        ]
        for s in wanting:
            s.connect(str(board.socket))
            s.send(struct.pack("<3I36s", 1, 1, 1, b"arm"))
        refused = RawWriter(board.socket, "arm").refused
        assert refused == (errno.EBUSY, "the recorder has all the 128 connections that it takes")
        assert not select.select(wanting, [], [], 0)[0]


@contextlib.contextmanager
def behind(pair: Board, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """A writer that does not wait, and a recorder that stands still since it has the first of 15,001 records."""
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
        # it does not wait, so the pipe is empty soon
        time.sleep(0.3)
        yield writer, writer.stdin


@pytest.mark.parametrize("way", [[], ["--ring"]])
def test_a_recorder_that_is_behind(pair: Board, way: list[str]) -> None:
    """A writer that cannot wait loses records, and the recording says how many."""
    assert pair.process
    with behind(pair, *way) as (writer, records_of):
        pair.process.send_signal(signal.SIGCONT)
        time.sleep(0.3)
        records_of.write(b"last\n")
        records_of.close()
        assert writer.wait(20) == 1
        assert writer.stderr
        said = writer.stderr.read().decode()
    lost = int(said.splitlines()[-1].split()[2])
    assert said == (
        "ek-recorder write: records were lost before this: there was no room for them, they came faster than they"
        f" were written\nek-recorder write: {lost} records were lost\n"
    )
    assert lost > 100

    # each is taken or told as lost
    def all_are_accounted_for() -> bool:
        stats = pair.stats("arm")
        done = stats["records"] + stats["lost"]["overrun"] == 15002 and stats["durable"] == stats["records"]
        return done and bool(stats["lost"]["overrun"] == lost)

    wait_for(all_are_accounted_for)
    records = pair.records("arm")
    complete(records)
    assert {reason for reason, _ in pair.gaps("arm")} == {OVERRUN}
    assert (records[-1].payload, records[-1].sequence) == (b"last", 15001)


@pytest.mark.parametrize("way", [[], ["--ring"]])
@pytest.mark.parametrize("sync", [[], ["--no-sync"]])
def test_the_last_ones_that_are_lost_are_told_too(pair: Board, way: list[str], sync: list[str]) -> None:
    assert pair.process
    with behind(pair, *way, *sync) as (writer, records_of):
        if not sync:
            pair.process.send_signal(signal.SIGCONT)
        records_of.close()
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
    complete(records)


def test_a_bad_configuration_leaves_the_others_alone(board: Board) -> None:
    board.channel("arm", window="soon")
    board.channel("leg")
    board.start()
    board.write("leg", b"x\n")
    refused = RawWriter(board.socket, "arm").refused
    assert refused
    assert refused[0] == errno.EINVAL
    assert "window = soon: not a time" in refused[1]
    assert "window = soon: not a time with a unit" in board.log.read_text()
    assert board.wait_state("arm", "failed")["reason"].endswith("such as 5ms, 2s or 7d")
    board.stop()


def test_a_name_that_is_no_text_leaves_the_statistics_as_they_are(board: Board) -> None:
    board.channel("leg")
    Path(os.fsdecode(os.fsencode(board.conf / "channels.d") + b"/x\xe9.conf")).write_text("record_size = 1\n")
    board.start()
    assert board.wait_state("leg", "recording")["reason"] == ""
    assert board.stats("x\xe9")["state"] == "failed"
    board.stop()


def test_a_name_that_is_too_long_is_not_taken_for_that_of_another(board: Board) -> None:
    good, bad = "a" * 32, "a" * 32 + "-x"
    # ahead of the good one in the order of names, too
    for name in (good, bad, "a" * 33):
        board.channel(name)
    board.start()
    board.wait_state(good, "recording")
    text = (board.top / "stats.json").read_text()
    assert re.findall('"(a+[^"]*)":', text) == sorted([good, bad, "a" * 33], key=lambda name: f"{name}.conf")
    for name in (bad, "a" * 33):
        assert "not NAME.conf" in board.wait_state(name, "failed")["reason"]
    board.write(good, b"x\n")
    board.stop()
    assert board.payloads(good) == [b"x"]


def test_more_connections_than_descriptors(board: Board) -> None:
    """It does not turn round and round over one that it cannot take; those that it has go on."""
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
    # and when there is room again, it takes them
    wait_for(lambda: opened(board, "arm")).close()
    board.stop()
    assert board.payloads("arm") == [b"x"]


def test_a_writer_of_another_pid_namespace_is_the_only_one_too(board: Board) -> None:
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


def test_a_journal_that_does_not_read_holds_up_nothing(board: Board) -> None:
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
        # arm's configuration would be the first to be told
        board.start(stderr=stderr)
        board.write("leg", b"x\n")
        board.stop()
    assert board.payloads("leg") == [b"x"]
