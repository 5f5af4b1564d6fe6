# SPDX-License-Identifier: Apache-2.0
"""Shares of what is no plain read or write: data that must be on the medium at once, and discards.

A write with O_DSYNC on a device with a cache is REQ_FUA, each part of a large
one; it needs a tag like any other. A discard names megabytes and moves none, but
takes the device its time: fstrim must not keep a reader waiting, discard by
discard. Both on `emmc51`.

A device that has a cache and no FUA (virtio, SATA as Linux uses it, USB bridges)
gets a flush after the data instead. The request keeps its tag until that is
done, and no flush of anybody's begins while such data wait in a scheduler.
"""

from __future__ import annotations

from lab.beside import beside, fio, fio_job, served
from lab.model import Device, Experiment, Figure, Output, flashsim

DEVICE = flashsim("emmc51")
FLUSHED = flashsim("emmc51", fua=0)
TWO = (1.96, 2.04)
# how long a flush may be kept waiting for data of a light group, over what it takes without a scheduler
FLUSH_MS = 100


def dsync(name: str, about: str, device: Device, *, deep: bool = False) -> Experiment:
    """2:1, writes of 100 MB with O_DSYNC: the large writes of the first paper, made durable one by one."""

    def figures(out: Output) -> list[Figure]:
        s = served(out)
        return [
            Figure("ratio", round(s.mbps(0) / max(s.mbps(1), 1e-3), 3), "", target=TWO, must=True),
            Figure("total", round(s.mbps(0) + s.mbps(1), 2), "MB/s", "higher", share_of=("none", 99)),
        ]

    return beside(
        name, about, device=device,
        groups={"a": 200, "b": 100}, settle=4, seconds=20, peers=("none",) if deep else ("none", "bfq"),
        figures=figures, deep=deep,
        loads=[
            fio(g, rw="write", bs="100m", slice_=i, device=device, extra="--sync=dsync")
            for i, g in enumerate("ab")
        ],
    )  # fmt: skip


def trim() -> Experiment:
    """1:1, reads of 512 KiB beside discards of 64 MiB, one after the other."""

    def figures(out: Output) -> list[Figure]:
        return [
            Figure("read", round(served(out).mbps(0), 2), "MB/s", "higher", share_of=("none", 90), must=True)
        ]

    return beside(
        "fair.trim", "1:1, direct reads of 512 KiB beside discards of 64 MiB", device=DEVICE,
        groups={"a": 100, "b": 100}, settle=2, seconds=6, peers=("none",), figures=figures,
        loads=[
            fio("a", rw="read", bs="512k", qd=2, slice_=0, device=DEVICE),
            fio("b", rw="trim", bs="64m", slice_=1, device=DEVICE),
        ],
    )  # fmt: skip


def flush() -> Experiment:
    """How long does an fsync take beside a light group's durable writes and a heavy group's reads?"""

    def figures(out: Output) -> list[Figure]:
        sync = fio_job(out.results["f"])["sync"]["lat_ns"]
        if sync["N"] < 20:
            raise ValueError(f"only {sync['N']} flushes")
        return [
            Figure("p99", round(sync["percentile"]["99.000000"] / 1e6, 1), "ms", "lower"),
            Figure("max", round(sync["max"] / 1e6, 1), "ms", "lower", target=(0, FLUSH_MS), must=True),
        ]

    return beside(
        "latency.flush.beside.dsync",
        "fsync beside 4 KiB writes with O_DSYNC of a group of weight 1 and 512 KiB reads of one of weight 10000",
        device=FLUSHED, groups={"h": 10000, "l": 1, "f": 100}, settle=2, seconds=6, peers=(), figures=figures,
        deep=True,
        loads=[
            fio("h", rw="read", bs="512k", qd=32, slice_=0, device=FLUSHED),
            fio("l", rw="randwrite", bs="4k", qd=4, slice_=1, device=FLUSHED, extra="--sync=dsync"),
            fio("f", rw="write", bs="4k", slice_=2, device=FLUSHED, runtime=9, extra="--fsync=1"),
        ],
    )  # fmt: skip


def read_beside_trim() -> Experiment:
    """How long does a read wait beside discards that come as many commands at once? As fstrim's do on an eMMC."""

    def figures(out: Output) -> list[Figure]:
        lat = fio_job(out.results["r"])["read"]["clat_ns"]
        return [
            Figure("p99", round(lat["percentile"]["99.000000"] / 1e6, 2), "ms", "lower"),
            Figure("max", round(lat["max"] / 1e6, 2), "ms", "lower"),
        ]

    return beside(
        "latency.beside.trim", "4 KiB reads beside discards of 64 MiB, 512 KiB a command", device=DEVICE,
        groups={"r": 100, "t": 100}, settle=1, seconds=4, peers=("none",), figures=figures,
        deep=True,
        prepare='echo 524288 > "/sys/block/$DEV/queue/discard_max_bytes" || fail "discards cannot be limited"',
        loads=[
            fio("r", rw="randread", bs="4k", slice_=0, device=DEVICE, runtime=6),
            fio("t", rw="trim", bs="64m", slice_=1, device=DEVICE),
        ],
    )  # fmt: skip


EXPERIMENTS = [
    dsync("fair.dsync.write.100m", "2:1, direct writes of 100 MB with O_DSYNC", DEVICE),
    dsync("fair.dsync.flushed.write.100m", "2:1, direct writes of 100 MB with O_DSYNC, no FUA", FLUSHED, deep=True),
    trim(), flush(), read_beside_trim(),
]  # fmt: skip
