# SPDX-License-Identifier: Apache-2.0
"""Weights 2:1, two cgroups of direct I/O: the first paper's table (S0), on null_blk.

The device is a bandwidth and nothing else: 220 MB/s, requests of at most
512 KiB, 64 or 1 of them at a time. The paper's board reached a ratio of 1.96,
1.92 and 1.26 at 1, 30 and 100 MB.
"""

from __future__ import annotations

import json

from lab.model import Experiment, Row
from lab.qemu import Output

PAPER_READ = {1: 1.96, 30: 1.92, 100: 1.26}

SCRIPT = """
uname -r | report kernel
load null_blk nr_devices=1 irqmode=2 mbps=220 hw_queue_depth={depth} submit_queues=1 max_sectors=1024 gb=64
scheduler nullb0 $SCHEDULER
group a 200
group b 100
job() {{
	in_group $1 fio --name=$1 --filename=/dev/nullb0 --direct=1 --ioengine=libaio --rw={rw} --bs={mb}m \\
		--iodepth={qd} --offset=$2 --size=16g --time_based --runtime={seconds} --output-format=json \\
		--output=/tmp/$1.json --eta=never
}}
job a 0 & job b 32g & wait
report a < /tmp/a.json
report b < /tmp/b.json
cat /sys/kernel/debug/block/nullb0/sched/state 2>/dev/null | report state
cat /cg/a/io.evenkeel.stat /cg/b/io.evenkeel.stat 2>/dev/null | report stat
"""


def bandwidth(fio: str, direction: str) -> float:
    """MB/s of the one job in fio's JSON output."""
    job = json.loads(fio)["jobs"][0][direction]
    return float(job["io_bytes"]) / float(job["runtime"]) / 1000


def _experiment(mb: int, depth: int, qd: int, direction: str, seconds: int) -> Experiment:
    name = f"fair.{direction}.{mb}m.depth{depth}.qd{qd}"

    def rows(out: Output) -> list[Row]:
        a, b = (bandwidth(out.results[g], direction) for g in "ab")
        paper = PAPER_READ.get(mb) if direction == "read" else None
        return [
            Row(f"{name}.ratio", round(a / b, 3), "", target=(1.94, 2.06), paper=paper),
            Row(f"{name}.total", round(a + b, 1), "MB/s", better="higher"),
        ]

    script = SCRIPT.format(depth=depth, rw=direction, mb=mb, qd=qd, seconds=seconds)
    return Experiment(
        name, f"2:1, direct {direction} of {mb} MB, QD{qd}, hw_queue_depth {depth}", script, rows,
        tags=frozenset({"first-light"}) if qd == 1 and direction == "read" else frozenset(),
    )  # fmt: skip


# 100 MB at 73 MB/s take 1.4 s each: the run is long enough for one of them to
# be about 1 % of the slower group's total
EXPERIMENTS = [
    _experiment(mb, depth, qd, direction, {1: 20, 30: 60, 100: 120}[mb])
    for direction in ("read", "write")
    for qd in (1, 4)
    for depth in (64, 1)
    for mb in (1, 30, 100)
]
