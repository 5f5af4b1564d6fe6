# SPDX-License-Identifier: Apache-2.0
"""SIGHUP: channels are added, changed and removed, and the others are not disturbed."""

from __future__ import annotations

import errno
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from board import Board, RawWriter, assert_contiguous, wait_for


@pytest.fixture
def recording(board: Board) -> Iterator[Board]:
    """The channels arm, leg and eye. leg has a writer all the time, and loses nothing."""
    for name in ("arm", "leg", "eye"):
        board.channel(name)
    board.start()
    with board.writer("leg") as leg:
        leg.submit(b"before")
        yield board
        leg.submit(b"after")
        assert leg.sync() == 0
    board.stop()
    assert board.payloads("leg") == [b"before", b"after"]
    assert board.gaps("leg") == []


def reload(board: Board) -> None:
    assert board.process
    before = board.log.read_text().count("configuration reloaded")
    board.process.send_signal(signal.SIGHUP)
    wait_for(lambda: board.log.read_text().count("configuration reloaded") > before)


def channels(board: Board) -> set[str]:
    return set((board.statistics() or {"channels": {}})["channels"])


def test_channels_are_added_and_removed(recording: Board) -> None:
    with recording.writer("eye") as eye:
        for number in range(100):
            eye.submit(b"%d" % number)
        recording.channel("new")
        (recording.conf / "channels.d/eye.conf").unlink()
        reload(recording)
        # what was submitted is recorded, and the writer is told so
        assert eye.reason_for_close()[0] == errno.ESHUTDOWN
    recording.wait_state("new", "recording")
    assert channels(recording) == {"arm", "leg", "new"}
    recording.write("new", b"x\n")
    refused = RawWriter(recording.socket, "eye").refused
    assert refused
    assert refused[0] == errno.ENOENT
    assert recording.payloads("eye") == [b"%d" % n for n in range(100)]
    assert recording.payloads("new") == [b"x"]
    # and it can come back, without a gap
    recording.channel("eye")
    reload(recording)
    recording.write("eye", b"again\n")
    assert recording.payloads("eye")[-1] == b"again"
    assert recording.gaps("eye") == []


def test_a_changed_channel_continues_with_its_new_terms(recording: Board) -> None:
    recording.write("arm", b"short\n")
    recording.channel("arm", record_size="5000")
    reload(recording)
    recording.write("arm", b"x" * 3000 + b"\n")
    assert [len(p) for p in recording.payloads("arm")] == [5, 3000]
    assert recording.gaps("arm") == []
    # an unchanged configuration changes nothing
    with recording.writer("arm") as arm:
        reload(recording)
        arm.submit(b"still connected")
        assert arm.sync() == 0


def test_an_invalid_configuration_ends_no_recording(recording: Board) -> None:
    with recording.writer("arm") as arm:
        recording.channel("arm", window="soon")
        recording.channel("bad", retain="none")
        reload(recording)
        arm.submit(b"still connected")
        assert arm.sync() == 0
        assert recording.wait_state("bad", "failed")["reason"].startswith(str(recording.conf))
        (recording.conf / "recorder.conf").write_text("nonsense = 1\n")
        assert recording.process
        recording.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "the configuration stays as it was" in recording.log.read_text())
        arm.submit(b"and again")
        assert arm.sync() == 0
    recording.configure()
    recording.channel("bad")
    recording.channel("arm")
    reload(recording)
    recording.wait_state("bad", "recording")


def test_many_reloads_leave_nothing_behind(board: Board) -> None:
    board.channel("leg")
    board.channel("arm", ring="yes")
    board.start()
    assert board.process
    process = Path(f"/proc/{board.process.pid}")
    for number in range(20):
        board.channel("arm", window=f"{100 + number}ms")
        reload(board)
        with wait_for(
            lambda: writer if not (writer := RawWriter(board.socket, "arm", 2)).refused else None
        ) as arm:
            assert arm.sync() == 0
        if number == 2:
            time.sleep(0.5)
            before = len(list((process / "fd").iterdir()))
    wait_for(lambda: len(list((process / "fd").iterdir())) <= before)
    assert len(list((process / "task").iterdir())) < 15
    board.stop()
    assert_contiguous(board.records("arm"))
    assert board.gaps("arm") == []
