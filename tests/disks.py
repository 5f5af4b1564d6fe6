# SPDX-License-Identifier: Apache-2.0
"""File systems for tests: small ones for programs on a full disk, and one like the data partition of a board."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[1]


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a file system of SIZE, such as 512k, at FOLDER. If that is impossible, skip the test."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here (needs root)")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def data_partition(folder: Path, size: str) -> Iterator[Path]:
    """Mount an ext4 file system of SIZE, such as 1g, at FOLDER, with the options of a board's data partition.

    Returns the file with the counters of its block device. If a loop device cannot be mounted, skip the test.
    """
    lines = (TOP / "conf/mkfs/data").read_text().splitlines()
    options = " ".join(line for line in lines if not line.startswith("#")).split()
    rows = map(str.split, (TOP / "conf/fstab").read_text().splitlines())
    mounted = next(row[3] for row in rows if row[1:2] == ["/data"])
    image = folder.with_name(f"{folder.name}.img")
    subprocess.run(["mkfs.ext4", "-q", *options, str(image), size], check=True)
    mount = ["mount", "-t", "ext4", "-o", f"loop,{mounted}", str(image), str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a loop device cannot be mounted here (needs root)")
    try:
        device = folder.stat().st_dev
        yield Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
    finally:
        subprocess.run(["umount", str(folder)], check=True)
        image.unlink()


def fill_up(folder: Path) -> Path:
    """Write a file in FOLDER until the disk is full. Returns its path: remove it to free the space."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    return path
