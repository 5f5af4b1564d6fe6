# SPDX-License-Identifier: Apache-2.0
"""fit-medium and new-uuids on files and loop devices, and what a power cut leaves of the partition table."""

from __future__ import annotations

import json
import random
import re
import struct
import subprocess
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

IMAGE = Path(__file__).resolve().parents[1]
SOURCE = IMAGE / "src/fit-medium.c"
MAKE_EMPTY = IMAGE / "data/rootfs/usr/lib/evenkeel/make-empty"
SECTOR = 512
MIB = 1 << 20
IMAGE_UUID = "e7e2ee10-0000-4000-8001"
# the partitions of the test image: name → first MiB, size in MiB
PARTITIONS = {
    "esp": (4, 4),
    "bootstate": (8, 4),
    "root-a": (12, 4),
    "root-b": (16, 4),
    "recorder": (20, 8),
    "data": (28, 12),
}
END = 40
# Writes and flushes of the program go to a log, in place of the disk: number, offset, length, bytes. A flush has length 0.
LOG = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static FILE *log_file(void)
{
	static FILE *file;
	if (!file)
		file = fopen(getenv("WRITES"), "wb");
	return file;
}
ssize_t __real_pwrite(int fd, const void *bytes, size_t length, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
	unsigned long head[2] = { (unsigned long)offset, length };
	fwrite(head, sizeof(head), 1, log_file());
	fwrite(bytes, length, 1, log_file());
	fflush(log_file());
	return __real_pwrite(fd, bytes, length, offset);
}
int __wrap_fsync(int fd)
{
	unsigned long head[2] = { 0, 0 };
	(void)fd;
	fwrite(head, sizeof(head), 1, log_file());
	fflush(log_file());
	return 0;
}
"""


def build(folder: Path, *more: str) -> Path:
    program = folder / "fit-medium"
    command = ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-g", str(SOURCE), *more]
    subprocess.run([*command, "-o", str(program)], check=True)
    return program


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("program"), "-fsanitize=address,undefined", "-fno-sanitize-recover")


@pytest.fixture(scope="module")
def logging_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, which also writes each of its writes and flushes to the file $WRITES."""
    folder = tmp_path_factory.mktemp("logging")
    (folder / "log.c").write_text(LOG)
    return build(folder, str(folder / "log.c"), "-Wl,--wrap=pwrite", "-Wl,--wrap=fsync")


@dataclass(frozen=True)
class Part:
    name: str
    first: int  # MiB
    size: int
    uuid: str
    type: str


