# SPDX-License-Identifier: Apache-2.0
"""The board's image as a guest: its block map, its kernel, and the runner. These tests boot no guest."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import board, kernels, qemu, runner
from lab.experiments import panel
from lab.model import LabError
from lab.runner import Job, Lab

SIZES = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1)


def text(ranges: list[tuple[int, int]], block: int = 4096) -> str:
    """A block map. RANGES: (first block, number of blocks)."""
    lines = (f"<Range chksum='0'> {a}{'' if n == 1 else f'-{a + n - 1}'} </Range>" for a, n in ranges)
    return f"<bmap version='2.0'><BlockSize> {block} </BlockSize><BlockMap>{''.join(lines)}</BlockMap></bmap>"


@settings(deadline=None)  # the host may be busy
@given(SIZES, st.sampled_from([512, 4096]))
def test_the_ranges_are_those_of_the_map(sizes: list[tuple[int, int]], block: int) -> None:
    ranges, at = [], 0
    for gap, count in sizes:
        ranges.append((at + gap, count))
        at += gap + count
    assert board.read(text(ranges, block)) == [(a * block, n * block) for a, n in ranges]


@pytest.mark.parametrize(
    "bad", ["", "<bmap", "<bmap/>", text([]), text([(5, -3)]), text([(0, 1)]).replace("4096", "x")]
)
def test_a_damaged_map_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        board.read(bad)


@pytest.fixture
def built(tmp_path: Path) -> kernels.Kernel:
    """A built image in tmp_path/image, and its kernel."""
    folder = tmp_path / "image"
    folder.mkdir()
    for name, content in (("img", "disk"), ("bmap", text([(0, 2), (7, 1)]))):
        (folder / f"{board.NAME}.{name}").write_text(content)
    for name in ("bzImage", "image/vmlinuz"):
        (tmp_path / name).write_text("kernel")
    return kernels.Kernel("6.12", tmp_path)


def test_the_guest_gets_the_ranges_in_bytes(built: kernels.Kernel, tmp_path: Path) -> None:
    found = board.find(built, tmp_path / "image")
    assert found.image == tmp_path / "image" / f"{board.NAME}.img"
    assert found.files() == {"/ranges": "0 8192\n28672 4096\n"}


@pytest.mark.parametrize("missing", [f"{board.NAME}.img", f"{board.NAME}.bmap", "vmlinuz"])
def test_a_missing_image_says_how_to_build_it(built: kernels.Kernel, tmp_path: Path, missing: str) -> None:
    (tmp_path / "image" / missing).unlink()
    with pytest.raises(LabError, match=f"no {missing} in .*; 'make image' builds"):
        board.find(built, tmp_path / "image")


def test_an_image_with_another_kernel_is_refused(built: kernels.Kernel, tmp_path: Path) -> None:
    """The guest loads modules of the kernel in build/6.12."""
    (tmp_path / "image/vmlinuz").write_text("another")
    with pytest.raises(LabError, match=r"another kernel than build/6\.12; 'make image'"):
        board.find(built, tmp_path / "image")


def test_a_damaged_map_names_its_file(built: kernels.Kernel, tmp_path: Path) -> None:
    (tmp_path / "image" / f"{board.NAME}.bmap").write_text("<bmap")
    with pytest.raises(LabError, match=rf"cannot read .*{board.NAME}.bmap: .*; 'make image'"):
        board.find(built, tmp_path / "image")


def test_the_disk_of_a_board_is_only_read(tmp_path: Path) -> None:
    """A guest that could write to the image would damage it."""
    nowhere = Path("-")
    command = qemu.Machine(nowhere, disk=tmp_path / "disk.img").command(nowhere, nowhere, nowhere, nowhere)
    drives = [command[i + 1] for i, word in enumerate(command) if word == "-drive"]
    assert drives == [f"file={tmp_path}/disk.img,format=raw,if=none,id=r,readonly=on"]


def test_another_image_is_another_guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache must not answer for a new image with the report of an old one. The path does not matter."""
    monkeypatch.setattr(qemu, "version", lambda: "an emulator")
    monkeypatch.setattr(qemu, "firmware", lambda: "firmware")
    archive = tmp_path / "archive"
    archive.write_text("archive")

    def key(disk: str, digest: str) -> str:
        return runner._key(qemu.Machine(archive, disk=tmp_path / disk), archive, "", digest)

    assert key("a", "1") == key("b", "1") != key("a", "2")


def test_a_board_sets_its_own_scheduler(monkeypatch: pytest.MonkeyPatch, built: kernels.Kernel) -> None:
    monkeypatch.setattr(qemu, "version", lambda: "an emulator")
    monkeypatch.setattr(kernels, "find", lambda *_: built)
    monkeypatch.setattr(board, "find", lambda _: None)
    with pytest.raises(LabError, match=r"panel\.pages-6\.12-bfq: the guest is a board.*cannot run with bfq"):
        runner.check(Lab(), [Job(panel.EXPERIMENTS[0], "6.12", "bfq")])
