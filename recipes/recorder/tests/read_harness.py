# SPDX-License-Identifier: Apache-2.0
"""Helpers for the tests of the reading commands: recordings written without the recorder.

The environment variable EK_BUILD names the build directory. Recordings are on its disk, because a tmpfs has no
direct I/O.
"""

from __future__ import annotations

import json
import struct
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from board import BLOCK, RECORDER

START = 1_790_000_000_000_000_000  # 2026-09-21T14:13:20Z
STEP = 5_000_000
ACQUIRED = 1000  # ns from the acquisition of a record to its submission
CHANNEL_ID = b"channel id"

_TABLE = []
for _i in range(256):
    for _ in range(8):
        _i = _i >> 1 ^ (0x82F63B78 if _i & 1 else 0)
    _TABLE.append(_i)


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


@dataclass
class Recording:
    """Writes a channel's directory: a second implementation of format.h, independent of the recorder's."""

    path: Path
    segments: int = 4
    size: int = 16 * BLOCK
    record_size: int = 1000
    generation: int = 0
    batch: int = 0
    sequence: int = 0
    monotonic: int = 1_000_000_000
    realtime: int = START
    boot: bytes = b"boot id"
    offset: int = BLOCK
    version: int = 2
    open: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True)
        for index in range(self.segments):
            (self.path / f"{index:08}.seg").write_bytes(
                self._head(index, 0) + bytes(self.size - BLOCK),
            )

    def _head(self, index: int, generation: int) -> bytes:
        def head(crc: int) -> bytes:
            return struct.pack(
                "<QII16s40sQQQIIQQ16sqQ",
                0x31474553524B45,
                self.version,
                crc,
                CHANNEL_ID,
                self.path.name.encode(),
                generation,
                self.sequence if generation else 0,
                self.size,
                index,
                self.record_size,
                STEP,
                200_000_000,
                self.boot,
                self.realtime,
                self.monotonic,
            ).ljust(BLOCK, b"\0")

        return head(crc32c(head(0)))

    @property
    def segment(self) -> Path:
        """Path of the segment in use."""
        return self.path / f"{(self.generation - 1) % self.segments:08}.seg"

    def poke(self, offset: int, data: bytes, segment: Path | None = None) -> None:
        with (segment or self.segment).open("r+b") as f:
            f.seek(offset)
            f.write(data)

    def use(self) -> None:
        """Start the next use: that of the next segment in turn."""
        self.generation += 1
        self.batch, self.offset = 0, BLOCK
        self.poke(0, self._head((self.generation - 1) % self.segments, self.generation))

    def _add(self, payload: bytes, flags: int, sequence: int) -> None:
        def head(crc: int) -> bytes:
            return struct.pack(
                "<IIIIQQQqQQ",
                0x52524B45,
                crc,
                len(payload),
                flags,
                self.generation,
                sequence,
                self.monotonic,
                self.realtime,
                self.monotonic - ACQUIRED,
                self.batch,
            )

        seed = CHANNEL_ID.ljust(16, b"\0") + struct.pack("<I", (self.generation - 1) % self.segments)
        self.open += head(crc32c(seed + head(0) + payload)) + payload
        self.open += bytes(-len(self.open) % 8)
        self.monotonic += STEP
        self.realtime += STEP

    def add(self, payload: bytes) -> None:
        self._add(payload, 0, self.sequence)
        self.sequence += 1

    def gap(self, reason: int, lost: int) -> None:
        self.sequence += lost or 1
        self._add(struct.pack("<II", reason, lost), 1, self.sequence - 1)

    def flush(self) -> None:
        """Write everything added so far as one batch."""
        batch = bytes(self.open) + bytes(-len(self.open) % BLOCK)
        self.poke(self.offset, batch)
        self.offset += len(batch)
        self.batch += 1
        self.open.clear()

    def batch_of(self, *payloads: bytes) -> None:
        for payload in payloads:
            self.add(payload)
        self.flush()


def run(*args: str | Path, limit: float = 60) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([RECORDER, *map(str, args)], capture_output=True, timeout=limit, check=False)


def run_json(*args: str | Path, status: int) -> dict[str, Any]:
    """Run a command with --json, check its exit status, and return the object that it prints."""
    out = run(*args, "--json")
    assert (out.returncode, out.stderr) == (status, b"")
    result: dict[str, Any] = json.loads(out.stdout)
    return result
