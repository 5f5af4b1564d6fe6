# SPDX-License-Identifier: Apache-2.0
"""Sizes in /proc/meminfo. No I/O here."""

from collections.abc import Mapping


def parse(text: str) -> dict[str, int]:
    """The sizes in TEXT, the content of /proc/meminfo, in bytes by name. Lines of another form are ignored."""
    rows = (line.replace(":", " ").split() for line in text.splitlines())
    return {row[0]: int(row[1]) * 1024 for row in rows if len(row) == 3 and row[1].isdigit()}


def cache(sizes: Mapping[str, int], kept_free: int = 0) -> int:
    """The bytes that the page cache can have: the memory that has files now, or that is free and may be used.

    KEPT_FREE: the memory that the kernel keeps free, in bytes.
    """
    free = max(0, sizes.get("MemFree", 0) - kept_free)
    return free + sizes.get("Active(file)", 0) + sizes.get("Inactive(file)", 0)
