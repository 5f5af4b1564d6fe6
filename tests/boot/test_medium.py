# SPDX-License-Identifier: Apache-2.0
"""A board and its media: it starts from its own if another one with Evenkeel is attached, and uses all of a larger one.

The image gives all media the same UUIDs. So in these tests, two media that have never started are copies of each other.
"""

from __future__ import annotations

import random
import re
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from boards import CONSOLE, Board, second_medium
from sample import DEEP, SEED, in_sample, sample
from vm import IMAGE

TOP = Path(__file__).resolve().parents[2]
NAMES = ["bootstate", "data", "esp", "recorder", "root-a", "root-b"]
AGAIN = "so the board starts again"
# The kernel finds a stick later than other disks.
STICK_IS_READY = "until [ -e /dev/sda6 ]; do sleep 0.5; done; udevadm settle"
BOOT_LOADER = "press Esc for the start menu"
LARGE = 8 << 30


def folder(name: str) -> Iterator[Path]:
    """A new folder of a board. Its logs stay."""
    run = TOP / f"build/test-boot-medium-{name}"
    shutil.rmtree(run, ignore_errors=True)
    yield run
    for disk in ("disk.qcow2", "emmc.img", "second.qcow2", "second.img"):
        (run / disk).unlink(missing_ok=True)


