# SPDX-License-Identifier: Apache-2.0
"""Two CPUs share one queue: random reads of 4 KiB, one job per CPU at QD32, on null_blk.

QEMU runs the CPUs of a virtual clock in turns. A second of guest time holds 10^9
instructions of both CPUs together, so `iops` is the rate of one CPU's worth of
work, not of two. The figures include the instructions of sharing: taking locks, handing
over requests. They do not include waits for a lock that the other CPU holds, or moves
of cache lines. So they understate contention, for all schedulers alike.

`ratio` is the rate divided by the rate of mq-deadline in the same guest. `one-group.ratio`
is the same with both jobs in one cgroup, so that the scheduler never changes from
one group to the other.
"""

from __future__ import annotations

import math

from lab.experiments.cost import per_io, two_cpus
from lab.model import Figure, Output


def figures(out: Output) -> list[Figure]:
    def ratio(phase: str) -> float:
        # rounded down, because the target is a lower bound
        return math.floor(1000 * per_io(out, f"mq-deadline{phase}") / per_io(out, f"own{phase}")) / 1000

    return [
        Figure("iops", round(1e9 / per_io(out, "own")), "IOPS", "higher"),
        Figure("ratio", ratio(""), "", "higher"),
        Figure("one-group.ratio", ratio("-one-group"), "", "higher"),
    ]


NOTES = {
    "scale.2cpu.one-group.ratio": "One group costs a few instructions less than mq-deadline. Builds of the module that differ"
    " in their layout give a ratio of 0.99 to 1.01.",
    "scale.2cpu.ratio": "The same guest as for `cost.read.cpu2`: in about one run of four, the scheduler holds requests,"
    " although this device completes each request at once.",
}


EXPERIMENTS = [
    two_cpus(
        "scale.2cpu",
        "two CPUs with a job each: IOPS, and their ratio to mq-deadline's",
        figures,
        baselines=("bfq",),
    )
]
