# SPDX-License-Identifier: Apache-2.0
"""Two CPUs on one queue: 4 KiB random reads, a job on each, 32 outstanding each, null_blk.

QEMU runs the CPUs of a virtual clock in turns, so a guest second holds 10^9
instructions of both together, and `iops` is what one CPU's worth of work does,
not twice that. The price of sharing shows as far as it is instructions (locks
taken, requests handed over); waiting for a lock that the other CPU holds, and
cache lines that travel, do not. So contention is understated, for each
scheduler alike. `ratio` is to mq-deadline in the same guest; `one-group.ratio` is
the same where both jobs are of one cgroup, so that no turn passes between two.
"""

from __future__ import annotations

import math

from lab.experiments.cost import per_io, two_cpus
from lab.model import Figure, Output

TARGET = 1.0


def figures(out: Output) -> list[Figure]:
    def ratio(phase: str) -> float:
        # not rounded up: what is asked for is at least as many
        return math.floor(1000 * per_io(out, f"mq-deadline{phase}") / per_io(out, f"own{phase}")) / 1000

    return [
        Figure("iops", round(1e9 / per_io(out, "own")), "IOPS", "higher"),
        Figure("ratio", ratio(""), "", "higher", target=TARGET, must=True),
        Figure("one-group.ratio", ratio("-one-group"), "", "higher", target=TARGET, must=True),
    ]


EXPERIMENTS = [
    two_cpus("scale.2cpu", "two CPUs, a job on each: IOPS, and over mq-deadline's", figures, peers=("bfq",))
]
