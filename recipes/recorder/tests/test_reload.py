# SPDX-License-Identifier: Apache-2.0
"""SIGHUP: channels are added, changed and removed, and the others are not disturbed."""

from __future__ import annotations

import errno
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from board import RECORDER, Board, RawWriter, assert_contiguous, wait_for


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
        # what was submitted is recorded, and the writer gets a message that says so
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


def status(board: Board, *options: str) -> tuple[int, str]:
    out = subprocess.run(
        [RECORDER, "status", "--config", str(board.conf), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return out.returncode, out.stdout


def test_an_invalid_configuration_ends_no_recording(recording: Board) -> None:
    stays = "the earlier configuration stays in force"
    with recording.writer("arm") as arm:
        recording.channel("arm", window="soon")
        recording.channel("bad", retain="none")
        reload(recording)
        arm.submit(b"still connected")
        assert arm.sync() == 0
        assert recording.wait_state("bad", "failed")["reason"].startswith(str(recording.conf))
        # the channel records as before, and says that its file has an error, and where
        reason = recording.wait_state("arm", "recording")["reason"]
        assert f"{recording.conf}/channels.d/arm.conf: window = soon" in reason
        assert stays in reason
        assert reason in status(recording)[1]
        with (recording.conf / "recorder.conf").open("a") as f:
            f.write("nonsense = 1\n")
        # also before the recorder has read it
        where = f"{recording.conf}/recorder.conf: nonsense = 1: unknown key"
        code, output = status(recording)
        assert code == 0, output
        assert f"configuration: {where}; the recorder would not start with it" in output
        assert recording.process
        recording.process.send_signal(signal.SIGHUP)
        wait_for(lambda: stays in str((recording.statistics() or {})["configuration"]))
        code, output = status(recording)
        assert code == 0, output
        assert f"configuration: {where}; {stays}" in output
        assert "nonsense" in status(recording, "--json")[1]
        arm.submit(b"and again")
        assert arm.sync() == 0
    # a valid change that needs a restart
    recording.configure(priority="0", socket=str(recording.top / "other"))
    recording.channel("bad")
    recording.channel("arm")
    reload(recording)
    recording.wait_state("bad", "recording")
    wait_for(lambda: recording.stats("arm")["reason"] == "")
    assert "restart the recorder to apply that" in status(recording)[1]
    recording.configure()
    reload(recording)
    wait_for(lambda: (recording.statistics() or {})["configuration"] == "")
    assert "configuration" not in status(recording)[1]


def test_a_channel_for_which_there_are_no_descriptors_is_added_by_a_later_reload(recording: Board) -> None:
    """It is reported as failed meanwhile. The recorder frees what the attempt has used, or the sanitizer objects."""
    assert recording.process
    pid = recording.process.pid
    wait_for(lambda: all(recording.stats(name)["segments"] == 5 for name in ("arm", "leg", "eye")))
    used = {int(fd.name) for fd in Path(f"/proc/{pid}/fd").iterdir()}
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    for name in ("new-1", "new-2", "new-3"):
        recording.channel(name)
    # one descriptor is free: the recorder reads its files with it, and the first new channel takes it
    free = min(set(range(1000)) - used)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free + 1, limits[1]))
    reload(recording)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    # without a descriptor, the statistics could not be written either
    wait_for(lambda: "new-3" in channels(recording))
    for name in ("new-2", "new-3"):
        assert recording.wait_state(name, "failed")["reason"] == (
            "setting up a storage thread: Too many open files"
        )
    reload(recording)
    for name in ("new-1", "new-2", "new-3"):
        recording.wait_state(name, "recording")


def test_status_of_a_recorder_that_cannot_start(board: Board) -> None:
    with (board.conf / "recorder.conf").open("a") as f:
        f.write("nonsense = 1\n")
    code, output = status(board)
    assert code == 2
    assert "nonsense = 1: unknown key" in output


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
