# SPDX-License-Identifier: Apache-2.0
"""Fixtures: recorders whose files are on the disk of the build directory."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault(
    "EK_RECORDER_LIBRARY", str(Path(os.environ.get("EK_BUILD", ".")) / "libek-recorder.so.0")
)
os.environ.setdefault("EK_READER_LIBRARY", str(Path(os.environ.get("EK_BUILD", ".")) / "libek-reader.so.0"))
from board import BUILD, Board, thaw, unmount


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With EK_PART=I/N in the environment, run only every N-th test, from the I-th on."""
    part, parts = map(int, os.environ.get("EK_PART", "1/1").split("/"))
    items[:] = items[part - 1 :: parts]


@pytest.fixture
def board() -> Iterator[Board]:
    with tempfile.TemporaryDirectory(dir=BUILD, prefix="board-") as top:
        board = Board(Path(top))
        try:
            yield board
        finally:
            board.kill()


@pytest.fixture
def pair(board: Board) -> Iterator[Board]:
    """A recorder with the channels arm and leg. Whatever the test does to arm, leg must record without a gap."""
    board.channel("arm")
    board.channel("leg")
    board.start()
    with board.writer("leg") as leg:
        leg.submit(b"before")
        yield board
        leg.submit(b"after")
        assert leg.sync() == 0
    board.stop()
    assert board.payloads("leg") == [b"before", b"after"]
    assert board.gaps("leg") == []


@pytest.fixture
def ext4(board: Board) -> Iterator[Callable[[Path, int], None]]:
    """A function that mounts a new ext4 file system at a path; the size is in MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a file system needs root")
    mounted: list[Path] = []

    def mount(at: Path, size: int) -> None:
        image = board.top / f"{at.name}.img"
        with image.open("wb") as f:
            f.truncate(size << 20)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
        at.mkdir(exist_ok=True)
        done = subprocess.run(
            ["mount", "-o", "loop,noatime", str(image), str(at)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"loop mounts do not work here: {done.stderr.strip()}")
        mounted.append(at)

    yield mount
    for at in mounted:
        with contextlib.suppress(OSError):
            thaw(at)
    board.kill()
    for at in reversed(mounted):
        unmount(at)
