# SPDX-License-Identifier: Apache-2.0
"""The holes of a disk image: which blocks a flash tool writes, on each file system of the build machine."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

HOLES = Path(__file__).resolve().parents[1] / "src/holes"
MIB = 1 << 20
SIZE = 40 * MIB
FAT, EXT4 = (1 * MIB, 9 * MIB), (12 * MIB, 36 * MIB)  # partitions
TABLE = "label: gpt\nstart=1MiB, size=8MiB, name=esp\nstart=12MiB, size=24MiB, name=data\n"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A disk image with a partition that begins with text, and one with ext4, which has a journal and one file."""
    disk, system, tree = tmp_path / "disk.img", tmp_path / "ext4", tmp_path / "tree"
    with disk.open("wb") as file:
        file.truncate(SIZE)
    subprocess.run(["sfdisk", "-q", disk], input=TABLE, text=True, check=True)
    tree.mkdir()
    (tree / "file").write_bytes(b"contents" * 10_000)
    options = ["-O", "^metadata_csum_seed,^orphan_file", "-E", "lazy_itable_init=0,nodiscard"]
    subprocess.run(["mke2fs", "-q", "-t", "ext4", *options, "-d", tree, system, "24M"], check=True)
    write(disk, EXT4[0], system.read_bytes())
    write(disk, FAT[0] + 100_000, b"a file")
    return disk


def write(disk: Path, at: int, data: bytes) -> None:
    with disk.open("r+b") as file:
        file.seek(at)
        file.write(data)


def data(disk: Path) -> list[tuple[int, int]]:
    """The areas of the file that are no holes."""
    found = []
    with disk.open("rb") as file:
        at, size = 0, os.fstat(file.fileno()).st_size
        while at < size:
            try:
                begin = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                break
            at = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            found.append((begin, at))
    return found


def run(disk: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HOLES, disk], capture_output=True, text=True, check=False)


def used_blocks(disk: Path) -> str:
    """bmaptool's list of used blocks."""
    out = disk.with_suffix(".bmap")
    subprocess.run(["bmaptool", "-q", "create", "-o", out, disk], check=True)
    return out.read_text()


def journal(disk: Path, tmp_path: Path) -> int:
    """The byte in the image at which the journal's second block begins, which is zero."""
    system = tmp_path / "journal.ext4"
    system.write_bytes(disk.read_bytes()[slice(*EXT4)])
    blocks = subprocess.run(
        ["debugfs", "-R", "blocks <8>", system], capture_output=True, text=True, check=True
    ).stdout.split()
    text = subprocess.run(["dumpe2fs", "-h", system], capture_output=True, text=True, check=True).stdout
    size = int(text.split("Block size:")[1].split()[0])
    return EXT4[0] + int(blocks[3]) * size


@pytest.mark.parametrize("sparse", ["always", "never"])
def test_the_used_blocks_do_not_depend_on_the_holes_before(image: Path, tmp_path: Path, sparse: str) -> None:
    copy = tmp_path / "copy.img"
    subprocess.run(["cp", f"--sparse={sparse}", image, copy], check=True)
    before = hashlib.sha256(image.read_bytes()).hexdigest()
    assert run(copy).returncode == 0
    assert run(image).returncode == 0
    assert hashlib.sha256(copy.read_bytes()).hexdigest() == before
    assert data(copy) == data(image)
    assert used_blocks(copy) == used_blocks(image)
    assert copy.stat().st_blocks * 512 < SIZE / 2


def test_a_block_of_zeros_that_the_file_system_uses_is_written(image: Path, tmp_path: Path) -> None:
    """Otherwise the journal on the medium would keep blocks of an earlier system."""
    at = journal(image, tmp_path)
    assert image.read_bytes()[at : at + 4096] == bytes(4096)
    subprocess.run(["fallocate", "--dig-holes", image], check=True)
    assert not any(begin <= at < end for begin, end in data(image))
    assert run(image).returncode == 0
    assert any(begin <= at < end for begin, end in data(image))


def test_another_partition_is_written_up_to_its_last_contents(image: Path) -> None:
    assert run(image).returncode == 0
    assert (FAT[0], FAT[0] + 102_400) in data(image)


def test_both_partition_tables_are_written(image: Path) -> None:
    assert run(image).returncode == 0
    areas = data(image)
    assert areas[0][0] == 0
    assert areas[-1][1] == SIZE


@pytest.mark.parametrize("at", [EXT4[1] - 4096, EXT4[1] - 3 * MIB])
def test_contents_are_never_lost(image: Path, at: int) -> None:
    """A block with data that the file system does not use is an error, and the image stays as it was."""
    write(image, at, b"lost?")
    before = image.read_bytes()
    done = run(image)
    assert done.returncode == 1
    assert f"the block at byte {at} has data, but no file system uses it" in done.stderr
    assert image.read_bytes() == before


def test_what_is_no_image_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.img").write_bytes(b"x")
    assert f"holes: {tmp_path}/x.img:" in run(tmp_path / "x.img").stderr
    assert f"holes: {tmp_path}/none.img:" in run(tmp_path / "none.img").stderr
