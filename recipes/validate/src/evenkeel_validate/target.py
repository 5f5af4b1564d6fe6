# SPDX-License-Identifier: Apache-2.0
"""Where a validation reads and writes: a file of its own, a spare partition, or a whole device.

A file is the default, and destroys nothing. A partition must be blank: nobody has ever written to the part that a run
overwrites, or only ek-validate has. Then its first MiB has MARK and is otherwise blank. A whole device must be named twice,
and loses everything. A device that anything uses is refused in any case: a mount, swap, LVM, RAID, or a program that has
opened it exclusively. From this check on, the process has the device opened exclusively itself. So nobody can mount it, and
if it is removed, no other device gets its name.
"""

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evenkeel_common.files import read_line, why

from .cases import MB
from .errors import ValidateError
from .plan import KEPT_FREE

FOLDER = ".ek-validate"
FILE = "data"
# Partitions and devices: the bytes at the beginning that stay as they are.
BLANK = MB
# The last block of the first MiB of a partition that ek-validate has written before: how far it may overwrite the partition
# without reading it. The number of bytes follows.
MARK = b"ek-validate overwrites this partition up to byte "
MARK_BYTES = 4096
ERASED = (b"\0", b"\xff")
TargetKind = Literal["file", "partition", "device"]
# file systems that have no device of their own
NO_DEVICE = (
    "it is not on a block device, but on tmpfs, overlayfs or a network; choose a folder of the data partition"
)


@dataclass(frozen=True)
class Target:
    """`path` is what fio opens. `disk` is the name of the whole device in /sys/block; `number` is its "MAJ:MIN".

    `spare`: a partition that must be blank.
    """

    kind: TargetKind
    path: Path
    disk: str
    number: str
    capacity: int
    first: int = 0
    spare: bool = False

    @property
    def where(self) -> str:
        return {
            "file": f"the file {self.path} on {self.disk}",
            "partition": f"the partition {self.path}",
            "device": f"the whole device {self.path}",
        }[self.kind]


def whole(sys: Path, number: str) -> tuple[str, str]:
    """(name, "MAJ:MIN") of the whole disk that has the device NUMBER. Raises ValidateError if no single disk has it."""
    folder = (sys / "dev/block" / number).resolve()
    if not folder.is_dir():
        raise ValidateError(f"the kernel has no block device {number}: {NO_DEVICE}")
    below = sorted(p.name for p in (folder / "slaves").iterdir()) if (folder / "slaves").is_dir() else []
    if below:
        raise ValidateError(
            f"{folder.name} consists of other devices ({', '.join(below)}); choose a folder or a partition directly"
            " on one of them"
        )
    if (folder / "partition").exists():
        folder = folder.parent
    return folder.name, read_line(str(folder / "dev")) or number


