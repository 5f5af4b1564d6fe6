# SPDX-License-Identifier: Apache-2.0
"""The device of the kernel module: opens it, sends commands, reads the counters (docs/reference/pagepool.md).

No descriptor of a directory stays open, because it would block an unmount of the directory's file system.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

PATH = "/dev/evenkeel-pagepool"
READ_SIZE = 4096


class Identity(NamedTuple):
    """What a directory is known by, whatever its path."""

    device: int
    inode: int


@dataclass(frozen=True, slots=True)
class Totals:
    """The counters of the module. They start at 0 when it is loaded."""

    directories: int = 0
    pool: str = "none"
    protected_accesses: int = 0
    protected_misses: int = 0
    normal_accesses: int = 0
    normal_misses: int = 0


class Pool(Protocol):
    """The device, or a fake of it."""

    def charge_to(self, cgroup: str) -> None: ...
    def add(self, directory: str) -> Identity: ...
    def clear(self) -> None: ...
    def totals(self) -> Totals: ...
    def close(self) -> None: ...


def parse(text: str) -> Totals:
    """The counters in TEXT. A line with an unknown name is ignored. Raises ValueError."""
    found = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    try:
        numbers = {name: int(found[name]) for name in Totals.__slots__ if name != "pool"}
        return Totals(pool=found["pool"], **numbers)
    except KeyError as error:
        raise ValueError(f"the module does not report {error}") from None


@contextlib.contextmanager
def _opened(directory: str) -> Iterator[int]:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


class Device:
    """The open device. When it is closed, the module undoes all settings."""

    def __init__(self, path: str = PATH) -> None:
        """Raises OSError."""
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def charge_to(self, cgroup: str) -> None:
        """Charge the pages of priority files to the cgroup in the folder CGROUP. Raises OSError."""
        with _opened(cgroup) as fd:
            self._command(f"pool {fd}")

    def add(self, directory: str) -> Identity:
        """Make DIRECTORY a priority directory. Raises OSError."""
        with _opened(directory) as fd:
            self._command(f"add {fd}")
            found = os.fstat(fd)
            return Identity(found.st_dev, found.st_ino)

    def clear(self) -> None:
        """Remove all priority directories. Raises OSError."""
        self._command("clear")

    def totals(self) -> Totals:
        """Raises OSError or ValueError."""
        return parse(os.pread(self._fd, READ_SIZE, 0).decode("ascii", "replace"))

    def close(self) -> None:
        os.close(self._fd)

    def _command(self, text: str) -> None:
        os.write(self._fd, text.encode())
