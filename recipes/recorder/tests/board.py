# SPDX-License-Identifier: Apache-2.0
"""A recorder under test: its configuration, its process, a writer that may misbehave, and a reader of the medium.

The environment variable EK_BUILD names the build directory. Recordings are on its disk, because a tmpfs has no direct I/O.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import itertools
import json
import mmap
import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BUILD = Path(os.environ.get("EK_BUILD", "."))
RECORDER = str(BUILD / "ek-recorder")
BLOCK = 4096
OPEN, OPENED, REFUSED, RECORD, SYNC = range(1, 6)
OVERRUN, RESTART, FAILED, WRITER, ABSENT = range(1, 6)


def wait_for(what: Callable[[], Any], limit: float = 20) -> Any:
    """Call `what` until its result is true, and return the result."""
    end = time.monotonic() + limit
    while not (result := what()):
        assert time.monotonic() < end, f"still not true after {limit} s"
        time.sleep(0.02)
    return result


def _freeze(at: Path, request: int) -> None:
    folder = os.open(at, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(folder, request, 0)
    finally:
        os.close(folder)


def freeze(at: Path) -> None:
    """Freeze the file system at `at`. Returns when the I/O in flight has completed. Raises OSError.

    The program fsfreeze takes so long to start that a fast disk writes 24 MB meanwhile.
    """
    _freeze(at, 0xC0045877)  # FIFREEZE, linux/fs.h


def thaw(at: Path) -> None:
    """The opposite of freeze(). Raises OSError if the file system is not frozen."""
    _freeze(at, 0xC0045878)  # FITHAW


@contextlib.contextmanager
def frozen(at: Path) -> Iterator[None]:
    """A medium that does not respond: writes to it block while the file system is frozen."""
    freeze(at)
    try:
        yield
    except BaseException:
        # the test may have thawed it already: report the first error, not this one
        with contextlib.suppress(OSError):
            thaw(at)
        raise
    thaw(at)


def cpu_ticks(process: subprocess.Popen[bytes]) -> int:
    # fields 14 and 15 of proc_pid_stat(5)
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@dataclass
class Record:
    sequence: int
    payload: bytes
    monotonic_ns: int
    realtime_ns: int
    acquired_ns: int
    gap: tuple[int, int] | None  # reason, count


def _segment(data: bytes, below: int | None) -> Iterator[Record]:
    """Yield the records of one use of a segment by the rules of format.h. The tests in C check CRCs."""
    (generation,) = struct.unpack_from("<Q", data, 72)
    at, batch = BLOCK, 0
    while at + 64 <= len(data):
        magic, _crc, length, flags, gen, sequence, mono, real, acquired, number = struct.unpack_from(
            "<4I3Qq2Q", data, at
        )
        valid = magic == 0x52524B45 and gen == generation
        if valid and number == batch:
            if below is None or sequence < below:
                payload = data[at + 64 : at + 64 + length]
                gap = struct.unpack("<2I", payload) if flags & 1 else None
                yield Record(sequence, payload, mono, real, acquired, gap)
            at += (64 + length + 7) & ~7
        elif at % BLOCK:
            at = (at + BLOCK - 1) // BLOCK * BLOCK
        elif valid and number == batch + 1:
            batch += 1
        else:
            return


def recording(directory: Path) -> list[Record]:
    """Return all records of a channel in order."""
    uses = []
    for path in directory.glob("*.seg"):
        data = path.read_bytes()
        generation, first = struct.unpack_from("<2Q", data, 72)
        if generation:
            uses.append((generation, first, data))
    uses.sort(key=lambda use: use[0])
    # a use ends at the first sequence of the next use; the newest use has no such limit
    below = [first for _, first, _ in uses[1:]] + [None] if uses else []
    return [r for (_, _, data), end in zip(uses, below, strict=True) for r in _segment(data, end)]


def assert_contiguous(records: list[Record]) -> None:
    """Sequences grow by one, or by the number of lost records that a gap reports."""
    for before, r in itertools.pairwise(records):
        assert r.sequence - before.sequence == ((r.gap[1] or 1) if r.gap else 1), (before.sequence, r)


def unmount(at: Path) -> None:
    """Unmount, with retries: the kernel may release files a moment after the process has exited."""

    def unmounted() -> bool:
        return subprocess.run(["umount", str(at)], capture_output=True, check=False).returncode == 0

    wait_for(unmounted)


class RawWriter:
    """A writer that implements wire.h itself, so that it can also violate it."""

    def __init__(self, path: Path, channel: str, way: int = 1, version: int = 3, lost: int = 0) -> None:
        self.fds: list[int] = []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(10)
        self.socket.connect(str(path))
        # a recorder that has refused already may have said why
        with contextlib.suppress(BrokenPipeError):
            self.socket.send(struct.pack("<3I36sQ", OPEN, version, way, channel.encode(), lost))
        answer, control, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(12))
        self.refused = self._refusal(answer)
        if not self.refused:
            _, self.record_size, self.sequence, _, self.window, self.slots, self.stride = struct.unpack(
                "<2I3Q2I", answer
            )
        if control:
            self.fds = list(array.array("i", control[0][2]))
            self.memfd, state, self.bell = self.fds
            self.ring = mmap.mmap(self.memfd, 0)
            self.state = mmap.mmap(state, 0, prot=mmap.PROT_READ)

    @staticmethod
    def _refusal(message: bytes) -> tuple[int, str] | None:
        if len(message) < 8 or struct.unpack_from("<I", message)[0] != REFUSED:
            return None
        return struct.unpack_from("<i", message, 4)[0], message[16:].split(b"\0")[0].decode()

    def submit(
        self,
        payload: bytes,
        sequence: int | None = None,
        length: int | None = None,
        realtime: int = 0,
        acquired: int = 0,
        monotonic: int | None = None,
    ) -> None:
        if sequence is None:
            sequence, self.sequence = self.sequence, self.sequence + 1
        head = struct.pack(
            "<2I2QqQ",
            RECORD,
            len(payload) if length is None else length,
            sequence,
            time.monotonic_ns() if monotonic is None else monotonic,
            realtime,
            acquired,
        )
        self.socket.send(head + payload)

    def put(self, slot: int, payload: bytes) -> None:
        """Submit by ring as the library does, but without the doorbell. `slot`: number of the record, from 0."""
        at = 4096 + slot % self.slots * self.stride
        head = struct.pack("<2I2QqQ", len(payload), 0, self.sequence + slot, time.monotonic_ns(), 0, 0)
        self.ring[at : at + 40 + len(payload)] = head + payload
        self.fill(slot + 1)

    def fill(self, head: int) -> None:
        """Say that so many slots were filled."""
        self.ring[0:8] = struct.pack("<Q", head)

    def taken(self) -> int:
        """Number of slots that the recorder has taken."""
        return int(struct.unpack_from("<Q", self.state)[0])

    def closed(self) -> int:
        """0, or the errno with which the recorder has closed the ring."""
        return int(struct.unpack_from("<I", self.state, 8)[0])

    def submit_or_lose(self, payload: bytes) -> bool:
        """Submit without waiting, as the library does. Without space the record is lost, and its sequence is skipped."""
        self.socket.settimeout(0)
        try:
            self.submit(payload)
        except BlockingIOError:
            return False
        finally:
            self.socket.settimeout(10)
        return True

    def sync(self, sequence: int | None = None) -> int:
        """Wait until all records below `sequence` are on the medium. Returns 0, or the errno in the answer."""
        self.socket.send(struct.pack("<IiQQ", SYNC, 0, 7, self.sequence if sequence is None else sequence))
        answer = self.socket.recv(4096)
        kind, error, token, _ = struct.unpack("<IiQQ", answer)
        assert (kind, token) == (SYNC, 7)
        return int(error)

    def reason_for_close(self) -> tuple[int, str]:
        """Return errno and message that the recorder sends before it closes the connection."""
        reason = None
        while answer := self.socket.recv(4096):
            reason = self._refusal(answer) or reason
        assert reason
        return reason

    def close(self) -> None:
        self.socket.close()
        for fd in self.fds:
            os.close(fd)
        self.fds = []

    def __enter__(self) -> RawWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Board:
    """A configuration directory, and the recorder that uses it."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.directory = top / "recorder"
        self.directory.mkdir()
        self.conf = top / "conf"
        (self.conf / "channels.d").mkdir(parents=True)
        self.socket = top / "socket"
        self.log = top / "log"
        self.process: subprocess.Popen[bytes] | None = None
        self.configure()

    def configure(self, **more: str) -> None:
        keys = {
            "directory": self.directory,
            "mountpoint": "no",
            "socket": self.socket,
            "group": "",
            "statistics": self.top / "stats.json",
        }
        text = "".join(f"{key} = {value}\n" for key, value in {**keys, **more}.items())
        (self.conf / "recorder.conf").write_text(text)

    def channel(self, channel: str, **more: str) -> None:
        keys = {"record_size": "1000", "retain": "1MiB", "segment": "256KiB", "window": "100ms", **more}
        text = "".join(f"{key} = {value}\n" for key, value in keys.items())
        (self.conf / "channels.d" / f"{channel}.conf").write_text(text)

    def start(self, *prefix: str, ready: bool = True, **kwargs: Any) -> float:
        """Start the recorder; returns the seconds until it tried to open each channel (`ready`), or until it listens."""
        began = time.monotonic()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*prefix, RECORDER, "run", "--config", str(self.conf)], **{"stderr": log, **kwargs}
            )
        wait_for(lambda: self.listens() or self.process.poll() is not None)  # type: ignore[union-attr]
        assert self.process.poll() is None, self.log.read_text()
        if ready:
            wait_for(self.statistics)
        return time.monotonic() - began

    def statistics(self) -> dict[str, Any] | None:
        """Statistics of the running process; None: it has not written any yet, which it does once it is ready."""
        with contextlib.suppress(FileNotFoundError):
            stats: dict[str, Any] = json.loads((self.top / "stats.json").read_text())
            return stats if self.process and stats["pid"] == self.process.pid else None
        return None

    def listens(self) -> bool:
        with contextlib.suppress(OSError), RawWriter(self.socket, "no-such-channel"):
            return True
        return False

    def stop(self) -> float:
        """Shut down cleanly; returns how long that took, s."""
        assert self.process
        began = time.monotonic()
        self.process.terminate()
        assert self.process.wait(10) == 0, self.log.read_text()
        return time.monotonic() - began

    def pause(self) -> None:
        """Stop all threads until SIGCONT. Waits for each, because SIGSTOP takes effect some time after it was sent."""
        assert self.process
        self.process.send_signal(signal.SIGSTOP)
        tasks = Path(f"/proc/{self.process.pid}/task")
        # field 3 of proc_pid_stat(5)
        wait_for(
            lambda: all(
                (t / "stat").read_text().rpartition(")")[2].split()[0] == "T" for t in tasks.iterdir()
            )
        )

    def kill(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def stats(self, channel: str) -> dict[str, Any]:
        result: dict[str, Any] = wait_for(self.statistics)["channels"][channel]
        return result

    def wait_state(self, channel: str, state: str, limit: float = 20) -> dict[str, Any]:
        def in_state() -> dict[str, Any] | None:
            stats = self.stats(channel)
            return stats if stats["state"] == state else None

        result: dict[str, Any] = wait_for(in_state, limit)
        return result

    def writer(self, channel: str, way: int = 1, lost: int = 0) -> RawWriter:
        writer = RawWriter(self.socket, channel, way, lost=lost)
        assert not writer.refused, writer.refused
        return writer

    def write(self, channel: str, data: bytes, *options: str, status: int = 0) -> str:
        out = subprocess.run(
            [RECORDER, "write", "--socket", str(self.socket), *options, channel],
            input=data,
            capture_output=True,
            timeout=30,
            check=False,
        )
        assert out.returncode == status, out.stderr
        return out.stderr.decode()

    def records(self, channel: str) -> list[Record]:
        return recording(self.directory / channel)

    def payloads(self, channel: str) -> list[bytes]:
        return [r.payload for r in self.records(channel) if not r.gap]

    def gaps(self, channel: str) -> list[tuple[int, int]]:
        return [r.gap for r in self.records(channel) if r.gap]
