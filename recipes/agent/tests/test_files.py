# SPDX-License-Identifier: Apache-2.0
"""A replaced file has its old or its new content, and a failure leaves no other file. test_store.py kills the writer."""

import errno
import os
import stat
from pathlib import Path

import pytest
from evenkeel_common.files import host_name, remove, replace


def test_a_file_is_replaced_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace(str(path), b"old")
    replace(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def break_fsync(monkeypatch: pytest.MonkeyPatch, kind: int) -> None:
    """fsync of a file of this KIND (stat.S_IFMT) fails, as on a medium with an error."""
    real = os.fsync

    def fsync(fd: int) -> None:
        if stat.S_IFMT(os.fstat(fd).st_mode) == kind:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)


def test_a_failure_keeps_the_old_file_and_leaves_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    replace(str(path), b"old")
    break_fsync(monkeypatch, stat.S_IFREG)
    with pytest.raises(OSError, match="Input/output error"):
        replace(str(path), b"password")
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_a_failure_after_the_rename_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The new content is in force, so the caller must use it. A power cut may bring back the old content."""
    break_fsync(monkeypatch, stat.S_IFDIR)
    replace(str(tmp_path / "file"), b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert "a power cut may undo it: Input/output error" in caplog.text


def test_a_file_is_removed_and_its_folder_is_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: flushed.append(stat.S_IFMT(os.fstat(fd).st_mode)))
    remove(str(file))
    assert not file.exists()
    assert flushed == [stat.S_IFDIR]
    with pytest.raises(FileNotFoundError):
        remove(str(file))
    file.write_text("x")
    monkeypatch.undo()
    break_fsync(monkeypatch, stat.S_IFDIR)
    remove(str(file))
    assert not file.exists()


def test_the_name_of_the_board_is_that_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel has the name of the start of a service that has ProtectHostname=."""
    monkeypatch.setattr("socket.gethostname", lambda: "old")
    file = tmp_path / "hostname"
    assert host_name(str(file)) == "old"
    file.write_text("press-7\n")
    assert host_name(str(file)) == "press-7"
