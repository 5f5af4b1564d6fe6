# SPDX-License-Identifier: Apache-2.0
"""Reads a trace of the kernel in its binary form: a guest spends far less time on it than on a text.

`START`, `STOP` are commands of a guest: between them, the kernel notes the events that START names. STOP reports the trace as
section `trace`, and the format of each event as section `formats`. The guest has one CPU, so there is one buffer.
"""

from __future__ import annotations

import base64
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

FOLDER = "/sys/kernel/tracing"
BUFFER_MB = 96
# the events that a write to trace_marker makes
MARK = "ftrace/print"
PAGE = 4096


def start(*events: str) -> list[str]:
    """Commands that begin to trace the EVENTS, named GROUP/EVENT, with the time of the monotonic clock."""
    return [
        f"t={FOLDER}; echo 0 > $t/tracing_on",
        f'{{ echo mono > $t/trace_clock && echo {BUFFER_MB << 10} > $t/buffer_size_kb; }} || fail "cannot trace"',
        *(f'echo 1 > $t/events/{event}/enable || fail "cannot trace {event}"' for event in events),
        f"cat {' '.join(f'$t/events/{event}/format' for event in (*events, MARK))} | report formats",
        "echo 1 > $t/tracing_on",
    ]


def stop() -> list[str]:
    """Commands that end the trace and report it."""
    return [
        "echo 0 > $t/tracing_on",
        '! grep -q "^overrun: [1-9]" $t/per_cpu/cpu0/stats || fail "the trace has lost events"',
        # the reader waits for more events at the end
        "timeout 2 cat $t/per_cpu/cpu0/trace_pipe_raw > /tmp/trace 2> /dev/null",
        "gzip -1 < /tmp/trace | base64 | report trace",
    ]


@dataclass(frozen=True)
class Format:
    """An event's name, and where its fields are: offset, size, whether the number has a sign."""

    name: str
    fields: Mapping[str, tuple[int, int, bool]]

    def read(self, data: bytes) -> dict[str, int]:
        return {
            name: int.from_bytes(data[at : at + size], "little", signed=signed)
            for name, (at, size, signed) in self.fields.items()
        }


def formats(text: str) -> dict[int, Format]:
    """The formats by number. Only fields that are numbers."""
    found = {}
    for part in re.split(r"^name: ", text, flags=re.M)[1:]:
        fields = {
            name: (int(offset), int(size), signed == "1")
            for name, offset, size, signed in re.findall(
                r"field:[^;\[]*?(\w+);\toffset:(\d+);\tsize:([1248]);\tsigned:([01]);", part
            )
        }
        number = re.search(r"^ID: (\d+)$", part, re.M)
        if number is None:
            raise ValueError("a format of an event has no number")
        found[int(number[1])] = Format(part.split("\n", 1)[0], fields)
    return found


def _pages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The time and the events of each page of the buffer."""
    for at in range(0, len(data), PAGE):
        time, commit = struct.unpack_from("<QQ", data, at)
        if commit >> 30 & 3:
            raise ValueError("the trace has lost events")
        yield time, data[at + 16 : at + 16 + (commit & 0xFFFFF)]


def records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The time in ns and the bytes of each event. Source: include/linux/ring_buffer.h of Linux."""
    for time, page in _pages(data):
        at = 0
        while at + 4 <= len(page):
            (head,) = struct.unpack_from("<I", page, at)
            kind, delta = head & 31, head >> 5
            at += 4
            if kind == 29:  # padding: of the page, or of a discarded event
                if not delta:
                    break
                at += struct.unpack_from("<I", page, at)[0]
                time += delta
                continue
            if kind in (30, 31):  # more bits of a time: of a difference, or of the time itself
                (more,) = struct.unpack_from("<I", page, at)
                at += 4
                whole = delta + (more << 27)
                # the kernel leaves out the five highest bits of a time
                time = time + whole if kind == 30 else time >> 59 << 59 | whole
                continue
            time += delta
            if kind == 0:
                length = struct.unpack_from("<I", page, at)[0] - 4
                at += 4
            else:
                length = 4 * kind
            yield time, page[at : at + length]
            at += length


def read(reported: str, described: str) -> Iterator[tuple[int, str, dict[str, int], bytes]]:
    """The events of a report: time in ns, name, fields, and all its bytes."""
    known = formats(described)
    for time, data in records(zlib.decompress(base64.b64decode(reported), 16 + zlib.MAX_WBITS)):
        event = known.get(int.from_bytes(data[:2], "little"))
        if event is not None:
            yield time, event.name, event.read(data), data
