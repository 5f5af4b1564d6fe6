# SPDX-License-Identifier: Apache-2.0
"""How long does a light reader wait beside a heavy load, and how long does an application take to start there?

4 KiB random reads of a group of weight 100 beside 100 MB I/Os, four at a time,
of another of weight 100, on `emmc51`. The bound is twice the time of one
512 KB request and the read's own, both measured first, in the same guest, on
the idle device.

The reads are planned: `READERS` processes plan one each so many milliseconds,
all together `RATE` a second, however long earlier ones take. A read's time
counts from its planned moment on; waiting for a tag counts, and waiting for
the reader's earlier read. (A reader that plans a read when the one before is
there takes few samples where the device is slow and many where it is fast:
its percentiles are those of the fast times.) The readers' intervals differ,
so that the reads come at no regular times.

A device that is written to without end collects garbage: `emmc51` has used up
its reserve of 2 GiB on all dies at the same time, and then answers nobody for
140 ms, about twice a second. Whatever comes in that time waits, under any
scheduler. So there is `latency.beside.write` as a user has it, and `….clean`
on a device that collects nothing, which shows what the scheduler adds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from lab import onfs
from lab.beside import fio, fio_job
from lab.model import Device, Experiment, Figure, Output, flashsim

DEVICE = flashsim("emmc51")
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
READERS = 64
# reads a second, together: an eighth of what the idle device serves one at a time
RATE = 500
# all readers begin at once: their first reads do not count
SKIPPED = 8
# long enough for the 99.9th percentile
SECONDS = 23
# samples that have to lie beyond a percentile
BEYOND = 10
# points of a curve
POINTS = 60
# what evenkeel holds today
HELD = frozenset({"latency.beside.read", "latency.beside.write.clean"})
CLEAN = flashsim("emmc51", gc_after_kb=0)

Curve = list[tuple[float, float]]


def _rates() -> list[int]:
    """Bytes a second of each reader: from 3/4 to 5/4 of the mean."""
    mean = 4096 * RATE / READERS
    return [round(mean * (0.75 + 0.5 * i / (READERS - 1))) for i in range(READERS)]


def planned(command: str, *, name: str) -> str:
    """Guest commands: the readers. `command` is a fio job of one of them; their times become the section `name`.

    A reader is QD1 and synchronous; fio begins a read that is late at once,
    and logs how long each took from its beginning. Raises ValueError for a
    job without end.
    """
    if not (runtime := re.search(r"--runtime=(\d+)\b", command)):
        raise ValueError(f"{name} has no --runtime")
    head, _, options = command.partition(f" --name={name} ")
    jobs = " ".join(f"--name=r{i} --rate={rate} --randseed={i + 1}" for i, rate in enumerate(_rates()))
    return (
        f"{head} {options} --ioengine=psync --iodepth=1 --thread --write_lat_log=/tmp/{name} --disable_slat=1"
        f" --disable_clat=1 {jobs} > /tmp/{name}.log 2>&1"
        f' || fail "{name} failed: $(tail -n 1 /tmp/{name}.log)"\n'
        f'for log in /tmp/{name}_lat.*.log; do echo "reader ${{log#*_lat.}} {runtime[1]}"; cut -d, -f2 "$log"; done'
    )


def _light(name: str, seconds: int = SECONDS) -> str:
    command = fio(
        name, rw="randread", bs="4k", device=DEVICE, slice_=0, runtime=seconds, extra="--norandommap"
    ).command
    return f"{planned(command, name=name)} | report {name}"


def reads(text: str) -> list[float]:
    """Times (us) of all reads from their planned moments, in rising order. Raises ValueError when readers are missing."""
    found: list[float] = []
    parts = text.split("reader ")[1:]
    if len(parts) != READERS:
        raise ValueError(f"{len(parts)} of {READERS} readers reported")
    for part in parts:
        number, seconds, *times = part.split()
        interval = 1e6 * 4096 / _rates()[int(number.partition(".")[0]) - 1]
        end = 1e6 * float(seconds)
        took = 0.0
        own = []
        for ns in times:
            # a read begins when it is planned, or when the one before is there
            took = max(took - interval, 0.0) + int(ns) / 1000
            own.append(took)
        # what was planned, and not begun when the time was over, has waited at least until then
        own += [end - i * interval for i in range(len(own), int(end / interval))]
        found += own[SKIPPED:]
    return sorted(found)


def percentile(times: Sequence[float], name: str) -> float:
    """Of times in rising order. Raises ValueError when too few lie beyond it: it would be the longest of few."""
    share = PERCENTILES[name]
    if (beyond := len(times) * (1 - share)) < BEYOND * (1 - 1e-9):
        raise ValueError(f"{name} of {len(times)} reads: {beyond:.1f} are beyond it, not {BEYOND}")
    return times[math.ceil(share * len(times) - 1e-9) - 1]


def _latency(times: Sequence[float]) -> list[tuple[str, float]]:
    return [*((p, percentile(times, p)) for p in PERCENTILES), ("max", times[-1])]


def curve(times: Sequence[float]) -> Curve:
    """(us, share of the reads at or below it) up to (longest, 1), as many points between any two nines."""
    last = math.log10(len(times))
    ranks = {
        max(math.ceil(len(times) * (1 - 10 ** (-last * i / (POINTS - 2)))), 1) for i in range(POINTS - 1)
    }
    return [(times[rank - 1], rank / len(times)) for rank in sorted(ranks | {len(times)})]


def beside(direction: str, device: Device = DEVICE) -> Experiment:
    """Reads beside 100 MB I/Os of the `direction`; on a device that collects no garbage if that is CLEAN."""
    name = f"latency.beside.{direction}" + (".clean" if device is CLEAN else "")
    # past the write buffer, a request takes as long as its data take to be programmed
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
        bound = round(2 * (service + alone))
        return [
            *(
                Figure(p, round(value, 1), "us", "lower", bound if p == "p99" else None, must=p == "p99" and name in HELD)
                for p, value in _latency(light)
            ),
            Figure("n", len(light), "reads"),
            Figure("alone-p50", round(alone, 1), "us"),
            Figure("one-512k", round(service, 1), "us"),
        ]  # fmt: skip

    return Experiment(
        name, f"4 KiB random reads beside {direction}s of 100 MB, QD4", script, figures, device=device,
        curves=lambda out: {name: curve(reads(out.results["light"]))}, quick=direction == "read", quick_peers=("bfq",),
        peers=("bfq",) if device is CLEAN else ("none", "bfq") if direction == "read" else ("none",),
        timeout=900,
    )  # fmt: skip


def alone() -> Experiment:
    script = "\n".join([
        "device", 'scheduler "$DEV"', "group light 100", f"in_group light {_light('light')}",
    ]) + "\n"  # fmt: skip

    def figures(out: Output) -> list[Figure]:
        light = reads(out.results["light"])
        return [
            *(Figure(p, round(v, 1), "us", "lower") for p, v in _latency(light)),
            Figure("n", len(light), "reads"),
        ]

    return Experiment(
        "latency.alone", "4 KiB random reads, nothing beside them", script, figures, device=DEVICE, peers=(),
        curves=lambda out: {"latency.alone": curve(reads(out.results["light"]))},
    )  # fmt: skip


def appstart() -> Experiment:
    """Weights 100:100: an application that the user starts is no more than what runs already."""
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
        f"in_group load {load} > /tmp/load.log 2>&1 & load=$!", "sleep 3", "start beside",
        'kill -0 "$load" || fail "the load ended: $(tail -n 1 /tmp/load.log)"',
    ]) + "\n"  # fmt: skip

    def figures(out: Output) -> list[Figure]:
        alone, beside = onfs.last_json(out, "alone"), onfs.last_json(out, "beside")
        return [
            Figure("total_ms", round(beside["total_ms"]), "ms", "lower"),
            Figure("alone_ms", round(alone["total_ms"]), "ms", "lower"),
            *(Figure(f"read-{p}", beside[f"read_{p}_us"], "us", "lower") for p in ("p50", "p99", "max")),
        ]

    return Experiment(
        "latency.appstart", "an application's cold start, 400 files and 40 MB, beside direct reads of 100 MB",
        script, figures, device=device, memory=1024, programs=(*onfs.PROGRAMS, "ek-appstart"), peers=("none", "bfq"),
    )  # fmt: skip


EXPERIMENTS = [beside("read"), beside("write"), beside("write", CLEAN), alone(), appstart()]
