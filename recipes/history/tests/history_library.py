# SPDX-License-Identifier: Apache-2.0
"""Compiles the C code of the history for its tests."""

import subprocess
from pathlib import Path

SRC = Path(__file__).resolve().parents[1] / "src"
SOURCES = [str(SRC / name) for name in ("attribution.c", "increase.c")]


def compile_c(out: Path, *more: str) -> None:
    """Compile the C code to OUT, with more sources and options of the compiler."""
    subprocess.run(
        ["gcc", "-std=c17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-fno-sanitize-recover=all",
         f"-I{SRC}", "-o", str(out), *SOURCES, *more],
        check=True,
    )  # fmt: skip
