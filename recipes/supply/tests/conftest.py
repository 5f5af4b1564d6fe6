# SPDX-License-Identifier: Apache-2.0
"""Lets the tests run from the source tree, from any directory and in every import mode of pytest."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
for directory in (HERE, HERE.parent / "src"):
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
