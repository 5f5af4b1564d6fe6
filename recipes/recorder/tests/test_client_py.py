# SPDX-License-Identifier: Apache-2.0
"""The Python package: its writer against a fake recorder that implements wire.h, its reader with the real program."""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "src/python"))
from board import BLOCK, BUILD, OPENED, OVERRUN, RECORD, RECORDER, REFUSED, SYNC
from ek_recorder import (
    ChannelBusy,
    ChannelNotFound,
    Missing,
    Record,
    RecorderError,
    RecorderGone,
    RecordTooLarge,
    SyncTimeout,
    Writer,
    read,
)
from ek_recorder.writer import _library
from read_harness import ACQUIRED, START, STEP, Recording

SLOTS, RECORD_SIZE = 8, 64
STRIDE = 40 + RECORD_SIZE
HEAD, LOST = 0, 8  # in the memory of the slots
TAIL, CLOSED = 0, 8  # in that of the state
STATE_SIZE = 16


class FakeRecorder(threading.Thread):
    """Serves one connection at a time. `records` has what it received; by ring that happens in drain() only."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self.path = str(path)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(self.path)
        self.listener.listen()
        self.answers = True  # whether it answers a sync
        self.refusal: tuple[int, bytes] | None = None  # sent instead of the answer to a sync
        self.asked: tuple[int, bytes] = (0, b"")
        self.lost = 0  # records that the writer reported with its last request
        self.reported = 0  # the same, with all requests
        self.first = 100  # sequence of a writer's first record
        self.leaves = False  # whether it shuts down with its answer, which it gives late
        self.records: list[tuple[int, bytes]] = []
        self.ring: mmap.mmap | None = None
        self.state: mmap.mmap | None = None
        self.connection: socket.socket | None = None
        self.start()

    def run(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                self.serve(connection)
            connection.close()

    def serve(self, connection: socket.socket) -> None:
        self.connection = connection
        _type, _version, way, name, self.lost = struct.unpack("<III36sQ", connection.recv(4096))
        self.asked = (way, name.rstrip(b"\0"))
        self.reported += self.lost
        leaves = self.leaves
        if leaves:
            time.sleep(0.3)
        refusals = {
            b"none": (errno.ENOENT, b"there is no channel none"),
            b"busy": (errno.EBUSY, b"process 42 is its writer"),
        }
        if self.asked[1] in refusals:
            code, why = refusals[self.asked[1]]
            connection.send(struct.pack("<IiQ240s", REFUSED, code, 0, why))
            return
        by_ring = way == 2
        opened = struct.pack(
            "<IIQQQII",
            OPENED,
            RECORD_SIZE,
            self.first,
            5_000_000,
            200_000_000,
            *((SLOTS, STRIDE) if by_ring else (0, 0)),
        )
        if by_ring:
            memfd = os.memfd_create("ring", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(memfd, 4096 + SLOTS * STRIDE)
            self.ring = mmap.mmap(memfd, 4096 + SLOTS * STRIDE)
            state = os.memfd_create("state", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(state, STATE_SIZE)
            self.state = mmap.mmap(state, STATE_SIZE)
            bell = os.eventfd(0, os.EFD_NONBLOCK)
            connection.sendmsg(
                [opened],
                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memfd, state, bell]).tobytes())],
            )
            os.close(memfd)
            os.close(state)
            os.close(bell)
        else:
            connection.send(opened)
        if leaves:
            if self.state:
                struct.pack_into("<I", self.state, CLOSED, errno.ESHUTDOWN)
            connection.send(
                struct.pack("<IiQ240s", REFUSED, errno.ESHUTDOWN, self.first, b"it was shut down")
            )
            self.leaves = False
            return
        while message := connection.recv(1 << 16):
            kind = struct.unpack_from("<I", message)[0]
            if kind == RECORD:
                _, length, sequence, _, _, _ = struct.unpack_from("<IIQQqQ", message)
                assert len(message) == 40 + length
                self.records.append((sequence, message[40:]))
            elif kind == SYNC and self.refusal:
                self.drain()
                _, _, _, heard = struct.unpack("<IiQQ", message)
                if self.refusal[1]:
                    connection.send(struct.pack("<IiQ240s", REFUSED, self.refusal[0], heard, self.refusal[1]))
                return
            elif kind == SYNC and self.answers:
                self.drain()
                connection.send(message)

    def drain(self) -> None:
        if self.ring is None or self.state is None:
            return
        (head,) = struct.unpack_from("<Q", self.ring, HEAD)
        (tail,) = struct.unpack_from("<Q", self.state, TAIL)
        for i in range(tail, head):
            at = 4096 + i % SLOTS * STRIDE
            length, _, sequence = struct.unpack_from("<IIQ", self.ring, at)
            self.records.append((sequence, self.ring[at + 40 : at + 40 + length]))
        struct.pack_into("<Q", self.state, TAIL, head)

    def hang_up(self) -> None:
        assert self.connection
        self.connection.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def disk() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=BUILD, prefix="py-") as path:
        yield Path(path).absolute()


@pytest.fixture
def recorder() -> Iterator[FakeRecorder]:
    # in /tmp, because the path of a socket must be short
    with tempfile.TemporaryDirectory(prefix="ek-") as path:
        fake = FakeRecorder(Path(path) / "socket")
        yield fake
        fake.listener.close()


@pytest.mark.parametrize("way", ["socket", "ring"])
def test_records_reach_the_recorder(recorder: FakeRecorder, way: str) -> None:
    with Writer("front", way=way, socket=recorder.path) as writer:  # type: ignore[arg-type]
        assert (writer.channel.record_size, writer.channel.period_ns, writer.channel.window_ns) == (
            RECORD_SIZE,
            5_000_000,
            200_000_000,
        )
        assert recorder.asked == ({"socket": 1, "ring": 2}[way], b"front")
        assert writer.submit(b"one")
        assert writer.submit(bytearray(b"\0two"))
        assert writer.submit(memoryview(b"three!")[:5])
        assert writer.submit(b"")
        writer.sync(timeout=10)
        assert recorder.records == [(100, b"one"), (101, b"\0two"), (102, b"three"), (103, b"")]
        assert writer.lost == 0


def test_a_full_ring_loses_records_and_counts_them(recorder: FakeRecorder) -> None:
    with Writer("front", way="ring", socket=recorder.path) as writer:
        assert [writer.submit(b"x") for _ in range(SLOTS + 3)] == [True] * SLOTS + [False] * 3
        assert writer.lost == 3
        writer.sync(timeout=10)
        assert writer.submit(b"after")
        writer.sync(timeout=10)
        # the sequences of lost records are not used again
        assert recorder.records[-1] == (100 + SLOTS + 3, b"after")


@pytest.mark.parametrize("way", ["socket", "ring"])
def test_a_record_that_is_too_large_is_refused(recorder: FakeRecorder, way: str) -> None:
    with Writer("front", way=way, socket=recorder.path) as writer:  # type: ignore[arg-type]
        with pytest.raises(RecordTooLarge) as e:
            writer.submit(b"x" * (RECORD_SIZE + 1))
        assert e.value.errno == errno.EMSGSIZE
        writer.submit(b"x" * RECORD_SIZE)
        writer.sync(timeout=10)
        assert recorder.records == [(100, b"x" * RECORD_SIZE)]


def test_a_record_during_a_shutdown_is_lost_for_that_reason() -> None:
    lib = _library()
    with (
        tempfile.TemporaryDirectory(prefix="ek-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
    ):
        listener.bind(f"{folder}/socket")
        listener.listen()
        handle = ctypes.c_void_p()
        assert lib.ek_writer_open(ctypes.byref(handle), f"{folder}/socket".encode(), b"front", 1) == 0
        with listener.accept()[0] as connection:
            connection.recv(4096)
            connection.send(struct.pack("<IIQQQII", OPENED, RECORD_SIZE, 100, 5_000_000, 200_000_000, 0, 0))
            assert lib.ek_writer_connect(handle, 1000) == 0
            connection.shutdown(socket.SHUT_RD)
            assert lib.ek_writer_submit(handle, b"x", ctypes.c_size_t(1)) == -errno.ENOTCONN
            assert lib.ek_writer_error(handle) == b"the recorder is shutting down"
        lib.ek_writer_close(handle)


def test_exceptions_have_the_recorders_message(recorder: FakeRecorder) -> None:
    with pytest.raises(ChannelNotFound, match="there is no channel none"):
        Writer("none", socket=recorder.path)
    with pytest.raises(ChannelBusy, match="process 42 is its writer") as e:
        Writer("busy", socket=recorder.path)
    assert e.value.errno == errno.EBUSY


def test_invalid_arguments(disk: Path) -> None:
    with pytest.raises(RecorderError, match="connecting to the recorder"):
        Writer("front", socket=str(disk / "none"))
    with pytest.raises(ValueError, match="way must be"):
        Writer("front", way="pigeon")  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "way"), [(b"", 1), (b"x" * 33, 2), (b"front", 3)])
def test_calls_with_a_writer_that_could_not_be_opened_fail(
    recorder: FakeRecorder, name: bytes, way: int
) -> None:
    lib = _library()
    handle = ctypes.c_void_p()
    assert lib.ek_writer_open(ctypes.byref(handle), recorder.path.encode(), name, way) == -errno.EINVAL
    message = lib.ek_writer_error(handle)
    assert message
    # functions that the package does not use have no declared types
    for call, *more in (
        (lib.ek_writer_submit, b"x", ctypes.c_size_t(1)),
        (lib.ek_writer_submit, b"", ctypes.c_size_t(0)),
        (lib.ek_writer_sync, 10),
    ):
        assert call(handle, *more) == -errno.ENOTCONN
    for wait in (lib.ek_writer_wait, lib.ek_writer_connect):
        assert wait(handle, 10) == -errno.EINVAL
    assert lib.ek_writer_error(handle) == message
    lib.ek_writer_close(handle)
    assert recorder.asked == (0, b"")


@pytest.mark.parametrize("way", [[], ["--ring"]])
@pytest.mark.parametrize(
    ("refusal", "status", "stderr"),
    [
        ((errno.ESHUTDOWN, b"shut down, everything written"), 0, ""),
        (
            (errno.EIO, b"shut down, not everything written"),
            1,
            "ek-recorder write: shut down, not everything written\n",
        ),
        (
            (0, b""),
            1,
            "ek-recorder write: the recorder exited or closed the connection\n",
        ),
    ],
)
def test_the_write_command_succeeds_if_the_recorder_shut_down_cleanly(
    recorder: FakeRecorder, way: list[str], refusal: tuple[int, bytes], status: int, stderr: str
) -> None:
    """After a failure a script would submit everything again, so status 0 matters."""
    recorder.refusal = refusal
    out = subprocess.run(
        [RECORDER, "write", "--socket", recorder.path, *way, "front"],
        input="one\ntwo\n",
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (out.returncode, out.stderr) == (status, stderr)
    assert [record for _, record in recorder.records] == [b"one", b"two"]


def test_a_null_character_in_a_name_is_refused(recorder: FakeRecorder) -> None:
    for name, path in (("front\0back", recorder.path), ("front", recorder.path + "\0")):
        with pytest.raises(ValueError, match="null"):
            Writer(name, socket=path)
    assert recorder.asked == (0, b"")


def test_sync_observes_its_timeout(recorder: FakeRecorder) -> None:
    recorder.answers = False
    with Writer("front", socket=recorder.path) as writer:
        begin = time.monotonic()
        with pytest.raises(SyncTimeout):
            writer.sync(timeout=0.2)
        assert 0.15 < time.monotonic() - begin < 10
        with pytest.raises(TimeoutError):
            writer.sync(timeout=0)


def test_a_signal_interrupts_a_sync_without_timeout(recorder: FakeRecorder) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    recorder.answers = False
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with Writer("front", socket=recorder.path) as writer:
            begin = time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(KeyboardInterrupt):
                writer.sync()
            assert time.monotonic() - begin < 10
            # the writer is still usable
            recorder.answers = True
            assert writer.submit(b"x")
            writer.sync()
    finally:
        signal.signal(signal.SIGALRM, before)


def submit_until(writer: Writer, accepted: bool) -> int:
    """Submit until a record is accepted or not; returns the number of the others."""
    for n in range(300):
        if writer.submit(b"x") == accepted:
            return n
        time.sleep(0.01)
    pytest.fail(f"3 s passed without a submission that returns {accepted}")


@pytest.mark.parametrize("way", ["socket", "ring"])
def test_a_writer_connects_again_and_reports_what_it_lost(recorder: FakeRecorder, way: str) -> None:
    with Writer("front", way=way, socket=recorder.path) as writer:  # type: ignore[arg-type]
        assert (recorder.lost, writer.connected) == (0, True)
        assert writer.submit(b"first")
        writer.sync(timeout=10)
        before = len(recorder.records)
        recorder.hang_up()
        submit_until(writer, accepted=False)
        submit_until(writer, accepted=True)
        with pytest.raises(RecorderGone, match="records may be lost"):
            writer.sync(timeout=10)
        writer.sync(timeout=10)
        # the records that were lost while it was connected again are left out of the sequence
        reported = recorder.lost + recorder.records[before][0] - 100
        assert reported == writer.lost
        assert recorder.lost > 0


@pytest.mark.parametrize("first", [0, 100])
@pytest.mark.parametrize("way", ["socket", "ring"])
def test_losses_that_a_recorder_never_heard_of_are_reported_to_the_next(
    recorder: FakeRecorder, way: str, first: int
) -> None:
    """It shuts down with its answer: what was lost since the request is in no record's number."""
    recorder.first = first
    with Writer("front", way=way, socket=recorder.path) as writer:  # type: ignore[arg-type]
        recorder.leaves = True
        recorder.hang_up()
        submit_until(writer, accepted=False)
        wait_until = time.monotonic() + 10
        while recorder.leaves:
            assert time.monotonic() < wait_until, "the writer did not connect again"
            writer.submit(b"x")
            time.sleep(0.01)
        before = len(recorder.records)
        submit_until(writer, accepted=True)
        # the end of the connection, and the losses
        for _ in range(2):
            with contextlib.suppress(RecorderError):
                writer.sync(timeout=10)
        writer.sync(timeout=10)
        assert submit_until(writer, accepted=True) == 0
        writer.sync(timeout=10)
        assert recorder.reported + recorder.records[before][0] - first == writer.lost


