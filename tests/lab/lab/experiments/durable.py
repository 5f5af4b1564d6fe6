# SPDX-License-Identifier: Apache-2.0
"""Shares of requests other than plain reads and writes: durable writes and discards, on `emmc51`.

On a device with a cache, a write with O_DSYNC becomes REQ_FUA requests, one for
each part of a large write. They need a tag like any other request. A discard of
some megabytes transfers no data, but takes the device time. A sequence of discards,
as of fstrim, must not keep a reader waiting.

Some devices have a cache and no FUA: virtio, SATA as Linux uses it, USB bridges.
For these devices the kernel sends a flush after the data instead of REQ_FUA. The
request keeps its tag until the flush completes. While such data wait in the scheduler,
no flush of any group starts.
"""

from __future__ import annotations

from lab import onfs, settings
from lab.competing import competing, fio, fio_job, served
from lab.model import Device, Experiment, Figure, Output, flashsim

DEVICE = flashsim("emmc51")
FLUSHED = flashsim("emmc51", fua=0)
# Guest seconds for which the guest waits for fio. fio calls fsync for 20 s, so its last call may take the other 40 s.
PATIENCE = 60


def dsync(name: str, about: str, device: Device, *, deep: bool = False) -> Experiment:
    """Weights 2:1, writes of 100 MB with O_DSYNC.

    These are the large writes of Hasegawa et al., "Improving responsiveness by
    guaranteeing storage I/O bandwidth", each made durable.
    """

    def figures(out: Output) -> list[Figure]:
        s = served(out)
        return [
            Figure("ratio", round(s.mbps(0) / max(s.mbps(1), 1e-3), 3)),
            Figure("total", round(s.mbps(0) + s.mbps(1), 2), "MB/s", "higher", share_of=("none",)),
        ]

    return competing(
        name, about, device=device,
        groups={"a": 200, "b": 100}, settle=4, seconds=20, baselines=("none",) if deep else ("none", "bfq"),
        figures=figures, deep=deep,
        loads=[
            fio(g, rw="write", bs="100m", slice_=i, device=device, extra="--sync=dsync")
            for i, g in enumerate("ab")
        ],
    )  # fmt: skip


def trim() -> Experiment:
    """Weights 1:1: one group reads 512 KiB at a time, the other discards 64 MiB at a time without a pause."""

    def figures(out: Output) -> list[Figure]:
        return [Figure("read", round(served(out).mbps(0), 2), "MB/s", "higher", share_of=("none",))]

    return competing(
        "fair.trim", "weights 1:1, direct reads of 512 KiB against discards of 64 MiB", device=DEVICE,
        groups={"a": 100, "b": 100}, settle=2, seconds=6, baselines=("none",), figures=figures,
        loads=[
            fio("a", rw="read", bs="512k", qd=2, slice_=0, device=DEVICE),
            fio("b", rw="trim", bs="64m", slice_=1, device=DEVICE),
        ],
    )  # fmt: skip


def flush() -> Experiment:
    """How long an fsync takes while a group of weight 1 writes durably and a group of weight 10000 reads."""

    def figures(out: Output) -> list[Figure]:
        sync = fio_job(out.results["f"])["sync"]["lat_ns"]
        if sync["N"] < 20:
            raise ValueError(f"only {sync['N']} flushes")
        return [
            Figure("p99", round(sync["percentile"]["99.000000"] / 1e6, 1), "ms", "lower"),
            Figure("max", round(sync["max"] / 1e6, 1), "ms", "lower"),
        ]

    return competing(
        "latency.flush.beside.dsync",
        "fsync while a group of weight 1 writes 4 KiB with O_DSYNC and a group of weight 10000 reads 512 KiB, no FUA",
        device=FLUSHED, groups={"h": 10000, "l": 1, "f": 100}, settle=2, seconds=6, baselines=(), figures=figures,
        deep=True,
        loads=[
            fio("h", rw="read", bs="512k", qd=32, slice_=0, device=FLUSHED),
            fio("l", rw="randwrite", bs="4k", qd=4, slice_=1, device=FLUSHED, extra="--sync=dsync"),
            fio("f", rw="write", bs="4k", slice_=2, device=FLUSHED, runtime=9, extra="--fsync=1"),
        ],
    )  # fmt: skip


