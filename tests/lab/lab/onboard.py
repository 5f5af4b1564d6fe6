# SPDX-License-Identifier: Apache-2.0
"""Experiments whose guest is the whole board: guest/board.sh starts it, then it runs a script of guest/ as a service.

The board's flash is a flash model that keeps its data in the guest's memory. The guest copies the image into it before
the board starts. So the board does all its I/O on the virtual clock. One CPU executes one instruction per nanosecond and
has no cache. So the figures are exact, but they are not those of a certain board.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lab.experiments.recorder import removable
from lab.model import Device, Experiment, Figure, Output
from lab.scripts import FOLDER

NAME = "mmcblk0"
CAPACITY_MB = 4096
DATA = "/data/lab"


def files(script: str, plan: Mapping[str, Any]) -> dict[str, str]:
    """The files that a board needs to run guest/SCRIPT.py with PLAN. Those below /data go to its data partition."""
    return {
        f"{DATA}/{script}.py": (FOLDER / f"{script}.py").read_text(),
        f"{DATA}/onboard.py": (FOLDER / "onboard.py").read_text(),
        f"{DATA}/plan.json": json.dumps(plan),
        # etc/1/upper on the data partition is the board's /etc
        "/data/etc/1/upper/evenkeel/keep.d/lab": "/etc/systemd/system\n",
        "/data/etc/1/upper/systemd/system/lab.service": "[Unit]\nDescription=The measurement of the lab\n\n[Service]\n"
        f"ExecStart=/usr/bin/python3 -B {DATA}/{script}.py\n",
        "/guest/board.sh": (FOLDER / "board.sh").read_text(),
    }


def flash(preset: str, **override: int) -> Device:
    """The flash of the board, and a disk with the image."""
    found = removable(preset, name=NAME, memory_backed=1, capacity_mb=CAPACITY_MB, **override)
    return replace(found, about=" ".join([preset, *(f"{k}={v}" for k, v in override.items())]), board=True)


def experiment(
    name: str, about: str, figures: Callable[[Output], Sequence[Figure]], *, of: str, files: Mapping[str, str],
    device: Device, now: int, prepare: str = "", memory: int = 3072,
) -> Experiment:  # fmt: skip
    """An experiment on a board that starts at the time NOW.

    PREPARE: commands of the guest before it starts the board. MEMORY: of the guest in MiB, with the content of the flash.
    """
    # While it copies the image, the guest's clock jumps ahead with each wait for QEMU's disk, by up to 11 minutes in total.
    return Experiment(
        name, about, f"{prepare}NOW={now}\n. /guest/board.sh\n", lambda out: list(figures(out)), device=device,
        subject="none", figures_of=of, baselines=(), deep=True, programs=(), files=files, memory=memory,
        limit=3600, timeout=5400, append="rauc.slot=A fsck.repair=yes systemd.gpt_auto=0",
    )  # fmt: skip
