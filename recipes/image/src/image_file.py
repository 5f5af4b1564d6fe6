# SPDX-License-Identifier: Apache-2.0
"""Check a disk image before a board boots from it: whether it is compressed, and whether it is complete.

A board that boots from a truncated image hangs in the middle of the boot, minutes
later. The partition table (GPT) shows at once whether an image is complete. Its first
copy contains the position of its second copy, which is the last sector of the image.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO, NamedTuple

SECTOR = 512
GPT_SIGNATURE = b"EFI PART"
# the header of a partition table: the fields of Gpt, and unused bytes (x)
GPT_HEADER = struct.Struct("<8s24xQ32xQII")
# first bytes of a compressed file → the program of the build root that decompresses it
UNPACKERS = {b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\x00": "xz"}


class ImageFileError(Exception):
    """A board cannot boot from the file; the message says why, and what to do."""


class Gpt(NamedTuple):
    """Header of a partition table. other_copy and first_entry are sector numbers; entry_size is in bytes."""

    signature: bytes
    other_copy: int
    first_entry: int
    entries: int
    entry_size: int


def unpacker(path: Path) -> str | None:
    """Name of the program that decompresses the file; None if the file is not compressed."""
    try:
        with path.open("rb") as file:
            begin = file.read(8)
    except IsADirectoryError:
        raise ImageFileError(f"{path} is a folder, not an image file") from None
    except OSError as error:
        raise ImageFileError(f"cannot read the image {path}: {error.strerror}") from None
    return next((program for magic, program in UNPACKERS.items() if begin.startswith(magic)), None)


def check_whole(path: Path) -> None:
    """Raise ImageFileError unless the image contains both copies of its partition table."""
    with path.open("rb") as file:
        other_copy = _header(file, path).other_copy
        file.seek(0, 2)
        size, needed = file.tell(), (other_copy + 1) * SECTOR
        if size < needed:
            raise ImageFileError(
                f"{path} is truncated: it has {size} of {needed} bytes. Copy or download it again"
            )
        file.seek(other_copy * SECTOR)
        if file.read(len(GPT_SIGNATURE)) != GPT_SIGNATURE:
            raise ImageFileError(
                f"{path} is damaged: its last sector is not the copy of the partition table. "
                "Copy or download it again"
            )


def partition_offset(path: Path, label: str) -> int | None:
    """Offset in bytes of the partition whose name is `label`. None if the image has no such partition."""
    with path.open("rb") as file:
        header = _header(file, path)
        file.seek(header.first_entry * SECTOR)
        table = file.read(min(header.entries * header.entry_size, 1 << 16))
    for begin in range(0, len(table), max(header.entry_size, 128)):
        entry = table[begin : begin + 128]
        if entry[56:].decode("utf-16-le", "replace").rstrip("\0") == label:
            return int.from_bytes(entry[32:40], "little") * SECTOR
    return None


def _header(file: BinaryIO, path: Path) -> Gpt:
    file.seek(SECTOR)
    header = file.read(GPT_HEADER.size)
    if len(header) < GPT_HEADER.size or not header.startswith(GPT_SIGNATURE):
        raise ImageFileError(
            f"{path} is not a disk image: it has no partition table (GPT). "
            "Name an evenkeel-x86_64.img, or one packed with zstd or xz"
        )
    return Gpt._make(GPT_HEADER.unpack(header))
