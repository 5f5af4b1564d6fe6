# SPDX-License-Identifier: Apache-2.0
"""All experiments by name: each module here has a list EXPERIMENTS."""

from __future__ import annotations

import fnmatch
import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence

from lab.model import Experiment, LabError
from lab.report.rows import Rows
from lab.report.verdict import Verdict


def load() -> dict[str, Experiment]:
    found: dict[str, Experiment] = {}
    for info in pkgutil.iter_modules(__path__):
        for e in importlib.import_module(f"{__name__}.{info.name}").EXPERIMENTS:
            if e.name in found:
                raise ValueError(f"two experiments are called {e.name}")
            found[e.name] = e
    return found


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
