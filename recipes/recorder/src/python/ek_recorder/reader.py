# SPDX-License-Identifier: Apache-2.0
"""Read a recording by running `ek-recorder cat` or `follow`, which validate what is on the medium."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Generator
from dataclasses import dataclass
from datetime import datetime
from errno import EIO, ENOENT
from pathlib import Path
from typing import IO, Literal, cast

from .errors import error

# struct reader_frame
_FRAME = struct.Struct("<IIQQQq")
_KINDS = {2: "gap", 3: "missing", 4: "damage", 5: "torn", 6: "overwritten"}

# default of `ek-recorder --directory`
_DIRECTORY = "/recorder"

Kind = Literal["gap", "missing", "damage", "torn", "overwritten"]


@dataclass(frozen=True, slots=True)
class Record:
    """One record."""

    sequence: int
    realtime_ns: int  # CLOCK_REALTIME at its submission; the clock may have jumped
    monotonic_ns: int  # CLOCK_MONOTONIC at its submission, valid within one boot
    data: bytes


@dataclass(frozen=True, slots=True)
class Missing:
    """A place where records were lost, are missing or damaged, or were overwritten."""

    kind: Kind
    first: int  # kind gap or missing: the first lost sequence; other kinds: 0
    last: int  # kind gap or missing: the last lost sequence; other kinds: 0
    message: str  # one sentence


def _when(time: datetime | str) -> str:
    if isinstance(time, str):
        return time
    if time.tzinfo is None:
        raise ValueError("a time needs a time zone: pass an aware datetime")
    return time.isoformat()


def _path(channel: str, directory: str | os.PathLike[str] | None) -> Path:
    return Path(channel) if "/" in channel else Path(directory or _DIRECTORY, channel)


def _exactly(stream: IO[bytes], length: int) -> bytes:
    data = stream.read(length)
    if len(data) != length:
        raise EOFError
    return data


def read(
    channel: str,
    *,
    directory: str | os.PathLike[str] | None = None,
    start: datetime | str | None = None,
    end: datetime | str | None = None,
    sequences: tuple[int | None, int | None] = (None, None),
    follow: bool = False,
    program: str = "ek-recorder",
) -> Generator[Record | Missing, None, None]:
    """Yield the records of a channel in order, and a Missing where records are absent.

    channel: a name, or the path of its directory (contains a '/').
    directory: directory of the channels, default /recorder.
    start, end: an aware datetime, or text as for `ek-recorder cat --from`.
    sequences: first and last, both included; None: open.
    follow: continue with new records, from now or from start, until end if it is given.
    program: path of ek-recorder.

    Raises ChannelNotFound, or RecorderError if the recording cannot be read at all.
    """
    command = [program, "follow" if follow else "cat", "--framed"]
    if directory is not None:
        command.append(f"--directory={os.fspath(directory)}")
    if start is not None:
        command.append(f"--from={_when(start)}")
    if end is not None:
        command.append(f"--to={_when(end)}")
    if sequences != (None, None):
        command.append(f"--sequences={'..'.join('' if s is None else str(s) for s in sequences)}")
    with subprocess.Popen([*command, "--", channel], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as proc:
        assert proc.stdout
        assert proc.stderr
        try:
            while True:
                try:
                    frame = _exactly(proc.stdout, _FRAME.size)
                    length, kind, sequence, first, monotonic, realtime = _FRAME.unpack(frame)
                    data = _exactly(proc.stdout, length)
                except EOFError:
                    break
                if kind == 1:
                    yield Record(sequence, realtime, monotonic, data)
                elif kind in _KINDS:
                    yield Missing(cast(Kind, _KINDS[kind]), first, sequence, data.decode(errors="replace"))
            # with --framed, standard error has only the error that ended the command: it is short
            message = proc.stderr.read().decode(errors="replace").strip()
            if proc.wait() not in (0, 1):
                raise error(
                    EIO if _path(channel, directory).is_dir() else ENOENT,
                    message or f"{program} exited with status {proc.returncode}",
                )
        finally:
            proc.terminate()
