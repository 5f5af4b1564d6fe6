# SPDX-License-Identifier: Apache-2.0
"""How long a light reader waits under a heavy load, and how long an application takes to start under one.

Two groups of weight 100 compete on `emmc51`. One reads 4 KiB at random, the other
reads or writes 100 MB at QD4. The target for the 99th percentile is twice the sum
of two times that the same guest measures first on the idle device: the time of a
request of 512 KB, and the time of such a 4 KiB read.

The reads are planned: the `READERS` threads of `ek-light-reader` plan reads at fixed intervals,
in total `RATE` a second, however long earlier reads take. A read's time includes the wait
for a tag, and from its planned moment on, the wait for the thread's previous read.
(A reader that plans its next read when the previous one completes takes few
samples while the device is slow and many while it is fast. Its percentiles then
mostly describe the times at which the device is fast.)

A device under constant writes collects garbage. When `emmc51` has used up its
reserve of 2 GiB, all dies collect at the same time, and the device completes
nothing for 140 ms, about twice a second. A read that arrives then waits under any
scheduler. `latency.beside.write` includes these pauses, as a user would see them.
`latency.beside.write.clean` is on a device without garbage collection and shows
what the scheduler adds.
"""

from __future__ import annotations

from collections import Counter

from evenkeel_report import latencies
from evenkeel_report.latencies import Bins

from lab import onfs
from lab.competing import fio, fio_job
from lab.model import Device, Experiment, Figure, Output, flashsim

DEVICE = flashsim("emmc51")
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
READERS = 64
# reads per second of all readers: an eighth of what the idle device serves at QD1
RATE = 500
# the first seconds, in which reads do not count: the readers start, and the scheduler has not seen them before
SETTLE = 1
# duration, long enough for the 99.9th percentile
SECONDS = 23
# the fewest samples that must lie beyond a percentile
BEYOND = 10
# the controllers that only the deep bench measures
FURTHER = ("iocost-auto", "iomax", "iolatency")
CLEAN = flashsim("emmc51", gc_after_kb=0)


def planned(
    path: str, *, name: str, rate: int = RATE, readers: int = READERS, area: str = "", settle: float = SETTLE,
    seconds: float, offset: int = 0,
) -> str:  # fmt: skip
    """Guest commands that run the light reader on PATH for SECONDS. They print its times in the format that reads() parses.

    AREA: options that choose the part of PATH; without them it is the whole. Reads planned for the first SETTLE
    seconds do not count. Readers with equal OFFSET read the same places.
    """
    return (
        f"ek-light-reader --rate={rate} --readers={readers} --settle={settle:g}s --duration={seconds:g}s"
        f" --seed=$((SEED * 1000 + {offset})) {area} --log=/tmp/{name}.reads {path} > /tmp/{name}.log 2>&1"
        f' || fail "{name} failed: $(tail -n 1 /tmp/{name}.log)"\n'
        f"cut -d ' ' -f 2 /tmp/{name}.reads"
    )


def on_slice(device: Device, slice_: int, *, parts: int = 2) -> str:
    """The options of planned() that choose a slice of DEVICE, as competing.fio() has it."""
    part = device.capacity_mb // (device.slices or parts)
    return f"--offset={part * slice_}M --length={part}M"


def _light(name: str, seconds: int = SECONDS) -> str:
    reader = planned(f"/dev/{DEVICE.name}", name=name, area=on_slice(DEVICE, 0), seconds=seconds)
    return f"{reader} | report {name}"


def reads(text: str) -> Bins:
    """The times of all reads. Raises ValueError if there are none."""
    found = Counter(map(int, text.split()))
    if not found:
        raise ValueError("the light reader has read nothing")
    return found


def percentile(times: Bins, name: str, beyond: int = BEYOND) -> float:
    """A percentile in us.

    Raises ValueError when fewer than `beyond` samples lie beyond it: the result would
    depend on a few reads.
    """
    share, count = PERCENTILES[name], sum(times.values())
    if (left := count * (1 - share)) < beyond * (1 - 1e-9):
        raise ValueError(f"{name} of {count} reads: only {left:.1f} lie beyond it, {beyond} are needed")
    return latencies.percentile(times, share)


def _latency(times: Bins) -> list[tuple[str, float]]:
    return [*((p, percentile(times, p)) for p in PERCENTILES), ("max", max(times) / 1000)]


