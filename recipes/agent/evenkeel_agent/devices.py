# SPDX-License-Identifier: Apache-2.0
"""Whether what a unit may open by DeviceAllow= is there."""

import fnmatch
from collections.abc import Iterable
from pathlib import Path

from .files import read_line
from .settings import Settings

# ProtectClock= adds it to a unit, whether the board has such a device or not
_ALWAYS = "char-rtc"
_KINDS = {"char": "Character devices:", "block": "Block devices:"}


def missing(allowed: Iterable[str], settings: Settings) -> list[str]:
    """Those of ALLOWED, files below /dev and groups like char-alsa or block-*, that the board has not got now."""
    groups = _groups(read_line(settings.path("/proc/devices")))
    return [name for name in allowed if name != _ALWAYS and not _there(name, groups, settings)]


def _there(name: str, groups: dict[str, list[str]], settings: Settings) -> bool:
    if name.startswith("/"):
        return Path(settings.path(name)).exists()
    kind, _, pattern = name.partition("-")
    # systemd allows all of a kind without a look at what there is; what it does not know, it ignores
    return kind not in groups or pattern == "*" or bool(fnmatch.filter(groups[kind], pattern))


def _groups(text: str) -> dict[str, list[str]]:
    """The names in /proc/devices by kind; {} where it cannot be read."""
    names: dict[str, list[str]] = {}
    for line in text.splitlines():
        for kind, title in _KINDS.items():
            if line == title:
                names[kind] = found = []
                break
        else:
            if names and line.strip():
                found.append(line.split()[-1])
    return names
