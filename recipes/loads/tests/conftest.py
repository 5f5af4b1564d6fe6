# SPDX-License-Identifier: Apache-2.0
"""Fixtures: test files on a disk, in the build directory."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from harness import BUILD, MIB, PLAYER, run


@pytest.fixture(scope="session")
def movie() -> Iterator[str]:
    """Path of a file of 48 MiB and 3 bytes, which is not a whole number of pages."""
    with tempfile.NamedTemporaryFile(dir=BUILD, prefix="movie-") as f:
        block = os.urandom(MIB)
        for _ in range(48):
            f.write(block)
        f.write(b"end")
        f.flush()
        os.fsync(f.fileno())
        probe = run(PLAYER, "--duration", "0.1", "--rate", "1MB", f.name)
        if "io_uring" in probe.stderr:
            pytest.skip(f"this kernel refuses io_uring: {probe.stderr.strip()}")
        yield f.name


@pytest.fixture
def disk() -> Iterator[Path]:
    """An empty folder that is not a tmpfs."""
    with tempfile.TemporaryDirectory(dir=BUILD, prefix="disk-") as path:
        yield Path(path)
