# SPDX-License-Identifier: Apache-2.0
"""The writer of a channel, based on the C library libek-recorder.

The library implements the protocol and the ring, so the order of memory accesses has
to be correct in one place only. The environment variable EK_RECORDER_LIBRARY names a
library file to use instead of the installed one.
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
from errno import EAGAIN, ENOMEM, ENOTCONN, ETIMEDOUT
from types import TracebackType
from typing import Any, Literal, Self

from .errors import error

_WAYS = {"socket": 1, "ring": 2}
# longest call into the library: Python handles no signal during it
_PIECE_S = 0.5


class _CChannel(ctypes.Structure):
    _fields_ = (
        ("record_size", ctypes.c_uint32),
        ("period_ns", ctypes.c_uint64),
        ("window_ns", ctypes.c_uint64),
    )


@dataclass(frozen=True)
class Channel:
    """What the recorder reports about a channel."""

    record_size: int  # largest record, bytes
    period_ns: int  # declared time between records; 0: none
    window_ns: int  # durability window: older records are on the medium


@functools.cache
def _library() -> ctypes.CDLL:
    lib = ctypes.CDLL(os.environ.get("EK_RECORDER_LIBRARY", "libek-recorder.so.0"))
    writer = ctypes.c_void_p
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "open": (ctypes.c_int, [ctypes.POINTER(writer), ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int]),
        "connect": (ctypes.c_int, [writer, ctypes.c_int]),
        "submit_at": (ctypes.c_int, [writer, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]),
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
    # rounded up, so that a short timeout does not become 0
    return max(0, -int(-timeout * 1000 // 1))


class Writer:
    """A writer of a channel. A channel has one writer at a time, unless its configuration allows more.

    Submitting never waits for the medium. After a restart of the recorder the writer connects
    again by itself, while records are submitted; a gap in the recording reports how many were lost.
    Records submitted before close() are still recorded. Any thread may call the methods; calls are
    serialized by a lock.
    """

    def __init__(
        self,
        channel: str,
        way: Literal["socket", "ring"] = "socket",
        socket: str | os.PathLike[str] | None = None,
        timeout: float | None = 10.0,
    ) -> None:
        """Open the channel for writing, by socket or by ring (shared memory).

        socket: path of the recorder's socket; None: the default. timeout: seconds to wait for the
        recorder's answer; None: no limit; 0: do not wait, the writer connects while records are submitted.
        Raises ChannelNotFound, ChannelBusy, RecorderGone, SyncTimeout, RecorderError unless timeout is 0;
        ValueError for an invalid way or name.
        """
        self._handle: ctypes.c_void_p | None = None
        if way not in _WAYS:
            raise ValueError(f"way must be 'socket' or 'ring', not {way!r}")
        path = None if socket is None else os.fsencode(socket)
        # C would use only the part before it
        if "\0" in channel or b"\0" in (path or b""):
            raise ValueError("embedded null character")
        self._lib = _library()
        self._lock = threading.Lock()
        handle = ctypes.c_void_p()
        result = self._lib.ek_writer_open(ctypes.byref(handle), path, channel.encode(), _WAYS[way])
        if not handle:
            raise MemoryError if result == -ENOMEM else error(-result, "")
        self._handle = handle
        try:
            self._check(handle, result)
            if timeout != 0:
                self._wait_for(self._lib.ek_writer_connect, timeout)
        except BaseException:
            self.close()
            raise

    def _open(self) -> ctypes.c_void_p:
        if self._handle is None:
            raise ValueError("the writer is closed")
        return self._handle

    def _check(self, handle: ctypes.c_void_p, result: int) -> None:
        # not self._handle, which another thread may have set to None meanwhile
        if result < 0:
            message: bytes = self._lib.ek_writer_error(handle)
            raise error(-result, message.decode(errors="replace"))

    @property
    def channel(self) -> Channel:
        """What the recorder reported at the last connection; all 0 before the first."""
        with self._lock:
            c = self._lib.ek_writer_channel(self._open()).contents
            return Channel(c.record_size, c.period_ns, c.window_ns)

    @property
    def connected(self) -> bool:
        with self._lock:
            return int(self._lib.ek_writer_connect(self._open(), 0)) == 0

    @property
    def lost(self) -> int:
        """Number of records lost so far because there was no space or no connection."""
        with self._lock:
            return int(self._lib.ek_writer_lost(self._open()))

    def submit(self, record: bytes | bytearray | memoryview, acquired_ns: int = 0) -> bool:
        """Submit a record. Returns False if it is lost, because there is no space or no connection.

        A gap in the recording will report lost records; go on submitting. acquired_ns: when the record was
        acquired (time.monotonic_ns()); 0: now. Raises RecordTooLarge (nothing was submitted).
        """
        data = bytes(record)
        with self._lock:
            handle = self._open()
            result = self._lib.ek_writer_submit_at(handle, data, len(data), acquired_ns)
            if result in (-EAGAIN, -ENOTCONN):
                return False
            self._check(handle, result)
        return True

    def _wait_for(self, call: Callable[[ctypes.c_void_p, int], int], timeout: float | None) -> None:
        """Repeat short calls, so that Ctrl-C works even if the medium does not respond."""
        until = math.inf if timeout is None else time.monotonic() + timeout
        with self._lock:
            while True:
                handle = self._open()
                result = call(handle, _milliseconds(min(_PIECE_S, until - time.monotonic())))
                if result != -ETIMEDOUT or time.monotonic() >= until:
                    break
            self._check(handle, result)

    def sync(self, timeout: float | None = None) -> None:
        """Wait until everything submitted is on the medium. timeout: seconds; None: no limit.

        Raises SyncTimeout. Raises RecorderError with errno ENOBUFS or EIO if records were lost since the last
        sync: there was no space or no connection for them, or the medium failed. All other records are then on
        the medium. Raises RecorderGone if the recorder exited before it had written everything.
        """
        self._wait_for(self._lib.ek_writer_sync, timeout)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until there is a connection, and space for the next record. timeout: seconds; None: no limit.

        Raises SyncTimeout, and what Writer() raises.
        """
        self._wait_for(self._lib.ek_writer_wait, timeout)

    def close(self) -> None:
        """Release the channel. Further calls do nothing."""
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
