# SPDX-License-Identifier: Apache-2.0
"""preinit: the identity of a new board, and its preseed file. The functions run in a folder; the boot tests run the whole."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[3]
PROGRAM = TOP / "recipes/image/data/rootfs/usr/lib/evenkeel/preinit"
PRESEED_API = TOP / "recipes/agent/src/evenkeel_api/features/preseed.py"


def run(function: str, folder: Path, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run FUNCTION of preinit, with /etc, /data, /run and /var below FOLDER.

    Programs in PATH come before those of the system.
    """
    text = PROGRAM.read_text()
    found = [
        re.search(rf"^{name}\(\) \{{\n.*?^\}}$", text, re.MULTILINE | re.DOTALL)
        for name in ("make_writable", "add_users", "make_identity", "find_preseed")
    ]
    preseed = re.search(r"^PRESEED=.*$", text, re.MULTILINE)
    functions = "\n".join(match[0] for match in (preseed, *found) if match)
    functions = re.sub(r"(?<![\w\"}])/(etc|data|run|var)\b", lambda match: f"{folder}{match[0]}", functions)
    fakes = "mount() { :; }; umount() { :; }; say() { :; }; find_partition() { echo /dev/$1; }"
    environment = {"PATH": f"{path}:{os.environ['PATH']}"}
    return subprocess.run(
        ["sh", "-c", f"{fakes}\n{functions}\n{function}"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hostname").write_text("evenkeel\n")
    return tmp_path / "etc"


def name(etc: Path) -> str:
    return (etc / "hostname").read_text()


def program(etc: Path, name: str, text: str) -> str:
    """The folder of a program NAME."""
    file = etc.parent / "bin" / name
    file.parent.mkdir()
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file.parent)


def test_a_new_board_has_a_name_of_its_own(etc: Path) -> None:
    names = set()
    for _ in range(3):
        done = run("make_identity", etc.parent)
        assert (done.returncode, done.stderr) == (0, "")
        assert re.fullmatch(r"[0-9a-f]{32}\n", (etc / "machine-id").read_text())
        assert re.fullmatch(r"evenkeel-[0-9a-f]{6}\n", name(etc))
        names.add(name(etc))
    assert len(names) > 1
    assert {path.name for path in etc.iterdir()} == {"hostname", "machine-id"}


def test_the_name_follows_from_the_machine_id_by_a_hash(etc: Path) -> None:
    path = program(etc, "tr", "echo 0123456789abcdef0123456789abcdef")
    for _ in range(2):
        assert run("make_identity", etc.parent, path).returncode == 0
        assert name(etc) == "evenkeel-94df08\n"


@pytest.mark.parametrize("broken", ["tr", "sha256sum", "sync", "mv"])
def test_a_boot_that_was_cut_makes_no_machine_id(etc: Path, broken: str) -> None:
    """So the next boot makes both files again, and they belong together."""
    path = program(etc, broken, "exit 1")
    assert run("make_identity", etc.parent, path).returncode != 0
    assert not (etc / "machine-id").exists()
    assert run("make_identity", etc.parent).returncode == 0


def test_a_data_partition_that_takes_no_file_does_not_end_the_first_process(etc: Path, esp: Path) -> None:
    """preinit is process 1: if its shell ended, the kernel would panic."""
    (etc.parent / NEW).parent.mkdir(parents=True)
    (etc.parent / NEW).symlink_to("missing/file")
    done = run("make_identity && echo done || echo failed", etc.parent)
    assert (done.returncode, done.stdout) == (0, "failed\n")
    assert not (etc / "machine-id").exists()


@pytest.mark.parametrize("known", [False, True])
def test_a_board_with_a_machine_id_keeps_its_name(etc: Path, known: bool) -> None:
    """An update brings no new name either: people have bookmarks, and the name may be their own."""
    machine_id = "0123456789abcdef0123456789abcdef\n" if known else ""
    (etc / "machine-id").write_text(machine_id)
    done = run("make_writable", etc.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert (name(etc) == "evenkeel\n") == known
    assert ((etc / "machine-id").read_text() == machine_id) == known


@pytest.fixture
def esp(tmp_path: Path) -> Path:
    """The EFI system partition, where find_preseed() mounts it."""
    (tmp_path / "run/evenkeel/esp").mkdir(parents=True)
    return tmp_path / "run/evenkeel/esp"


WANTED = "run/systemd/system/multi-user.target.wants/evenkeel-preseed.service"
NEW = "var/lib/evenkeel-preseed/new"


def test_the_file_of_a_new_board_is_passed_on(etc: Path, esp: Path) -> None:
    folder = etc.parent
    (esp / "evenkeel.toml").write_text("name = 'a'\n" + "#" * 20000)
    limit = re.search(r"^MAX_BYTES = (\d+) \* 1024$", PRESEED_API.read_text(), re.MULTILINE)
    assert limit
    assert run("make_identity", folder).returncode == 0
    assert (folder / NEW).exists()
    for _ in range(2):  # also after a power cut
        done = run("find_preseed", folder)
        assert (done.returncode, done.stderr) == (0, "")
        unit = folder / WANTED
        assert str(unit.readlink()) == "/usr/lib/systemd/system/evenkeel-preseed.service"
        copy = folder / "run/evenkeel/preseed.toml"
        assert copy.read_text().startswith("name = 'a'\n")
        assert (copy.stat().st_size, copy.stat().st_mode & 0o777) == (int(limit[1]) * 1024 + 1, 0o600)
        assert (folder / "run/evenkeel/preseed-device").read_text() == "/dev/esp\n"
        assert not (folder / "run/evenkeel/preseed-message").exists()
        unit.unlink()


def test_a_board_that_has_booted_without_a_file_is_not_new(etc: Path, esp: Path) -> None:
    folder = etc.parent
    assert run("make_identity", folder).returncode == 0
    assert run("find_preseed", folder).returncode == 0
    assert not (folder / NEW).exists()
    (esp / "evenkeel.toml").write_text("name = 'a'\n")
    assert run("find_preseed", folder).returncode == 0
    assert not (folder / WANTED).is_symlink()
    assert not (folder / "run/evenkeel/preseed.toml").exists()
    assert (
        "is ignored, because this board is not new" in (folder / "run/evenkeel/preseed-message").read_text()
    )
    assert (esp / "evenkeel.toml").exists()


def test_a_board_whose_file_had_an_error_stays_new(etc: Path, esp: Path) -> None:
    """The owner may correct the file after any number of boots."""
    folder = etc.parent
    (esp / "evenkeel.toml.failed").write_text("name = 7\n")
    assert run("make_identity", folder).returncode == 0
    assert run("find_preseed", folder).returncode == 0
    assert (folder / NEW).exists()
    (esp / "evenkeel.toml.failed").rename(esp / "evenkeel.toml")
    assert run("find_preseed", folder).returncode == 0
    assert (folder / WANTED).is_symlink()


def test_a_file_that_cannot_be_read_is_not_applied(etc: Path, esp: Path) -> None:
    """Otherwise a part of it would be applied, and the whole file removed. The board stays new."""
    folder = etc.parent
    (esp / "evenkeel.toml").write_text("name = 'a'\n")
    path = program(etc, "head", 'echo "name = \'a"; exit 1')
    assert run("make_identity", folder).returncode == 0
    done = run("umount() { echo umount; }; find_preseed", folder, path)
    assert (done.returncode, done.stdout) == (0, "umount\n")
    assert (folder / NEW).exists()
    assert not (folder / WANTED).is_symlink()
    assert not (folder / "run/evenkeel/preseed.toml").exists()
    message = (folder / "run/evenkeel/preseed-message").read_text()
    assert message.startswith("evenkeel.toml on the EFI system partition cannot be read. Restart the board")


def test_a_partition_that_cannot_be_mounted_does_no_harm(etc: Path, esp: Path) -> None:
    """The board stays new: nobody knows whether there is a file."""
    folder = etc.parent
    assert run("make_identity", folder).returncode == 0
    for fake in ("mount() { return 1; }", "find_partition() { return 1; }"):
        assert run(f"{fake}; find_preseed", folder).returncode == 0
        assert (folder / NEW).exists()


def test_a_board_without_its_data_partition_takes_no_file() -> None:
    """It would lose the settings at the next boot."""
    assert "\nif mount_data; then\n\tfind_preseed\nelse\n" in PROGRAM.read_text()


@pytest.mark.parametrize("changed", ["", "passwd", "group"])
def test_a_changed_list_of_users_gets_those_of_an_update(etc: Path, changed: str) -> None:
    (etc / "machine-id").write_text("0" * 32 + "\n")
    upper, ran = etc.parent / "data/etc/upper", etc.parent / "ran"
    upper.mkdir(parents=True)
    (etc.parent / "run/evenkeel").mkdir(parents=True)
    if changed:
        (upper / changed).touch()
    path = program(etc, "systemd-sysusers", f"touch {ran}")
    done = run("make_writable", etc.parent, path)
    assert (done.returncode, done.stderr) == (0, "")
    assert ran.exists() == bool(changed)