def of_folder(sys: Path, folder: Path, size: int, number: str = "") -> Target:
    """A test file of SIZE bytes in FOLDER. Raises ValidateError if the folder has no space, or cannot be written.

    NUMBER: the device of the folder, for tests.
    """
    try:
        found = folder.stat()
        space = os.statvfs(folder)
    except OSError as error:
        raise ValidateError(f"cannot examine {folder}: {why(error)}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise ValidateError(f"{folder} is not a folder")
    number = number or f"{os.major(found.st_dev)}:{os.minor(found.st_dev)}"
    if number.startswith("0:"):
        raise ValidateError(f"{folder} cannot hold the test file: {NO_DEVICE}")
    disk, disk_number = whole(sys, number)
    if space.f_flag & os.ST_RDONLY or not os.access(folder, os.W_OK):
        raise ValidateError(
            f"{folder} is read-only; an error of the file system may have caused this. See the journal of the kernel"
        )
    free = space.f_bavail * space.f_frsize
    if free < size + KEPT_FREE:
        raise ValidateError(
            f"{folder} has {free / 1e6:.0f} MB free, and the test file needs {size / 1e6:.0f} MB, with {KEPT_FREE / 1e6:.0f} MB"
            " to spare for the board. Delete something, or use the profile quick"
        )
    return Target("file", folder / FOLDER / FILE, disk, disk_number, _capacity(sys, disk))


def of_device(
    sys: Path, path: Path, size: int, *, destroy: tuple[str, ...] = (), mounts: str = "", swaps: str = ""
) -> Target:
    """A partition, or a whole device that --destroy names twice. Raises ValidateError if it may not be written.

    SIZE: the most bytes that a run overwrites. MOUNTS and SWAPS: the text of /proc/self/mountinfo and /proc/swaps.
    The process keeps the device open.
    """
    try:
        found = path.stat()
    except OSError as error:
        raise ValidateError(f"cannot examine {path}: {why(error)}") from error
    if not stat.S_ISBLK(found.st_mode):
        raise ValidateError(f"{path} is no block device; for a test file, use --folder")
    number = f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"
    folder = (sys / "dev/block" / number).resolve()
    disk, disk_number = whole(sys, number)
    partition = (folder / "partition").exists()
    if destroy and destroy != (str(path), str(path)):
        raise ValidateError(f"to overwrite {path}, give --destroy {path} twice, spelled in the same way")
    if not partition and not destroy:
        raise ValidateError(
            f"{path} is a whole device, and a validation destroys all its data. If you want this, give"
            f" --destroy {path} twice"
        )
    if used := in_use(folder, mounts, swaps):
        raise ValidateError(f"{path} is in use: {used}. Nothing was written")
    if read_line(str(folder / "ro")) == "1":
        raise ValidateError(
            f"{path} is read-only, for example by the switch of an SD card. Nothing was written"
        )
    has = int(read_line(str(folder / "size")) or 0) * 512
    if has < 16 * MB:
        raise ValidateError(f"{path} has {has / 1e6:.0f} MB; at least 16 MiB are needed")
    _keep(path, found.st_rdev)
    spare = partition and not destroy
    try:
        free = not spare or blank(path, size)
    except OSError as error:
        raise ValidateError(f"cannot read {path}: {why(error)}. Nothing was written") from error
    if not free:
        raise ValidateError(
            f"{path} has data. ek-validate overwrites only a blank partition. If you do not need the data, give"
            f" --destroy {path} twice"
        )
    return Target(
        "partition" if partition else "device", path, disk, disk_number, _capacity(sys, disk), BLANK, spare
    )


def in_use(folder: Path, mounts: str, swaps: str) -> str:
    """What uses the device with the folder FOLDER in sysfs, or one of its partitions; "" if nothing does."""
    members = [folder, *sorted(p.parent for p in folder.glob("*/partition"))]
    mounted = {line.split()[2]: line.split()[4] for line in mounts.splitlines() if len(line.split()) > 4}
    swapped = {line.split()[0] for line in swaps.splitlines()[1:] if line.split()}
    for member in members:
        if (number := read_line(str(member / "dev"))) in mounted:
            return f"{member.name} is mounted at {mounted[number]}"
        if f"/dev/{member.name}" in swapped:
            return f"{member.name} is swap space"
        holders = sorted(p.name for p in (member / "holders").glob("*"))
        if holders:
            return f"{member.name} is part of {', '.join(holders)}"
    return ""


def _keep(path: Path, number: int) -> None:
    """Open the device exclusively until the process ends. Raises ValidateError if somebody has it already.

    A file system or a driver may have it that in_use() cannot see. NUMBER: of the device that was examined.
    """
    try:
        # never closed: its end is that of the process
        fd = os.open(path, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC)
    except OSError as error:
        reason = {
            errno.EBUSY: "a file system or another driver uses it",
            errno.EROFS: "it is read-only",
        }.get(error.errno or 0, why(error))
        raise ValidateError(f"cannot open {path}: {reason}. Nothing was written") from error
    if os.fstat(fd).st_rdev != number:
        raise ValidateError(f"{path} has become another device. Nothing was written")


def blank(path: Path, size: int) -> bool:
    """Whether the bytes that a run of SIZE bytes would overwrite, and the first and the last MiB, have no data.

    Blank are bytes of 0x00, or of 0xff (erased flash). What MARK says that ek-validate has written is not read. Raises OSError.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        end = os.lseek(fd, 0, os.SEEK_END)
        head = os.pread(fd, BLANK, 0)
        known = _marked(head)
        if known:
            head = head[:-MARK_BYTES]
        # file systems have their superblocks in the first MiB, RAID and GPT also in the last
        if not (_erased(head) and _erased(os.pread(fd, BLANK, max(end - BLANK, 0)))):
            return False
        parts = range(max(BLANK, known), min(BLANK + size, end), BLANK)
        return all(_erased(os.pread(fd, BLANK, at)) for at in parts)
    finally:
        # it would take the place of files that apps use
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def _erased(part: bytes) -> bool:
    return any(part.count(byte) == len(part) for byte in ERASED)


def _marked(head: bytes) -> int:
    """The byte up to which ek-validate may overwrite the partition with the first MiB HEAD; 0 without MARK."""
    block = head[-MARK_BYTES:]
    number = block.removeprefix(MARK).rstrip(b"\0")
    return int(number) if block.startswith(MARK) and number.isdigit() else 0


def mark(target: Target, size: int) -> None:
    """Write MARK on a spare partition, of which a run is about to overwrite SIZE bytes. Raises ValidateError."""
    if not target.spare:
        return
    try:
        fd = os.open(target.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            known = max(_marked(os.pread(fd, BLANK, 0)), target.first + size)
            os.pwrite(fd, MARK + str(known).encode().ljust(MARK_BYTES - len(MARK), b"\0"), BLANK - MARK_BYTES)
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise ValidateError(f"cannot write {target.path}: {why(error)}") from error


def area_bytes(target: Target, file_bytes: int, sys: Path) -> int:
    """Bytes that the loads may use. Partitions and devices keep the first and the last MiB."""
    if target.kind == "file":
        return file_bytes
    number = os.stat(target.path).st_rdev  # noqa: PTH116
    folder = (sys / "dev/block" / f"{os.major(number)}:{os.minor(number)}").resolve()
    size = int(read_line(str(folder / "size")) or 0) * 512
    return min(file_bytes, size - 2 * BLANK)


def _capacity(sys: Path, disk: str) -> int:
    text = read_line(str(sys / "block" / disk / "size"))
    return int(text) * 512 if text.isdigit() else 0
