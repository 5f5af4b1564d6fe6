# SPDX-License-Identifier: Apache-2.0
"""For the tests of the built image: its folder, and tools of others in an environment of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/supply"), str(TOP / "recipes/supply/src")]

import sample  # noqa: E402

WANTED = Path(__file__).with_name("tools.txt")
ENVIRONMENT = TOP / "build/sbom-tools"


def pytest_report_header() -> str:
    return sample.header()


@pytest.fixture(scope="session")
def tools() -> Path:
    """The folder of the programs of the tools."""
    installed = ENVIRONMENT / WANTED.name
    if not installed.exists() or installed.read_text() != WANTED.read_text():
        subprocess.run([sys.executable, "-m", "venv", "--clear", ENVIRONMENT], check=True)
        # a folder of wheels in the host's settings for pip need not exist in the build root
        settings = {**os.environ, "PIP_FIND_LINKS": ""}
        pip = ENVIRONMENT / "bin/pip"
        subprocess.run([pip, "install", "-q", "--require-hashes", "-r", WANTED], check=True, env=settings)
        installed.write_text(WANTED.read_text())
    return ENVIRONMENT / "bin"