def read_under_trim() -> Experiment:
    """How long a read waits while discards arrive as many commands at once, as those of fstrim do on an eMMC."""

    def figures(out: Output) -> list[Figure]:
        lat = fio_job(out.results["r"])["read"]["clat_ns"]
        return [
            Figure("p99", round(lat["percentile"]["99.000000"] / 1e6, 2), "ms", "lower"),
            Figure("max", round(lat["max"] / 1e6, 2), "ms", "lower"),
        ]

    return competing(
        "latency.beside.trim", "reads of 4 KiB while another group discards 64 MiB in commands of 512 KiB", device=DEVICE,
        groups={"r": 100, "t": 100}, settle=1, seconds=4, baselines=("none",), figures=figures,
        deep=True,
        prepare='echo 524288 > "/sys/block/$DEV/queue/discard_max_bytes" || fail "cannot set discard_max_bytes"',
        loads=[
            fio("r", rw="randread", bs="4k", slice_=0, device=DEVICE, runtime=6),
            fio("t", rw="trim", bs="64m", slice_=1, device=DEVICE),
        ],
    )  # fmt: skip


def inversion(name: str, about: str, *, dsync: bool = False, deep: bool = False) -> Experiment:
    """How long an fsync takes on an ext4 that a group of weight 1 writes, while a group of weight 10000 reads the raw device.

    The journal's commit waits for data of the group of weight 1 (ext4 in ordered mode). The fsync
    of another group must not have to wait until the small share of that group has written them.
    """
    device = onfs.backed("emmc51")
    reader = onfs.fio_on("/dev/$DEV", "h", rw="read", bs="512k", size="1g", qd=32, extra="--readonly")
    writer = onfs.fio_on(
        "/m/l", "l", rw="write", bs="1m", size="512m", direct=False, extra="--sync=dsync" if dsync else ""
    )
    calls = onfs.fio_on(
        "/m/f", "f", rw="write", bs="4k", size="16m", direct=False,
        extra="--fsync=1 --thinktime=100ms --thinktime_iotime=0 --runtime=20",
    )  # fmt: skip
    script = "\n".join([
        "uname -r | report kernel", onfs.mounted(files="l:512m f:16m"), 'scheduler "$DEV"',
        *(settings.command(s.name, s.ours) for s in settings.read() if s.name.startswith("vm.dirty_")),
        "group h 10000; group l 1; group f 100",
        f"in_group h {reader} > /tmp/h.log 2>&1 &",
        f"in_group l {writer} > /tmp/l.log 2>&1 &",
        "sleep 8",
        # A call that does not return keeps fio from ending. Then the file stays empty.
        f"in_group f {calls} > /tmp/f.log 2>&1 & pid_f=$!",
        f"n=0; while kill -0 $pid_f 2> /dev/null && [ $n -lt {PATIENCE} ]; do sleep 1; n=$((n + 1)); done",
        "touch /tmp/f.json; report f < /tmp/f.json",
        'cat "/sys/kernel/debug/block/$DEV/sched/state" 2> /dev/null | report state',
        "cat /cg/*/io.evenkeel.stat 2> /dev/null | report stat",
    ]) + "\n"  # fmt: skip

    def figures(out: Output) -> list[Figure]:
        if not out.results["f"].strip():
            # fio calls fsync for 20 s, so its last call took at least the rest of PATIENCE
            return [Figure("max", 1e3 * (PATIENCE - 20), "ms", "lower")]
        sync = fio_job(out.results["f"])["sync"]["lat_ns"]
        if not sync["N"]:
            raise ValueError("no call of fsync")
        return [
            Figure("p50", round(sync["percentile"]["50.000000"] / 1e6, 1), "ms", "lower"),
            Figure("max", round(sync["max"] / 1e6, 1), "ms", "lower"),
        ]

    return Experiment(
        name, about, script, figures, device=device, programs=onfs.PROGRAMS, memory=2048, baselines=("none", "mq-deadline"),
        deep=deep, timeout=1500,
    )  # fmt: skip


# why rows miss their targets, by the pattern of their ids
NOTES = {
    "fair.dsync.flushed.write.100m.*": "The device has no FUA. All data wait with their tags for one flush, which starts"
    " when none of these data is in the scheduler or the device. So both groups advance in step, one cycle per flush, and"
    " a block of 100 MB of one group ends in the middle of a cycle of the other group.",
}


EXPERIMENTS = [
    dsync("fair.dsync.write.100m", "weights 2:1, direct writes of 100 MB with O_DSYNC", DEVICE),
    dsync(
        "fair.dsync.flushed.write.100m", "weights 2:1, direct writes of 100 MB with O_DSYNC, no FUA", FLUSHED, deep=True
    ),
    trim(), flush(), read_under_trim(),
    inversion(
        "latency.fsync.inversion",
        "fsync in a group of weight 100 on an ext4 that a group of weight 1 writes, next to raw reads of weight 10000",
    ),
    inversion(
        "latency.fsync.inversion.dsync",
        "the same, while the group of weight 1 writes with O_DSYNC", dsync=True, deep=True,
    ),
]  # fmt: skip
