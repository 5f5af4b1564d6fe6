# SPDX-License-Identifier: Apache-2.0
"""Makes the sources importable without an installation."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
