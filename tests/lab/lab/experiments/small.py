# SPDX-License-Identifier: Apache-2.0
"""Weights with small random I/O: 4 KiB, direct, queue depth 1 to 32, on the model of an eMMC 5.1.

The device's time for a request of 4 KiB is mostly constant and hardly depends on the
size. The device executes up to 32 requests at once. At queue depth 1 and 4 the
requests of both groups fit into it together, so there is nothing to divide: a ratio
of 2:1 would require that the lighter group waits while the device has room. Therefore
only QD32, where the device is full, has a target for the ratio. `total` shows how
much bandwidth a scheduler loses.

Counting begins after only 3 s, because the host needs several seconds to emulate a
second of small I/O. After 3 s, BFQ still raises the weights of new groups. This
affects its ratios at QD32.
"""

from __future__ import annotations

from lab.competing import competing, fio
from lab.experiments.fair import FEW, two_to_one
from lab.model import Experiment, flashsim

DEPTHS = (1, 4, 32)


def small(direction: str, qd: int) -> Experiment:
    device = flashsim("emmc51")
    return competing(
        f"fair.small.{direction}.4k.qd{qd}", f"weights 2:1, direct random {direction}s of 4 KiB, QD{qd}, eMMC 5.1",
        device=device, groups={"a": 200, "b": 100}, figures=two_to_one,
        loads=[
            fio(g, rw=f"rand{direction}", bs="4k", qd=qd, slice_=i, device=device, extra="--norandommap")
            for i, g in enumerate("ab")
        ],
        settle=3, seconds=5, baselines=FEW, deep=qd != 32,
    )  # fmt: skip


EXPERIMENTS = [small(direction, qd) for direction in ("read", "write") for qd in DEPTHS]
