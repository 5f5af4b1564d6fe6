# SPDX-License-Identifier: Apache-2.0
"""Two CPUs on one queue: 4 KiB random reads, a job on each, 32 outstanding each, null_blk.

QEMU runs the CPUs of a virtual clock in turns, so a guest second holds 10^9
instructions of both together, and `iops` is what one CPU's worth of work does,
not twice that. The price of sharing shows as far as it is instructions (locks
taken, requests handed over); waiting for a lock that the other CPU holds, and
cache lines that travel, do not. So contention is understated, for each
scheduler alike. `ratio` is to mq-deadline in the same guest.
"""

from __future__ import annotations

from lab.experiments.cost import per_io, two_cpus
from lab.model import Figure, Output

TARGET = 1.0


def figures(out: Output) -> list[Figure]:
    own, deadline = per_io(out, "own"), per_io(out, "mq-deadline")
    return [
        Figure("iops", round(1e9 / own), "IOPS", "higher"),
        Figure("ratio", round(deadline / own, 3), "", "higher", target=TARGET),
    ]


EXPERIMENTS = [
    two_cpus("scale.2cpu", "two CPUs, a job on each: IOPS, and over mq-deadline's", figures, peers=("bfq",))
]
