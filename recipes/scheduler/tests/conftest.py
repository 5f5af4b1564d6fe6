# SPDX-License-Identifier: GPL-2.0-only
"""Compiles pure functions and the policy core of the scheduler in user space, with UBSan."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def user_space(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ctypes.CDLL]:
    """A function that compiles NAME_shim.c of this folder to a shared library, and loads it."""

    def build(name: str) -> ctypes.CDLL:
        out = tmp_path_factory.mktemp(name) / f"lib{name}.so"
        subprocess.run(
            ["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined",
             "-fno-sanitize-recover=all", "-static-libubsan", "-shared", "-fPIC", f"-I{HERE}",
             "-o", str(out), str(HERE / f"{name}_shim.c")],
            check=True,
        )  # fmt: skip
        return ctypes.CDLL(str(out))

    return build
