# SPDX-License-Identifier: Apache-2.0
"""Read a recording with the C library libek-reader, which validates what is on the medium.

The environment variable EK_READER_LIBRARY names a library file to use instead of the installed one.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Generator
from dataclasses import dataclass
from datetime import datetime
from errno import EINTR, EINVAL, ENOMEM, ESTALE
from pathlib import Path
from typing import Any, Literal, cast

from .errors import error

_KINDS = {2: "gap", 3: "missing", 4: "damage", 5: "torn", 6: "overwritten"}
# longest call that waits: Python handles no signal during it
_PIECE_MS = 500

# default of `ek-recorder --directory`
_DIRECTORY = "/recorder"

Kind = Literal["gap", "missing", "damage", "torn", "overwritten"]


class _Event(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int),
        ("gap_reason", ctypes.c_uint32),
        ("sequence", ctypes.c_uint64),
        ("first", ctypes.c_uint64),
        ("lost", ctypes.c_uint64),
        ("monotonic_ns", ctypes.c_uint64),
        ("realtime_ns", ctypes.c_int64),
        ("acquired_ns", ctypes.c_uint64),
        ("payload", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("message", ctypes.c_char_p),
    )


class _Options(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("start", ctypes.c_char_p),
        ("to", ctypes.c_char_p),
        ("sequences", ctypes.c_char_p),
        ("rate", ctypes.c_uint64),
        ("follow", ctypes.c_int),
        ("from_end", ctypes.c_int),
    )


@dataclass(frozen=True, slots=True)
class Record:
    """One record."""

    sequence: int
    realtime_ns: int  # CLOCK_REALTIME at its submission; the clock may have jumped
    monotonic_ns: int  # CLOCK_MONOTONIC at its submission, valid within one boot
    data: bytes
    acquired_ns: int  # CLOCK_MONOTONIC when its data was acquired


@dataclass(frozen=True, slots=True)
class Missing:
    """A place where records were lost, are missing or damaged, or were overwritten."""

    kind: Kind
    first: int  # kind gap or missing: the first lost sequence; other kinds: 0
    last: int  # kind gap or missing: the last lost sequence; other kinds: 0
    message: str  # one sentence
    reason: str = ""  # kind gap: overrun, restart, failed, writer or absent; other kinds: ""
    lost: int | None = None  # kind gap: number of lost records, if it is known; other kinds: None
    realtime_ns: int | None = None  # kind gap: CLOCK_REALTIME when the gap was recorded; other kinds: None


@functools.cache
def _library() -> ctypes.CDLL:
    lib = ctypes.CDLL(os.environ.get("EK_READER_LIBRARY", "libek-reader.so.0"))
    reader = ctypes.c_void_p
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "open": (ctypes.c_int, [ctypes.POINTER(reader), ctypes.c_char_p, ctypes.POINTER(_Options)]),
        "next": (ctypes.c_int, [reader, ctypes.POINTER(_Event)]),
        "wait": (ctypes.c_int, [reader, ctypes.c_int]),
        "error": (ctypes.c_char_p, [reader]),
        "gap_name": (ctypes.c_char_p, [ctypes.c_uint32]),
        "close": (None, [reader]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(lib, f"ek_reader_{name}")
        function.restype = result
        function.argtypes = arguments
    return lib


def _text(text: str) -> bytes:
    # C would use only the part before it
    if "\0" in text:
        raise ValueError("embedded null character")
    return os.fsencode(text)


def _when(time: datetime | str | None) -> bytes | None:
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ValueError("a time needs a time zone: pass an aware datetime")
        time = time.isoformat()
    return None if time is None else _text(time)


def _path(channel: str, directory: str | os.PathLike[str] | None) -> Path:
    return Path(channel) if "/" in channel else Path(directory or _DIRECTORY, channel)


def _event(event: _Event) -> Record | Missing:
    if event.kind == 1:
        return Record(
            event.sequence,
            event.realtime_ns,
            event.monotonic_ns,
            ctypes.string_at(event.payload, event.length),
            event.acquired_ns,
        )
    message: bytes = event.message
    kind = cast(Kind, _KINDS[event.kind])
    where = (kind, event.first, event.sequence, message.decode(errors="replace"))
    if kind != "gap":
        return Missing(*where)
    reason: bytes = _library().ek_reader_gap_name(event.gap_reason)
    return Missing(*where, reason.decode(), event.lost or None, event.realtime_ns)


def read(
    channel: str,
    *,
    directory: str | os.PathLike[str] | None = None,
    start: datetime | str | None = None,
    end: datetime | str | None = None,
    sequences: tuple[int | None, int | None] = (None, None),
    follow: bool = False,
) -> Generator[Record | Missing, None, None]:
    """Yield the records of a channel in order, and a Missing where records are absent.

    channel: a name, or the path of its directory (contains a '/').
    directory: directory of the channels, default /recorder.
    start, end: an aware datetime, or text as for `ek-recorder cat --from`.
    sequences: first and last, both included; None: open.
    follow: continue with new records, from now or from start, until end if it is given. Wakes up when the
    recorder writes.

    Raises ChannelNotFound, RecorderError if the recording cannot be read at all, ValueError for an invalid range.
    """
    lib = _library()
    options = _Options(size=ctypes.sizeof(_Options), start=_when(start), to=_when(end), follow=follow)
    if sequences != (None, None):
        options.sequences = "..".join("" if s is None else str(s) for s in sequences).encode()
    options.from_end = follow and start is None and sequences == (None, None)
    handle = ctypes.c_void_p()
    event = _Event()

    def check(result: int) -> int:
        if result < 0:
            message: bytes = lib.ek_reader_error(handle)
            if result == -EINVAL:
                raise ValueError(message.decode(errors="replace"))
            raise error(-result, message.decode(errors="replace"))
        return result

    try:
        result = lib.ek_reader_open(
            ctypes.byref(handle), _text(str(_path(channel, directory))), ctypes.byref(options)
        )
        if result == -ENOMEM:
            raise MemoryError
        check(result)
        while True:
            if check(lib.ek_reader_next(handle, ctypes.byref(event))):
                yield _event(event)
            elif not follow or (result := lib.ek_reader_wait(handle, _PIECE_MS)) == -ESTALE:
                return
            # Python has called the handler of the signal
            elif result != -EINTR:
                check(result)
    finally:
        lib.ek_reader_close(handle)