def under_load(direction: str, device: Device = DEVICE) -> Experiment:
    """Light reads while another group reads or writes 100 MB at a time. `device` CLEAN collects no garbage."""
    name = f"latency.beside.{direction}" + (".clean" if device is CLEAN else "")
    # 1 s of ramp fills the write buffer; after it, a request takes as long as programming its data
    one = fio(
        "one", rw=direction, bs="512k", device=DEVICE, slice_=1, runtime=2, extra="--ramp_time=1"
    ).command
    load = fio("load", rw=direction, bs="100m", qd=4, device=DEVICE, slice_=2).command
    script = "\n".join([
        "uname -r | report kernel", "device", 'scheduler "$DEV"', "group light 100; group load 100",
        f"in_group light {_light('alone', 3)}",
        f"in_group load {one} || fail 'fio failed'", "report one < /tmp/one.json", "sleep 1",
        f"in_group load {load} > /tmp/load.log 2>&1 & load=$!", "sleep 4",
        f"in_group light {_light('light')}",
        'kill -0 "$load" || fail "the load ended: $(tail -n 1 /tmp/load.log)"',
    ]) + "\n"  # fmt: skip

    def figures(out: Output) -> list[Figure]:
        light = reads(out.results["light"])
        alone = percentile(reads(out.results["alone"]), "p50")
        service = fio_job(out.results["one"])[direction]["lat_ns"]["mean"] / 1000
        return [
            *(Figure(p, round(value, 1), "us", "lower") for p, value in _latency(light)),
            Figure("n", sum(light.values()), "reads"),
            Figure("alone-p50", round(alone, 1), "us"),
            Figure("one-512k", round(service, 1), "us"),
        ]  # fmt: skip

    return Experiment(
        name, f"random reads of 4 KiB while another group {direction}s 100 MB at a time, QD4"
        + (", no garbage collection" if device is CLEAN else ""), script, figures, device=device,
        curves=lambda out: {name: latencies.curve(reads(out.results["light"]))}, quick=direction == "read",
        quick_baselines=("bfq",),
        baselines=("bfq", "iocost") if device is CLEAN else ("none", "bfq", "iocost") if direction == "read" else ("none",),
        deep_baselines=FURTHER if device is CLEAN or direction == "read" else (),
        programs=("fio", "ek-light-reader"), timeout=900,
    )  # fmt: skip


def alone() -> Experiment:
    script = "\n".join([
        "device", 'scheduler "$DEV"', "group light 100", f"in_group light {_light('light')}",
    ]) + "\n"  # fmt: skip

    def figures(out: Output) -> list[Figure]:
        light = reads(out.results["light"])
        return [
            *(Figure(p, round(v, 1), "us", "lower") for p, v in _latency(light)),
            Figure("n", sum(light.values()), "reads"),
        ]

    return Experiment(
        "latency.alone", "random reads of 4 KiB without another load", script, figures, device=DEVICE, baselines=(),
        programs=("ek-light-reader",), curves=lambda out: {"latency.alone": latencies.curve(reads(out.results["light"]))},
    )  # fmt: skip


def appstart() -> Experiment:
    """An application's cold start under a load, with weights 100:100: the application has no priority over the load."""
    device = onfs.backed("emmc51")
    load = onfs.fio_on("/m/load", "load", rw="read", bs="100m", size="400m")
    script = "\n".join([
        "uname -r | report kernel", onfs.mounted(files="load:400m"),
        "ek-appstart prepare --files 400 --seed 7 --total 40MB /m/app > /tmp/prepare 2>&1"
        ' || fail "ek-appstart: $(tail -n 1 /tmp/prepare)"',
        "sync; echo 3 > /proc/sys/vm/drop_caches", 'scheduler "$DEV"', "group app 100; group load 100",
        'start() { in_group app ek-appstart run --json /m/app > /tmp/app 2>&1 || fail "ek-appstart: $(tail -n 1 /tmp/app)";'
        ' report "$1" < /tmp/app; }',
        "start alone", "sync; echo 3 > /proc/sys/vm/drop_caches",
        f"in_group load {load} > /tmp/load.log 2>&1 & load=$!", "sleep 3", "start loaded",
        'kill -0 "$load" || fail "the load ended: $(tail -n 1 /tmp/load.log)"',
    ]) + "\n"  # fmt: skip

    def figures(out: Output) -> list[Figure]:
        alone, loaded = onfs.last_json(out, "alone"), onfs.last_json(out, "loaded")
        return [
            Figure("total_ms", round(loaded["total_ms"]), "ms", "lower"),
            Figure("alone_ms", round(alone["total_ms"]), "ms", "lower"),
            *(Figure(f"read-{p}", loaded[f"read_{p}_us"], "us", "lower") for p in ("p50", "p99", "max")),
        ]

    return Experiment(
        "latency.appstart", "an application's cold start (400 files, 40 MB) while another group reads 100 MB at a time",
        script, figures, device=device, memory=1024, programs=(*onfs.PROGRAMS, "ek-appstart"), baselines=("none", "bfq"),
    )  # fmt: skip


# why rows miss their targets, by the pattern of their ids
NOTES = {
    "latency.beside.write.p99": "The device. Once its reserve is used up, `emmc51` collects garbage on all dies at the"
    " same time, about twice a second, and answers no request for 140 ms. The trace of flashsim has that time as `gc_ns`"
    " in each read of more than 20 ms. `latency.beside.write.clean` is the same without garbage collection.",
}


EXPERIMENTS = [under_load("read"), under_load("write"), under_load("write", CLEAN), alone(), appstart()]
