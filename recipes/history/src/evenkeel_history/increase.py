# SPDX-License-Identifier: Apache-2.0
"""By how much the I/O in io.evenkeel.stat has grown between two texts of the file. Pure, without files.

The service does this each second for each cgroup, so the cost counts: C code compares the texts (src/increase.c).
"""

from array import array
from dataclasses import dataclass

from evenkeel_common.iostat import StatError, parse

from .library import library
from .period import Flow

ROOM = 2048  # first length of the array of values; a device with I/O in both directions needs at most 820
HEADER = 10  # values of a record before its buckets
# by device (MAJ:MIN) and direction: the I/O, without what has not grown
Growth = dict[tuple[str, int], Flow]

_values = array("Q", bytes(8 * ROOM))


def _compare(old: bytes, text: bytes) -> list[int]:
    """The values that ek_history_grow() writes. Raises StatError."""
    while True:
        address, room = _values.buffer_info()
        count: int = library().ek_history_grow(old, len(old), text, len(text), address, room)
        if count < 0:
            parse(text.decode("ascii", "replace"))  # raises the error that says what is wrong
            raise StatError("a number is too large")
        if count <= room:
            return _values[:count].tolist()
        _values.extend([0] * (count - room))


def decode(values: list[int], text: bytes) -> Growth:
    """The growth that VALUES describe: the records that ek_history_grow() writes for TEXT."""
    result: Growth = {}
    at = 0
    while at < len(values):
        name, length, direction, size, ios, wait_us, gate_us, gates, service_us, used = values[
            at : at + HEADER
        ]
        at += HEADER
        latency = dict(zip(values[at : at + used], values[at + used : at + 2 * used], strict=True))
        at += 2 * used
        flow = Flow(size, ios, wait_us, gate_us, gates, service_us, latency)
        result[text[name : name + length].decode(), direction] = flow
    return result


@dataclass(slots=True)
class Counters:
    """The counters of one cgroup, as its file had them last. They begin at 0, without devices."""

    _text: bytes = b""

    @property
    def devices(self) -> list[str]:
        """MAJ:MIN of each device in the last text."""
        return [line.split(None, 1)[0].decode() for line in self._text.splitlines() if line.strip()]

    def grow(self, text: bytes) -> Growth:
        """By how much the I/O in TEXT has grown since the last call.

        If counters of a device have started again at 0, its new values are the growth. Raises StatError if TEXT has a
        wrong format. Then the next call compares with the text before it. All calls must come from one thread.
        """
        if text == self._text:
            return {}
        values = _compare(self._text, text)
        self._text = text
        return decode(values, text)
