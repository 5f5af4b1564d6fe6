# SPDX-License-Identifier: Apache-2.0
"""Faults of media, segments and directories, as listed in docs/reference/recorder.md."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from board import (
    FAILED,
    OVERRUN,
    RECORDER,
    RESTART,
    SYNC,
    Board,
    RawWriter,
    assert_contiguous,
    cpu_ticks,
    freeze,
    frozen,
    thaw,
    unmount,
    wait_for,
)
from read_harness import Recording

Mount = Callable[[Path, int], None]


def test_segments_lost_while_recording_are_created_again(board: Board) -> None:
    directories = {
        name: board.directory / name for name in ("removed", "with-directory", "truncated", "idle")
    }
    for name in directories:
        board.channel(name)
    board.start()
    wait_for(lambda: all(board.stats(name)["segments"] == 5 for name in directories))
    with contextlib.ExitStack() as stack:
        writers = {name: stack.enter_context(board.writer(name)) for name in directories if name != "idle"}
        for writer in writers.values():
            writer.submit(b"before")
            assert writer.sync() == 0
        for name, directory in directories.items():
            for seg in directory.glob("*.seg"):
                if name == "truncated":
                    os.truncate(seg, 20000)
                else:
                    seg.unlink()
        for name in ("started", "channel", "lock"):
            (directories["with-directory"] / name).unlink()
        directories["with-directory"].rmdir()
        wait_for(lambda: board.log.read_text().count("5 segments were removed or truncated") == 4, 12)
        for writer in writers.values():
            writer.submit(b"after")
            assert writer.sync() == 0

        # the reason disappears once they exist again
        def whole() -> bool:
            stats = [board.stats(name) for name in directories]
            return all((s["segments"], s["state"], s["reason"]) == (5, "recording", "") for s in stats)

        time.sleep(1.1)
        wait_for(whole)
    board.stop()
    for name, directory in directories.items():
        assert len([seg for seg in directory.glob("*.seg") if seg.stat().st_size == 256 << 10]) == 5
        assert board.payloads(name) == (
            [] if name == "idle" else [b"before", b"after"] if name == "truncated" else [b"after"]
        )
    board.start()
    for name in directories:
        with board.writer(name) as writer:
            assert writer.sequence == (0 if name == "idle" else 2)
    board.stop()
    assert all(board.gaps(name) == [] for name in directories)


def test_a_removed_directory_is_created_again_once_its_parent_is_back(board: Board) -> None:
    """The parent is removed as well, so the directory cannot be created again at once."""
    board.channel("arm")
    board.start()
    wait_for(lambda: board.stats("arm")["segments"] == 5)
    shutil.rmtree(board.directory)
    board.wait_state("arm", "failed")
    # the statistics may have the first reason for a second, that the segments were removed
    wait_for(lambda: f"opening {board.directory}: No such file" in board.stats("arm")["reason"])
    board.directory.mkdir()
    wait_for(lambda: board.stats("arm")["segments"] == 5, 12)
    board.write("arm", b"x\n")
    board.stop()
    assert board.payloads("arm") == [b"x"]
    board.start()
    board.stop()
    assert board.gaps("arm") == []


def contents(directory: Path) -> dict[str, bytes]:
    return {f.name: f.read_bytes() for f in directory.iterdir()}


def test_moved_recordings_are_not_overwritten(board: Board) -> None:
    """A directory is moved; moved and replaced by a copy; moved and replaced by another recording; a segment is moved."""
    names = ("moved", "copied", "replaced", "renamed")
    directories = {name: board.directory / name for name in names}
    saved = {name: board.top / name for name in names}
    for name in names:
        board.channel(name)
    # an independent recording of a channel with the same name
    board.start()
    wait_for(lambda: all(board.stats(name)["segments"] == 5 for name in names))
    board.write("replaced", b"other\n")
    board.stop()
    other = board.top / "other"
    directories["replaced"].rename(other)
    board.start()
    wait_for(lambda: all(board.stats(name)["segments"] == 5 for name in names))
    with contextlib.ExitStack() as stack:
        writers = {name: stack.enter_context(board.writer(name)) for name in names}
        for writer in writers.values():
            writer.submit(b"before")
            assert writer.sync() == 0
        for name in names[:3]:
            directories[name].rename(saved[name])
        shutil.copytree(saved["copied"], directories["copied"])
        other.rename(directories["replaced"])
        saved["renamed"].mkdir()
        (directories["renamed"] / "00000000.seg").rename(saved["renamed"] / "00000000.seg")
        kept = {name: contents(saved[name]) for name in names}
        theirs = contents(directories["replaced"])
        reason = "its directory now holds another recording"
        wait_for(lambda: reason in board.stats("replaced")["reason"], 12)
        continuing = ("moved", "copied", "renamed")

        def whole() -> bool:
            stats = [board.stats(name) for name in continuing]
            return all((s["segments"], s["reason"]) == (5, "") for s in stats)

        wait_for(whole)
        for name in continuing:
            writers[name].submit(b"after")
            assert writers[name].sync() == 0
        assert contents(directories["replaced"]) == theirs
        # recording continues once the other recording is removed
        directories["replaced"].rename(board.top / "taken away")
        writers["replaced"].submit(b"after")
        wait_for(lambda: board.stats("replaced")["segments"] == 5, 12)
        assert writers["replaced"].sync() == 0
    board.stop()
    for name in names:
        assert contents(saved[name]) == kept[name]
        assert board.payloads(name) == ([b"before"] if name == "copied" else []) + [b"after"]
        assert len(list(directories[name].glob("*.seg"))) == 5
    assert contents(board.top / "taken away") == theirs
    board.start()
    board.stop()
    assert all(board.gaps(name) == [] for name in names)


def test_recording_continues_on_a_medium_that_is_mounted_again(board: Board, ext4: Mount) -> None:
    """The recorder releases an unmounted medium, and writes nothing into the directory below the mount point."""
    ext4(board.directory, 16)
    board.configure(mountpoint="yes")
    board.channel("arm")
    board.channel("idle")
    board.start()
    wait_for(lambda: all(board.stats(name)["segments"] == 5 for name in ("arm", "idle")))
    board.write("arm", b"before\n")
    subprocess.run(["umount", "-l", str(board.directory)], check=True)
    for name in ("arm", "idle"):
        assert "nothing is mounted there" in board.wait_state(name, "failed")["reason"]
    assert list(board.directory.iterdir()) == []
    image = board.top / f"{board.directory.name}.img"
    wait_for(
        lambda: not subprocess.run(["losetup", "-j", str(image)], capture_output=True, check=True).stdout
    )
    subprocess.run(["mount", "-o", "loop,noatime", str(image), str(board.directory)], check=True)
    for name in ("arm", "idle"):
        assert board.wait_state(name, "recording")["segments"] == 5
    board.stop()
    board.start()
    board.write("arm", b"after\n")
    board.stop()
    assert board.payloads("arm") == [b"before", b"after"]
    assert all(len(list((board.directory / name).glob("*.seg"))) == 5 for name in ("arm", "idle"))
    assert board.gaps("arm") == board.gaps("idle") == []


def test_an_invalid_recorder_conf_is_reported_in_one_line(board: Board) -> None:
    board.configure(priority="high")
    out = subprocess.run(
        [RECORDER, "run", "--config", str(board.conf)], capture_output=True, text=True, check=False
    )
    assert out.returncode == 2
    assert "recorder.conf: priority = high: must be a whole number" in out.stderr
    assert out.stderr.count("\n") == 1


def test_a_file_in_place_of_the_socket_stays(board: Board) -> None:
    board.channel("arm")
    Path(board.socket).write_text("someone's notes")
    out = subprocess.run(
        [RECORDER, "run", "--config", str(board.conf)], capture_output=True, text=True, check=False
    )
    assert out.returncode == 1
    assert f"{board.socket} exists and is not a socket" in out.stderr
    assert Path(board.socket).read_text() == "someone's notes"


def test_two_recorders(board: Board) -> None:
    board.channel("arm")
    board.start()
    out = subprocess.run(
        [RECORDER, "run", "--config", str(board.conf)], capture_output=True, text=True, check=False
    )
    assert out.returncode == 1
    assert "another recorder already listens at" in out.stderr
    # `init` uses no socket, but finds the channel locked
    out = subprocess.run(
        [RECORDER, "init", "--config", str(board.conf)], capture_output=True, text=True, check=False
    )
    assert out.returncode == 1
    assert "another recorder is using it" in out.stderr
    board.write("arm", b"x\n")


@pytest.mark.parametrize("damage", ["head", "head and records"])
@pytest.mark.parametrize("killed", [False, True])
def test_a_damaged_newest_head_does_not_revive_old_records(board: Board, damage: str, killed: bool) -> None:
    """Its generation is not assigned again. Otherwise old batches would become valid in another segment."""
    board.channel("small", record_size="256", retain="400KiB", segment="132KiB", window="200ms")
    directory = board.directory / "small"
    board.start()
    wait_for(lambda: board.stats("small")["segments"] == 5)
    with board.writer("small") as writer:
        for n in range(150):
            writer.submit(b"old %d" % n)
            assert writer.sync() == 0
    if killed:
        board.kill()
    else:
        board.stop()
    used = {f: struct.unpack_from("<Q", f.read_bytes(), 72)[0] for f in directory.glob("*.seg")}
    newest = max(used, key=lambda f: used[f])
    assert used[newest] == 5
    with newest.open("r+b") as f:
        f.seek(200)
        f.write(b"\xff" if damage == "head" else b"\xff" * (132 * 1024 - 200))
    board.start()
    for n in range(3):
        board.write("small", b"new %d\n" % n)
    board.stop()
    heads = [struct.unpack_from("<Q", f.read_bytes(), 72)[0] for f in directory.glob("*.seg")]
    assert len(set(heads)) == 5
    payloads = board.payloads("small")
    olds = [p for p in payloads if p.startswith(b"old")]
    assert payloads == [*olds, b"new 0", b"new 1", b"new 2"]
    assert olds == sorted(olds, key=lambda p: int(p.split()[1]))
    records = [r for r in board.records("small") if r.payload.startswith(b"new")]
    # no sequence is assigned twice if the records that had it are readable
    if damage == "head" or not killed:
        assert records[0].sequence >= 150
    assert [r.sequence for r in records] == sorted(r.sequence for r in records)


def test_clean_shutdowns_with_an_unreadable_segment_stay_clean(board: Board) -> None:
    """That segment may have been the newest. The next use gets a higher generation; the segment in use keeps its own."""
    board.channel("arm")
    board.start()
    wait_for(lambda: board.stats("arm")["segments"] == 5)
    board.write("arm", b"0\n")
    board.stop()
    (board.directory / "arm" / "00000004.seg").write_bytes(bytes(4096))
    for n in range(1, 5):
        board.start()
        board.write("arm", b"%d\n" % n)
        board.stop()
    assert board.payloads("arm") == [b"%d" % n for n in range(5)]
    assert board.gaps("arm") == []
    assert "not shut down cleanly" not in board.log.read_text()


def start_without_privilege(board: Board) -> None:
    """Run as root, but without access to files of other users. Another user might not reach the parent folders."""
    if os.geteuid() != 0:
        pytest.skip("creating files of another user needs root")
    caps = "-dac_override,-dac_read_search"
    board.start("setpriv", f"--bounding-set={caps}", f"--inh-caps={caps}")


def use_segments(board: Board, count: int) -> list[Path]:
    """Fill this many segments of arm; return all used ones in order of use."""
    with board.writer("arm") as writer:
        for _ in range(200 * count):
            writer.submit(bytes(1000))
        assert writer.sync() == 0

    def generation(f: Path) -> int:
        return int(struct.unpack_from("<Q", f.read_bytes(), 72)[0])

    used = {f: generation(f) for f in (board.directory / "arm").glob("*.seg")}
    return sorted((f for f in used if used[f]), key=lambda f: used[f])


def test_segments_that_cannot_be_opened_are_left_as_they_are(board: Board) -> None:
    """For example after another user restored a copy. Once they can be opened, all records are there."""
    board.channel("arm")
    start_without_privilege(board)
    wait_for(lambda: board.stats("arm")["segments"] == 5)
    used = use_segments(board, 3)
    newest = struct.unpack_from("<Q", used[-1].read_bytes(), 72)[0]
    board.kill()
    for f, mode in zip(used[-2:], (0o444, 0o400), strict=True):
        os.chown(f, 65534, 65534)
        f.chmod(mode)
    start_without_privilege(board)
    stats = board.wait_state("arm", "recording")
    assert stats["segments"] == 3
    assert stats["reason"] == (
        "2 segments cannot be used, and none is created in their place: "
        f"opening segment {used[-2].name}: Permission denied"
    )
    # a removed segment is created again, and the reason stays
    (set((board.directory / "arm").glob("*.seg")) - set(used)).pop().unlink()
    wait_for(lambda: "removed or truncated" in board.log.read_text(), 12)
    wait_for(lambda: board.stats("arm")["segments"] == 3)
    wait_for(lambda: board.stats("arm")["reason"] == stats["reason"])
    board.write("arm", b"new\n")
    board.stop()
    files = list((board.directory / "arm").glob("*.seg"))
    assert len(files) == 5
    heads = [struct.unpack_from("<Q", f.read_bytes(), 72)[0] for f in files]
    assert sorted(heads)[-1] > newest
    assert len({g for g in heads if g}) == len([g for g in heads if g])
    # no segment can be opened: none is created
    for f in files:
        os.chown(f, 65534, 65534)
        f.chmod(0o400)
    start_without_privilege(board)
    assert (
        "5 of its segments exist but cannot be used: opening" in board.wait_state("arm", "failed")["reason"]
    )
    for f in files:
        f.chmod(0o666)
    board.wait_state("arm", "recording")
    board.stop()
    assert sorted((board.directory / "arm").glob("*.seg")) == sorted(files)
    assert board.payloads("arm")[-1] == b"new"


def test_a_start_without_enough_file_descriptors_changes_nothing(board: Board) -> None:
    board.channel("arm", retain="4MiB", segment="132KiB")
    board.start()
    wait_for(lambda: board.stats("arm")["segments"] == 33)
    use_segments(board, 3)
    board.stop()
    before = contents(board.directory / "arm")
    # too few to open all segments for reading; enough for that, but not for writing
    for limit in (30, 60):
        board.start("bash", "-c", f'ulimit -n {limit}; exec "$@"', "bash")
        reason = board.wait_state("arm", "failed")["reason"]
        assert "Too many open files" in reason
        board.stop()
        assert contents(board.directory / "arm") == before
    board.start()
    assert board.wait_state("arm", "recording")["segments"] == 33
    board.write("arm", b"new\n")
    board.stop()
    assert board.payloads("arm")[-1] == b"new"
    assert board.gaps("arm") == []


def test_recording_starts_once_a_missing_directory_exists(board: Board) -> None:
    board.channel("arm")
    board.directory.rmdir()
    board.start()
    refused = RawWriter(board.socket, "arm").refused
    assert refused
    # not ENOENT, which means an unknown channel
    assert refused[0] == errno.ENODEV
    assert f"opening {board.directory}: No such file" in refused[1]
    board.directory.mkdir()
    board.wait_state("arm", "recording")
    board.write("arm", b"x\n")
    board.stop()
    assert board.payloads("arm") == [b"x"]


def test_a_block_copied_from_another_channel_is_no_record(board: Board) -> None:
    """Nor one from another segment: the CRC of a record covers its channel and its segment."""
    board.channel("arm")
    board.channel("leg")
    board.start()
    # with the generation, batch and sequence that leg would use next
    board.write("arm", b"first\n")
    board.write("arm", b"of arm\n")
    board.write("leg", b"of leg\n")
    board.stop()
    arm, leg = (board.directory / name / "00000000.seg" for name in ("arm", "leg"))
    with leg.open("r+b") as f:
        f.seek(8192)
        f.write(arm.read_bytes()[8192:12288])
    out = subprocess.run(
        [RECORDER, "cat", "--lines", "--directory", str(board.directory), "leg"],
        capture_output=True,
        check=False,
    )
    assert out.stdout == b"of leg\n"
    board.start()
    board.write("leg", b"next\n")
    board.stop()
    out = subprocess.run(
        [RECORDER, "cat", "--lines", "--directory", str(board.directory), "leg"],
        capture_output=True,
        check=False,
    )
    assert out.stdout == b"of leg\nnext\n"


def test_media_of_an_earlier_format_are_refused_and_not_changed(board: Board) -> None:
    board.channel("arm")
    rec = Recording(board.directory / "arm", version=1, segments=5, size=256 << 10)
    rec.use()
    rec.batch_of(b"old")
    before = {path.name: path.read_bytes() for path in rec.path.iterdir()}
    board.start()
    assert "of an earlier format version" in board.wait_state("arm", "failed")["reason"]
    board.stop()
    assert {p.name: p.read_bytes() for p in rec.path.iterdir() if p.name != "lock"} == before
    out = subprocess.run([RECORDER, "cat", str(rec.path)], capture_output=True, text=True, check=False)
    assert out.returncode == 2
    assert "of an earlier format version; export it with the ek-recorder that wrote it" in out.stderr


def test_a_locked_directory_is_not_reported_as_a_second_writer(board: Board) -> None:
    directory = board.directory / "arm"
    directory.mkdir()
    board.channel("arm")
    fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    board.start()
    refused = RawWriter(board.socket, "arm").refused
    os.close(fd)
    assert refused
    assert refused[0] == errno.EIO
    assert "another recorder is using it" in refused[1]


def test_a_reader_cannot_lock_a_channel(board: Board) -> None:
    """Any reader of a directory can lock it. The recorder locks a file that only its owner can open."""
    directory = board.directory / "arm"
    directory.mkdir()
    board.channel("arm")
    fd = os.open(directory, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    board.start()
    assert board.wait_state("arm", "recording")
    board.stop()
    os.close(fd)
    assert (directory / "lock").stat().st_mode & 0o777 == 0o600


def test_nothing_is_recorded_where_nothing_is_mounted(board: Board) -> None:
    board.configure(mountpoint="yes")
    board.channel("arm")
    board.start()
    refused = RawWriter(board.socket, "arm").refused
    assert refused
    assert "nothing is mounted there" in refused[1]
    assert list(board.directory.iterdir()) == []


def test_a_full_partition(board: Board, ext4: Mount) -> None:
    ext4(board.directory, 16)
    board.configure(mountpoint="yes")
    # arm is first and gets all its segments; leg gets some; toe gets none
    board.channel("arm", retain="2MiB")
    board.start()
    board.wait_state("arm", "recording")
    wait_for(lambda: board.stats("arm")["segments"] == 9)
    board.stop()
    board.channel("leg", retain="64MiB", segment="2MiB")
    board.channel("toe", retain="64MiB", segment="16MiB")
    board.start()
    leg = wait_for(lambda: (s := board.stats("leg"))["reason"] and s)
    assert "No space left on device" in leg["reason"]
    assert leg["state"] == "recording"
    assert 2 <= leg["segments"] < 10
    toe = board.wait_state("toe", "failed")
    assert toe["segments"] == 0
    refused = RawWriter(board.socket, "toe").refused
    assert refused
    assert refused[0] == errno.ENOSPC
    for channel in ("arm", "leg"):
        board.write(channel, b"x\n")
        assert board.payloads(channel) == [b"x"]
    # no unfinished segments remain
    assert not list(board.directory.glob("*/*.new"))
    board.stop()


def test_a_clean_shutdown_needs_no_space(board: Board, ext4: Mount) -> None:
    ext4(board.directory, 16)
    board.channel("arm")
    for n in range(2):
        board.start()
        wait_for(lambda: board.stats("arm")["segments"] == 5)
        for size in (65536, 512):
            others = board.directory / f"others-{n}-{size}"
            with others.open("wb", buffering=0) as f, contextlib.suppress(OSError):
                while True:
                    f.write(bytes(size))
        board.write("arm", b"%d\n" % n)
        board.stop()
        assert (board.directory / "arm" / "stopped").exists()
    assert board.payloads("arm") == [b"0", b"1"]
    assert board.gaps("arm") == []
    assert "clean-shutdown marker" not in board.log.read_text()


def test_a_medium_that_hangs_delays_only_its_channel(board: Board, ext4: Mount) -> None:
    ext4(board.directory / "arm", 16)
    board.channel("arm", buffer="256KiB", writeout="64KiB", retain="4MiB")
    board.channel("leg")
    board.start()
    board.wait_state("arm", "recording")
    wait_for(lambda: board.stats("arm")["segments"] == 17)
    with board.writer("arm") as arm, board.writer("leg") as leg:
        arm.submit(b"before")
        assert arm.sync() == 0
        freeze(board.directory / "arm")
        submitted = [arm.submit_or_lose(b"x" * 1000) for _ in range(2000)]
        lost = submitted.count(False)
        assert lost > 100
        for n in range(20):
            leg.submit(b"%d" % n)
            began = time.monotonic()
            assert leg.sync() == 0
            assert time.monotonic() - began < 2
        thaw(board.directory / "arm")
        wait_for(lambda: board.stats("arm")["backlog"] < 70_000)
        arm.submit(b"after")
        # the sync reports the loss and its cause
        assert arm.sync() == errno.ENOBUFS
        arm.submit(b"and on")
        assert arm.sync() == 0
    board.stop()
    records = board.records("arm")
    assert_contiguous(records)
    gaps = board.gaps("arm")
    assert [reason for reason, _ in gaps] == [OVERRUN] * len(gaps)
    assert sum(count for _, count in gaps) == lost
    assert len(board.payloads("arm")) == 2003 - lost
    assert records[-1].payload == b"and on"
    assert board.payloads("leg") == [b"%d" % n for n in range(20)]


@contextlib.contextmanager
def notified(path: Path) -> Iterator[list[str]]:
    """A service manager: a list of the notifications that it receives."""
    messages: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(str(path))

        def listen() -> None:
            while message := s.recv(4096):
                messages.append(message.decode())

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield messages
        finally:
            s.sendto(b"", str(path))
            thread.join()


def test_a_medium_that_hangs_is_reported_without_a_restart(board: Board, ext4: Mount) -> None:
    """The channel is failed meanwhile. The watchdog is fed, and other channels record."""
    at = board.directory / "arm"
    ext4(at, 16)
    board.channel("arm", retain="4MiB")
    board.channel("leg")
    with notified(board.top / "notify") as messages:
        board.start(env={**os.environ, "NOTIFY_SOCKET": str(board.top / "notify")})
        wait_for(lambda: board.stats("arm")["segments"] == 17)
        with board.writer("arm") as arm:
            freeze(at)
            arm.submit(b"hangs")
            hung = board.wait_state("arm", "failed")
            assert hung["reason"].endswith("does not finish: the medium does not respond")
            refused = RawWriter(board.socket, "arm").refused
            assert refused
            assert refused[0] == errno.ETIMEDOUT
            messages.clear()
            wait_for(lambda: messages.count("WATCHDOG=1") >= 2, 5)
            assert any("the medium does not respond" in message for message in messages)
            board.write("leg", b"x\n")
            thaw(at)
            board.wait_state("arm", "recording")
            assert arm.sync() == 0
        board.stop()
    log = board.log.read_text()
    assert log.count("the medium does not respond") == 1
    assert "the medium responds again" in log
    assert (board.payloads("arm"), board.payloads("leg")) == ([b"hangs"], [b"x"])


def test_a_writer_that_can_wait_loses_nothing(board: Board, ext4: Mount) -> None:
    """A pipe delivers more than buffer and socket hold while the medium hangs. Records are late, but all are there."""
    ext4(board.directory / "arm", 32)
    board.channel(
        "arm", record_size="4KiB", buffer="256KiB", writeout="64KiB", retain="16MiB", segment="1MiB"
    )
    board.start()
    wait_for(lambda: board.stats("arm")["segments"] == 17)
    data = os.urandom(4 << 20)
    for way in ([], ["--ring"]):
        with subprocess.Popen(
            [RECORDER, "write", *way, "--size", "4096", "--socket", str(board.socket), "arm"],
            stdin=subprocess.PIPE,
        ) as writer:
            feeder = threading.Thread(target=writer.communicate, args=(data,))
            with frozen(board.directory / "arm"):
                feeder.start()
                wait_for(lambda: board.stats("arm")["backlog"] > 190_000)
                time.sleep(0.5)
                assert writer.poll() is None
            feeder.join(30)
            assert writer.returncode == 0
    wait_for(lambda: board.stats("arm")["durable"] == 2048)
    assert board.stats("arm")["lost"] == {"overrun": 0, "absent": 0, "failed": 0, "writer": 0, "restart": 0}
    board.stop()
    assert b"".join(board.payloads("arm")) == data * 2
    assert board.gaps("arm") == []


def fill_ring(writer: RawWriter) -> int:
    for n in range(writer.slots):
        place = 4096 + n * writer.stride
        head = struct.pack("<2I2QqQ", 1000, 0, writer.sequence + n, time.monotonic_ns(), 0, 0)
        writer.ring[place : place + 1040] = head + b"x" * 1000
        writer.fill(n + 1)
    return writer.slots


def fill_socket(writer: RawWriter, patience: float = 2) -> int:
    """Submit until the recorder has no space and stopped reading; returns the number of records."""
    n = 0
    while select.select([], [writer.socket], [], patience)[1]:
        writer.submit(b"x" * 1000)
        n += 1
    return n


@pytest.mark.parametrize("way", [1, 2])
def test_records_of_a_disconnected_writer_wait_for_space(board: Board, ext4: Mount, way: int) -> None:
    at = board.directory / "arm"
    ext4(at, 16)
    board.channel("arm", buffer="192KiB", writeout="64KiB", retain="4MiB")
    board.start()
    assert board.process
    wait_for(lambda: board.stats("arm")["segments"] == 17)
    with frozen(at):
        with board.writer("arm", way=way) as writer:
            left = fill_ring(writer) if way == 2 else fill_socket(writer)
            assert left * 1032 > 192 << 10
            wait_for(lambda: board.stats("arm")["backlog"] > 150_000)
        # the writer disconnected, but keeps the channel until its records are accepted: the next writer waits
        waiting = subprocess.Popen(
            [RECORDER, "write", "--socket", str(board.socket), "arm"], stdin=subprocess.PIPE
        )
        # the recorder does not busy-wait for the closed connection
        before = cpu_ticks(board.process)
        time.sleep(1)
        assert cpu_ticks(board.process) - before <= 10
        assert board.stats("arm")["writer"] == os.getpid()
    waiting.communicate(b"next\n", 10)
    assert waiting.returncode == 0
    board.stop()
    assert len(board.payloads("arm")) == left + 1
    assert board.payloads("arm")[left] == b"next"
    assert board.gaps("arm") == []


@pytest.mark.parametrize("way", [1, 2])
def test_a_writer_that_waits_too_long_for_the_previous_one_is_refused(
    board: Board, ext4: Mount, way: int
) -> None:
    at = board.directory / "arm"
    ext4(at, 16)
    board.channel("arm", buffer="192KiB", writeout="64KiB", retain="4MiB")
    board.start()
    wait_for(lambda: board.stats("arm")["segments"] == 17)
    # the refusal comes within 10 s: after that the medium would be the reason
    with board.writer("arm", way=way) as writer, frozen(at):
        fill_ring(writer) if way == 2 else fill_socket(writer, 0.3)
        second = RawWriter(board.socket, "arm").refused
        assert second == (errno.EBUSY, f"channel arm: process {os.getpid()} is its writer")
        writer.close()
        refused = RawWriter(board.socket, "arm").refused
        reason = f"channel arm: the medium has not yet accepted the last records of process {os.getpid()}"
        assert refused == (errno.EAGAIN, reason)


@pytest.mark.parametrize("way", [1, 2])
def test_a_shutdown_with_a_slow_medium_writes_what_was_submitted(board: Board, ext4: Mount, way: int) -> None:
    """More was submitted than the buffer holds. The channel leg, on another medium, is not delayed."""
    at = board.directory / "arm"
    ext4(at, 16)
    board.channel("arm", buffer="192KiB", writeout="64KiB", retain="4MiB")
    board.channel("leg", window="10s")
    board.start()
    assert board.process
    wait_for(lambda: board.stats("arm")["segments"] == 17)
    with board.writer("arm", way=way) as arm, board.writer("leg") as leg:
        leg.submit(b"leg")
        with frozen(at):
            left = fill_ring(arm) if way == 2 else fill_socket(arm)
            assert left * 1032 > 192 << 10
            wait_for(lambda: board.stats("arm")["backlog"] > 150_000)
            board.process.terminate()
            if way == 2:
                # once the ring is closed nothing is accepted: a writer that continues does not delay the shutdown
                wait_for(lambda: arm.closed() == errno.ESHUTDOWN, 5)
                arm.fill(left + 10)
            wait_for(lambda: board.payloads("leg") == [b"leg"], 1)
            # still within the 1.5 s that the recorder waits for a medium that accepts nothing
            time.sleep(0.5)
            assert board.process.poll() is None
        assert board.process.wait(10) == 0
        for writer in (arm, leg):
            code, message = writer.reason_for_close()
            assert code == errno.ESHUTDOWN
            assert message.endswith("the recorder was shut down and has written everything submitted")
    assert len(board.payloads("arm")) == left
    board.start()
    board.stop()
    assert board.gaps("arm") == board.gaps("leg") == []


def written_bytes(process: subprocess.Popen[bytes]) -> int:
    """Bytes that the process has written to storage so far."""
    found = re.search(r"^write_bytes: (\d+)$", Path(f"/proc/{process.pid}/io").read_text(), re.MULTILINE)
    assert found
    return int(found[1])


def shut_down_on_slow_medium(board: Board, channel: str, data: bytes) -> float:
    """Write `data`, and shut down while the medium hangs three times for 0.7 s. Returns the longest time that it hung, s."""
    at = board.directory / channel
    with frozen(at):
        board.write(channel, data, "--ring", "--no-sync", "--size", "65536")
        wait_for(lambda: board.stats(channel)["backlog"] >= len(data))
        assert board.process
        began = accepted = time.monotonic()
        longest = 0.0
        board.process.terminate()
        for _ in range(3):
            time.sleep(0.7)
            before = written_bytes(board.process)
            thaw(at)
            # poll without a pause: a fast machine writes everything within 20 ms
            limit = time.monotonic() + 2
            while written_bytes(board.process) <= before:
                assert time.monotonic() < limit, "the medium works again, but nothing is written"
            freeze(at)
            longest = max(longest, time.monotonic() - accepted)
            accepted = time.monotonic()
        # longer than the 1.5 s that it waits for a medium that accepts nothing
        assert time.monotonic() - began > 2
    assert board.process.wait(10) == 0
    return max(longest, time.monotonic() - accepted)


def test_a_shutdown_continues_while_a_slow_medium_accepts_data(board: Board, ext4: Mount) -> None:
    """A card that hangs repeatedly, each time for less than the recorder waits, and accepts data in between.

    On a host whose disk is busy, the medium may hang for longer than the recorder waits. Such a run proves nothing.
    """
    sizes = {
        "record_size": "64KiB",
        "writeout": "2MiB",
        "buffer": "32MiB",
        "retain": "48MiB",
        "segment": "8MiB",
    }
    data = os.urandom(24 << 20)
    for channel in ("arm", "leg", "eye", "ear"):
        ext4(board.directory / channel, 96)
        board.channel(channel, **sizes)
        board.start()
        wait_for(lambda name=channel: board.stats(name)["segments"] == 7)  # type: ignore[misc]
        longest = shut_down_on_slow_medium(board, channel, data)
        complete = b"".join(board.payloads(channel)) == data
        if complete or longest < 1.2:
            break
    assert complete
    board.start()
    board.stop()
    assert board.gaps(channel) == []


def test_a_shutdown_does_not_wait_for_a_medium_that_accepts_nothing(board: Board, ext4: Mount) -> None:
    """Records that cannot be written are lost. The writer gets the reason, and a gap reports the loss."""
    at = board.directory / "arm"
    ext4(at, 16)
    board.channel("arm", buffer="192KiB", writeout="64KiB", retain="4MiB")
    board.channel("leg")
    board.start()
    assert board.process
    wait_for(lambda: board.stats("arm")["segments"] == 17)
    # A record before the freeze puts a segment into use. Otherwise the blocked write would be the segment's head.
    board.write("arm", b"before\n")
    with board.writer("arm", way=2) as arm, board.writer("leg") as leg:
        leg.submit(b"leg")
        with frozen(at):
            left = fill_ring(arm)
            wait_for(lambda: board.stats("arm")["backlog"] > 150_000)
            began = time.monotonic()
            board.process.terminate()
            assert leg.reason_for_close()[0] == errno.ESHUTDOWN
            code, message = arm.reason_for_close()
            assert code == errno.EIO
            assert "shut down before it could write everything" in message
            assert 1 < time.monotonic() - began < 4
        board.process.wait(10)
    assert 1 < len(board.payloads("arm")) < left
    board.start()
    board.stop()
    assert board.gaps("arm") == [(RESTART, 0)]
    assert board.gaps("leg") == []


def test_a_medium_that_hangs_at_the_start_delays_only_its_channels(board: Board, ext4: Mount) -> None:
    """Whatever arm's prepare thread blocks in, leg is served at once."""
    at = board.directory / "arm"
    ext4(at, 16)
    board.channel("arm", retain="4MiB")
    board.channel("leg")
    # first while no segment exists, then while the clean-shutdown marker is invalidated
    for first in (True, False):
        with frozen(at):
            board.start(ready=False)
            began = time.monotonic()
            board.write("leg", b"x\n" if first else b"y\n")
            assert time.monotonic() - began < 5
            if not first:
                refused = RawWriter(board.socket, "arm").refused
                assert refused == (errno.EAGAIN, "channel arm: it is not open yet")
        wait_for(lambda: board.statistics() and board.stats("arm")["segments"] == 17)
        board.write("arm", b"x\n" if first else b"y\n")
        board.stop()
    for channel in ("arm", "leg"):
        assert (board.payloads(channel), board.gaps(channel)) == ([b"x", b"y"], [])


