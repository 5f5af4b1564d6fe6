# SPDX-License-Identifier: Apache-2.0
"""Lets the tests run from the source tree, from any directory and in every import mode of pytest."""

import sys
from pathlib import Path

import pytest
from hypothesis import settings

HERE = Path(__file__).resolve().parent
for directory in (HERE, HERE.parent / "src", HERE.parents[1] / "agent/src", HERE.parents[2] / "tests"):
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))

from evenkeel_history.library import library  # noqa: E402
from history_library import load  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def compiled_library(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Compile and load libek-history, with UBSan. Python cannot load it with ASan: test_increase.py has a program for ASan."""
    load(tmp_path_factory.mktemp("library"), "-fsanitize=undefined", "-static-libubsan")
    library()  # now, because it takes longer than a test may take


# The host may be busy, so the time of an example says nothing.
settings.register_profile("evenkeel", deadline=None)
settings.load_profile("evenkeel")
