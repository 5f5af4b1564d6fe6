# SPDX-License-Identifier: Apache-2.0
"""Our grub-editenv, with the real one: what GRUB reads after a power cut, and two changes at once."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = Path(__file__).resolve().parents[1] / "data/rootfs/usr/lib/evenkeel/boot-loader/grub-editenv"
REAL = "/usr/bin/grub-editenv"


def run(*argv: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "run").mkdir(exist_ok=True)
    environment = {**os.environ, "EK_RUN": str(folder / "run")}
    return subprocess.run(
        list(map(str, argv)), capture_output=True, text=True, env=environment, timeout=60, check=False
    )


def change(file: Path, *arguments: str, program: str | Path = PROGRAM) -> None:
    done = run(program, file, *arguments, folder=file.parent)
    assert (done.returncode, done.stderr) == (0, "")


def values(file: Path) -> dict[str, str]:
    done = run(PROGRAM, file, "list", folder=file.parent)
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    change(tmp_path / "grubenv", "create")
    return tmp_path / "grubenv"


def test_it_sets_and_unsets_and_keeps_the_size(file: Path) -> None:
    change(file, "set", "ORDER=B A", "B_OK=1")
    change(file, "unset", "B_OK")
    assert values(file) == {"ORDER": "B A"}
    assert file.stat().st_size == 1024
    assert [path.name for path in (file.parent / "run").iterdir()] == ["grubenv.lock"]


def test_two_changes_at_once_both_count(file: Path) -> None:
    environment = {**os.environ, "EK_RUN": str(file.parent / "run")}
    running = [
        subprocess.Popen([PROGRAM, file, "set", f"V{number}={number}"], env=environment)
        for number in range(12)
    ]
    assert [process.wait(60) for process in running] == [0] * 12
    assert values(file) == {f"V{number}": str(number) for number in range(12)}


def test_a_file_that_is_damaged_stays_as_it_is(file: Path) -> None:
    file.write_text("damaged")
    done = run(PROGRAM, file, "set", "A=1", folder=file.parent)
    assert done.returncode != 0
    assert file.read_text() == "damaged"
    assert [path.name for path in (file.parent / "run").iterdir()] == ["grubenv.lock"]


def test_without_its_folder_a_change_is_still_made(file: Path) -> None:
    """RAUC must be able to choose a slot in any case."""
    environment = {**os.environ, "EK_RUN": str(file.parent / "missing")}
    done = subprocess.run(
        [PROGRAM, file, "set", "A=1"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert "GRUB may see this change some seconds later" in done.stderr
    assert values(file) == {"A": "1"}


def test_only_root_may_hold_the_lock(file: Path) -> None:
    """Any user may read grubenv. A lock on it could keep the board from confirming a slot."""
    change(file, "set", "A=1")
    assert (file.parent / "run/grubenv.lock").stat().st_mode & 0o077 == 0


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Path]:
    """A mounted file system like bootstate, with grubenv from the build of the image. Its device: DISK, next to it."""
    mounted, content, disk = tmp_path / "bootstate", tmp_path / "content", tmp_path / "disk"
    for folder in (mounted, content):
        folder.mkdir()
    change(content / "grubenv", "create")
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-N", "64", "-d", content, disk, "16M"], check=True)
    if run("mount", "-o", "loop,sync,noatime", disk, mounted, folder=tmp_path).returncode:
        pytest.skip("only root mounts a file system")
    yield mounted
    subprocess.run(["umount", mounted], check=True)


def after_a_power_cut(partition: Path) -> str:
    """What GRUB, which does not read the journal, finds in grubenv. Like GRUB, debugfs does not read it."""
    done = subprocess.run(
        ["debugfs", "-R", "cat /grubenv", partition.parent / "disk"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_grub_sees_a_change_at_once(partition: Path) -> None:
    for number in range(5):
        change(partition / "grubenv", "set", f"ORDER={number}")
        assert f"\nORDER={number}\n" in after_a_power_cut(partition)


def test_grub_would_not_see_a_change_of_the_real_program(partition: Path) -> None:
    """If this fails, ours is not needed any more."""
    change(partition / "grubenv", "set", "ORDER=1", program=REAL)
    assert "ORDER=1" not in after_a_power_cut(partition)
