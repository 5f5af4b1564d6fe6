# SPDX-License-Identifier: Apache-2.0
"""Weights with small random I/O, on the model of an eMMC 5.1: 4 KiB, direct, from one to 32 outstanding.

What a request costs here is the device's time for it, not its bytes, and up to
32 are in the device at once. With one or four outstanding in each group, all fit into the device side
by side: there is nothing to divide, and 2:1 could only be had by keeping the
lighter group waiting for nobody. So the ratio has a target at QD32, where the
device is full; `total` shows what a scheduler loses.

Counting begins after 3 s, as a second of small I/O takes the host several. BFQ
still raises weights then, and its ratios at QD32 are in part that raise.
"""

from __future__ import annotations

from lab.beside import beside, fio
from lab.experiments.fair import FEW, two_to_one
from lab.model import Experiment, flashsim

DEPTHS = (1, 4, 32)


def small(direction: str, qd: int) -> Experiment:
    device = flashsim("emmc51")
    return beside(
        f"fair.small.{direction}.4k.qd{qd}", f"2:1, direct random {direction} of 4 KiB, QD{qd}, eMMC 5.1",
        device=device, groups={"a": 200, "b": 100}, figures=lambda out: two_to_one(out, must=qd == 32, compete=qd == 32),
        loads=[
            fio(g, rw=f"rand{direction}", bs="4k", qd=qd, slice_=i, device=device, extra="--norandommap")
            for i, g in enumerate("ab")
        ],
        settle=3, seconds=5, peers=FEW, quick=direction == "read" and qd == 32, quick_peers=("none",), deep=qd != 32,
    )  # fmt: skip


EXPERIMENTS = [small(direction, qd) for direction in ("read", "write") for qd in DEPTHS]
