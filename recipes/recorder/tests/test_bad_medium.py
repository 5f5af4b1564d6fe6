# SPDX-License-Identifier: Apache-2.0
"""What becomes of segments, directories and media under a recorder, as the README's table of bad input has it."""

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
    complete,
    cpu_ticks,
    frozen,
    unmount,
    wait_for,
)

Mount = Callable[[Path, int], None]


def test_segments_that_go_under_a_running_recorder_are_made_anew(board: Board) -> None:
    directories = {
        name: board.directory / name for name in ("removed", "with-directory", "cut-short", "idle")
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
                if name == "cut-short":
                    os.truncate(seg, 20000)
                else:
                    seg.unlink()
        (directories["with-directory"] / "started").unlink()
        directories["with-directory"].rmdir()
        wait_for(lambda: board.log.read_text().count("5 segments were removed or cut short") == 4, 12)
        for writer in writers.values():
            writer.submit(b"after")
            assert writer.sync() == 0

        # as long as they are missing it has the reason
        def whole() -> bool:
            stats = [board.stats(name) for name in directories]
            return all((s["segments"], s["state"], s["reason"]) == (5, "recording", "") for s in stats)

        time.sleep(1.1)
        wait_for(whole)
    board.stop()
    for name, directory in directories.items():
        assert len([seg for seg in directory.glob("*.seg") if seg.stat().st_size == 256 << 10]) == 5
        assert board.payloads(name) == (
            [] if name == "idle" else [b"before", b"after"] if name == "cut-short" else [b"after"]
        )
    board.start()
    for name in directories:
        with board.writer(name) as writer:
            assert writer.sequence == (0 if name == "idle" else 2)
    board.stop()
    assert all(board.gaps(name) == [] for name in directories)


def test_a_directory_that_is_removed_for_longer_is_made_anew(board: Board) -> None:
    """With the one above it: it cannot be made anew before that is back."""
    board.channel("arm")
    board.start()
    wait_for(lambda: board.stats("arm")["segments"] == 5)
    shutil.rmtree(board.directory)
    reason = board.wait_state("arm", "failed")["reason"]
    board.directory.mkdir()
    wait_for(lambda: board.stats("arm")["segments"] == 5, 12)
    assert f"opening {board.directory}: No such file" in reason
    board.write("arm", b"x\n")
    board.stop()
    assert board.payloads("arm") == [b"x"]
    board.start()
    board.stop()
    assert board.gaps("arm") == []


def contents(directory: Path) -> dict[str, bytes]:
    return {f.name: f.read_bytes() for f in directory.iterdir()}


def test_what_is_moved_away_is_not_recorded_over(board: Board) -> None:
    """To keep it: a directory, another of which a copy or something else takes the place, or a segment."""
    names = ("moved", "copied", "replaced", "renamed")
    directories = {name: board.directory / name for name in names}
    saved = {name: board.top / name for name in names}
    for name in names:
        board.channel(name)
    # a recording of another channel of that name
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
        said = "another recording lies in its directory now"
        wait_for(lambda: said in board.stats("replaced")["reason"], 12)
        goes_on = ("moved", "copied", "renamed")

        def whole() -> bool:
            stats = [board.stats(name) for name in goes_on]
            return all((s["segments"], s["reason"]) == (5, "") for s in stats)

        wait_for(whole)
        for name in goes_on:
            writers[name].submit(b"after")
            assert writers[name].sync() == 0
        assert contents(directories["replaced"]) == theirs
        # and when that is taken away, it goes on
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


def test_a_medium_that_is_mounted_again_is_gone_on_with(board: Board, ext4: Mount) -> None:
    """It is free as soon as the recorder has seen that it is unmounted; meanwhile nothing else is written to."""
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


def test_a_bad_recorder_conf_is_one_line(board: Board) -> None:
    board.configure(priority="high")
    out = subprocess.run(
        [RECORDER, "run", "--config", str(board.conf)], capture_output=True, text=True, check=False
    )
    assert out.returncode == 2
    assert "recorder.conf: priority = high: not a whole number" in out.stderr
    assert out.stderr.count("\n") == 1


def test_two_recorders(board: Board) -> None:
    board.channel("arm")
    board.start()
    out = subprocess.run(
        [RECORDER, "run", "--config", str(board.conf)], capture_output=True, text=True, check=False
    )
    assert out.returncode == 1
    assert "a recorder listens at" in out.stderr
    # with a socket of its own it still finds the channel locked
    out = subprocess.run(
        [RECORDER, "init", "--config", str(board.conf)], capture_output=True, text=True, check=False
    )
    assert out.returncode == 1
    assert "another recorder has it" in out.stderr
    board.write("arm", b"x\n")


@pytest.mark.parametrize("damage", ["head", "head and records"])
@pytest.mark.parametrize("killed", [False, True])
def test_a_damaged_newest_head_makes_no_old_records_new(board: Board, damage: str, killed: bool) -> None:
    """Its generation is not given to another segment again, in which the batches of that one would count."""
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
    # no number is given twice where the records that had them are there
    if damage == "head" or not killed:
        assert records[0].sequence >= 150
    assert [r.sequence for r in records] == sorted(r.sequence for r in records)


def test_orderly_stops_beside_a_segment_that_tells_nothing_are_orderly(board: Board) -> None:
    """It may have been used since: the next use gets a greater generation, but the segment in use keeps its own."""
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
    assert "not stopped in order" not in board.log.read_text()


def start_without_privilege(board: Board) -> None:
    """As root, to whom files of others are closed: the folders above may be closed to anyone else."""
    if os.geteuid() != 0:
        pytest.skip("files of another user need root")
    caps = "-dac_override,-dac_read_search"
    board.start("setpriv", f"--bounding-set={caps}", f"--inh-caps={caps}")


def use_segments(board: Board, count: int) -> list[Path]:
    """Of arm, in the order in which they were used."""
    with board.writer("arm") as writer:
        for _ in range(200 * count):
            writer.submit(bytes(1000))
        assert writer.sync() == 0

    def generation(f: Path) -> int:
        return int(struct.unpack_from("<Q", f.read_bytes(), 72)[0])

    used = {f: generation(f) for f in (board.directory / "arm").glob("*.seg")}
    return sorted((f for f in used if used[f]), key=lambda f: used[f])


def test_segments_that_cannot_be_opened_keep_their_use_and_their_place(board: Board) -> None:
    """As of a copy that somebody else has put back, after a crash; when they can be opened again, all is there."""
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
        "2 segments are there, but not used, and none takes their place: "
        f"opening segment {used[-2].name}: Permission denied"
    )
    # one that goes is made anew, and the reason stays
    (set((board.directory / "arm").glob("*.seg")) - set(used)).pop().unlink()
    wait_for(lambda: "removed or cut short" in board.log.read_text(), 12)
    wait_for(lambda: board.stats("arm")["segments"] == 3)
    wait_for(lambda: board.stats("arm")["reason"] == stats["reason"])
    board.write("arm", b"new\n")
    board.stop()
    files = list((board.directory / "arm").glob("*.seg"))
    assert len(files) == 5
    heads = [struct.unpack_from("<Q", f.read_bytes(), 72)[0] for f in files]
    assert sorted(heads)[-1] > newest
    assert len({g for g in heads if g}) == len([g for g in heads if g])
    # none can be opened: nothing is made beside them
    for f in files:
        os.chown(f, 65534, 65534)
        f.chmod(0o400)
    start_without_privilege(board)
    assert "5 of its segments are there, but opening" in board.wait_state("arm", "failed")["reason"]
    for f in files:
        f.chmod(0o666)
    board.wait_state("arm", "recording")
    board.stop()
    assert sorted((board.directory / "arm").glob("*.seg")) == sorted(files)
    assert board.payloads("arm")[-1] == b"new"


