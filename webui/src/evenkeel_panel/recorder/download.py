# SPDX-License-Identifier: Apache-2.0
"""Passes a recording from the agent's socket to the browser, without storing it.

Guarantee: the answer ends properly only if the whole file has arrived. If the file is cut, the iterator raises an error,
gunicorn closes the connection without the last chunk, and the browser reports that the download has failed.

Cost: a download occupies one of gunicorn's threads. So there are at most MAX_DOWNLOADS at once.
"""

from __future__ import annotations

import os
import socket
import threading
from typing import TYPE_CHECKING

from evenkeel_common.packets import PACKET_BYTES, End, Truncated, parse

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DOWNLOADS = 2  # gunicorn_conf.py has threads for these and for the pages
# Time to wait for a packet: nginx waits 60 s.
PACKET_S = 50.0


class Downloads:
    """Counts the downloads that run."""

    def __init__(self, most: int = MAX_DOWNLOADS) -> None:
        self._slots = threading.BoundedSemaphore(most)

    def begin(self) -> bool:
        """Take a place. Returns False if none is free."""
        return self._slots.acquire(blocking=False)

    def end(self) -> None:
        self._slots.release()


class Recording:
    """The content of the file on the socket DESCRIPTOR. close() calls ENDED once; it may be called several times.

    Raises Truncated if the file is cut, or if its first packet reports that the export has failed.
    """

    def __init__(self, descriptor: int, ended: Callable[[], None]) -> None:
        self._ended: Callable[[], None] | None = ended
        try:
            self._socket = socket.socket(fileno=descriptor)
        except OSError as error:
            os.close(descriptor)
            self.close()
            raise Truncated(str(error)) from error
        self._socket.settimeout(PACKET_S)
        try:
            self._next: bytes | End | None = self._receive()
        except BaseException:
            self.close()
            raise

    def _receive(self) -> bytes | End:
        try:
            packet = parse(self._socket.recv(PACKET_BYTES))
        except TimeoutError:
            raise Truncated(f"nothing arrived for {PACKET_S:g} s") from None
        except OSError as error:
            raise Truncated(error.strerror or str(error)) from error
        if isinstance(packet, End) and packet.status == 2:
            raise Truncated(packet.text or "the export failed")
        return packet

    def __iter__(self) -> Recording:
        return self

    def __next__(self) -> bytes:
        # Send a packet at once, without waiting for the one after it: nginx waits 60 s for the first.
        found = self._next if self._next is not None else self._receive()
        self._next = None
        if isinstance(found, End):
            self._next = found
            raise StopIteration
        return found

    def close(self) -> None:
        if self._ended:
            if hasattr(self, "_socket"):
                self._socket.close()
            ended, self._ended = self._ended, None
            ended()
