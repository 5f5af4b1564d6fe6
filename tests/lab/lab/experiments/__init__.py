# SPDX-License-Identifier: Apache-2.0
"""All experiments by name: each module here has a list EXPERIMENTS."""

from __future__ import annotations

import fnmatch
import importlib
import pkgutil
import re
import traceback
from collections.abc import Callable, Mapping, Sequence

from lab.model import Experiment, LabError
from lab.report.rows import Rows
from lab.report.verdict import Verdict

# it is part of file names, of a row's id and of patterns
_NAME = re.compile(r"[a-z0-9][\w.-]*", re.ASCII)


def load() -> dict[str, Experiment]:
    """By name. Raises LabError that names the file of one that cannot be used."""
    found: dict[str, Experiment] = {}
    owners: dict[str, str] = {}
    for info in pkgutil.iter_modules(__path__):
        file = f"experiments/{info.name}.py"
        for e in _listed(info.name, file):
            if not isinstance(e, Experiment):
                raise LabError(f"{file}: {e!r} in EXPERIMENTS is no experiment")
            if not _NAME.fullmatch(e.name):
                raise LabError(f"{file}: {e.name!r} cannot name an experiment")
            if e.name in found:
                raise LabError(f"{file}: {owners[e.name]} has an experiment {e.name} already")
            found[e.name], owners[e.name] = e, file
    return found


def _listed(name: str, file: str) -> Sequence[object]:
    """EXPERIMENTS of a module here. Raises LabError with the line that fails, whatever it raises."""
    try:
        module = importlib.import_module(f"{__name__}.{name}")
    except Exception as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename.endswith(file)]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        raise LabError(f"{file}{f', line {line}' if line else ''}: {type(error).__name__}: {said}") from error
    listed = getattr(module, "EXPERIMENTS", None)
    if not isinstance(listed, list | tuple):
        raise LabError(f"{file} has no list EXPERIMENTS")
    return listed


def matching(known: Mapping[str, Experiment], patterns: Sequence[str]) -> list[Experiment]:
    """Those that match a name or pattern, in order. Raises LabError for a pattern that matches none."""
    for p in patterns:
        if not fnmatch.filter(known, p):
            raise LabError(f"no experiment matches {p!r}; 'lab list' names all")
    return [e for n, e in known.items() if any(fnmatch.fnmatch(n, p) for p in patterns)]


def shapes() -> list[Callable[[Rows], Verdict | None]]:
    """The functions that judge whether a paper's result has the same shape here."""
    found: list[Callable[[Rows], Verdict | None]] = []
    for info in pkgutil.iter_modules(__path__):
        found += getattr(importlib.import_module(f"{__name__}.{info.name}"), "SHAPES", [])
    return found
