# SPDX-License-Identifier: Apache-2.0
"""All experiments by name: each module here has a list EXPERIMENTS."""

from __future__ import annotations

import importlib
import pkgutil

from lab.model import Experiment


def load() -> dict[str, Experiment]:
    found: dict[str, Experiment] = {}
    for info in pkgutil.iter_modules(__path__):
        for e in importlib.import_module(f"{__name__}.{info.name}").EXPERIMENTS:
            if e.name in found:
                raise ValueError(f"two experiments are called {e.name}")
            found[e.name] = e
    return found
