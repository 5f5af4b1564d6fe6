# SPDX-License-Identifier: Apache-2.0
"""By how much the I/O in io.evenkeel.stat has grown between two texts of the file. Pure, without files.

The service does this each second for each cgroup, so the cost counts: C code compares the texts (src/increase.c).
"""

from array import array
from dataclasses import dataclass, field

from evenkeel_common.iostat import StatError, parse

from .attribution import Wait
from .library import library
from .period import Flow

ROOM = 2048  # first length of the array of values; a device with I/O in both directions needs at most 1081
HEADER = 10  # values of a record before its buckets
WAITING = 2  # a record with a waiting time has this instead of a direction
FLOWS, WAITS = 1, 2  # what is compared


Flows = dict[tuple[str, int], Flow]  # by device (MAJ:MIN) and direction, without what has not grown


@dataclass(slots=True)
class Growth:
    """What has grown: the I/O, and the waiting time on each device."""

    flows: Flows = field(default_factory=dict)
    waits: list[Wait] = field(default_factory=list)


_values = array("Q", bytes(8 * ROOM))


def _compare(old: bytes, text: bytes, what: int) -> list[int]:
    """The values that ek_history_grow() writes for WHAT. Raises StatError."""
    while True:
        address, room = _values.buffer_info()
        count: int = library().ek_history_grow(old, len(old), text, len(text), what, address, room)
        if count < 0:
            parse(text.decode("ascii", "replace"))  # raises the error that says what is wrong
            raise StatError("a number is too large")
        if count <= room:
            return _values[:count].tolist()
        _values.extend([0] * (count - room))


def decode(values: list[int], text: bytes) -> Growth:
    """The growth that VALUES describe: the records that ek_history_grow() writes for TEXT."""
    result = Growth()
    at = 0
    while at < len(values):
        if values[at + 2] == WAITING:
            us, used = values[at + 3 : at + 5]
            middle, end = at + 5 + used, at + 5 + 2 * used
            result.waits.append(Wait(us, values[at + 5 : middle], values[middle:end]))
            at = end
            continue
        name, length, direction, size, ios, wait_us, gate_us, gates, service_us, used = values[
            at : at + HEADER
        ]
        at += HEADER
        latency = dict(zip(values[at : at + used], values[at + used : at + 2 * used], strict=True))
        at += 2 * used
        flow = Flow(size, ios, wait_us, gate_us, gates, service_us, latency)
        result.flows[text[name : name + length].decode(), direction] = flow
    return result


@dataclass(slots=True)
class Counters:
    """The counters of one cgroup, as its file had them last. They begin at 0, without devices."""

    _text: bytes = b""
    _waits_text: bytes = b""  # as waits() had it last

    @property
    def devices(self) -> list[str]:
        """MAJ:MIN of each device in the last text."""
        return [line.split(None, 1)[0].decode() for line in self._text.splitlines() if line.strip()]

    def grow(self, text: bytes) -> Flows:
        """By how much the I/O in TEXT has grown since the last call.

        If counters of a device have started again at 0, its new values are the growth. Raises StatError if TEXT has a
        wrong format. Then the next call compares with the text before it. All calls must come from one thread.
        """
        if text == self._text:
            return {}
        values = _compare(self._text, text, FLOWS)
        self._text = text
        return decode(values, text).flows

    def waits(self, text: bytes) -> list[Wait]:
        """By how much the waiting time on each device has grown since the last call of waits(). Otherwise as grow()."""
        if text == self._waits_text:
            return []
        values = _compare(self._waits_text, text, WAITS)
        self._waits_text = text
        return decode(values, text).waits
