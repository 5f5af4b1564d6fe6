# SPDX-License-Identifier: Apache-2.0
"""The packets that ek-recordings sends on a SOCK_SEQPACKET socket: parts of a file, then exactly one end.

Invariant: a file is complete only if its end has arrived. A connection that ends without it means that the sender was
stopped, so that a receiver never takes a truncated file for a complete one.
"""

import json
from dataclasses import dataclass

# The content of a packet. With its first byte it fits into the default send buffer of a socket several times.
CONTENT_BYTES = 32 << 10
PACKET_BYTES = CONTENT_BYTES + 1
_DATA, _END = b"D", b"E"


class Truncated(Exception):
    """The connection ended without an end packet, or a packet is not valid."""


@dataclass(frozen=True, slots=True)
class End:
    """The last packet. STATUS: 0 complete; 1 complete, but records are missing or damaged; 2 failed. TEXT: why."""

    status: int
    text: str = ""


def data(content: bytes) -> bytes:
    """A packet with a part of the file, of 1 to CONTENT_BYTES bytes."""
    return _DATA + content


def end(last: End) -> bytes:
    """The last packet. Its text is shortened to fit."""
    return _END + json.dumps([last.status, last.text[-2000:]]).encode()


def parse(packet: bytes) -> bytes | End:
    """The content of a data packet, or the end. Raises Truncated."""
    kind, content = packet[:1], packet[1:]
    if kind == _DATA and content:
        return content
    try:
        status, text = json.loads(content) if kind == _END else (None, None)
        if status not in (0, 1, 2):
            raise ValueError
        return End(int(status), str(text))
    except (ValueError, TypeError, RecursionError):
        raise Truncated("the connection ended before the file was complete") from None
