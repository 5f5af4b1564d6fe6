# SPDX-License-Identifier: Apache-2.0
"""Stores an uploaded bundle.

The body of the request goes to the partition while it arrives: a bundle does not fit into the board's memory.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

from flask import abort

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Protocol

    class Body(Protocol):
        def read(self, size: int, /) -> bytes: ...


# The longest body that nginx accepts (location /upload/). A bundle is smaller than its slot, which has 640 MiB.
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

    def receive(self, body: Body, length: int) -> None:
        """Store BODY, which has LENGTH bytes, as the bundle. Aborts the request if this is not possible."""
        if not 0 < length <= MAX_BYTES:
            abort(413 if length else 400, "A bundle has more than 0 bytes and at most 2 GiB.")
        self._folder.mkdir(mode=0o700, exist_ok=True)
        # "a": another upload may be writing this file
        with self._part.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                abort(409, "Another upload is running. Wait until it ends, then try again.")
            file.truncate(0)  # what an interrupted upload has left
            self.remove()
            self._check_space(length)
            try:
                _copy(body, file, length)
                self._part.rename(self.bundle)
            except BaseException:
                with suppress(OSError):
                    self._part.unlink()
                raise

    def remove(self) -> None:
        """Remove the bundle, to free its space."""
        with suppress(FileNotFoundError):
            self.bundle.unlink()

    def _check_space(self, length: int) -> None:
        disk = os.statvfs(self._folder)
        free = max(0, disk.f_bavail * disk.f_frsize - RESERVE_BYTES)
        if length > free:
            abort(
                413,
                f"The bundle has {length / 1e6:.0f} MB, but the data partition has space for {free / 1e6:.0f} MB only."
                " Free some space, or install from a URL, which needs no space.",
            )


def _copy(body: Body, file: BinaryIO, length: int) -> None:
    left = length
    while left:
        chunk = body.read(min(left, CHUNK_BYTES))
        if not chunk:
            abort(400, "The upload was interrupted. Nothing was installed. Try again.")
        file.write(chunk)
        left -= len(chunk)
    file.flush()
