# SPDX-License-Identifier: Apache-2.0
"""Weights of nested groups: a group's share is divided among the groups inside it.

The groups `a` (weight 200) and `b` (100) compete. Inside `a`, `x` (100) and `y` (300) compete.
Each leaf reads 1 MB at a time from a device that models only a bandwidth and a
queue. If `y` is idle, its share goes to its sibling `x`, not to `b`.
"""

from __future__ import annotations

from collections.abc import Mapping

from lab.competing import competing, fio
from lab.experiments.fair import portions
from lab.model import Experiment, flashsim

GROUPS = {"a": 200, "a/x": 100, "a/y": 300, "b": 100}
LEAVES = {"x": "a/x", "y": "a/y", "b": "b"}


def tree(name: str, about: str, wanted: Mapping[str, float]) -> Experiment:
    """`wanted` maps each leaf that has a load to its expected part of the bandwidth."""
    device = flashsim("pipe")
    return competing(
        name, f"nested groups, direct reads of 1 MB: {about}", device=device, groups=GROUPS,
        loads=[
            fio(n, rw="read", bs="1m", slice_=i, device=device, group=LEAVES[n]) for i, n in enumerate(wanted)
        ],
        figures=lambda out: portions(out, wanted),
        # BFQ raises the weight of a new group for some seconds
        settle=10, seconds=12, baselines=("none",),
    )  # fmt: skip


EXPERIMENTS = [
    tree("fair.tree", "expected a/x 1/6, a/y 1/2, b 1/3", {"x": 1 / 6, "y": 1 / 2, "b": 1 / 3}),
    tree("fair.tree.idle", "a/y is idle, expected a/x 2/3, b 1/3", {"x": 2 / 3, "b": 1 / 3}),
]
