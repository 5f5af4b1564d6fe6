# SPDX-License-Identifier: Apache-2.0
"""Lets the tests run from the source tree, from any directory and in every import mode of pytest."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
for directory in (HERE, HERE.parent / "src", HERE.parents[1] / "agent/src", HERE.parents[2] / "tests"):
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))

import pytest  # noqa: E402
import sample  # noqa: E402
from evenkeel_validate import guard  # noqa: E402
from hypothesis import settings  # noqa: E402

# The host may be busy, so the time of an example says nothing.
settings.register_profile("evenkeel", deadline=None)
settings.load_profile("evenkeel")


@pytest.fixture(autouse=True, scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An ek-light-reader in the PATH. fake_board.py runs another program in its place."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "ek-light-reader").symlink_to("/bin/false")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        # the guard of a run in a test must not restore the machine of the tests
        patch.setattr(guard, "PROGRAM", "/absent/ek-validate")
        yield


def pytest_report_header() -> str:
    return sample.header()
