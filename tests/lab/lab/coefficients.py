# SPDX-License-Identifier: Apache-2.0
"""What a device does for one job alone, in figures that set up a controller of I/O.

Six of them are the coefficients of iocost's cost model. They come from the same fio
jobs as in tools/cgroup/iocost_coef_gen.py of the kernel's source, which its
documentation recommends (Documentation/admin-guide/cgroup-v2.rst, io.cost.model):
no scheduler, no merging, direct I/O by libaio, blocks of 128 MiB at QD1 for bytes per
second, blocks of 4 KiB at QD64 for requests per second. Two things differ:

- A job takes SECONDS instead of 120 s. The virtual clock has no noise that a longer job
  would have to average.
- First, the guest writes FILLED MiB once, where the tool writes a file of 16 GiB. Either
  way, a device that collects garbage has used up its reserve before it is measured.

The seventh figure is the basis of io.latency's target: how long a read of 128 KiB takes
on the idle device. That is the kernel's default window for read-ahead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from lab.competing import fio_job
from lab.model import Device, Experiment, Figure, Output

FILLED = 4096
# Run time of a job in guest seconds, by its block size. The host takes much longer to emulate a second of 4 KiB blocks.
SECONDS = {"128m": 10, "4k": 5, "128k": 2}
# coefficient → (rw, block size, queue depth), in the order of the tool
JOBS = {
    "rbps": ("read", "128m", 1),
    "rseqiops": ("read", "4k", 64),
    "rrandiops": ("randread", "4k", 64),
    "wbps": ("write", "128m", 1),
    "wseqiops": ("write", "4k", 64),
    "wrandiops": ("randwrite", "4k", 64),
}
READ_US = "read_us"
NAMES = (*JOBS, READ_US)


def _fio(name: str, rw: str, bs: str, depth: int, more: str) -> str:
    return (
        f'fio --name={name} --filename="/dev/$DEV" --direct=1 --ioengine=libaio --rw={rw} --bs={bs} --iodepth={depth}'
        f" --zero_buffers --randseed=1 --eta=never --output-format=json --output=/tmp/{name} {more}"
        f' || fail "fio failed at {name}"'
    )


def _timed(name: str, rw: str, bs: str, depth: int) -> list[str]:
    more = f"--time_based --runtime={SECONDS[bs]}"
    return [_fio(name, rw, bs, depth, more), f"report {name} < /tmp/{name}"]


def experiment(device: Device) -> Experiment:
    """The experiment that measures a device. It runs with `none`; its figures are what variables() returns."""
    # the name becomes that of a log file, so it must differ from device to device
    which = hashlib.sha256(f"{device.name} {device.setup}".encode()).hexdigest()[:8]
    filled = min(FILLED, device.capacity_mb)
    lines = [
        "device", 'echo none > "/sys/block/$DEV/queue/scheduler"', 'echo 1 > "/sys/block/$DEV/queue/nomerges"',
        _fio("fill", "write", "4m", 4, f"--size={filled}m"),
    ]  # fmt: skip
    for name, (rw, bs, depth) in JOBS.items():
        lines += _timed(name, rw, bs, depth)
    lines += _timed(READ_US, "randread", "128k", 1)
    return Experiment(
        f"coefficients.{which}", "what a device does for one job alone", "\n".join(lines) + "\n",
        lambda out: [Figure(name, value) for name, value in variables(out).items()],
        device=device, subject="none", baselines=(), timeout=1200,
    )  # fmt: skip


def variables(out: Output) -> Mapping[str, int]:
    """The figures by name: bytes per second, requests of 4 KiB per second, and READ_US. Raises ValueError for a zero."""
    found: dict[str, int] = {}
    for name in NAMES:
        job: dict[str, Any] = fio_job(out.results[name])
        if name == READ_US:
            found[name] = round(job["read"]["lat_ns"]["mean"] / 1000)
        else:
            served = job["read"]["bw_bytes"] + job["write"]["bw_bytes"]
            found[name] = served if name.endswith("bps") else round(served / 4096)
        if not found[name]:
            raise ValueError(f"{name} of the device is 0")
    return found
