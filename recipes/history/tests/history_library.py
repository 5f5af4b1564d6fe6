# SPDX-License-Identifier: Apache-2.0
"""Compiles the C code of the history for programs that run from the source tree: `history_library.py OUT`."""

import os
import subprocess
import sys
from pathlib import Path

SRC = Path(__file__).resolve().parents[1] / "src"
SOURCES = [str(SRC / name) for name in ("increase.c", "rows.c")]


def compile_c(out: Path, *more: str) -> None:
    """Compile the C code to OUT, with more sources and options of the compiler."""
    subprocess.run(
        ["gcc", "-std=c17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-fno-sanitize-recover=all",
         f"-I{SRC}", "-o", str(out), *SOURCES, *more],
        check=True,
    )  # fmt: skip


def load(folder: Path, *more: str) -> None:
    """Compile libek-history in FOLDER, with more options. evenkeel_history will load it."""
    out = folder / "libek-history.so"
    compile_c(out, "-shared", "-fPIC", *more)
    os.environ["EK_HISTORY_LIBRARY"] = str(out)


if __name__ == "__main__":
    compile_c(Path(sys.argv[1]), "-shared", "-fPIC")
