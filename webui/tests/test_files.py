# SPDX-License-Identifier: Apache-2.0
"""The panel's user, and the owner of its files after an update, as systemd-sysusers and systemd-tmpfiles set them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).resolve().parents[1] / "data/systemd"
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, because it changes the owner of files"),
    pytest.mark.skipif(
        not (shutil.which("systemd-tmpfiles") and shutil.which("systemd-sysusers")),
        reason="needs systemd-tmpfiles and systemd-sysusers",
    ),
]


def boot(root: Path) -> None:
    """Create the users as the image does, and the files as each boot does."""
    for program, file in (("systemd-sysusers", "sysusers"), ("systemd-tmpfiles --create", "tmpfiles")):
        command = [*program.split(), f"--root={root}", UNITS / f"evenkeel-panel.{file}"]
        subprocess.run(command, check=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (tmp_path / "etc/group").write_text("root:x:0:\nadm:x:4:\n")
    return tmp_path


def owner(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_uid, status.st_gid


def test_panel_has_a_fixed_number(root: Path) -> None:
    boot(root)
    assert "\nevenkeel-panel:x:901:901:" in (root / "etc/passwd").read_text()
    assert owner(root / "var/lib/evenkeel-panel") == (901, 901)


def test_files_of_a_panel_with_another_number_get_the_new_owner(root: Path) -> None:
    """An earlier image may have used another user id. The folder and all files in it must get the new owner."""
    state = root / "var/lib/evenkeel-panel"
    state.mkdir(parents=True)
    files = [state / name for name in ("panel.db", "panel.db-wal", "panel.db-shm", "first-password")]
    for path in files:
        path.write_text(path.name)
        path.chmod(0o600)
    elsewhere = root / "var/lib/elsewhere"
    elsewhere.write_text("")
    (state / "link").symlink_to(elsewhere)
    for path in (state, *files):
        os.chown(path, 997, 995)
    boot(root)
    assert {path.name: owner(path) for path in (state, *files)} == {
        path.name: (901, 901) for path in (state, *files)
    }
    assert {oct(path.stat().st_mode & 0o777) for path in files} == {"0o600"}
    assert owner(elsewhere) == (0, 0)
    assert [path.read_text() for path in files] == [path.name for path in files]