def arm_on_its_own_medium(board: Board, ext4: Mount) -> Path:
    """Start a recorder with arm on a medium of 16 MiB, with all its segments, and leg on another medium."""
    at = board.directory / "arm"
    ext4(at, 16)
    board.channel("arm", retain="4MiB")
    board.channel("leg")
    board.start()
    wait_for(lambda: board.stats("arm")["segments"] == 17)
    return at


def shut_down_marks_leg(board: Board, seconds: float) -> None:
    """Send SIGTERM: leg gets its clean-shutdown marker, although arm's medium hangs."""
    assert board.process
    board.process.terminate()
    wait_for((board.directory / "leg" / "stopped").exists, seconds)


def leg_continues(board: Board) -> None:
    """After the next start leg has its records from before and after, without a gap."""
    board.start()
    board.write("leg", b"y\n")
    board.stop()
    assert (board.payloads("leg"), board.gaps("leg")) == ([b"x", b"y"], [])


def test_a_shutdown_while_the_medium_of_an_idle_channel_hangs_marks_the_others(
    board: Board, ext4: Mount
) -> None:
    """Its marker cannot be written. The markers of channels that follow it in the alphabet are."""
    at = arm_on_its_own_medium(board, ext4)
    board.write("leg", b"x\n")
    with frozen(at):
        shut_down_marks_leg(board, 3)
    assert board.process
    board.process.wait(10)
    leg_continues(board)


