# SPDX-License-Identifier: Apache-2.0
"""Where a validation may write. Everything else is refused before a byte is written."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fake_board as board
import pytest
from evenkeel_validate import target
from evenkeel_validate.cases import MB
from evenkeel_validate.errors import ValidateError

MOUNTS = "30 1 179:1 / / rw - ext4 /dev/root rw\n31 30 179:4 / /data rw - ext4 /dev/mmcblk0p4 rw\n"


@pytest.fixture
def sys_(tmp_path: Path) -> Path:
    return board.make_tree(tmp_path)


def test_a_folder_of_the_data_partition(sys_: Path, tmp_path: Path) -> None:
    found = target.of_folder(sys_, tmp_path, MB, "179:4")
    assert (found.kind, found.disk, found.number) == ("file", board.DISK, board.NUMBER)
    assert found.path == tmp_path / ".ek-validate/data"
    assert found.capacity == board.CAPACITY
    assert found.where == f"the file {tmp_path}/.ek-validate/data on mmcblk0"


@pytest.mark.parametrize(
    ("number", "reason"),
    [("0:40", "tmpfs, overlayfs or a network"), ("8:1", "the kernel has no block device 8:1")],
)
def test_a_folder_without_a_block_device_is_refused(
    sys_: Path, tmp_path: Path, number: str, reason: str
) -> None:
    with pytest.raises(ValidateError, match=reason):
        target.of_folder(sys_, tmp_path, MB, number)


def test_a_folder_on_several_devices_is_refused(sys_: Path, tmp_path: Path) -> None:
    (sys_ / "block" / board.DISK / "slaves/sda").mkdir(parents=True)
    with pytest.raises(ValidateError, match=r"consists of other devices \(sda\)"):
        target.of_folder(sys_, tmp_path, MB, board.NUMBER)


def test_a_full_folder_is_refused(sys_: Path, tmp_path: Path) -> None:
    with pytest.raises(ValidateError, match=r"MB free, and the test file needs .* to spare for the board"):
        target.of_folder(sys_, tmp_path, 1 << 60, "179:4")
    space = os.statvfs(tmp_path)
    free = space.f_bavail * space.f_frsize
    # the board keeps KEPT_FREE
    with pytest.raises(ValidateError, match="to spare"):
        target.of_folder(sys_, tmp_path, free - target.KEPT_FREE // 2, "179:4")


def test_a_read_only_folder_is_refused(sys_: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(tmp_path)
    fields = {n: getattr(real, n) for n in ("f_bavail", "f_frsize")}
    monkeypatch.setattr(target.os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY, **fields))
    with pytest.raises(ValidateError, match="is read-only"):
        target.of_folder(sys_, tmp_path, MB, "179:4")


@pytest.mark.parametrize(("name", "reason"), [("absent", "No such file"), ("file", "is not a folder")])
def test_what_is_no_folder_is_refused(sys_: Path, tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValidateError, match=reason):
        target.of_folder(sys_, tmp_path / name, MB, "179:4")


@pytest.fixture
def device(tmp_path: Path, sys_: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], Path]:
    """Makes a file look like the block device MAJ:MIN."""

    def make(name: str, minor: int) -> Path:
        path = tmp_path / name
        path.write_bytes(bytes(3 * MB))
        real = Path.stat

        def fake(self: Path, **options: Any) -> Any:
            if self == path:
                return SimpleNamespace(st_mode=stat.S_IFBLK | 0o600, st_rdev=os.makedev(179, minor))
            return real(self, **options)

        monkeypatch.setattr(Path, "stat", fake)
        monkeypatch.setattr(target.os, "fstat", lambda fd: SimpleNamespace(st_rdev=os.makedev(179, minor)))
        return path

    return make


Device = Callable[[str, int], Path]


def test_a_blank_partition(sys_: Path, device: Device) -> None:
    path = device("mmcblk0p4", 4)
    found = target.of_device(sys_, path, MB)
    assert (found.kind, found.disk, found.first) == ("partition", board.DISK, MB)


@pytest.mark.parametrize("at", [0, 1080, MB - 1, MB, 2 * MB - 1, 2 * MB, 3 * MB - 1])
def test_a_partition_with_data_is_refused(sys_: Path, device: Device, at: int) -> None:
    path = device("mmcblk0p4", 4)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"\x53")
    with pytest.raises(ValidateError, match="has data"):
        target.of_device(sys_, path, MB)
    assert target.of_device(sys_, path, MB, destroy=(str(path), str(path))).kind == "partition"


def test_a_partition_of_an_earlier_validation_is_blank(sys_: Path, device: Device) -> None:
    """ek-validate writes from the second MiB on, and not into the last one. A mark says that it was ek-validate."""
    path = device("mmcblk0p4", 4)
    path.write_bytes(bytes(5 * MB))
    found = target.of_device(sys_, path, MB)
    target.mark(found, MB)
    with path.open("r+b") as file:
        file.seek(MB)
        file.write(os.urandom(MB))
    assert target.of_device(sys_, path, MB) == found
    # a larger run reads the rest
    assert target.blank(path, 2 * MB)
    with path.open("r+b") as file:
        file.seek(2 * MB)
        file.write(b"x")
    assert target.blank(path, MB)
    assert not target.blank(path, 2 * MB)
    # a file system that somebody makes there later
    with path.open("r+b") as file:
        file.seek(1080)
        file.write(b"\x53\xef")
    with pytest.raises(ValidateError, match="has data"):
        target.of_device(sys_, path, MB)


def test_a_smaller_run_forgets_nothing_of_the_mark(sys_: Path, device: Device) -> None:
    path = device("mmcblk0p4", 4)
    found = target.of_device(sys_, path, 3 * MB)
    for size in (2 * MB, MB):
        target.mark(found, size)
    with path.open("r+b") as file:
        file.seek(MB)
        file.write(os.urandom(MB))
    assert target.blank(path, 2 * MB)


def test_what_must_be_named_twice_gets_no_mark(sys_: Path, device: Device) -> None:
    path = device("mmcblk0p4", 4)
    path.write_bytes(b"x" * 3 * MB)
    target.mark(target.of_device(sys_, path, MB, destroy=(str(path), str(path))), MB)
    assert path.read_bytes() == b"x" * 3 * MB


def test_a_device_that_was_replaced_is_refused(
    sys_: Path, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = device("mmcblk0p4", 4)
    monkeypatch.setattr(target.os, "fstat", lambda fd: SimpleNamespace(st_rdev=os.makedev(179, 9)))
    with pytest.raises(ValidateError, match="has become another device"):
        target.of_device(sys_, path, MB)


def test_erased_flash_is_blank(sys_: Path, device: Device) -> None:
    path = device("mmcblk0p4", 4)
    path.write_bytes(b"\xff" * 3 * MB)
    assert target.blank(path, MB)
    path.write_bytes(b"\xff" * MB + b"\0" * 2 * MB)
    assert target.blank(path, MB)
    path.write_bytes(b"\xff" * 100 + b"\0" * (3 * MB - 100))
    assert not target.blank(path, MB)


@pytest.mark.parametrize("destroy", [(), ("X",), ("X", "Y"), ("X", "X", "X"), ("Y", "Y")])
def test_a_whole_device_needs_destroy_twice(sys_: Path, device: Device, destroy: tuple[str, ...]) -> None:
    path = device("mmcblk0", 0)
    words = tuple(str(path) if w == "X" else "/dev/other" for w in destroy)
    with pytest.raises(ValidateError, match=r"--destroy .* twice"):
        target.of_device(sys_, path, MB, destroy=words)
    assert target.of_device(sys_, path, MB, destroy=(str(path), str(path))).kind == "device"


@pytest.mark.parametrize("minor", [0, 4])
def test_a_mounted_device_is_refused(sys_: Path, device: Device, minor: int) -> None:
    """Also a whole device of which one partition is mounted, and also with --destroy."""
    path = device("x", minor)
    twice = (str(path), str(path))
    with pytest.raises(
        ValidateError, match=r"is in use: mmcblk0p4 is mounted at /data\. Nothing was written"
    ):
        target.of_device(sys_, path, MB, destroy=twice, mounts=MOUNTS)


def test_swap_and_parts_of_raid_are_refused(sys_: Path, device: Device) -> None:
    path = device("x", 0)
    twice = (str(path), str(path))
    swaps = "Filename Type Size Used Priority\n/dev/mmcblk0p4 partition 1 0 -2\n"
    with pytest.raises(ValidateError, match="mmcblk0p4 is swap space"):
        target.of_device(sys_, path, MB, destroy=twice, swaps=swaps)
    (sys_ / "block" / board.DISK / "mmcblk0p4/holders/dm-0").mkdir(parents=True)
    with pytest.raises(ValidateError, match="mmcblk0p4 is part of dm-0"):
        target.of_device(sys_, path, MB, destroy=twice)


def test_a_read_only_device_is_refused(sys_: Path, device: Device) -> None:
    path = device("mmcblk0p4", 4)
    (sys_ / "block" / board.DISK / "mmcblk0p4/ro").write_text("1\n")
    with pytest.raises(ValidateError, match="is read-only, for example by the switch of an SD card"):
        target.of_device(sys_, path, MB)


@pytest.mark.parametrize(
    ("number", "reason"),
    [(errno.EBUSY, "another driver uses it"), (errno.EROFS, "read-only"), (errno.EPERM, "not permitted")],
)
def test_a_device_that_somebody_has_opened_is_refused(
    sys_: Path, device: Device, monkeypatch: pytest.MonkeyPatch, number: int, reason: str
) -> None:
    path = device("mmcblk0p4", 4)
    real = os.open

    def refuse(name: Any, flags: int, *more: Any) -> int:
        if flags & os.O_EXCL and name == path:
            raise OSError(number, os.strerror(number))
        return real(name, flags, *more)

    monkeypatch.setattr(target.os, "open", refuse)
    with pytest.raises(ValidateError, match=reason):
        target.of_device(sys_, path, MB)


def test_what_is_no_device_is_refused(sys_: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValidateError, match="is no block device"):
        target.of_device(sys_, tmp_path / "file", MB)
    with pytest.raises(ValidateError, match="No such file"):
        target.of_device(sys_, tmp_path / "absent", MB)


def test_a_device_that_is_too_small_is_refused(sys_: Path, device: Device) -> None:
    path = device("mmcblk0p4", 4)
    (sys_ / "block" / board.DISK / "mmcblk0p4/size").write_text("100\n")
    with pytest.raises(ValidateError, match="at least 16 MiB"):
        target.of_device(sys_, path, MB)
