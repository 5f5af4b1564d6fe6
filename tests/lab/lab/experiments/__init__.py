# SPDX-License-Identifier: Apache-2.0
"""The experiments. Each module here has a list EXPERIMENTS."""

from __future__ import annotations

import fnmatch
import importlib
import pkgutil
import re
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

from evenkeel_report.lookup import Rows
from evenkeel_report.verdict import Verdict

from lab.model import Experiment, LabError

# an experiment's name is part of file names, row ids and patterns
_NAME = re.compile(r"[a-z0-9][\w.-]*", re.ASCII)


def load() -> dict[str, Experiment]:
    """All experiments by name. The LabError for an unusable one names its file."""
    found: dict[str, Experiment] = {}
    owners: dict[str, str] = {}
    for info in pkgutil.iter_modules(__path__):
        file = f"experiments/{info.name}.py"
        for e in _listed(info.name, file):
            if not isinstance(e, Experiment):
                raise LabError(f"{file}: {e!r} in EXPERIMENTS is not an experiment")
            if not _NAME.fullmatch(e.name):
                raise LabError(f"{file}: {e.name!r} cannot name an experiment")
            if e.name in found:
                raise LabError(f"{file}: {owners[e.name]} already has an experiment {e.name}")
            found[e.name], owners[e.name] = e, file
    return found


def _listed(name: str, file: str) -> Sequence[object]:
    """EXPERIMENTS of one module. Any exception of the module becomes a LabError with the line that failed."""
    try:
        module = importlib.import_module(f"{__name__}.{name}")
    except Exception as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename.endswith(file)]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        where = f"{file}, line {line}" if line else file
        raise LabError(f"{where}: {type(error).__name__}: {message}") from error
    listed = getattr(module, "EXPERIMENTS", None)
    if not isinstance(listed, list | tuple):
        raise LabError(f"{file} has no list EXPERIMENTS")
    return listed


def matching(known: Mapping[str, Experiment], patterns: Sequence[str]) -> list[Experiment]:
    """The experiments that match one of the patterns, in the order of `known`.

    A pattern that matches no known experiment may be the name of an experiment that a
    module makes on demand. Otherwise LabError is raised.
    """
    found = {n: e for n, e in known.items() if any(fnmatch.fnmatch(n, p) for p in patterns)}
    for p in patterns:
        if not fnmatch.filter(known, p):
            if (made := _made(p)) is None:
                raise LabError(f"no experiment matches {p!r}; 'lab list' names all")
            found[p] = made
    return list(found.values())


def _made(name: str) -> Experiment | None:
    """The experiment that a module's make() returns for the name, if any."""
    for info in pkgutil.iter_modules(__path__):
        make = getattr(importlib.import_module(f"{__name__}.{info.name}"), "make", None)
        if make is not None and (e := make(name)) is not None:
            return cast(Experiment, e)
    return None


def owner(names: Iterable[str], row_id: str) -> str | None:
    """The experiment that writes a row: the longest name that the row's id begins with. None without one."""
    found = sorted((n for n in names if row_id.startswith(f"{n}.")), key=len)
    return found[-1] if found else None


def notes() -> dict[str, str]:
    """Why rows miss their targets, by a pattern of row ids: the NOTES of all modules here."""
    found: dict[str, str] = {}
    for info in pkgutil.iter_modules(__path__):
        found.update(getattr(importlib.import_module(f"{__name__}.{info.name}"), "NOTES", {}))
    return found


def shapes() -> list[Callable[[Rows], Verdict | None]]:
    """The functions that judge whether a paper's result has the same shape here: the SHAPES of all modules."""
    found: list[Callable[[Rows], Verdict | None]] = []
    for info in pkgutil.iter_modules(__path__):
        found += getattr(importlib.import_module(f"{__name__}.{info.name}"), "SHAPES", [])
    return found
