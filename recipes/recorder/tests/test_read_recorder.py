# SPDX-License-Identifier: Apache-2.0
"""The reading commands and the Python package, with a running recorder."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "src/python"))
from board import Board
from ek_recorder import ChannelBusy, ChannelNotFound, Missing, Record, RecorderError, Writer, read
from read_harness import run_json

SIZE = 4096


@pytest.fixture
def daemon(board: Board) -> Board:
    board.channel("test", record_size=str(SIZE), period="2ms", window="200ms", retain="16MiB", segment="4MiB")
    board.start(ready=False)
    return board


def connect(board: Board, way: str) -> Writer:
    """Open the channel as soon as it has segments."""
    end = time.monotonic() + 30
    while True:
        try:
            return Writer("test", way=way, socket=str(board.socket))  # type: ignore[arg-type]
        except ChannelBusy:
            raise
        except RecorderError:
            assert board.process
            assert board.process.poll() is None, "the recorder exited"
            assert time.monotonic() < end, "the channel did not become available"
            time.sleep(0.05)


def payload(i: int) -> bytes:
    return f"{i:08}".encode() * (1 + i % 400)


def submit(writer: Writer, first: int, count: int) -> None:
    for i in range(first, first + count):
        writer.wait(20)
        assert writer.submit(payload(i))


@pytest.mark.parametrize("way", ["socket", "ring"])
def test_submitted_records_are_read_back(daemon: Board, way: str) -> None:
    with connect(daemon, way) as writer:
        with pytest.raises(ChannelBusy, match=str(os.getpid())):
            Writer("test", socket=str(daemon.socket))
        with pytest.raises(ChannelNotFound):
            Writer("other", socket=str(daemon.socket))
        submit(writer, 0, 2000)
        writer.sync(20)
        events = list(read("test", directory=daemon.directory))
    assert [e.data for e in events if isinstance(e, Record)] == [payload(i) for i in range(2000)]
    assert not [e for e in events if isinstance(e, Missing)]
    daemon.stop()
    (row,) = run_json("verify", "--directory", daemon.directory, status=0)["channels"]
    assert (row["records"], row["clean"]) == (2000, True)


@pytest.mark.parametrize("way", ["socket", "ring"])
def test_the_time_of_acquisition_reaches_the_reader(daemon: Board, way: str) -> None:
    with connect(daemon, way) as writer:
        acquired = time.monotonic_ns() - 5_000_000
        assert writer.submit(b"old", acquired_ns=acquired)
        assert writer.submit(b"new")
        # no time is in the future
        assert writer.submit(b"future", acquired_ns=acquired + 3_600_000_000_000)
        writer.sync(20)
        old, new, future = read("test", directory=daemon.directory)
    assert isinstance(old, Record)
    assert isinstance(new, Record)
    assert isinstance(future, Record)
    assert (old.acquired_ns, old.monotonic_ns > acquired) == (acquired, True)
    assert new.acquired_ns == new.monotonic_ns
    assert future.acquired_ns == future.monotonic_ns
    daemon.stop()


def test_following_while_segments_are_recycled(daemon: Board) -> None:
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

    with connect(daemon, "ring") as writer:
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


def test_a_follower_wakes_up_with_each_write(daemon: Board) -> None:
    """Writes past the page cache notify it, too."""
    waited = []
    with connect(daemon, "socket") as writer:
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


def test_a_kill_loses_no_synced_record(daemon: Board) -> None:
    writer = connect(daemon, "socket")
    submit(writer, 0, 500)
    writer.sync(20)
    submit(writer, 500, 20)
    daemon.kill()
    writer.close()
    daemon.start(ready=False)
    with connect(daemon, "socket") as again:
        assert again.submit(b"after")
        again.sync(20)
        events = list(read("test", directory=daemon.directory))
    records = [e for e in events if isinstance(e, Record)]
    assert [e.data for e in records[:500]] == [payload(i) for i in range(500)]
    assert records[-1].data == b"after"
    # the recorder reports the loss by a gap, and nothing is damaged
    assert [e.kind for e in events if isinstance(e, Missing)] == ["gap"]
