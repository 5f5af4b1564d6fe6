# SPDX-License-Identifier: Apache-2.0
"""Stores an uploaded bundle.

The body of the request goes to the partition while it arrives: a bundle does not fit into the board's memory.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from flask import abort

from .. import texts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Protocol

    class Body(Protocol):
        def read(self, size: int, /) -> bytes: ...


# The longest body that nginx accepts (location = /upload/bundle). A bundle is smaller than its slot, which has 640 MiB.
MAX_BYTES = 2 << 30
# The partition keeps at least this much free, for the board's own files.
RESERVE_BYTES = 64 << 20
CHUNK_BYTES = 256 << 10


class Uploads:
    """The folder of uploaded bundles. It has at most one bundle, and at most one upload writes at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # The agent lets the panel install this file (evenkeel_agent.update.UPLOADED). It exists only if it is complete.
        self.bundle = folder / "bundle.raucb"
        self._part = folder / "bundle.raucb.part"
        self._installing: tuple[int, int] | None = None
        with suppress(OSError):
            self._part.unlink()  # what an upload has left that a power cut interrupted

    def receive(self, body: Body, length: int) -> None:
        """Store BODY, which has LENGTH bytes, as the bundle. Aborts the request if this is not possible."""
        if not 0 < length <= MAX_BYTES:
            abort(413 if length else 400, texts.text("upload-size"))
        with self.lock():
            self.remove()
            self._check_space(length)
            try:
                with self._part.open("wb") as file:
                    _copy(body, file, length)
                self._part.rename(self.bundle)
            except BaseException:
                with suppress(OSError):
                    self._part.unlink()
                raise

    @contextmanager
    def lock(self) -> Iterator[None]:
        """While the lock is held, no other request changes the bundle. Aborts the request if an upload runs."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with (self._folder / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                abort(409, texts.text("upload-busy"))
            yield

    def size(self) -> int:
        """Bytes of the bundle; 0 if no bundle is stored."""
        try:
            return self.bundle.stat().st_size
        except OSError:
            return 0

    def remove(self) -> None:
        """Remove the bundle, to free its space."""
        with suppress(FileNotFoundError):
            self.bundle.unlink()

    def installing(self) -> None:
        """The installation of the bundle has begun."""
        self._installing = self._identity()

    def installed(self) -> None:
        """An installation was successful: remove the bundle, if it is the one that was installed."""
        if self._installing and self._installing == self._identity():
            self.remove()
        self._installing = None

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = self.bundle.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _check_space(self, length: int) -> None:
        disk = os.statvfs(self._folder)
        free = max(0, disk.f_bavail * disk.f_frsize - RESERVE_BYTES)
        if length > free:
            abort(413, texts.text("upload-no-space", megabytes=length / 1e6, free=free / 1e6))


def _copy(body: Body, file: BinaryIO, length: int) -> None:
    left = length
    while left:
        chunk = body.read(min(left, CHUNK_BYTES))
        if not chunk:
            abort(400, texts.text("upload-interrupted"))
        file.write(chunk)
        left -= len(chunk)
    file.flush()
    # Otherwise, after a power cut, the file could have its final name without its contents.
    os.fsync(file.fileno())