class Medium:
    """A file with the partition table of an image, and file systems in the partitions recorder and data."""

    def __init__(self, path: Path, mib: int = END + 4, **moved: tuple[int, int]) -> None:
        self.path = path
        lines = ["label: gpt", f"label-id: {IMAGE_UUID}-000000000000"]
        places = {**PARTITIONS, **moved}
        for number, (name, (first, size)) in enumerate(places.items(), 1):
            kind = "U" if name == "esp" else "L"
            lines.append(
                f"start={first}MiB, size={size}MiB, type={kind}, name={name}, uuid={IMAGE_UUID}-{number:012x}"
            )
        self.resize(END + 4)
        subprocess.run(["sfdisk", "--quiet", path], input="\n".join(lines), text=True, check=True)
        for name in ("recorder", "data"):
            first, size = places[name]
            self.make_fs(first, size)
        self.resize(mib)

    def make_fs(self, first: int, size: int, *more: str) -> None:
        options = ["-q", "-F", "-E", f"offset={first * MIB},nodiscard", "-O", "^orphan_file", *more]
        subprocess.run(["mke2fs", *options, "-t", "ext4", "-b", "1024", self.path, f"{size}M"], check=True)

    def fill(self, folder: Path) -> None:
        """Put the files in FOLDER into data, as the build of an image may do."""
        first, size = self.places()["data"]
        self.make_fs(first, size, "-d", str(folder))

    def use(self, name: str) -> None:
        """Change the file system as a first mount does."""
        with self.path.open("r+b") as file:
            file.seek(self.places()[name][0] * MIB + 1024 + 0x2C)
            file.write(struct.pack("<I", 1_700_000_000))

    def resize(self, mib: int) -> None:
        with self.path.open("ab") as file:
            file.truncate(mib * MIB)

    def table(self) -> dict[str, Any]:
        done = subprocess.run(["sfdisk", "--json", self.path], capture_output=True, text=True, check=True)
        table: dict[str, Any] = json.loads(done.stdout)["partitiontable"]
        return table

    def parts(self) -> list[Part]:
        sectors = MIB // SECTOR
        return [
            Part(
                part["name"],
                part["start"] // sectors,
                part["size"] // sectors,
                part["uuid"].lower(),
                part["type"],
            )
            for part in self.table()["partitions"]
        ]

    def places(self) -> dict[str, tuple[int, int]]:
        return {part.name: (part.first, part.size) for part in self.parts()}

    def uuids(self) -> set[str]:
        return {self.table()["id"].lower(), *(part.uuid for part in self.parts())}

    def check(self) -> None:
        """sfdisk finds no fault, neither does GRUB, and only UUIDs and places have changed."""
        done = subprocess.run(["sfdisk", "--verify", self.path], capture_output=True, text=True, check=False)
        assert "No errors detected" in done.stdout, done.stdout + done.stderr
        seen = subprocess.run(["grub-fstest", self.path, "ls"], capture_output=True, text=True, check=True)
        assert set(re.findall(r"\(loop0,gpt(\d)\)", seen.stdout)) == set("123456"), seen.stdout


@pytest.fixture
def medium(tmp_path: Path) -> Medium:
    """A medium that has just been flashed, and has no more space than the image needs."""
    return Medium(tmp_path / "medium")


def run(program: Path, medium: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *options, medium, "/bin/false"], capture_output=True, text=True, check=False
    )


def fit(program: Path, medium: Path, *options: str) -> tuple[int, list[str]]:
    """Exit status and lines of the program, which must not report an error."""
    done = run(program, medium, *options)
    assert done.stderr == "", done.stderr
    return done.returncode, done.stdout.splitlines()


def own_uuids(program: Path, medium: Medium) -> Medium:
    assert fit(program, medium.path)[0] == 0
    assert fit(program, medium.path) == (0, [])
    return medium


# -- new UUIDs ------------------------------------------------------------------------------


def test_a_new_medium_gets_uuids_of_its_own(program: Path, medium: Medium) -> None:
    before, contents = medium.parts(), medium.path.read_bytes()
    assert fit(program, medium.path) == (0, [f"{medium.path} has new UUIDs"])
    medium.check()
    uuids = medium.uuids()
    assert len(uuids) == 1 + len(PARTITIONS)
    assert not any(uuid.startswith(IMAGE_UUID) for uuid in uuids)
    assert all(
        re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f-]{16}", uuid) for uuid in uuids
    )
    assert [replace(part, uuid="") for part in medium.parts()] == [replace(part, uuid="") for part in before]
    assert medium.path.read_bytes()[4 * MIB : END * MIB] == contents[4 * MIB : END * MIB]


def test_two_media_get_different_uuids(program: Path, tmp_path: Path) -> None:
    first, second = (own_uuids(program, Medium(tmp_path / name)).uuids() for name in "ab")
    assert not first & second


def test_a_medium_with_uuids_of_its_own_is_not_written(program: Path, medium: Medium) -> None:
    own_uuids(program, medium)
    contents = medium.path.read_bytes()
    assert fit(program, medium.path) == (0, [])
    assert medium.path.read_bytes() == contents


