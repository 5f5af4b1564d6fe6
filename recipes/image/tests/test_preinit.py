# SPDX-License-Identifier: Apache-2.0
"""preinit: the identity of a new board. The functions run in a folder in place of /etc; the boot tests run the whole."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[3]
PROGRAM = TOP / "recipes/image/data/rootfs/usr/lib/evenkeel/preinit"


def run(function: str, folder: Path, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run FUNCTION of preinit, with /etc and /data below FOLDER. Programs in PATH come before those of the system."""
    text = PROGRAM.read_text()
    found = [
        re.search(rf"^{name}\(\) \{{\n.*?^\}}$", text, re.MULTILINE | re.DOTALL)
        for name in ("make_writable", "make_identity")
    ]
    functions = "\n".join(match[0] for match in found if match)
    functions = re.sub(r"/(etc|data)\b", lambda match: f"{folder}{match[0]}", functions)
    environment = {"PATH": f"{path}:{os.environ['PATH']}"}
    return subprocess.run(
        ["sh", "-c", f"mount() {{ :; }}\n{functions}\n{function}"],
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
        assert re.fullmatch(r"evenkeel-[0-9a-f]{4}\n", name(etc))
        names.add(name(etc))
    assert len(names) > 1
    assert {path.name for path in etc.iterdir()} == {"hostname", "machine-id"}


def test_the_name_follows_from_the_machine_id_by_a_hash(etc: Path) -> None:
    path = program(etc, "tr", "echo 0123456789abcdef0123456789abcdef")
    for _ in range(2):
        assert run("make_identity", etc.parent, path).returncode == 0
        assert name(etc) == "evenkeel-94df\n"


@pytest.mark.parametrize("broken", ["tr", "sha256sum", "sync", "mv"])
def test_a_boot_that_was_cut_makes_no_machine_id(etc: Path, broken: str) -> None:
    """So the next boot makes both files again, and they belong together."""
    path = program(etc, broken, "exit 1")
    assert run("make_identity", etc.parent, path).returncode != 0
    assert not (etc / "machine-id").exists()
    assert run("make_identity", etc.parent).returncode == 0


@pytest.mark.parametrize("known", [False, True])
def test_a_board_with_a_machine_id_keeps_its_name(etc: Path, known: bool) -> None:
    """An update brings no new name either: people have bookmarks, and the name may be their own."""
    machine_id = "0123456789abcdef0123456789abcdef\n" if known else ""
    (etc / "machine-id").write_text(machine_id)
    done = run("make_writable", etc.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert (name(etc) == "evenkeel\n") == known
    assert ((etc / "machine-id").read_text() == machine_id) == known
