# SPDX-License-Identifier: Apache-2.0
"""factory-reset, on files in place of partitions: which ones it makes empty, and how long its order stays."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[3]
PROGRAM = TOP / "recipes/image/data/rootfs/usr/lib/evenkeel/factory-reset"


class Disk:
    """Three partitions as files below FOLDER. /bootstate is a folder, so mount and umount do nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "usr/lib/evenkeel").mkdir(parents=True)
        (folder / "usr/lib/evenkeel/mkfs").symlink_to(TOP / "conf/mkfs")
        (folder / "usr/lib/evenkeel/make-empty").symlink_to(PROGRAM.with_name("make-empty"))
        (folder / "bin").mkdir()
        (folder / "bootstate").mkdir()
        for name in ("mount", "umount", "blkdiscard"):
            self.program(name, f'echo "{name} $*" >> {folder}/calls')
        self.grubenv = folder / "bootstate/grubenv"
        self.editenv("create")
        self.editenv("set", "ORDER=A B", "A_OK=1", "RESET=keep")
        for name in ("data", "recorder"):
            subprocess.run(["mke2fs", "-q", "-t", "ext4", folder / name, "64M"], check=True)
            (folder / "secret").write_text("a secret")
            self.debugfs(name, f"write {folder}/secret secret")

    def program(self, name: str, text: str) -> None:
        file = self.folder / "bin" / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)

    def editenv(self, *args: str) -> str:
        done = subprocess.run(
            ["grub-editenv", self.grubenv, *args], capture_output=True, text=True, check=True
        )
        return done.stdout

    def debugfs(self, name: str, command: str) -> str:
        done = subprocess.run(
            ["debugfs", "-w", "-R", command, self.folder / name], capture_output=True, text=True, check=True
        )
        return done.stdout

    def empty(self, name: str) -> bool:
        return "secret" not in self.debugfs(name, "ls")

    def reset(self, *args: str) -> subprocess.CompletedProcess[str]:
        path = f"{self.folder}/bin:{os.environ['PATH']}:/usr/sbin"
        environment = {"PATH": path, "EK_RESET_ROOT": str(self.folder)}
        return subprocess.run([PROGRAM, *args], env=environment, capture_output=True, text=True, check=False)

    def devices(self) -> list[str]:
        return ["/dev/bootstate", str(self.folder / "data"), str(self.folder / "recorder")]


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


@pytest.mark.parametrize("what", ["keep", "all"])
def test_the_partitions_become_empty_and_the_order_ends(disk: Disk, what: str) -> None:
    done = disk.reset(what, *disk.devices())
    assert done.returncode == 0, done.stderr
    assert (disk.empty("data"), disk.empty("recorder")) == (True, what == "all")
    assert "RESET" not in disk.editenv("list")
    assert "A_OK=1" in disk.editenv("list")
    for name in ("data", "recorder"):
        check = subprocess.run(
            ["e2fsck", "-fn", disk.folder / name], capture_output=True, text=True, check=False
        )
        assert check.returncode == 0, check.stdout
    assert "Filesystem volume name:   data\n" in disk.debugfs("data", "stats")


def test_old_contents_are_discarded_first(disk: Disk) -> None:
    disk.reset("all", *disk.devices())
    calls = (disk.folder / "calls").read_text().splitlines()
    assert calls == [
        f"mount -t ext4 -o sync /dev/bootstate {disk.folder}/bootstate",
        f"blkdiscard -f {disk.folder}/data",
        f"blkdiscard -f {disk.folder}/recorder",
        f"umount {disk.folder}/bootstate",
    ]


@pytest.mark.parametrize("broken", ["mount", "grub-editenv"])
def test_nothing_is_erased_if_the_order_could_not_be_ended(disk: Disk, broken: str) -> None:
    """Otherwise each later boot would erase the board again."""
    disk.program(broken, "exit 1")
    done = disk.reset("all", *disk.devices())
    assert done.returncode == 1
    assert "cannot" in done.stderr
    assert (disk.empty("data"), disk.empty("recorder")) == (False, False)


def test_after_an_error_the_order_ends(disk: Disk) -> None:
    """Somebody may use the board for months before it boots again."""
    disk.program("mke2fs", "exit 1")
    done = disk.reset("all", *disk.devices())
    assert done.returncode == 1
    assert f"cannot make a file system on {disk.folder}/data {disk.folder}/recorder" in done.stderr
    assert "RESET" not in disk.editenv("list")
    assert "umount" in (disk.folder / "calls").read_text()


def test_after_a_power_cut_the_next_boot_does_it_again(disk: Disk) -> None:
    # the parents are xargs, make-empty and the program itself
    disk.program("mke2fs", "kill -9 $(ps -o ppid= $(ps -o ppid= $PPID))")
    assert disk.reset("all", *disk.devices()).returncode == -9
    assert "RESET=all" in disk.editenv("list")
    (disk.folder / "bin/mke2fs").unlink()
    assert disk.reset("all", *disk.devices()).returncode == 0
    assert (disk.empty("data"), disk.empty("recorder")) == (True, True)
    assert "RESET" not in disk.editenv("list")


def test_a_board_without_a_partition_for_recordings(disk: Disk) -> None:
    bootstate, data, _ = disk.devices()
    assert disk.reset("all", bootstate, data, "").returncode == 0
    done = disk.reset("all", bootstate, "", "")
    assert done.returncode == 1
    assert "there is no partition data" in done.stderr


def test_an_order_for_the_next_boot(disk: Disk) -> None:
    for what in ("keep", "all"):
        assert disk.reset("order", what).returncode == 0
        assert f"RESET={what}" in disk.editenv("list").splitlines()
    assert disk.reset("order", "none").returncode == 0
    assert "RESET" not in disk.editenv("list")
    assert not disk.empty("data")


@pytest.mark.parametrize(
    "args", [(), ("order",), ("order", "everything"), ("none", "a", "b", "c"), ("keep", "a")]
)
def test_wrong_usage_does_nothing(disk: Disk, args: tuple[str, ...]) -> None:
    done = disk.reset(*args)
    assert done.returncode == 2
    assert done.stderr.startswith("usage:")
    assert not disk.empty("data")
