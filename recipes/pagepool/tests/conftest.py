# SPDX-License-Identifier: Apache-2.0
"""Makes the sources importable without an installation."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
for directory in (HERE, HERE.parent / "src", HERE.parents[1] / "agent/src", HERE.parents[2] / "tests"):
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
