# SPDX-License-Identifier: Apache-2.0
"""The rows of the quick bench: exactly those that each of its experiments must write.

Change this file when an experiment becomes quick, or when a quick experiment gets or
loses a figure.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

SHARES = ("ratio", "total", "total-of-none")
# the same for an experiment without the baseline `none`, which therefore has no row total-of-none
SHARED = ("ratio", "total")
# an additional figure of experiments with large I/Os, which are also counted in each second
WORST = "ratio-worst-1s"
PROMISE = ("least", "sum", "wait", "wait-s", "total", "drift")
PLAYER = ("count", "total_ms", "worst_ms", "read_max_ms", "start_ms", "total")
WRITES = ("min", "avg", "p25", "p50", "p75", "p999", "max", "spread", "late")
RECORDS = ("min", "avg", "p25", "p50", "p75", "p9999", "late", "lost", "woken-late", "durable-max", "max")
READ_FILES = ("read-1000-files.written_mb", "read-1000-files.ms")

# the figures that each preset cites, and `unexplained`, which checks that the parts of each request's time add up
_CITED = tomllib.loads((Path(__file__).parents[1] / "flashsim/figures.toml").read_text())
_CALIBRATED = {
    f"calibrate.{preset}": (*metrics, "unexplained")
    for preset, metrics in _CITED.items() if preset != "source"
}  # fmt: skip

QUICK: dict[str, tuple[str, ...]] = {
    **_CALIBRATED,
    "channel.mixed-90-10": (
        "mbps", "mean_us", "gain_pct", "latency_pct", "oracle-mbps", "oracle-mean_us", "bound-mbps", "oracle-gain_pct",
        "replica_pct", "gap-mbps_pct", "gap-mean_pct", "read_mean_us", "write_mean_us", "read_latency_pct",
        "write_latency_pct",
    ),
    "cost.read": (
        *(f"g{g}.{metric}" for g in (1, 4, 16, 64) for metric in ("instructions", "added", "iops")),
        "g1.over-mq-deadline", "g64.over-mq-deadline", "growth",
    ),
    "cost.read.cpu2": ("instructions", "added", "iops"),
    "fair.read.100m.qd1.depth1": (*SHARED, WORST),
    "fair.read.100m.qd1.depth64": (*SHARES, WORST),
    "fair.read.1m.qd1.depth64": SHARED,
    "fair.read.30m.qd1.depth64": SHARED,
    "fair.buffered.read": ("ratio", "written", "read", "charged"),
    "fair.emmc51.read.100m": SHARES,
    "fair.emmc51.shares.3-2-2-1": (*(f"share-{g}" for g in "abcd"), "total"),
    "fair.emmc51.write.100m": SHARES,
    "fair.write.100m.qd1.depth1": (*SHARED, WORST),
    "fair.write.100m.qd1.depth64": (*SHARES, WORST),
    "fair.write.8m.qd1.depth64": SHARED,
    "latency.beside.read": ("p50", "p90", "p99", "p999", "max", "n", "alone-p50", "one-512k"),
    "rec.base.all": WRITES,
    "rec.base.all-bgall": WRITES,
    "rec.base.none": WRITES,
    "rec.ek.bgall": (*RECORDS, "quiet-max", "quiet-p9999", "times-quiet"),
    "rec.ek.quiet": (*RECORDS, "spread"),
    "regulate.curve": tuple(f"cap{cap}.{metric}" for cap in (1, 2, 4, 5, 6, 7, 8) for metric in ("iops", "mean_us")),
    "scale.2cpu": ("iops", "ratio", "one-group.ratio"),
    "promise.small-medium.sd-uhs3": (
        *PROMISE, "part-small", "part-medium", "light-p99", "light-alone-p50", "light-alone-p99", "largest",
    ),
    "promise.twelve.pipe": (*PROMISE, "part-heavy", "part-light", "heavy"),
    "attribution.light-deep.sd-uhs3": ("worst", "rows", "waiting"),
    "stall.emmc51.buffered.write.100m": PLAYER,
    "stall.emmc51.direct.read.100m": PLAYER,
    "stall.emmc51.direct.write.100m": PLAYER,
    "tune.noatime": tuple(
        f"{metric}{of}" for metric in READ_FILES
        for of in ("", "-min", "-max", "-default", "-default-min", "-default-max")
    ),
}  # fmt: skip
