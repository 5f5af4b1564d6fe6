# SPDX-License-Identifier: Apache-2.0
"""A channel's writer, by the C library libek-recorder.

The library does all of the protocol and the ring, so there is one place that
has to be right about the order of memory accesses. EK_RECORDER_LIBRARY names
another file than the installed one.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from errno import EAGAIN, ENOMEM, ETIMEDOUT
from types import TracebackType
from typing import Any, Literal, Self

from .errors import error

_WAYS = {"socket": 1, "ring": 2}
# the longest time in the library, in which Python takes no signal
_PIECE_S = 0.5


class _CChannel(ctypes.Structure):
    _fields_ = (
        ("record_size", ctypes.c_uint32),
        ("period_ns", ctypes.c_uint64),
        ("window_ns", ctypes.c_uint64),
    )


@dataclass(frozen=True)
class Channel:
    """What the recorder says about a channel."""

    record_size: int  # largest record, bytes
    period_ns: int  # declared; 0: none
    window_ns: int  # durability window: what is older is on the medium


@functools.cache
def _library() -> ctypes.CDLL:
    lib = ctypes.CDLL(os.environ.get("EK_RECORDER_LIBRARY", "libek-recorder.so.0"))
    writer = ctypes.c_void_p
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "open": (ctypes.c_int, [ctypes.POINTER(writer), ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int]),
        "submit": (ctypes.c_int, [writer, ctypes.c_char_p, ctypes.c_size_t]),
        "sync": (ctypes.c_int, [writer, ctypes.c_int]),
        "wait": (ctypes.c_int, [writer, ctypes.c_int]),
        "channel": (ctypes.POINTER(_CChannel), [writer]),
        "lost": (ctypes.c_uint64, [writer]),
        "error": (ctypes.c_char_p, [writer]),
        "close": (None, [writer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(lib, f"ek_writer_{name}")
        function.restype = result
        function.argtypes = arguments
    return lib


def _milliseconds(timeout: float) -> int:
    # rounded up: a short timeout is not none
    return max(0, -int(-timeout * 1000 // 1))


class Writer:
    """The writer of a channel; there is one at a time.

    Submitting never waits for the medium. What was submitted before close() is
    still recorded. Methods may be called from any thread, one after the other.
    """

    def __init__(
        self, channel: str, way: Literal["socket", "ring"] = "socket", socket: str | None = None
    ) -> None:
        """Become it. Raises ChannelNotFound, ChannelBusy, RecorderGone, RecorderError; ValueError: a way or name
        that cannot be.
        """
        self._handle: ctypes.c_void_p | None = None
        if way not in _WAYS:
            raise ValueError(f"way must be 'socket' or 'ring', not {way!r}")
        path = None if socket is None else os.fsencode(socket)
        # for C it would be the name up to there
        if "\0" in channel or b"\0" in (path or b""):
            raise ValueError("embedded null character")
        self._lib = _library()
        self._lock = threading.Lock()
        handle = ctypes.c_void_p()
        result = self._lib.ek_writer_open(ctypes.byref(handle), path, channel.encode(), _WAYS[way])
        if not handle:
            raise MemoryError if result == -ENOMEM else error(-result, "")
        self._handle = handle
        if result:
            try:
                self._check(result)
            finally:
                self.close()
        c = self._lib.ek_writer_channel(handle).contents
        self._channel = Channel(c.record_size, c.period_ns, c.window_ns)

    def _open(self) -> ctypes.c_void_p:
        if self._handle is None:
            raise ValueError("this writer is closed")
        return self._handle

    def _check(self, result: int) -> None:
        if result < 0:
            words: bytes = self._lib.ek_writer_error(self._handle)
            raise error(-result, words.decode(errors="replace"))

    @property
    def channel(self) -> Channel:
        return self._channel

    @property
    def lost(self) -> int:
        """Records that found no place, so far."""
        with self._lock:
            return int(self._lib.ek_writer_lost(self._open()))

    def submit(self, record: bytes | bytearray | memoryview) -> bool:
        """Submit a record. False: the recorder is behind; this one is lost, counted, and will be told as lost.

        Raises RecordTooLarge (nothing was submitted), RecorderGone (open anew).
        """
        data = bytes(record)
        with self._lock:
            result = self._lib.ek_writer_submit(self._open(), data, len(data))
            if result == -EAGAIN:
                return False
            self._check(result)
        return True

    def _wait_for(self, call: Callable[[ctypes.c_void_p, int], int], timeout: float | None) -> None:
        """In pieces: between them Python takes signals, and Ctrl-C ends it also where a medium hangs."""
        until = math.inf if timeout is None else time.monotonic() + timeout
        with self._lock:
            while True:
                result = call(self._open(), _milliseconds(min(_PIECE_S, until - time.monotonic())))
                if result != -ETIMEDOUT or time.monotonic() >= until:
                    break
            self._check(result)

    def sync(self, timeout: float | None = None) -> None:
        """Wait until all that was submitted is on the medium, at most so many seconds.

        Raises SyncTimeout; RecorderError with errno ENOBUFS or EIO: it is, but for records that were lost since
        the last time, because there was no room for them or because the medium did not take them.
        """
        self._wait_for(self._lib.ek_writer_sync, timeout)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the next record will find a place, at most so many seconds. Raises SyncTimeout."""
        self._wait_for(self._lib.ek_writer_wait, timeout)

    def close(self) -> None:
        """Let the channel go; once more does no harm."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with self._lock:
                self._lib.ek_writer_close(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()