@pytest.fixture
def run(request: pytest.FixtureRequest) -> Iterator[Path]:
    yield from folder(re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-"))


@dataclass
class FirstStart:
    """The first start of a board from a medium that is larger than the image, and how long it took after the boot loader."""

    board: Board
    seconds: float


@pytest.fixture(scope="module")
def large() -> Iterator[FirstStart]:
    for run in folder("large"):
        board = Board(run, credentials=(CONSOLE,), medium_bytes=LARGE)
        try:
            board.start(BOOT_LOADER)
            began = time.monotonic()
            board.wait_for_boot()
            yield FirstStart(board, time.monotonic() - began)
        finally:
            if board.on:
                board.power_cut()


def partition(board: Board, name: str) -> str:
    """The device of a partition, such as vda3."""
    return board.run(f"readlink -f /dev/disk/evenkeel/{name}").removeprefix("/dev/")


def uuids(board: Board, disk: str) -> set[str]:
    return set(
        board.run(
            f"for p in /dev/{disk}?*; do udevadm info -q property --property=ID_PART_ENTRY_UUID --value $p; done"
        ).split()
    )


def runs_from(board: Board, disk: str) -> None:
    """Everything that the board uses is on DISK, and the UUIDs of DISK are its own."""
    prefix = f"{disk}p" if disk.startswith("mmc") else disk
    root = board.run("readlink -f /dev/block/$(mountpoint -d /)")
    assert root == f"/dev/{prefix}3"
    assert board.run("ls /dev/disk/evenkeel").split() == NAMES
    found = {name: partition(board, name) for name in NAMES}
    assert found == {
        name: f"{prefix}{number}"
        for number, name in enumerate(["esp", "bootstate", "root-a", "root-b", "recorder", "data"], 1)
    }
    assert board.run("ls /bootstate/grubenv && findmnt -t ext4 -no SOURCE /bootstate") == (
        f"/bootstate/grubenv\n/dev/{found['bootstate']}"
    )
    for name in ("data", "recorder"):
        assert board.run(f"findmnt -no SOURCE /{name}") == f"/dev/{found[name]}"
    assert not any(uuid.startswith("e7e2ee10") for uuid in uuids(board, disk))
    assert "A_TRY=" in board.run("grub-editenv /bootstate/grubenv list")


def starts_again(board: Board) -> int:
    """How often the board has started again since it was switched on."""
    return board.serial().count(AGAIN)


def remember(board: Board, what: str) -> None:
    board.run(f"echo {what} > /data/medium; echo {what} > /recorder/medium; sync")


def remembered(board: Board) -> list[str]:
    return board.try_run("cat /data/medium /recorder/medium 2> /dev/null")[1].split()


def disk_and_stick(run: Path) -> None:
    """At the first start of the stick, the kernel takes the slot of the disk. With DEEP=1, the stick starts once more."""
    board = Board(run, credentials=(CONSOLE,))
    starts = [("sda", True), ("vda", True), ("sda", False)]
    for disk, new in starts if DEEP else starts[:2]:
        board.extra = second_medium(run, IMAGE, first=disk == "sda")
        board.power_on()
        try:
            board.run(STICK_IS_READY)
            runs_from(board, disk)
            assert not uuids(board, "vda") & uuids(board, "sda")
            assert board.settled() == "running", board.run("systemctl --failed --no-legend --plain")
            assert remembered(board) == ([] if new else [disk, disk])
            assert starts_again(board) == (disk == "sda" and new)
            remember(board, disk)
        finally:
            board.power_cut()


def stick_and_emmc(run: Path) -> None:
    """The firmware does not see the eMMC, and its driver is ready before that of the stick."""
    board = Board(run, credentials=(CONSOLE,), usb=True, extra=second_medium(run, IMAGE, "emmc"))
    board.power_on()
    try:
        runs_from(board, "sda")
        assert starts_again(board) == 1
        assert not uuids(board, "sda") & uuids(board, "mmcblk0")
        assert board.settled() == "running", board.run("systemctl --failed --no-legend --plain")
    finally:
        board.power_cut()


def emmc_and_stick(run: Path) -> None:
    board = Board(run, credentials=(CONSOLE,), emmc=True, extra=second_medium(run, IMAGE))
    board.power_on()
    try:
        board.run(STICK_IS_READY)
        runs_from(board, "mmcblk0")
        assert not uuids(board, "sda") & uuids(board, "mmcblk0")
    finally:
        board.power_cut()


PAIRS = {"disk and stick": disk_and_stick, "stick and eMMC": stick_and_emmc, "eMMC and stick": emmc_and_stick}


@pytest.mark.parametrize("pair", sample("two media with Evenkeel", list(PAIRS)))
def test_each_medium_starts_its_own_system(pair: str, run: Path) -> None:
    PAIRS[pair](run)


def size(board: Board, name: str) -> int:
    """MiB of a partition."""
    return int(board.run(f"cat /sys/class/block/{partition(board, name)}/size")) >> 11


def uses_the_whole_medium(board: Board) -> None:
    """Half of the additional space is in recorder and half in data, and their file systems fill them."""
    assert board.settled() == "running", board.run("systemctl --failed --no-legend --plain")
    assert (size(board, "recorder"), size(board, "data")) == (640 + 2324, 1536 + 2324)
    for name in ("recorder", "data"):
        blocks = board.run(f"df --output=size --block-size=1M /{name} | tail -n 1")
        assert int(blocks) > 0.95 * size(board, name)
    assert board.try_run("cat /run/evenkeel/data-degraded")[0] != 0
    assert board.run("stat -c %U /recorder") == "ek-recorder"


LARGER = in_sample("first starts from a larger medium", "whole", "cut")


@LARGER["whole"]
def test_partitions_use_a_larger_medium(large: FirstStart) -> None:
    board = large.board
    runs_from(board, "vda")
    uses_the_whole_medium(board)
    assert starts_again(board) == 1
    own = uuids(board, "vda")
    remember(board, "large")
    board.reboot()
    uses_the_whole_medium(
        board
    )  # waits for the end of the start: /recorder may be mounted after the shell has started
    assert remembered(board) == ["large", "large"]
    assert starts_again(board) == 1
    assert uuids(board, "vda") == own


MOMENTS = [random.Random(f"{SEED} first start {number}").random() for number in range(5)]  # noqa: S311 no secret


@LARGER["cut"]
@pytest.mark.parametrize("moment", sample("a power cut in the first start", MOMENTS), ids="{:.3f}".format)
def test_a_power_cut_in_the_first_start(run: Path, large: FirstStart, moment: float) -> None:
    """The board comes up, and has done everything that the first start would have done."""
    if large.board.on:
        large.board.power_cut()
    board = Board(run, credentials=(CONSOLE,), medium_bytes=LARGE)
    board.start(BOOT_LOADER)
    time.sleep(moment * large.seconds)
    print(
        f"seed {SEED}: cut {moment * large.seconds:.1f} s of {large.seconds:.0f} s after the boot loader, ",
        end="",
    )
    print("after" if starts_again(board) else "before", "the restart")
    board.power_cut()
    board.power_on()
    try:
        runs_from(board, "vda")
        uses_the_whole_medium(board)
    finally:
        board.power_cut()
