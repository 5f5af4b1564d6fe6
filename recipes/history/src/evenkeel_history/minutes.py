# SPDX-License-Identifier: Apache-2.0
"""The log of the minutes that are not in the database yet. Only the service uses it.

A save in the database costs much more flash than its rows. So most saves append the new minutes to this log instead.

The file has a fixed size and is written with zeros once. So an append changes nothing but blocks of data and the time stamp.
Each append is one record, in blocks of its own. So a torn append cannot damage an earlier one.

Each record has a generation. The database stores the highest generation whose minutes it has all, in the transaction that
saves them. So after a power cut, a minute is either in the database, or has a record with a higher generation.

- A save seals the current generation. The next record has the next one, whether or not the save succeeds.
- After a successful save, the next record overwrites the first one. Old records may follow it, but with lower generations.
- So generations never fall from a record to the next valid one: a record with a lower one ends the log.
"""

import contextlib
import logging
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

BLOCK = 4096
SIZE = 256 * BLOCK  # an hour of 16 busy apps needs 180 KiB
_HEAD = struct.Struct("<4sIQI")  # MAGIC, CRC-32 of all that follows, generation, size of the content
_CRC_FROM = 8
MAGIC = b"ekhm"
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[tuple[int, bytes]])
_log = logging.getLogger(__name__)

Minutes = list[tuple[int, bytes]]  # start, packed Period


def record(generation: int, minutes: Sequence[tuple[int, bytes]]) -> bytes:
    """MINUTES as a record, in whole blocks."""
    content = _encoder.encode(minutes)
    head = _HEAD.pack(MAGIC, 0, generation, len(content))
    crc = zlib.crc32(head[_CRC_FROM:] + content)
    data = _HEAD.pack(MAGIC, crc, generation, len(content)) + content
    return data + bytes(-len(data) % BLOCK)


def records(data: bytes) -> list[tuple[int, int, Minutes]]:
    """The valid records at the beginning of DATA: their ends, generations and minutes."""
    found: list[tuple[int, int, Minutes]] = []
    at = lowest = 0
    while at + _HEAD.size <= len(data):
        magic, crc, generation, size = _HEAD.unpack_from(data, at)
        end = at + _HEAD.size + size
        if magic != MAGIC or generation < lowest or end > len(data):
            break
        if zlib.crc32(data[at + _CRC_FROM : end]) != crc:
            break
        try:
            minutes = _decoder.decode(data[at + _HEAD.size : end])
        except msgspec.DecodeError:
            break
        at, lowest = end + -end % BLOCK, generation
        found.append((at, generation, minutes))
    return found


class MinuteLog:
    """The log in the file PATH. Call read() first, and all methods from the same thread."""

    def __init__(self, path: Path, size: int = SIZE) -> None:
        self._path, self._size = path, size
        self._file: int | None = None
        self._end: int | None = None  # offset of the next record; None before read()
        self._generation = 0  # of the next record
        self._reason = ""  # why the last append failed, for the journal

    def read(self, saved: int) -> Minutes:
        """The minutes that are not in the database. SAVED: the highest generation that the database has."""
        try:
            with self._path.open("rb") as file:
                found = records(file.read(self._size))
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                _log.error("%s cannot be read: %s", self._path, error.strerror or error)
            found = []
        self._end = found[-1][0] if found else 0
        self._generation = max([saved, *(generation for _, generation, _ in found)]) + 1
        return [minute for _, generation, minutes in found if generation > saved for minute in minutes]

    def append(self, minutes: Sequence[tuple[int, bytes]]) -> bool:
        """Append MINUTES. Returns whether they survive a power cut. If not, save them in the database."""
        if self._end is None:
            return False
        if not minutes:
            return True
        data = record(self._generation, minutes)
        if self._end + len(data) > self._size:
            return False
        try:
            if self._file is None:
                self._file = self._open()
            if os.pwrite(self._file, data, self._end) != len(data):
                return False
            os.fdatasync(self._file)
        except OSError as error:
            self._fail(error.strerror or str(error))
            return False
        self._reason = ""
        self._end += len(data)
        return True

    def seal(self) -> int:
        """End the current generation, because its minutes are going to be saved. Returns it."""
        self._generation += 1
        return self._generation - 1

    def restart(self) -> None:
        """Let the next record overwrite the first one: the database has all minutes of the sealed generations."""
        if self._end is not None:
            self._end = 0

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> int:
        """Open the file, and give it its size. Raises OSError."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640)
        before = os.fstat(file).st_size
        try:
            try:
                while (length := os.fstat(file).st_size) < self._size:
                    os.pwrite(file, bytes(self._size - length), length)
                os.fsync(file)
            except OSError:
                os.ftruncate(file, before)  # a part of the file would take the last space from the database
                raise
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except BaseException:
            os.close(file)
            raise
        return file

    def _fail(self, reason: str) -> None:
        if reason != self._reason:
            _log.warning("%s cannot be written (%s), so each save is in the database", self._path, reason)
        self._reason = reason
        # Open it again the next time: somebody may have removed the file.
        with contextlib.suppress(OSError):
            self.close()
