# SPDX-License-Identifier: Apache-2.0
"""Helpers that the tests of the build share."""

from __future__ import annotations

import os
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

TOP = Path(__file__).resolve().parents[2]


def clean_environment(**more: str) -> dict[str, str]:
    """This process's environment plus `more`, without the variables that make sets when it runs these tests."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k != "MFLAGS"}
    return {**inherited, **more}


def load(path: Path) -> ModuleType:
    """Load a Python program as a module, even if its name does not end in .py."""
    loader = SourceFileLoader(path.name.replace("-", "_"), str(path))
    spec = spec_from_loader(loader.name, loader)
    assert spec
    module = module_from_spec(spec)
    # Dataclasses look up their module in sys.modules.
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module
