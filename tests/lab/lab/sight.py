# SPDX-License-Identifier: Apache-2.0
"""A hint for errors about missing files: the build root shows only the clone, the cache and EVENKEEL_SHOW."""

from __future__ import annotations

import os
from pathlib import Path

from lab.kernels import TOP


def hint(path: Path | str) -> str:
    """Text to append to "file not found"; empty if the build root does not hide the path."""
    if not os.environ.get("EVENKEEL_INSIDE"):
        return ""
    folders = [
        str(TOP),
        os.environ.get("EVENKEEL_CACHE", ""),
        *os.environ.get("EVENKEEL_SHOW", "").split(":"),
    ]
    if any(Path(path).resolve().is_relative_to(shown) for shown in folders if shown):
        return ""
    return "; the build root shows only the clone and EVENKEEL_CACHE: copy it there, or name its folder in EVENKEEL_SHOW"
