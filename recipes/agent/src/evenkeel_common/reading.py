# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH116
"""Reads the counters of a cgroup, and tells whether they started again at 0.

Counters start at 0 when a unit's cgroup is created again or a device gets evenkeel. The new values then are what
happened since the last reading. I/O between the last reading and the removal of a cgroup is lost: less than one
interval of it.
"""

import os
from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from .iostat import DeviceStat, parse

STAT_FILE = "io.evenkeel.stat"
READ_SIZE = 256 * 1024
ZERO = DeviceStat()


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters of one cgroup at one moment. Identity 0: there was no cgroup."""

    identity: int = 0  # inode of the cgroup's directory; a new cgroup of the same name has another one
    devices: Mapping[str, DeviceStat] = field(default_factory=dict)
    text: bytes = b""  # content of the file: the same text is not parsed again


ABSENT = Reading()


def read_counters(directory: str, last: Reading | None, histograms: Container[str]) -> Reading:
    """The counters of the cgroup DIRECTORY; LAST itself if they are the same. Raises OSError or StatError."""
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
    """What to subtract from the counters of the device NAME in NEW: those in OLD, or zeroes after a restart."""
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