def test_a_start_without_enough_descriptors_leaves_the_recording_as_it_is(board: Board) -> None:
    board.channel("arm", retain="4MiB", segment="132KiB")
    board.start()
    wait_for(lambda: board.stats("arm")["segments"] == 33)
    use_segments(board, 3)
    board.stop()
    before = contents(board.directory / "arm")
    # for all of them to be read, and not for all to be written
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


def test_a_missing_directory_is_waited_for(board: Board) -> None:
    board.channel("arm")
    board.directory.rmdir()
    board.start()
    refused = RawWriter(board.socket, "arm").refused
    assert refused
    # that would be a channel that there is not
    assert refused[0] == errno.ENODEV
    assert f"opening {board.directory}: No such file" in refused[1]
    board.directory.mkdir()
    board.wait_state("arm", "recording")
    board.write("arm", b"x\n")
    board.stop()
    assert board.payloads("arm") == [b"x"]


def test_a_directory_that_another_has_is_no_other_writer(board: Board) -> None:
    directory = board.directory / "arm"
    directory.mkdir()
    board.channel("arm")
    fd = os.open(directory, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    board.start()
    refused = RawWriter(board.socket, "arm").refused
    os.close(fd)
    assert refused
    assert refused[0] == errno.EIO
    assert "another recorder has it" in refused[1]


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
    # arm comes first and gets what it needs; leg gets less than it needs; toe gets nothing
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
    # nothing half-made stays
    assert not list(board.directory.glob("*/*.new"))
    board.stop()


def test_an_orderly_stop_needs_no_room(board: Board, ext4: Mount) -> None:
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
    assert "orderly stop" not in board.log.read_text()


def test_a_medium_that_hangs_holds_up_its_channel_only(board: Board, ext4: Mount) -> None:
    ext4(board.directory / "arm", 16)
    board.channel("arm", buffer="256KiB", writeout="64KiB", retain="4MiB")
    board.channel("leg")
    board.start()
    board.wait_state("arm", "recording")
    wait_for(lambda: board.stats("arm")["segments"] == 17)
    with board.writer("arm") as arm, board.writer("leg") as leg:
        arm.submit(b"before")
        assert arm.sync() == 0
        subprocess.run(["fsfreeze", "-f", str(board.directory / "arm")], check=True)
        submitted = [arm.submit_or_lose(b"x" * 1000) for _ in range(2000)]
        lost = submitted.count(False)
        assert lost > 100
        for n in range(20):
            leg.submit(b"%d" % n)
            began = time.monotonic()
            assert leg.sync() == 0
            assert time.monotonic() - began < 2
        subprocess.run(["fsfreeze", "-u", str(board.directory / "arm")], check=True)
        wait_for(lambda: board.stats("arm")["backlog"] < 70_000)
        arm.submit(b"after")
        # it is told that something is missing, and why
        assert arm.sync() == errno.ENOBUFS
        arm.submit(b"and on")
        assert arm.sync() == 0
    board.stop()
    records = board.records("arm")
    complete(records)
    gaps = board.gaps("arm")
    assert [reason for reason, _ in gaps] == [OVERRUN] * len(gaps)
    assert sum(count for _, count in gaps) == lost
    assert len(board.payloads("arm")) == 2003 - lost
    assert records[-1].payload == b"and on"
    assert board.payloads("leg") == [b"%d" % n for n in range(20)]


@contextlib.contextmanager
def notified(path: Path) -> Iterator[list[str]]:
    """A service manager: what it is told, as it comes."""
    said: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(str(path))

        def listen() -> None:
            while message := s.recv(4096):
                said.append(message.decode())

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield said
        finally:
            s.sendto(b"", str(path))
            thread.join()


def test_a_medium_that_hangs_is_told_and_does_not_restart_the_recorder(board: Board, ext4: Mount) -> None:
    """Its channel is failed as long as it lasts; the watchdog is fed, the others record."""
    at = board.directory / "arm"
    ext4(at, 16)
    board.channel("arm", retain="4MiB")
    board.channel("leg")
    with notified(board.top / "notify") as said:
        board.start(env={**os.environ, "NOTIFY_SOCKET": str(board.top / "notify")})
        wait_for(lambda: board.stats("arm")["segments"] == 17)
        with board.writer("arm") as arm:
            subprocess.run(["fsfreeze", "-f", str(at)], check=True)
            arm.submit(b"hangs")
            hung = board.wait_state("arm", "failed")
            assert hung["reason"].endswith("does not end: the medium hangs")
            refused = RawWriter(board.socket, "arm").refused
            assert refused
            assert refused[0] == errno.ETIMEDOUT
            said.clear()
            wait_for(lambda: said.count("WATCHDOG=1") >= 2, 5)
            assert any("the medium hangs" in message for message in said)
            board.write("leg", b"x\n")
            subprocess.run(["fsfreeze", "-u", str(at)], check=True)
            board.wait_state("arm", "recording")
            assert arm.sync() == 0
        board.stop()
    log = board.log.read_text()
    assert log.count("the medium hangs") == 1
    assert "the medium answers again" in log
    assert (board.payloads("arm"), board.payloads("leg")) == ([b"hangs"], [b"x"])


def test_a_writer_that_can_wait_waits_for_room(board: Board, ext4: Mount) -> None:
    """More than buffer and socket hold comes down a pipe while the medium takes nothing: it is late, and all there."""
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
    assert board.stats("arm")["lost"] == {"overrun": 0, "failed": 0, "writer": 0, "restart": 0}
    board.stop()
    assert b"".join(board.payloads("arm")) == data * 2
    assert board.gaps("arm") == []


def fill_ring(writer: RawWriter) -> int:
    for n in range(writer.slots):
        place = 4096 + n * writer.stride
        head = struct.pack("<2I2Qq", 1000, 0, writer.sequence + n, time.monotonic_ns(), 0)
        writer.ring[place : place + 1032] = head + b"x" * 1000
        writer.ring[64:72] = struct.pack("<Q", n + 1)
    return writer.slots


def fill_socket(writer: RawWriter, patience: float = 2) -> int:
    """Until the recorder has not read for so long that it has no room."""
    n = 0
    while select.select([], [writer.socket], [], patience)[1]:
        writer.submit(b"x" * 1000)
        n += 1
    return n


@pytest.mark.parametrize("way", [1, 2])
def test_what_a_writer_has_left_waits_for_room_too(board: Board, ext4: Mount, way: int) -> None:
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
        # it has gone, and the channel is its own until all is taken: who comes next waits, as for one that opens
        waiting = subprocess.Popen(
            [RECORDER, "write", "--socket", str(board.socket), "arm"], stdin=subprocess.PIPE
        )
        # nor is the connection that was closed looked at all the time
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
def test_who_waits_too_long_for_what_another_has_left_is_told(board: Board, ext4: Mount, way: int) -> None:
    at = board.directory / "arm"
    ext4(at, 16)
    board.channel("arm", buffer="192KiB", writeout="64KiB", retain="4MiB")
    board.start()
    wait_for(lambda: board.stats("arm")["segments"] == 17)
    # a medium that hangs for 10 s is a reason of its own
    with board.writer("arm", way=way) as writer, frozen(at):
        fill_ring(writer) if way == 2 else fill_socket(writer, 0.3)
        second = RawWriter(board.socket, "arm").refused
        assert second == (errno.EBUSY, f"channel arm: process {os.getpid()} is its writer")
        writer.close()
        refused = RawWriter(board.socket, "arm").refused
        said = f"channel arm: the medium has not yet taken what process {os.getpid()} has left"
        assert refused == (errno.EAGAIN, said)


@pytest.mark.parametrize("way", [1, 2])
def test_a_stop_while_the_medium_is_behind_takes_what_was_submitted(
    board: Board, ext4: Mount, way: int
) -> None:
    """More than the buffer holds; leg, which has its medium, waits for nothing."""
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
                # from when it is shut nothing is taken: a writer that goes on holds up no stop
                wait_for(lambda: struct.unpack_from("<I", arm.ring, 136)[0] == errno.ESHUTDOWN, 5)
                arm.ring[64:72] = struct.pack("<Q", left + 10)
            wait_for(lambda: board.payloads("leg") == [b"leg"], 1)
            # still within what a medium that takes nothing is waited for
            time.sleep(0.5)
            assert board.process.poll() is None
        assert board.process.wait(10) == 0
        for writer in (arm, leg):
            code, words = writer.last_words()
            assert code == errno.ESHUTDOWN
            assert words.endswith("the recorder was stopped, with all that was submitted")
    assert len(board.payloads("arm")) == left
    board.start()
    board.stop()
    assert board.gaps("arm") == board.gaps("leg") == []


def written_bytes(process: subprocess.Popen[bytes]) -> int:
    """What it has given to media so far."""
    found = re.search(r"^write_bytes: (\d+)$", Path(f"/proc/{process.pid}/io").read_text(), re.MULTILINE)
    assert found
    return int(found[1])


def test_a_stop_goes_on_as_long_as_a_slow_medium_takes_something(board: Board, ext4: Mount) -> None:
    """A card that hangs again and again, each time for less than it is waited for, and takes some in between."""
    at = board.directory / "arm"
    ext4(at, 96)
    sizes = {
        "record_size": "64KiB",
        "writeout": "2MiB",
        "buffer": "32MiB",
        "retain": "48MiB",
        "segment": "8MiB",
    }
    board.channel("arm", **sizes)
    board.start()
    assert board.process
    wait_for(lambda: board.stats("arm")["segments"] == 7)
    data = os.urandom(24 << 20)
    with frozen(at):
        board.write("arm", data, "--ring", "--no-sync", "--size", "65536")
        wait_for(lambda: board.stats("arm")["backlog"] > 24 << 20)
        began = time.monotonic()
        board.process.terminate()
        for _ in range(3):
            time.sleep(0.7)
            before = written_bytes(board.process)
            subprocess.run(["fsfreeze", "-u", str(at)], check=True)
            # looked at without a pause: in 20 ms a fast machine takes all that there is
            limit = time.monotonic() + 2
            while written_bytes(board.process) <= before:
                assert time.monotonic() < limit, "the medium works again and takes nothing"
            # returns when what is under way has ended
            subprocess.run(["fsfreeze", "-f", str(at)], check=True)
        # one that takes nothing is waited for 1.5 s
        assert time.monotonic() - began > 2
    assert board.process.wait(10) == 0
    assert b"".join(board.payloads("arm")) == data
    board.start()
    board.stop()
    assert board.gaps("arm") == []


def test_a_stop_does_not_wait_for_a_medium_that_takes_nothing(board: Board, ext4: Mount) -> None:
    """What finds no room is lost, its writer is told so, and so is a reader."""
    at = board.directory / "arm"
    ext4(at, 16)
    board.channel("arm", buffer="192KiB", writeout="64KiB", retain="4MiB")
    board.channel("leg")
    board.start()
    assert board.process
    wait_for(lambda: board.stats("arm")["segments"] == 17)
    # else what hangs is the head of the first segment, and the end of the process may come ahead of its records
    board.write("arm", b"before\n")
    with board.writer("arm", way=2) as arm, board.writer("leg") as leg:
        leg.submit(b"leg")
        with frozen(at):
            left = fill_ring(arm)
            wait_for(lambda: board.stats("arm")["backlog"] > 150_000)
            began = time.monotonic()
            board.process.terminate()
            assert leg.last_words()[0] == errno.ESHUTDOWN
            code, words = arm.last_words()
            assert code == errno.EIO
            assert "stopped before the medium had all" in words
            assert 1 < time.monotonic() - began < 4
        board.process.wait(10)
    assert 1 < len(board.payloads("arm")) < left
    board.start()
    board.stop()
    assert board.gaps("arm") == [(RESTART, 0)]
    assert board.gaps("leg") == []


def test_a_medium_that_hangs_at_the_start_holds_up_its_channels_only(board: Board, ext4: Mount) -> None:
    """It is found, it is opened or it gets its segments: whatever arm's thread hangs in, leg is served at once."""
    at = board.directory / "arm"
    ext4(at, 16)
    board.channel("arm", retain="4MiB")
    board.channel("leg")
    # before there is a segment, and then while the mark of an orderly stop is taken away
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
    """A recorder with channel arm, all of whose segments are made, on a medium of 16 MiB, and leg on another."""
    at = board.directory / "arm"
    ext4(at, 16)
    board.channel("arm", retain="4MiB")
    board.channel("leg")
    board.start()
    wait_for(lambda: board.stats("arm")["segments"] == 17)
    return at


def stop_marks_leg(board: Board, seconds: float) -> None:
    """Told to stop, the recorder notes for leg that it did, though arm's medium hangs."""
    assert board.process
    board.process.terminate()
    wait_for((board.directory / "leg" / "stopped").exists, seconds)


def leg_goes_on(board: Board) -> None:
    """After the next start leg has what was written before and after it, without a gap."""
    board.start()
    board.write("leg", b"y\n")
    board.stop()
    assert (board.payloads("leg"), board.gaps("leg")) == ([b"x", b"y"], [])


def test_a_stop_while_the_medium_of_an_idle_channel_hangs_marks_the_others(board: Board, ext4: Mount) -> None:
    """Its mark cannot be written; that of those behind it in the alphabet is."""
    at = arm_on_its_own_medium(board, ext4)
    board.write("leg", b"x\n")
    with frozen(at):
        stop_marks_leg(board, 3)
    assert board.process
    board.process.wait(10)
    leg_goes_on(board)


def test_a_medium_that_is_read_only_at_the_start_is_left_as_it_is(board: Board, ext4: Mount) -> None:
    at = arm_on_its_own_medium(board, ext4)
    board.write("arm", b"before\n")
    # without a mark: nothing else would have to be written at the start
    board.kill()
    subprocess.run(["mount", "-o", "remount,ro", str(at)], check=True)
    board.start()
    refused = RawWriter(board.socket, "arm").refused
    assert refused
    assert refused[0] == errno.EROFS
    board.write("leg", b"x\n")
    subprocess.run(["mount", "-o", "remount,rw", str(at)], check=True)
    # with its own segments, and not with as many again
    assert board.wait_state("arm", "recording")["segments"] == 17
    board.write("arm", b"after\n")
    board.stop()
    assert len(list(at.glob("*.seg"))) == 17
    assert board.payloads("arm") == [b"before", b"after"]


def test_what_a_client_sent_before_it_was_closed_unread_is_recorded(pair: Board) -> None:
    """It does not read an answer and closes: that resets the connection, and costs none of its records."""
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


def test_a_stop_while_a_medium_hangs_marks_the_others(board: Board, ext4: Mount) -> None:
    at = arm_on_its_own_medium(board, ext4)
    board.write("leg", b"x\n")
    with board.writer("arm") as arm:
        arm.submit(b"hangs")
        with frozen(at):
            arm.submit(b"too")
            time.sleep(0.5)
            stop_marks_leg(board, 5)
        assert board.process
        board.process.wait(10)
    leg_goes_on(board)


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
        # what ext4 does to itself when it finds an error
        done = subprocess.run(
            ["mount", "-o", "remount,abort", str(at)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"cannot abort a file system here: {done.stderr}")
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


@pytest.mark.parametrize("asks", [True, False])
def test_a_medium_that_fills_up_from_below(board: Board, ext4: Mount, asks: bool) -> None:
    """Writes into blocks that the file system has, but the medium below it has not: they fail until there is room.

    Who asks is told; who never asked is told by an orderly stop.
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
            fails_and_recovers(board, image, pool, asks)
        finally:
            board.kill()
            unmount(at)
    finally:
        unmount(pool)


def fails_and_recovers(board: Board, image: Path, pool: Path, asks: bool) -> None:
    board.channel("arm", retain="2MiB")
    board.start()
    board.wait_state("arm", "recording")
    wait_for(lambda: board.stats("arm")["segments"] == 9)
    with board.writer("arm") as arm:
        arm.submit(b"before")
        assert arm.sync() == 0
        subprocess.run(["sync"], check=True)
        # the blocks of all segments that have not been used yet lose what is below them
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
        # and the rest of the pool is taken
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
        if asks:
            assert arm.sync() == errno.EIO
        else:
            wait_for(lambda: board.stats("arm")["backlog"] == 0)
            assert board.process
            board.process.terminate()
            code, words = arm.last_words()
            assert code == errno.EIO, words
    board.stop()
    records = board.records("arm")
    complete(records)
    assert FAILED in [reason for reason, _ in board.gaps("arm")]
    assert len(board.payloads("arm")) + sum(count for _, count in board.gaps("arm")) == 402
    assert records[-1].payload == b"after"