def test_a_medium_that_is_read_only_at_the_start_is_not_changed(board: Board, ext4: Mount) -> None:
    at = arm_on_its_own_medium(board, ext4)
    board.write("arm", b"before\n")
    # without a marker, so that the start would have nothing to write but for recording
    board.kill()
    subprocess.run(["mount", "-o", "remount,ro", str(at)], check=True)
    board.start()
    refused = RawWriter(board.socket, "arm").refused
    assert refused
    assert refused[0] == errno.EROFS
    board.write("leg", b"x\n")
    subprocess.run(["mount", "-o", "remount,rw", str(at)], check=True)
    # with its existing segments; no others were created
    assert board.wait_state("arm", "recording")["segments"] == 17
    board.write("arm", b"after\n")
    board.stop()
    assert len(list(at.glob("*.seg"))) == 17
    assert board.payloads("arm") == [b"before", b"after"]


def test_records_before_a_connection_reset_are_recorded(pair: Board) -> None:
    """A client that closes with an unread answer resets the connection. That loses none of its records."""
    assert pair.process
    with pair.writer("arm") as writer:
        writer.socket.send(struct.pack("<IiQQ", SYNC, 0, 7, 0))
        assert select.select([writer.socket], [], [], 10)[0]
        pair.pause()
        for n in range(10):
            writer.submit(b"%d" % n)
    pair.process.send_signal(signal.SIGCONT)
    wait_for(lambda: pair.stats("arm")["durable"] == 10)
    assert pair.payloads("arm") == [b"%d" % n for n in range(10)]