def test_a_writer_opens_without_waiting_and_without_a_recorder(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with Writer("front", socket=path, timeout=0) as writer:
        assert not writer.connected
        assert not writer.submit(b"lost")
        recorder = FakeRecorder(path)
        try:
            lost = 1 + submit_until(writer, accepted=True)
            assert writer.lost == lost
            assert writer.channel.record_size == RECORD_SIZE
            with pytest.raises(RecorderError, match="records were lost"):
                writer.sync(timeout=10)
            assert recorder.lost + recorder.records[0][0] - 100 == lost
        finally:
            recorder.listener.close()


def test_a_submission_without_a_recorder_does_not_wait(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(tmp_path / "socket"))
        # the second connection finds the backlog full, and nobody answers the first
        listener.listen(0)
        with (
            Writer("front", socket=tmp_path / "socket", timeout=0) as first,
            Writer("front", socket=tmp_path / "socket", timeout=0) as second,
        ):
            began = time.monotonic()
            for _ in range(1000):
                assert not first.submit(b"x")
                assert not second.submit(b"x")
            assert time.monotonic() - began < 1
            with pytest.raises(SyncTimeout):
                first.wait(0.05)


def test_a_writer_by_ring_detects_a_killed_recorder(recorder: FakeRecorder) -> None:
    """Within half a window. A killed recorder does not close the ring, and waiting for a full ring could take minutes."""
    with Writer("front", way="ring", socket=recorder.path) as writer:
        assert writer.submit(b"x")
        recorder.drain()
        recorder.listener.close()
        recorder.hang_up()
        submitted = 0
        while writer.submit(b"x"):
            submitted += 1
            time.sleep(0.04)
        assert submitted <= 3
        # also those that were in the ring
        assert writer.lost == submitted + 1


def test_a_recorder_that_pauses_is_not_taken_for_a_killed_one(recorder: FakeRecorder) -> None:
    with Writer("front", way="ring", socket=recorder.path) as writer:
        for _ in range(SLOTS):
            assert writer.submit(b"x")
            time.sleep(0.04)
        writer.sync(timeout=10)
        assert len(recorder.records) == SLOTS


@pytest.mark.parametrize("between", [lambda w: None, lambda w: [w.submit(b"x") for _ in range(SLOTS + 1)]])
def test_a_loss_reported_after_a_sync_timed_out_is_raised_by_the_next_sync(
    recorder: FakeRecorder, between: Callable[[Writer], object]
) -> None:
    """The recorder reports a loss once, in the answer to a sync. The library keeps a late answer for the next sync."""
    recorder.answers = False
    with Writer("front", way="ring", socket=recorder.path) as writer:
        with pytest.raises(SyncTimeout):
            writer.sync(timeout=0.05)
        assert recorder.connection
        recorder.connection.send(struct.pack("<IiQQ", SYNC, errno.ENOBUFS, 1, 100))
        recorder.answers = True
        # with a full ring, a submission reads messages of the recorder
        between(writer)
        with pytest.raises(RecorderError, match="records were lost") as e:
            writer.sync(timeout=10)
        assert e.value.errno == errno.ENOBUFS
        writer.sync(timeout=10)


def test_a_missing_socket_is_not_reported_as_a_missing_channel(tmp_path: Path) -> None:
    with pytest.raises(RecorderGone, match=r"connecting to the recorder at .*: No such file"):
        Writer("front", socket=tmp_path / "none", timeout=5)


def test_a_closed_writer_raises_value_error(recorder: FakeRecorder) -> None:
    writer = Writer("front", socket=recorder.path)
    writer.close()
    writer.close()
    for call in (
        lambda: writer.submit(b"x"),
        lambda: writer.sync(0),
        lambda: writer.lost,
        lambda: writer.channel,
    ):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_a_writer_that_is_closed_during_a_sync_reports_its_failure(recorder: FakeRecorder) -> None:
    recorder.answers = False
    writer = Writer("front", socket=recorder.path)
    failures: list[Exception] = []

    def sync() -> None:
        try:
            writer.sync(timeout=0.3)
        except SyncTimeout as e:
            failures.append(e)

    thread = threading.Thread(target=sync)
    thread.start()
    time.sleep(0.1)
    writer.close()
    thread.join()
    assert [str(e) for e in failures] == ["[Errno 110] not everything is on the medium yet"]


# --- reading ------------------------------------------------------------------


@pytest.fixture
def channel(disk: Path) -> Recording:
    rec = Recording(disk / "front")
    rec.use()
    for _ in range(3):
        rec.batch_of(*(f"record {rec.sequence + i}".encode() for i in range(10)))
    return rec


def test_read_yields_all_records(channel: Recording) -> None:
    events = list(read("front", directory=channel.path.parent))
    assert events == [
        Record(i, START + i * STEP, at := 1_000_000_000 + i * STEP, f"record {i}".encode(), at - ACQUIRED)
        for i in range(30)
    ]


def test_read_a_range(channel: Recording) -> None:
    begin = datetime.fromtimestamp(START // 10**9, UTC) + timedelta(milliseconds=100)
    events = list(read(str(channel.path), start=begin, sequences=(None, 24)))
    assert [e.sequence for e in events if isinstance(e, Record)] == [20, 21, 22, 23, 24]
    with pytest.raises(ValueError, match="zone"):
        next(read("front", start=datetime(2026, 1, 1)))


def test_read_yields_gaps_damage_and_missing_records(channel: Recording) -> None:
    channel.gap(OVERRUN, 5)
    channel.flush()
    channel.poke(2 * BLOCK + 60, b"\xff")
    others = [e for e in read(str(channel.path)) if isinstance(e, Missing)]
    assert [(e.kind, e.first, e.last) for e in others] == [
        ("damage", 0, 0),
        ("missing", 10, 19),
        ("gap", 30, 34),
    ]
    assert "bad CRC" in others[0].message
    assert [(e.reason, e.lost) for e in others] == [("", None), ("", None), ("overrun", 5)]
    assert others[2].realtime_ns


def test_a_null_character_in_a_path_or_range_is_refused(channel: Recording) -> None:
    for name, more in ((f"{channel.path}\0x", {}), (str(channel.path), {"start": "now\0x"})):
        with pytest.raises(ValueError, match="embedded null"):
            list(read(name, **more))  # type: ignore[arg-type]


def test_read_a_recording_that_does_not_exist(disk: Path) -> None:
    with pytest.raises(ChannelNotFound, match="No such file or directory") as found:
        next(read(str(disk / "none")))
    assert found.value.errno == errno.ENOENT
    with pytest.raises(ChannelNotFound):
        next(read("none", directory=disk))
    # a directory without segments is a channel that is being created, or not the recorder's
    (disk / "empty").mkdir()
    with pytest.raises(RecorderError, match="no segments") as other:
        next(read("empty", directory=disk))
    assert not isinstance(other.value, ChannelNotFound)
    assert other.value.errno == errno.ENODATA


def test_follow_stops_at_the_end_of_the_range(channel: Recording) -> None:
    events = list(read(str(channel.path), sequences=(28, 29), follow=True))
    assert [e.sequence for e in events if isinstance(e, Record)] == [28, 29]
    begin = datetime.fromtimestamp(START // 10**9, UTC)
    end = begin + timedelta(milliseconds=20)
    events = list(read(str(channel.path), start=begin, end=end, follow=True))
    assert [e.sequence for e in events if isinstance(e, Record)] == [0, 1, 2, 3, 4]


def test_an_invalid_range_is_a_value_error(channel: Recording) -> None:
    with pytest.raises(ValueError, match=r"from = 'soon': is not a time"):
        next(read(str(channel.path), start="soon"))


def test_follow_wakes_up_when_something_is_written(channel: Recording) -> None:
    # by number: without it, reading begins at the end of the recording, and the first record may come before that
    events = read(str(channel.path), sequences=(30, None), follow=True)
    waited: list[float] = []

    def write() -> None:
        for number in range(10):
            time.sleep(0.02)
            began.append(time.monotonic())
            channel.batch_of(b"%d" % number)

    began: list[float] = []
    writer = threading.Thread(target=write)
    writer.start()
    for number in range(10):
        event = next(events)
        waited.append(time.monotonic() - began[number])
        assert isinstance(event, Record)
        assert event.data == b"%d" % number
    writer.join()
    events.close()
    # a poll each 100 ms would take half of that
    assert sorted(waited)[5] < 0.02


def test_a_signal_whose_handler_returns_does_not_end_following(channel: Recording) -> None:
    """The signal interrupts the wait of the C library. The handler writes what the reader then yields."""
    events = read(str(channel.path), sequences=(30, None), follow=True)
    before = signal.signal(signal.SIGALRM, lambda *_: channel.batch_of(b"by the handler"))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        event = next(events)
    finally:
        signal.signal(signal.SIGALRM, before)
        events.close()
    assert isinstance(event, Record)
    assert event.data == b"by the handler"


def test_follow_yields_new_records_until_closed(channel: Recording) -> None:
    events = read(str(channel.path), sequences=(28, None), follow=True)
    assert [e.sequence for e in (next(events), next(events)) if isinstance(e, Record)] == [28, 29]
    channel.batch_of(b"new")
    event = next(events)
    assert isinstance(event, Record)
    assert event.data == b"new"
    events.close()