def test_the_uuids_of_the_image_are_known() -> None:
    found = re.search(r"image_guid\[10\] = \{ (.*?) \}", SOURCE.read_text())
    assert found
    mixed = bytes(int(number, 0) for number in found[1].split(","))
    uuid = f"{mixed[3::-1].hex()}-{mixed[5:3:-1].hex()}-{mixed[7:5:-1].hex()}-{mixed[8:].hex()}"
    assert uuid == IMAGE_UUID
    uuids = re.findall(r"(?:partition|disk)-uuid = (.*)", (IMAGE / "data/genimage.cfg").read_text())
    assert len(uuids) == 1 + len(PARTITIONS)
    assert all(other.startswith(f"{uuid}-") for other in uuids)


def test_a_copy_gets_new_uuids_and_the_board_starts_again(program: Path, medium: Medium) -> None:
    own_uuids(program, medium)
    before = medium.uuids()
    assert fit(program, medium.path, "--renew") == (3, [f"{medium.path} has new UUIDs"])
    medium.check()
    assert not medium.uuids() & before


# -- larger partitions ----------------------------------------------------------------------


@pytest.mark.parametrize(("mib", "size"), [(END + 4, 12), (END + 8, 16), (END + 27, 36), (END + 200, 208)])
def test_data_grows_to_the_end_of_a_larger_medium(program: Path, tmp_path: Path, mib: int, size: int) -> None:
    """Also if it has been used already: another medium was copied to a larger one, for example."""
    medium = Medium(tmp_path / "medium", mib)
    medium.use("data")
    contents = medium.path.read_bytes()[: END * MIB]
    status, said = fit(program, medium.path)
    assert status == 0
    medium.check()
    assert medium.places() == {**PARTITIONS, "data": (28, size)}
    assert ("grow data" in said) == (size > 12)
    with medium.path.open("rb") as file:
        assert file.read(END * MIB)[4 * MIB :] == contents[4 * MIB :]
    # a power cut before the file system has grown
    assert fit(program, medium.path) == (0, ["grow data"] if size > 12 else [])
    with medium.path.open("r+b") as file:
        file.seek(28 * MIB + 1024 + 4)
        file.write(struct.pack("<I", size * 1024))
    assert fit(program, medium.path) == (0, [])


def test_a_medium_that_already_has_its_own_uuids_grows(program: Path, medium: Medium) -> None:
    """`make flash` gives new UUIDs before the first boot."""
    own_uuids(program, medium)
    before = medium.uuids()
    medium.resize(END + 20)
    assert fit(program, medium.path) == (0, ["the partition data has 28 MiB", "grow data"])
    assert medium.uuids() == before
    medium.check()


@pytest.mark.parametrize(
    "moved",
    [
        {"own": (40, 2)},  # a partition behind data
        {"bootstate": (28, 2), "data": (8, 4)},
    ],
)
def test_only_the_last_partition_grows(
    program: Path, tmp_path: Path, moved: dict[str, tuple[int, int]]
) -> None:
    medium = Medium(tmp_path / "medium", END + 100, **moved)
    own_uuids(program, medium)
    assert medium.places() == {**PARTITIONS, **moved}


def test_a_medium_that_is_too_small_is_left_alone(program: Path, medium: Medium) -> None:
    medium.resize(END - 4)
    contents = medium.path.read_bytes()
    done = run(program, medium.path)
    assert (done.returncode, done.stderr) == (1, f"{medium.path} is too small for its partitions\n")
    assert medium.path.read_bytes() == contents


