# SPDX-License-Identifier: Apache-2.0
"""Guest scripts in files: guest/NAME.sh gets its values as shell variables."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Mapping
from pathlib import Path

from lab import onfs, settings

FOLDER = Path(__file__).parent / "guest"
# programs that guest/common.sh may call
PROGRAMS = (*onfs.PROGRAMS, "ek-player")
# length of the movie in seconds, longer than any experiment plays it
MOVIE = 60


@functools.cache
def _board() -> Mapping[str, str]:
    """The variables of guest/common.sh: the settings of a board, and the player's command."""
    return {
        "BOARD": " ".join(f"{s.name}={s.ours}" for s in settings.read() if s.name.startswith("vm.")),
        "MOUNT": ",".join(settings.data_options().values()),
        "PLAYER": onfs.player(MOVIE),
    }


def script(name: str, **values: str | int) -> str:
    """The script of an experiment: it sets the values as variables, then runs common.sh and NAME.sh.

    A value may contain $SEED and $DEV. The guest's shell replaces them.
    """
    lines = ["uname -r | report kernel"]
    for key, value in {**_board(), **values}.items():
        quoted = shlex.quote(str(value))
        if "$" in str(value):
            quoted = '"' + str(value).replace("\\", "\\\\").replace('"', '\\"').replace("`", "\\`") + '"'
        lines.append(f"{key}={quoted}")
    return "\n".join([*lines, ". /guest/common.sh", f". /guest/{name}.sh"]) + "\n"


def files(*names: str) -> dict[str, str]:
    """The files that a guest needs for these scripts, by path."""
    return {f"/guest/{name}.sh": (FOLDER / f"{name}.sh").read_text() for name in ("common", *names)}
