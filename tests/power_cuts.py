# SPDX-License-Identifier: Apache-2.0
"""Power cuts at any moment of a recorded run of a board, on a disk that loses what was not flushed.

QEMU writes down each write, discard and flush of a disk (vm.Options.log_writes), in the format of the kernel's
Documentation/admin-guide/device-mapper/log-writes.rst. From this log, Replay makes the disk as a power cut may have left
it. All that was written before the last flush is there. Each block that was written later has its old or its new
contents.
"""

from __future__ import annotations

import contextlib
import os
import random
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SECTOR = 512
MAGIC = 0x6A736677736872
FLUSH, FUA, DISCARD = 1, 2, 4
# A disk writes a block of this size whole or not at all.
BLOCK = 4096
# A discard that is larger than this, and was not flushed, leaves the old contents: it would take long to undo.
UNDO = 64 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """A write, discard or flush. Numbers of bytes; at: where its data is in the log; end: of the entry in the log."""

    flags: int
    offset: int
    length: int
    at: int
    end: int

    @property
    def is_flush(self) -> bool:
        return bool(self.flags & FLUSH)


def read_log(path: Path) -> list[Entry]:
    """The entries of a log. Raises ValueError if it is no log of writes. An entry that is not complete ends it."""
    found = []
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(28)
        if len(head) < 28 or struct.unpack("<Q", head[:8])[0] != MAGIC:
            raise ValueError(f"{path} is no log of writes")
        step = struct.unpack_from("<I", head, 24)[0]
        at = step
        while at + step <= size:
            file.seek(at)
            sector, count, flags, _ = struct.unpack("<QQQQ", file.read(32))
            data = 0 if flags & DISCARD else count * step
            end = at + step + data
            if end > size:
                break
            found.append(Entry(flags, sector * step, count * step, at + step, end))
            at = end
    return found


class Replay:
    """The disk of a recorded run. IMAGE, a raw file, had its first contents, and is changed. SIZE: of the disk in bytes."""

    def __init__(self, image: Path, log: Path, size: int) -> None:
        self.image = image
        self._log_path = log
        self.entries = read_log(log)
        self._done = 0  # the entries before this one are in the image
        os.truncate(image, size)

    def index(self, position: int) -> int:
        """The first entry that the log did not have when it had POSITION bytes."""
        return next((i for i, entry in enumerate(self.entries) if entry.end > position), len(self.entries))

    @contextlib.contextmanager
    def cut(self, moment: int, seed: int | str) -> Iterator[int]:
        """Make the disk of a power cut before the entry MOMENT, which is not before that of an earlier call.

        SEED draws the blocks that are lost. Yields how many of those are lost that were written after the last flush.
        At the end, the image has what was flushed, so it must not be written to meanwhile.
        """
        flushed = max((i for i in range(self._done, moment) if self.entries[i].is_flush), default=self._done)
        chance = random.Random(seed)  # noqa: S311 no secret
        undo: list[tuple[int, bytes]] = []
        lost = 0
        with self.image.open("r+b") as image, self._log_path.open("rb") as log:
            for entry in self.entries[self._done : flushed]:
                self._apply(image, log, entry)
            self._done = flushed
            for entry in self.entries[flushed:moment]:
                if entry.is_flush or (entry.flags & DISCARD and entry.length > UNDO):
                    continue
                for at in range(0, entry.length, BLOCK):
                    length = min(BLOCK, entry.length - at)
                    if not entry.flags & FUA and chance.random() < 0.5:
                        lost += 1
                        continue
                    image.seek(entry.offset + at)
                    undo.append((entry.offset + at, image.read(length)))
                    image.seek(entry.offset + at)
                    image.write(self._data(log, entry, at, length))
        try:
            yield lost
        finally:
            with self.image.open("r+b") as image:
                for offset, old in reversed(undo):
                    image.seek(offset)
                    image.write(old)

    def _data(self, log: IO[bytes], entry: Entry, at: int, length: int) -> bytes:
        if entry.flags & DISCARD:
            return bytes(length)
        log.seek(entry.at + at)
        return log.read(length)

    def _apply(self, image: IO[bytes], log: IO[bytes], entry: Entry) -> None:
        for at in range(0, entry.length, 1 << 20):
            length = min(1 << 20, entry.length - at)
            data = self._data(log, entry, at, length)
            image.seek(entry.offset + at)
            if entry.flags & DISCARD and not any(image.read(length)):
                continue  # zeros already: a hole stays a hole
            image.seek(entry.offset + at)
            image.write(data)
