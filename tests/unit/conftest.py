# SPDX-License-Identifier: Apache-2.0
"""A copy of the project's files that a test may change."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from project import TOP  # noqa: E402


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[Path]:
    """The project's files as they are in the work tree, without build/."""
    names = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=TOP, capture_output=True, check=True,
    ).stdout.decode().split("\0")  # fmt: skip
    target = tmp_path / "clone"
    for name in filter(None, names):
        if (TOP / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TOP / name, target / name)
    yield target
    shutil.rmtree(target)
