# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH116
"""Reads the counters of a cgroup, and detects that they started again at 0.

Counters start at 0 when a unit's cgroup is created again, or when a device gets the scheduler evenkeel again. Then the
new values are themselves the increase since the last reading. The I/O between the last reading and the removal of a
cgroup is not counted: less than one interval.
"""

import os
from collections.abc import Container, Mapping
from dataclasses import dataclass
from itertools import repeat
from operator import gt

from .iostat import DeviceStat, Histogram, parse

STAT_FILE = "io.evenkeel.stat"
READ_SIZE = 16 * 1024  # bytes per read(); a usual file is shorter
ZERO = DeviceStat()


@dataclass(slots=True)
class Reading:
    """The counters of one cgroup at one moment. They are parsed only if somebody needs them."""

    identity: int = 0  # inode of the cgroup's directory; a new cgroup of the same name has another inode
    text: bytes = b""  # content of the file
    histograms: Container[str] = ()  # the histograms to parse
    _devices: Mapping[str, DeviceStat] | None = None

    @property
    def devices(self) -> Mapping[str, DeviceStat]:
        """The counters by device. Raises StatError."""
        if self._devices is None:
            self._devices = parse(self.text.decode("ascii", "replace"), self.histograms)
        return self._devices

    @property
    def names(self) -> set[bytes]:
        """MAJ:MIN of the devices: the first word of each line."""
        return {line.partition(b" ")[0] for line in self.text.splitlines() if line}


ABSENT = Reading()


def read_text(fd: int) -> bytes:
    """The content of the cgroup file FD, from its beginning. Raises OSError with ENODEV if the cgroup was removed.

    The kernel prints the file again for each call. A file that stays open costs less than one that is opened each time.
    """
    text = chunk = os.pread(fd, READ_SIZE, 0)
    while len(chunk) == READ_SIZE:
        chunk = os.pread(fd, READ_SIZE, len(text))
        text += chunk
    return text


def read_counters(directory: str, last: Reading | None, histograms: Container[str]) -> Reading:
    """The counters of the cgroup DIRECTORY, or LAST itself if nothing has changed. Raises OSError."""
    identity = os.stat(directory).st_ino
    fd = os.open(f"{directory}/{STAT_FILE}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = read_text(fd)
    finally:
        os.close(fd)
    if last is not None and last.identity == identity and last.text == text:
        return last
    return Reading(identity, text, histograms)


def base(old: Reading, new: Reading, name: str) -> DeviceStat:
    """The values to subtract from the counters of the device NAME in NEW, to get their increase since OLD.

    These are the values in OLD, or zeros if the counters have started again at 0. Raises StatError.
    """
    found = old.devices.get(name, ZERO) if old.identity == new.identity else ZERO
    return ZERO if restarted(found, new.devices[name]) else found


def restarted(old: DeviceStat, new: DeviceStat) -> bool:
    """Whether the counters of a device have started again at 0 between OLD and NEW."""
    if any(new.counters.get(key, 0) < value for key, value in old.counters.items()):
        return True
    return any(
        _decreased(histogram, new.histograms.get(key, {})) for key, histogram in old.histograms.items()
    )


def _decreased(old: Histogram, new: Histogram) -> bool:
    return any(map(gt, old.values(), map(new.get, old, repeat(0))))
