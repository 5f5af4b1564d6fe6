# SPDX-License-Identifier: Apache-2.0
"""The board's image as the disk of a guest.

`make image` writes the image and a block map (.bmap). The map lists the blocks that contain data, each range with its
checksum. So the map's digest stands for that of the image, which would take much longer to compute.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.kernels import TOP, Kernel, digest
from lab.model import LabError

FOLDER = TOP / "build/image"
NAME = "evenkeel-x86_64"


@dataclass(frozen=True)
class Board:
    """An image: its file, the digest of its content, and (start, length) in bytes of each range with data."""

    image: Path
    digest: str
    ranges: Sequence[tuple[int, int]]

    def files(self) -> dict[str, str]:
        """The files of a guest that copies the image (guest/board.sh)."""
        return {"/ranges": "".join(f"{start} {length}\n" for start, length in self.ranges)}


def read(text: str) -> list[tuple[int, int]]:
    """(start, length) in bytes of each range in a block map. Raises ValueError."""
    try:
        root = ET.fromstring(text)  # noqa: S314  (the image's build wrote it)
    except ET.ParseError as error:
        raise ValueError(str(error)) from None
    block = int(root.findtext("BlockSize", ""))
    ranges = []
    for entry in root.iterfind("BlockMap/Range"):
        first, _, last = (entry.text or "").strip().partition("-")
        ranges.append((int(first) * block, (int(last or first) - int(first) + 1) * block))
    if not ranges or any(length <= 0 for _, length in ranges):
        raise ValueError("it lists no blocks")
    return ranges


def find(kernel: Kernel, folder: Path = FOLDER) -> Board:
    """The built image. Its kernel must be `kernel`, whose modules the guest loads. Raises LabError."""
    image, blocks, own = (folder / name for name in (f"{NAME}.img", f"{NAME}.bmap", "vmlinuz"))
    for file in (image, blocks, own):
        if not file.is_file():
            raise LabError(f"no {file.name} in {folder}; 'make image' builds the board's image")
    if digest(own) != digest(kernel.image):
        raise LabError(
            f"the board's image has another kernel than build/{kernel.version}; 'make image' builds it with the present one"
        )
    try:
        ranges = read(blocks.read_text())
    except ValueError as error:
        raise LabError(f"cannot read {blocks}: {error}; 'make image' writes it again") from None
    return Board(image, digest(blocks), ranges)
