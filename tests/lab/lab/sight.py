# SPDX-License-Identifier: Apache-2.0
"""Why a file that the user has may be none here: the tool root shows the clone, the cache and EVENKEEL_SHOW."""

from __future__ import annotations

import os
from pathlib import Path

from lab.kernels import TOP


def hint(path: Path | str) -> str:
    """To be added to an error about a file that is not found; empty where the tool root does not hide it."""
    if not os.environ.get("EVENKEEL_INSIDE"):
        return ""
    folders = [
        str(TOP),
        os.environ.get("EVENKEEL_CACHE", ""),
        *os.environ.get("EVENKEEL_SHOW", "").split(":"),
    ]
    if any(Path(path).resolve().is_relative_to(shown) for shown in folders if shown):
        return ""
    return "; the tool root shows only the clone and EVENKEEL_CACHE: copy it there, or name its folder in EVENKEEL_SHOW"
