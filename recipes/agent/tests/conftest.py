# SPDX-License-Identifier: Apache-2.0
"""Lets the tests run from the source tree, from any directory and in every import mode of pytest."""

import sys
from pathlib import Path

from hypothesis import settings

HERE = Path(__file__).resolve().parent
for directory in (HERE, HERE.parent / "src", HERE.parents[2] / "tests"):
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))

# The host may be busy, so the time of an example says nothing.
settings.register_profile("evenkeel", deadline=None)
settings.load_profile("evenkeel")