def test_a_shutdown_while_a_medium_hangs_marks_the_others(board: Board, ext4: Mount) -> None:
    at = arm_on_its_own_medium(board, ext4)
    board.write("leg", b"x\n")
    with board.writer("arm") as arm:
        arm.submit(b"hangs")
        with frozen(at):
            arm.submit(b"too")
            time.sleep(0.5)
            shut_down_marks_leg(board, 5)
        assert board.process
        board.process.wait(10)
    leg_continues(board)


def test_a_medium_that_became_read_only(board: Board, ext4: Mount) -> None:
    at = board.directory / "arm"
    ext4(at, 16)
    board.channel("arm", retain="4MiB")
    board.channel("leg")
    board.start()
    board.wait_state("arm", "recording")
    with board.writer("arm") as arm, board.writer("leg") as leg:
        arm.submit(b"before")
        assert arm.sync() == 0
        # as ext4 does when it detects an error
        done = subprocess.run(
            ["mount", "-o", "remount,abort", str(at)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"aborting a file system does not work here: {done.stderr}")
        arm.submit(b"lost")
        assert arm.sync() == errno.EIO
        leg.submit(b"leg")
        assert leg.sync() == 0
        stats = board.wait_state("arm", "failed")
        assert "writing segment" in stats["reason"]
        assert stats["lost"]["failed"] == 1
        assert stats["errors"] >= 2
        refused = RawWriter(board.socket, "arm").refused
        assert refused
        assert refused[0] in (errno.EROFS, errno.EIO)
    assert board.process
    board.process.terminate()
    assert board.process.wait(10) == 0
    assert board.payloads("leg") == [b"leg"]
    assert FAILED not in [reason for reason, _ in board.gaps("leg")]


@pytest.mark.parametrize("syncs", [True, False])
def test_a_thinly_provisioned_medium_that_is_full(board: Board, ext4: Mount, syncs: bool) -> None:
    """The file system has allocated blocks that the device below it cannot store: writes fail until it has space.

    A writer that syncs learns of the loss from the sync, any other writer when the recorder shuts down.
    """
    pool = board.top / "pool"
    pool.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12M", "tmpfs", str(pool)], check=True)
    at = board.directory / "arm"
    at.mkdir()
    try:
        image = pool / "image"
        with image.open("wb") as f:
            f.truncate(8 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", str(image)], check=True)
        subprocess.run(["mount", "-o", "loop,noatime", str(image), str(at)], check=True)
        try:
            fails_and_recovers(board, image, pool, syncs)
        finally:
            board.kill()
            unmount(at)
    finally:
        unmount(pool)


def fails_and_recovers(board: Board, image: Path, pool: Path, syncs: bool) -> None:
    board.channel("arm", retain="2MiB")
    board.start()
    board.wait_state("arm", "recording")
    wait_for(lambda: board.stats("arm")["segments"] == 9)
    with board.writer("arm") as arm:
        arm.submit(b"before")
        assert arm.sync() == 0
        subprocess.run(["sync"], check=True)
        # deallocate the storage below all segments that were not used yet
        for seg in sorted((board.directory / "arm").glob("*.seg"))[1:]:
            out = subprocess.run(
                ["filefrag", "-v", "-b4096", str(seg)], capture_output=True, text=True, check=True
            )
            for line in out.stdout.splitlines():
                part = line.replace("..", " ").replace(":", " ").split()
                if part and part[0].isdigit() and len(part) > 5:
                    subprocess.run(
                        [
                            "fallocate",
                            "--punch-hole",
                            "-o",
                            str(int(part[3]) * 4096),
                            "-l",
                            str(int(part[5]) * 4096),
                            str(image),
                        ],
                        check=True,
                    )
        # use up the rest of the pool
        with (pool / "other").open("wb", buffering=0) as f, contextlib.suppress(OSError):
            while True:
                f.write(bytes(65536))
        payload = b"x" * 1000
        for _ in range(400):
            arm.submit(payload)
            time.sleep(0.001)
        stats = board.wait_state("arm", "failed")
        assert stats["lost"]["failed"] > 0
        (pool / "other").unlink()
        board.wait_state("arm", "recording")
        arm.submit(b"after")
        if syncs:
            assert arm.sync() == errno.EIO
        else:
            wait_for(lambda: board.stats("arm")["backlog"] == 0)
            assert board.process
            board.process.terminate()
            code, message = arm.reason_for_close()
            assert code == errno.EIO, message
    board.stop()
    records = board.records("arm")
    assert_contiguous(records)
    assert FAILED in [reason for reason, _ in board.gaps("arm")]
    assert len(board.payloads("arm")) + sum(count for _, count in board.gaps("arm")) == 402
    assert records[-1].payload == b"after"
