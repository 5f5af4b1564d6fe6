# SPDX-License-Identifier: Apache-2.0
"""Shares of what is no plain read or write: data that must be on the medium at once, and discards.

A write with O_DSYNC on a device with a cache is REQ_FUA, each part of a large
one; it needs a tag like any other. A discard names megabytes and moves none, but
takes the device its time: fstrim must not keep a reader waiting, discard by
discard. Both on `emmc51`.
"""

from __future__ import annotations

from lab.beside import beside, fio, served
from lab.model import Experiment, Figure, Output, flashsim

DEVICE = flashsim("emmc51")
TWO = (1.96, 2.04)


def dsync() -> Experiment:
    """2:1, writes of 100 MB with O_DSYNC: the large writes of the first paper, made durable one by one."""

    def figures(out: Output) -> list[Figure]:
        s = served(out)
        return [
            Figure("ratio", round(s.mbps(0) / max(s.mbps(1), 1e-3), 3), "", target=TWO, must=True),
            Figure("total", round(s.mbps(0) + s.mbps(1), 2), "MB/s", "higher", share_of=("none", 99)),
        ]

    return beside(
        "fair.dsync.write.100m", "2:1, direct writes of 100 MB with O_DSYNC", device=DEVICE,
        groups={"a": 200, "b": 100}, settle=4, seconds=20, peers=("none", "bfq"), figures=figures,
        loads=[
            fio(g, rw="write", bs="100m", slice_=i, device=DEVICE, extra="--sync=dsync")
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


EXPERIMENTS = [dsync(), trim()]
