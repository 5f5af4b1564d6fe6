# SPDX-License-Identifier: Apache-2.0
"""Python for guests: the interpreter, and the files of exactly those modules that a guest's scripts import.

A guest has its files in a file system without a device. So the programs of a guest take no place in its page cache, and
evenkeel_pagepool does not count them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from lab.kernels import TOP
from lab.model import LabError

INTERPRETER = Path("/usr/bin/python3")
PACKAGES = Path("/usr/lib/python3/dist-packages")
# Folders with Python source of this project, and where the guest has it.
SOURCES = {
    TOP / "tests/lab/lab/guest": Path("/guest"),
    TOP / "recipes/agent/src": Path("/python/agent"),
    TOP / "recipes/pagepool/src": Path("/python/pagepool"),
}
# A guest's command that runs a Python script. The first call compiles the modules.
COMMAND = f"env PYTHONPATH={':'.join(map(str, (*SOURCES.values(), PACKAGES)))} python3 -S"
_LIST = (
    "import importlib, sys\n"
    "for name in sys.argv[1:]: importlib.import_module(name)\n"
    "for module in list(sys.modules.values()):\n"
    "    if getattr(module, '__file__', None): print(module.__file__)\n"
)


def _where(file: Path) -> Path:
    """The path in the guest of the FILE of a module."""
    for folder, guest in SOURCES.items():
        if file.is_relative_to(folder):
            return guest / file.relative_to(folder)
    return file


def files(modules: Iterable[str]) -> dict[Path, Path]:
    """The files that these modules need, in the guest → on the host. Raises LabError.

    A module that is imported inside a function must be named, too.
    """
    environment = {
        "PYTHONPATH": os.pathsep.join(map(str, (*SOURCES, PACKAGES))),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [INTERPRETER, "-S", "-c", _LIST, *modules],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise LabError(f"Python modules for the guest cannot be imported: {reason[0]}")
    found = sorted({Path(line) for line in done.stdout.splitlines()})
    return {INTERPRETER: INTERPRETER} | {_where(file): file for file in found}
