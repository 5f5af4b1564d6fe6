# SPDX-License-Identifier: Apache-2.0
"""The priority files on a real file system: they enter the cache, leave it, and are counted."""

import ctypes
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from evenkeel_validate import cases, priority
from evenkeel_validate.cases import MB

BUILD = Path(__file__).resolve().parents[3] / "build"
SIZE = 8 * MB


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on a file system with a device: the pages of tmpfs cannot leave the cache."""
    monkeypatch.setattr(priority, "PRIORITY_BYTES", SIZE)
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as name:
        yield Path(name) / priority.FOLDER


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_files_enter_and_leave_the_cache(folder: Path) -> None:
    with priority.made(folder) as files:
        files.drop()
        for _ in range(2):  # a count reads nothing
            assert files.cached() == 0
        files.load()
        assert files.cached() == 1
        files.drop()
        half = priority.paths(folder)[: priority.COUNT // 2]
        for path in half:
            path.read_bytes()
        assert files.cached() == 0.5


def test_a_file_that_leaves_the_cache_during_a_read_is_gone(folder: Path) -> None:
    """A page that is being read stays in the cache, so the files are read before they are removed from it."""
    with priority.made(folder) as files:
        for _ in range(20):
            files.drop()
            with priority.paths(folder)[0].open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)
            files.drop()
            assert files.cached() == 0


class Refusing:
    """A C library whose mincore() is not permitted, as under a filter of system calls."""

    def mincore(self, *_: object) -> int:
        ctypes.set_errno(errno.EPERM)
        return -1


def test_a_count_that_the_kernel_refuses_has_its_reason(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with priority.made(folder) as files:
        monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Refusing())
        with pytest.raises(PermissionError, match="Operation not permitted"):
            files.cached()


def test_the_files_have_the_announced_bytes_and_stay_open(folder: Path) -> None:
    before = open_files()
    with priority.made(folder):
        assert sum(path.stat().st_size for path in priority.paths(folder)) == SIZE
        assert open_files() == before + priority.COUNT
        assert {path.name for path in folder.iterdir()} == {path.name for path in priority.paths(folder)}
        first = priority.paths(folder)[0].read_bytes()
        assert first != priority.paths(folder)[1].read_bytes()
    assert open_files() == before
    # what somebody else has put there is not overwritten
    with pytest.raises(FileExistsError), priority.made(folder):
        pass


def test_the_bytes_are_a_whole_number_of_mib_in_each_file() -> None:
    assert cases.PRIORITY_BYTES % (priority.COUNT * MB) == 0
