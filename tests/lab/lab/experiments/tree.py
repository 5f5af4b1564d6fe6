# SPDX-License-Identifier: Apache-2.0
"""Weights of nested groups: a group's share is divided among those inside it.

`a` (200) beside `b` (100); inside `a`, `x` (100) beside `y` (300). Each leaf
reads 1 MB at a time from a device that is a bandwidth and nothing else. When
`y` asks for nothing, what it leaves is `x`'s, not `b`'s.
"""

from __future__ import annotations

from collections.abc import Mapping

from lab.beside import beside, fio
from lab.experiments.fair import FEW, portions
from lab.model import Experiment, flashsim

GROUPS = {"a": 200, "a/x": 100, "a/y": 300, "b": 100}
LEAVES = {"x": "a/x", "y": "a/y", "b": "b"}


def tree(name: str, about: str, wanted: Mapping[str, float]) -> Experiment:
    """`wanted` are the parts of those leaves that ask."""
    device = flashsim("pipe")
    return beside(
        name, f"nested groups, direct read of 1 MB: {about}", device=device, groups=GROUPS,
        loads=[
            fio(n, rw="read", bs="1m", slice_=i, device=device, group=LEAVES[n]) for i, n in enumerate(wanted)
        ],
        figures=lambda out: portions(out, wanted, must=True),
        # BFQ raises the weight of what has just begun for some seconds
        settle=10, seconds=12, peers=FEW,
    )  # fmt: skip


EXPERIMENTS = [
    tree("fair.tree", "a/x 1/6, a/y 1/2, b 1/3", {"x": 1 / 6, "y": 1 / 2, "b": 1 / 3}),
    tree("fair.tree.idle", "a/x 2/3, b 1/3, a/y asks for nothing", {"x": 2 / 3, "b": 1 / 3}),
]
