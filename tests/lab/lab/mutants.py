# SPDX-License-Identifier: Apache-2.0
"""Builds of evenkeel with a known defect (tests/lab/mutants.toml): the quick bench must catch each."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

from lab.kernels import TOP, Kernel
from lab.model import LabError

FILE = TOP / "tests/lab/mutants.toml"
SOURCE = TOP / "recipes/scheduler/src"


@dataclass(frozen=True)
class Mutant:
    """A defect. The keys of mutants.toml, and its name."""

    name: str
    about: str
    file: str
    old: str
    new: str
    caught: str
    worse: float


def read(path: Path = FILE) -> list[Mutant]:
    return [Mutant(name, **fields) for name, fields in tomllib.loads(path.read_text()).items()]


def mutate(mutant: Mutant, component: Path, source: Path = SOURCE) -> None:
    """Write the scheduler's sources with the defect to `component`/src.

    Raises LabError unless the text to replace is there exactly once: the sources have changed, and the defect
    must be stated again.
    """
    changed = source / mutant.file
    text = changed.read_text() if changed.is_file() else ""
    if (found := text.count(mutant.old)) != 1:
        raise LabError(
            f"{FILE.name}, {mutant.name}: the text to replace is {found} times in {mutant.file}; state the defect again"
        )
    shutil.copytree(source, component / "src", dirs_exist_ok=True)
    (component / "src" / mutant.file).write_text(text.replace(mutant.old, mutant.new))


def build(mutant: Mutant, kernel: Kernel, folder: Path) -> Path:
    """Build the module with the defect below `folder`, and return its path. Raises LabError."""
    mutate(mutant, folder / "component")
    objects = (kernel.build / kernel.variant).resolve()
    tool = TOP / "recipes/kernel/src/build-module"
    done = subprocess.run(
        [tool, folder / "component", objects, folder / "out"], capture_output=True, text=True, check=False
    )
    module = folder / "out/evenkeel.ko"
    if done.returncode or not module.is_file():
        last = (done.stderr + done.stdout).strip().splitlines()[-1:] or ["the build printed nothing"]
        raise LabError(f"{mutant.name} does not build against {kernel.version}: {last[0]}")
    return module
