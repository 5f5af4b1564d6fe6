# SPDX-License-Identifier: Apache-2.0
"""Compares each preset of the flash model with the figures that it cites (tests/flashsim/figures.toml).

There is no scheduler, and each figure gets a new device. So each figure starts with an
empty buffer, an unused fast cache and an unused reserve. Two kinds of figure are
exceptions: a `worn` device collects garbage all the time, and the measurement of a
`past` figure begins when the fast cache is used up.

`unexplained` is from a mixture of reads, writes and flushes: the number of requests
whose traced parts do not sum up to their total time.
"""

from __future__ import annotations

import tomllib
from typing import Any

from lab.competing import fio_job
from lab.kernels import TOP
from lab.model import Better, Device, Experiment, Figure, Output

CITED: dict[str, dict[str, Any]] = {
    preset: figures
    for preset, figures in tomllib.loads((TOP / "tests/flashsim/figures.toml").read_text()).items()
    if preset != "source"
}
# options that keep fio's own work per request small, so that the device is the limit
FIO = (
    "fio --name=calibrate --filename=/dev/$DEV --direct=1 --ioengine=io_uring --fixedbufs=1 --registerfiles=1"
    " --norandommap --gtod_reduce=1 --randseed=1 --random_generator=tausworthe64 --time_based --eta=never"
    " --output-format=json"
)

# io_uring releases the device some time after fio has ended, so rmmod is repeated
UNLOAD = """
unload() {
	for i in $(seq 50); do
		rmmod flashsim 2> /dev/null && return
		sleep .1
	done
	fail "flashsim does not unload after $1"
}
"""

PARTS = """
t=/sys/kernel/tracing
echo 1 > $t/events/flashsim/flashsim_request/enable
fio --name=mix --filename=/dev/$DEV --direct=1 --ioengine=libaio --rw=randrw --bsrange=4k-512k --iodepth=32 \\
	--size=1g --io_size=64m --fsync=32 --randseed=1 --eta=never --output=/dev/null || fail "fio failed"
echo 0 > $t/events/flashsim/flashsim_request/enable
grep flashsim_request: $t/trace | awk '{
	sum = 0
	for (i = 1; i <= NF; i++) {
		split($i, kv, "=")
		if (kv[1] == "total_ns") total = kv[2]
		else if (kv[1] ~ /_ns$/) sum += kv[2]
	}
	n++
	if (sum != total) bad++
} END { print n + 0, bad + 0 }' | report parts
"""


def _seconds(preset: str, metric: str, want: dict[str, Any]) -> tuple[float, float]:
    """Seconds to let the device settle, and seconds to measure. A disk needs more, because it is slow."""
    if "settle" in want:
        return want["settle"], want["seconds"]
    if preset == "hdd-5400":
        return 0, 30
    if "mb" in want:
        # half of the stream to settle, half to measure: both are long enough for many pauses for garbage collection
        half = round(want["mb"] * 1.048576 / want["value"] / 2)
        return half, half
    if metric.startswith("seq"):
        # the write buffer fills while it settles
        return 1, 2
    return 0, 0.4 if want["value"] > 50000 else 1


def cited(want: dict[str, Any]) -> tuple[Better | None, float]:
    """(None, the cited figure). If the source gives only a bound: (which values are better, the bound)."""
    if "most" in want:
        return "lower", want["most"]
    if "least" in want:
        return "higher", want["least"]
    return None, want["value"]


def _experiment(preset: str, wanted: dict[str, Any]) -> Experiment:
    lines = ["uname -r | report kernel", UNLOAD]
    for metric, want in wanted.items():
        settle, seconds = _seconds(preset, metric, want)
        rw = ("" if metric.startswith("seq") else "rand") + ("write" if "write" in metric else "read")
        device = f"load flashsim preset={preset} set={want['set']}" if "set" in want else "device"
        lines += [
            f'{device}; scheduler "$DEV"',
            f"{FIO} --rw={rw} --bs={want['kb']}k --iodepth={want['depth']}"
            f" --size={want.get('span_mb', 4096)}m --ramp_time={settle} --runtime={round(1000 * seconds)}ms"
            f" --output=/tmp/{metric} || fail 'fio failed at {metric}'",
            f"report {metric} < /tmp/{metric}",
            f"unload {metric}",
        ]
    lines += ['device; scheduler "$DEV"', PARTS]

    def figures(out: Output) -> list[Figure]:
        rows = []
        for metric, want in wanted.items():
            job = fio_job(out.results[metric])["write" if "write" in metric else "read"]
            value = job["bw_bytes"] / 1e6 if metric.endswith("mbps") else job["iops"]
            unit = "MB/s" if metric.endswith("mbps") else "IOPS"
            better, paper = cited(want)
            rows.append(Figure(metric, round(value, 1), unit, better, paper=paper))
        traced, unexplained = map(int, out.results["parts"].split())
        if not traced:
            raise ValueError("no request was traced")
        rows.append(Figure("unexplained", unexplained, "requests", "lower"))
        return rows

    return Experiment(
        f"calibrate.{preset}", f"flash model {preset} compared with the figures that it cites",
        "\n".join(lines), figures,
        device=Device("flashsim0", f"load flashsim preset={preset}", ("flashsim",)), subject="none",
        baselines=(), quick=True, timeout=600,
    )  # fmt: skip


# why rows miss their targets, by the pattern of their ids
NOTES = {
    "calibrate.emmc51.rand_*_iops_qd1": "The command times are fitted to the figures at depth 32. With these times the figures"
    " at depth 1, which are of another device, cannot be met. The loads of the lab use deep queues, where the figures are"
    " met. The time of a light reader alone (`latency.*.alone-p50`) is longer than the cited one.",
}


EXPERIMENTS = [_experiment(preset, wanted) for preset, wanted in CITED.items()]
