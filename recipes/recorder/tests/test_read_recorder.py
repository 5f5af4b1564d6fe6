# SPDX-License-Identifier: Apache-2.0
"""The reading commands and the Python package, with a running recorder."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "src/python"))
from ek_recorder import ChannelBusy, ChannelNotFound, Missing, Record, RecorderError, Writer, read
from read_harness import BUILD, RECORDER, run_json

SIZE = 4096


class Daemon:
    """A recorder whose recordings are on the disk of the build directory."""

    def __init__(self, disk: Path, runtime: Path) -> None:
        self.directory = disk / "recorder"
        self.directory.mkdir()
        self.socket = str(runtime / "socket")
        self.config = disk / "config"
        (self.config / "channels.d").mkdir(parents=True)
        (self.config / "recorder.conf").write_text(
            f"directory = {self.directory}\nsocket = {self.socket}\ngroup =\n"
            f"statistics = {runtime}/stats.json\nmountpoint = no\n"
        )
        (self.config / "channels.d/test.conf").write_text(
            f"record_size = {SIZE}\nperiod = 2ms\nwindow = 200ms\nretain = 16MiB\nsegment = 4MiB\n"
        )
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen([RECORDER, "run", "--config", str(self.config)])

    def stop(self, how: signal.Signals) -> None:
        assert self.process
        self.process.send_signal(how)
        self.process.wait(20)

    def writer(self, way: str) -> Writer:
        """Open the channel as soon as it has segments."""
        end = time.monotonic() + 30
        while True:
            try:
                return Writer("test", way=way, socket=self.socket)  # type: ignore[arg-type]
            except ChannelBusy:
                raise
            except RecorderError:
                assert self.process
                assert self.process.poll() is None, "the recorder exited"
                assert time.monotonic() < end, "the channel did not become available"
                time.sleep(0.05)


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with (
        tempfile.TemporaryDirectory(dir=BUILD, prefix="daemon-") as disk,
        tempfile.TemporaryDirectory(prefix="ek-") as runtime,
    ):
        d = Daemon(Path(disk).absolute(), Path(runtime))
        d.start()
        try:
            yield d
        finally:
            if d.process and d.process.poll() is None:
                d.process.kill()
                d.process.wait()


def payload(i: int) -> bytes:
    return f"{i:08}".encode() * (1 + i % 400)


def submit(writer: Writer, first: int, count: int) -> None:
    for i in range(first, first + count):
        writer.wait(20)
        assert writer.submit(payload(i))


@pytest.mark.parametrize("way", ["socket", "ring"])
def test_submitted_records_are_read_back(daemon: Daemon, way: str) -> None:
    with daemon.writer(way) as writer:
        with pytest.raises(ChannelBusy, match=str(os.getpid())):
            Writer("test", socket=daemon.socket)
        with pytest.raises(ChannelNotFound):
            Writer("other", socket=daemon.socket)
        submit(writer, 0, 2000)
        writer.sync(20)
        events = list(read("test", directory=daemon.directory))
    assert [e.data for e in events if isinstance(e, Record)] == [payload(i) for i in range(2000)]
    assert not [e for e in events if isinstance(e, Missing)]
    daemon.stop(signal.SIGTERM)
    (row,) = run_json("verify", "--directory", daemon.directory, status=0)["channels"]
    assert (row["records"], row["clean"]) == (2000, True)


def test_following_while_segments_are_recycled(daemon: Daemon) -> None:
    """48 MB are recorded in 20 MB of segments: a follower that keeps up misses nothing."""
    count = 24_000
    got: list[Record | Missing] = []

    def follow() -> None:
        following = read("test", directory=daemon.directory, sequences=(0, None), follow=True)
        with contextlib.closing(following) as events:
            for event in events:
                got.append(event)
                if isinstance(event, Record) and event.sequence == count - 1:
                    return

    with daemon.writer("ring") as writer:
        follower = threading.Thread(target=follow)
        for first in range(0, count, 1000):
            submit(writer, first, 1000)
            writer.sync(20)
            # a channel that is still preparing has no segment to follow
            if first == 0:
                follower.start()
            # wait, so that the follower is never more than a segment behind
            end = time.monotonic() + 30
            while len(got) < first - 500:
                assert follower.is_alive(), "the follower ended early; its exception is in the warnings"
                assert time.monotonic() < end, f"the follower has {len(got)} records of {first}"
                time.sleep(0.01)
        follower.join(30)
        assert not follower.is_alive()
    assert [e for e in got if isinstance(e, Missing)] == []
    assert [e.sequence for e in got if isinstance(e, Record)] == list(range(count))
    assert all(e.data == payload(e.sequence) for e in got if isinstance(e, Record))
    # the retained part is complete while recording continues
    (row,) = run_json("verify", "--directory", daemon.directory, status=0)["channels"]
    assert row["last_sequence"] == count - 1
    assert row["records"] * 1600 > 8 << 20


def test_a_follower_wakes_up_with_each_write(daemon: Daemon) -> None:
    """Writes by io_uring past the page cache notify it, too."""
    waited = []
    with daemon.writer("socket") as writer:
        writer.submit(payload(0))
        writer.sync(20)
        with contextlib.closing(
            read("test", directory=daemon.directory, sequences=(0, None), follow=True)
        ) as events:
            next(events)
            for i in range(1, 16):
                time.sleep(0.05)
                writer.submit(payload(i))
                writer.sync(20)
                began = time.monotonic()
                event = next(events)
                waited.append(time.monotonic() - began)
                assert isinstance(event, Record)
                assert event.data == payload(i)
    # a poll each 100 ms would take half of that
    assert sorted(waited)[7] < 0.03


def test_a_kill_loses_no_synced_record(daemon: Daemon) -> None:
    writer = daemon.writer("socket")
    submit(writer, 0, 500)
    writer.sync(20)
    submit(writer, 500, 20)
    daemon.stop(signal.SIGKILL)
    writer.close()
    daemon.start()
    with daemon.writer("socket") as again:
        assert again.submit(b"after")
        again.sync(20)
        events = list(read("test", directory=daemon.directory))
    records = [e for e in events if isinstance(e, Record)]
    assert [e.data for e in records[:500]] == [payload(i) for i in range(500)]
    assert records[-1].data == b"after"
    # the recorder reports the loss by a gap, and nothing is damaged
    assert [e.kind for e in events if isinstance(e, Missing)] == ["gap"]
