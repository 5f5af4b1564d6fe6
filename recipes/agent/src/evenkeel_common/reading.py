# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH116
"""Reads the counters of a cgroup, and detects that they started again at 0.

Counters start at 0 when a unit's cgroup is created again, or when a device gets the scheduler evenkeel again. Then the
new values are themselves the increase since the last reading. The I/O between the last reading and the removal of a
cgroup is not counted: less than one interval.
"""

import os
from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from .iostat import DeviceStat, parse

STAT_FILE = "io.evenkeel.stat"
READ_SIZE = 256 * 1024  # bytes per read()
ZERO = DeviceStat()


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters of one cgroup at one moment. IDENTITY is 0 if there was no cgroup."""

    identity: int = 0  # inode of the cgroup's directory; a new cgroup of the same name has another inode
    devices: Mapping[str, DeviceStat] = field(default_factory=dict)
    text: bytes = b""  # content of the file, kept so that an unchanged file is not parsed again


ABSENT = Reading()


def read_counters(directory: str, last: Reading | None, histograms: Container[str]) -> Reading:
    """The counters of the cgroup DIRECTORY, or LAST itself if nothing has changed. Raises OSError or StatError."""
    identity = os.stat(directory).st_ino
    fd = os.open(f"{directory}/{STAT_FILE}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = b""
        while chunk := os.read(fd, READ_SIZE):
            text += chunk
    finally:
        os.close(fd)
    if last is not None and last.identity == identity and last.text == text:
        return last
    return Reading(identity, parse(text.decode("ascii", "replace"), histograms), text)


def base(old: Reading, new: Reading, name: str) -> DeviceStat:
    """The values to subtract from the counters of the device NAME in NEW, to get their increase since OLD.

    These are the values in OLD, or zeros if the counters have started again at 0.
    """
    found = old.devices.get(name, ZERO) if old.identity == new.identity else ZERO
    return ZERO if _restarted(found, new.devices[name]) else found


def _restarted(old: DeviceStat, new: DeviceStat) -> bool:
    if any(new.counters.get(key, 0) < value for key, value in old.counters.items()):
        return True
    return any(
        new.histograms.get(key, {}).get(index, 0) < count
        for key, histogram in old.histograms.items()
        for index, count in histogram.items()
    )
