# SPDX-License-Identifier: Apache-2.0
"""ek-validate: measures what a flash device and its scheduler do, and compares it with what was promised."""

from pathlib import Path


def version() -> str:
    """The version of the program."""
    for path in (Path(__file__).parent / "VERSION", Path(__file__).parents[4] / "VERSION"):
        if path.is_file():
            return path.read_text().strip()
    return "unknown"
