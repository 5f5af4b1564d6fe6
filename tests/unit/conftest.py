# SPDX-License-Identifier: Apache-2.0
"""The fixture `clone`: a copy of the project's files that a test may change."""

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
    """A copy of all files that git tracks or would track, as they are in the work tree. It has no build/."""
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