@pytest.fixture
def loop(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Medium]:
    """A new medium as a block device, whose partition data the kernel knows. Its size is 100 MiB, or the parameter."""
    medium = Medium(tmp_path / "medium", getattr(request, "param", 100))
    done = subprocess.run(
        ["losetup", "--find", "--show", medium.path], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip("a loop device cannot be made here (needs root)")
    medium.path = Path(done.stdout.strip())
    try:
        partx("--add", medium)
        yield medium
    finally:
        subprocess.run(["partx", "--delete", medium.path], capture_output=True, check=False)
        subprocess.run(["losetup", "--detach", medium.path], check=True)


def partx(what: str, medium: Medium) -> None:
    """--add: make the kernel read the partition data. --delete: make it forget it."""
    subprocess.run(["partx", what, "--nr", "6", medium.path], capture_output=True, check=True)


def kernel_size(medium: Medium) -> int:
    """MiB of the partition data, as the kernel knows it."""
    found = Path(f"/sys/class/block/{medium.path.name}p6/size").read_text()
    return int(found) * SECTOR // MIB


@pytest.fixture
def make_empty(tmp_path: Path) -> Path:
    (tmp_path / "mkfs").symlink_to(IMAGE.parents[1] / "conf/mkfs")
    (tmp_path / "make-empty").symlink_to(MAKE_EMPTY)
    return tmp_path / "make-empty"


def test_recorder_and_data_share_the_space_of_a_much_larger_medium(
    program: Path, loop: Medium, make_empty: Path
) -> None:
    """data moves, because it is empty. Its old file system is in force until the new one is complete."""
    old = loop.path.read_bytes()[28 * MIB : 40 * MIB]
    done = subprocess.run([program, loop.path, make_empty], capture_output=True, text=True, check=False)
    said = [
        "the partition recorder has 36 MiB",
        "the partition data has 40 MiB",
        f"{loop.path} has new UUIDs",
        "grow recorder",
    ]
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (3, said, "")
    loop.check()
    assert loop.places() == {**PARTITIONS, "recorder": (20, 36), "data": (56, 40)}
    assert loop.path.read_bytes()[28 * MIB : 40 * MIB] == old
    # what the kernel does when it starts again
    partx("--delete", loop)
    partx("--add", loop)
    found = subprocess.run(["dumpe2fs", "-h", f"{loop.path}p6"], capture_output=True, text=True, check=True)
    assert "Filesystem volume name:   data\n" in found.stdout
    assert f"Block count:              {40 * 1024}\n" in found.stdout
    subprocess.run(["e2fsck", "-fn", f"{loop.path}p6"], capture_output=True, check=True)
    assert fit(program, loop.path) == (0, ["grow recorder"])
    assert not Path(f"/sys/class/block/{loop.path.name}p7").exists()


@pytest.mark.parametrize("filled", [False, True])
def test_a_file_system_that_was_used_never_moves(
    program: Path, loop: Medium, make_empty: Path, tmp_path: Path, filled: bool
) -> None:
    if filled:
        (tmp_path / "files").mkdir()
        (tmp_path / "files/file").touch()
        loop.fill(tmp_path / "files")
    else:
        loop.use("data")
    done = subprocess.run([program, loop.path, make_empty], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert loop.places() == {**PARTITIONS, "data": (28, 68)}
    assert kernel_size(loop) == 68


@pytest.mark.parametrize("loop", [60], indirect=True)
def test_data_does_not_move_to_a_place_that_overlaps_its_old_one(
    program: Path, loop: Medium, make_empty: Path
) -> None:
    # If the kernel knows the old place, it refuses the new one.
    partx("--delete", loop)
    old = loop.path.read_bytes()[28 * MIB : 40 * MIB]
    done = subprocess.run([program, loop.path, make_empty], capture_output=True, text=True, check=False)
    assert "the partition data has 28 MiB\n" in done.stdout, done.stderr
    assert loop.places() == {**PARTITIONS, "data": (28, 28)}
    assert loop.path.read_bytes()[28 * MIB : 40 * MIB] == old


def test_data_grows_in_place_if_its_file_system_cannot_be_made(program: Path, loop: Medium) -> None:
    assert fit(program, loop.path)[0] == 0
    assert loop.places() == {**PARTITIONS, "data": (28, 68)}
    assert kernel_size(loop) == 68


def test_the_board_starts_again_if_the_kernel_does_not_take_the_new_size(program: Path, loop: Medium) -> None:
    partx("--delete", loop)
    assert fit(program, loop.path)[0] == 3


# -- power cuts -----------------------------------------------------------------------------


def kernel_table(disk: bytes | bytearray) -> list[bytes]:
    """The entries that the kernel finds (block/partitions/efi.c): it looks only at the first table. GRUB finds the same."""
    head = disk[SECTOR : 2 * SECTOR]
    size, crc = struct.unpack_from("<II", head, 12)
    mine, _, _, last = struct.unpack_from("<QQQQ", head, 24)
    array, count, entry, array_crc = struct.unpack_from("<QIII", head, 72)
    assert head.startswith(b"EFI PART")
    assert zlib.crc32(head[:16] + bytes(4) + head[20:size]) == crc
    assert mine == 1
    assert last < len(disk) // SECTOR
    entries = bytes(disk[array * SECTOR : array * SECTOR + count * entry])
    assert zlib.crc32(entries) == array_crc
    return [entries[at : at + entry] for at in range(0, len(entries), entry)]


def writes(log: Path) -> Iterator[tuple[int, bytes]]:
    content, at = log.read_bytes(), 0
    while at < len(content):
        offset, length = struct.unpack_from("<QQ", content, at)
        yield offset, content[at + 16 : at + 16 + length]
        at += 16 + length


@pytest.mark.parametrize("mib", [END + 4, END + 16])
@pytest.mark.parametrize("times", [1, 2])
def test_a_power_cut_leaves_the_old_table_or_the_new_one(
    logging_program: Path, program: Path, tmp_path: Path, mib: int, times: int
) -> None:
    """Whatever sectors the medium has written that it was not yet ordered to flush.

    TIMES: also for a medium whose table has been changed before, so that its array is at the other place.
    """
    medium = Medium(tmp_path / "medium", END + 4)
    for _ in range(times - 1):
        assert fit(program, medium.path, "--renew")[0] == 3
    medium.resize(mib)
    disk = bytearray(medium.path.read_bytes())
    log = tmp_path / "writes"
    subprocess.run(
        [logging_program, "--renew", medium.path, "/bin/false"], env={"WRITES": str(log)}, check=False
    )
    old, new = kernel_table(disk), kernel_table(medium.path.read_bytes())
    assert old != new
    dice = random.Random(mib * times)  # noqa: S311 no secret
    pending: list[tuple[int, bytes]] = []
    seen = set()
    for offset, content in writes(log):
        if not content:
            for at, sector in pending:
                disk[at : at + SECTOR] = sector
            pending = []
        pending += [(offset + at, content[at : at + SECTOR]) for at in range(0, len(content), SECTOR)]
        for part in (0, *(dice.random() for _ in range(8)), 1):
            written = [(at, sector) for at, sector in pending if part == 1 or dice.random() < part]
            kept = [(at, disk[at : at + SECTOR]) for at, _ in written]
            for at, sector in written:
                disk[at : at + SECTOR] = sector
            found = kernel_table(disk)
            assert found in (old, new)
            seen.add(found == new)
            if dice.random() < 0.1:
                (tmp_path / "cut").write_bytes(disk)
                assert fit(program, tmp_path / "cut", "--renew")[0] == 3
                kernel_table((tmp_path / "cut").read_bytes())
            for at, sector in kept:
                disk[at : at + SECTOR] = sector
    assert seen == {True, False}
    assert not pending
    assert kernel_table(disk) == new


def test_a_damaged_table_is_left_alone(program: Path, medium: Medium) -> None:
    good = medium.path.read_bytes()
    for at, reason in (
        (SECTOR, "it has no GPT"),
        (SECTOR + 20, "the header of its GPT is damaged"),
        (2 * SECTOR, "the array of its GPT is damaged"),
    ):
        bad = good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]
        medium.path.write_bytes(bad)
        done = run(program, medium.path)
        assert (done.returncode, done.stderr) == (1, f"cannot use {medium.path}: {reason}\n")
        assert medium.path.read_bytes() == bad


def test_random_bytes_are_no_table(program: Path, medium: Medium) -> None:
    """A header with a right checksum and wrong numbers must not make the program read or write anywhere else."""
    good = medium.path.read_bytes()
    dice = random.Random(1)  # noqa: S311 no secret
    with medium.path.open("r+b", buffering=0) as file:
        for _ in range(25):
            head = bytearray(good[SECTOR : 2 * SECTOR])
            at = dice.choice([8, 12, 24, 32, 40, 48, 72, 80, 84])
            head[at : at + 4] = dice.choice([bytes(4), b"\xff" * 4, dice.randbytes(4), b"\x01\0\0\0"])
            size = min(struct.unpack_from("<I", head, 12)[0], SECTOR)
            head[16:20] = bytes(4)
            head[16:20] = struct.pack("<I", zlib.crc32(head[:size]))
            file.seek(SECTOR)
            file.write(head)
            done = run(program, medium.path)
            assert done.returncode in (0, 1), done.stderr
            assert "Sanitizer" not in done.stderr
            assert "runtime error" not in done.stderr
    assert medium.path.stat().st_size == len(good)
    assert medium.path.read_bytes()[4 * MIB : END * MIB] == good[4 * MIB : END * MIB]


def test_a_table_without_free_space_before_the_first_partition_is_left_alone(
    program: Path, tmp_path: Path
) -> None:
    """A boot loader outside of all partitions may be there. A product gives it a partition."""
    medium = Medium(tmp_path / "medium")
    table = subprocess.run(
        ["sfdisk", "--dump", medium.path], capture_output=True, text=True, check=True
    ).stdout
    table = re.sub("first-lba: .*", "first-lba: 34", table)
    table += "\nstart=64, size=100, name=loader\n"
    subprocess.run(["sfdisk", "--quiet", "--wipe", "never", medium.path], input=table, text=True, check=True)
    contents = medium.path.read_bytes()
    done = run(program, medium.path)
    assert done.returncode == 1
    assert done.stderr.startswith("no free space for a partition table in front of the first partition")
    assert medium.path.read_bytes() == contents


@pytest.mark.parametrize("arguments", [[], ["DISK"], ["--renew", "DISK"], ["--other", "DISK", "/bin/false"]])
def test_wrong_usage_does_nothing(program: Path, medium: Medium, arguments: list[str]) -> None:
    contents = medium.path.read_bytes()
    words = [word.replace("DISK", str(medium.path)) for word in arguments]
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ")
    assert medium.path.read_bytes() == contents


# -- make flash -----------------------------------------------------------------------------


def test_a_flashed_medium_has_uuids_of_its_own(program: Path, tmp_path: Path) -> None:
    medium = Medium(tmp_path / "medium", END + 20)
    before, contents = medium.parts(), medium.path.read_bytes()
    done = subprocess.run([IMAGE / "src/new-uuids", medium.path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    medium.check()
    assert not any(uuid.startswith(IMAGE_UUID) for uuid in medium.uuids())
    assert [replace(part, uuid="") for part in medium.parts()] == [replace(part, uuid="") for part in before]
    assert medium.path.read_bytes()[4 * MIB : END * MIB] == contents[4 * MIB : END * MIB]
    before_boot = medium.uuids()
    assert fit(program, medium.path) == (0, ["the partition data has 28 MiB", "grow data"])
    assert medium.uuids() == before_boot


def test_new_uuids_need_a_table(tmp_path: Path) -> None:
    (tmp_path / "medium").write_bytes(bytes(MIB))
    done = subprocess.run(
        [IMAGE / "src/new-uuids", tmp_path / "medium"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert f"cannot change the partition table of {tmp_path}/medium: it has none" in done.stderr
