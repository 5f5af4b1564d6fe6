# SPDX-License-Identifier: Apache-2.0
"""How long does a light reader wait beside a heavy load? Issue 5's latency rows, and the start of an application.

4 KiB random reads, one at a time, of a group of weight 100 beside 100 MB I/Os,
four at a time, of another of weight 100, on `emmc51`. Times are fio's, from
before the submission, so that waiting for a tag counts. The bound is twice the
time of one 512 KB request and the read's own, both measured first, in the same
guest, on the idle device.
"""

from __future__ import annotations

from typing import Any

from lab import onfs
from lab.beside import fio, fio_job
from lab.model import Experiment, Figure, Output, flashsim

DEVICE = flashsim("emmc51")
PERCENTILES = {"p50": "50.000000", "p90": "90.000000", "p99": "99.000000", "p999": "99.900000"}
PRECISE = "--lat_percentiles=1 --clat_percentiles=0 --percentile_list=50:90:99:99.9"
# what evenkeel holds today
HELD = frozenset({"latency.beside.read"})


def _light(name: str, seconds: int) -> str:
    return fio(
        name,
        rw="randread",
        bs="4k",
        device=DEVICE,
        slice_=0,
        runtime=seconds,
        extra=f"{PRECISE} --norandommap",
    ).command


def _latency(job: dict[str, Any]) -> dict[str, float]:
    """Of a job's reads, in microseconds."""
    lat = job["read"]["lat_ns"]
    found = {p: lat["percentile"][key] / 1000 for p, key in PERCENTILES.items()}
    return {**found, "max": lat["max"] / 1000}


def beside(direction: str) -> Experiment:
    name = f"latency.beside.{direction}"
    # past the write buffer, a request takes as long as its data take to be programmed
    one = fio(
        "one", rw=direction, bs="512k", device=DEVICE, slice_=1, runtime=2, extra="--ramp_time=1"
    ).command
    load = fio("load", rw=direction, bs="100m", qd=4, device=DEVICE, slice_=2).command
    script = "\n".join([
        "uname -r | report kernel", "device", 'scheduler "$DEV"', "group light 100; group load 100",
        f"in_group light {_light('alone', 2)} || fail 'fio failed alone'", "report alone < /tmp/alone.json",
        f"in_group load {one} || fail 'fio failed'", "report one < /tmp/one.json", "sleep 1",
        f"in_group load {load} > /tmp/load.log 2>&1 & load=$!", "sleep 4",
        f"in_group light {_light('light', 20)} || fail 'fio failed beside the load'", "report light < /tmp/light.json",
        'kill -0 "$load" || fail "the load ended: $(tail -n 1 /tmp/load.log)"',
    ]) + "\n"  # fmt: skip

    def figures(out: Output) -> list[Figure]:
        light = _latency(fio_job(out.results["light"]))
        alone = _latency(fio_job(out.results["alone"]))["p50"]
        service = fio_job(out.results["one"])[direction]["lat_ns"]["mean"] / 1000
        bound = round(2 * (service + alone))
        return [
            *(
                Figure(p, round(value, 1), "us", "lower", bound if p == "p99" else None, must=p == "p99" and name in HELD)
                for p, value in light.items()
            ),
            Figure("alone-p50", round(alone, 1), "us"),
            Figure("one-512k", round(service, 1), "us"),
        ]  # fmt: skip

    return Experiment(
        name, f"4 KiB random reads beside {direction}s of 100 MB, QD4", script, figures, device=DEVICE,
        quick=direction == "read", quick_peers=("bfq",),
        peers=("none", "mq-deadline", "bfq") if direction == "read" else ("none", "bfq"),
    )  # fmt: skip


def alone() -> Experiment:
    script = "\n".join([
        "device", 'scheduler "$DEV"', "group light 100", f"in_group light {_light('light', 5)} || fail 'fio failed'",
        "report light < /tmp/light.json",
    ]) + "\n"  # fmt: skip

    def figures(out: Output) -> list[Figure]:
        return [
            Figure(p, round(v, 1), "us", "lower") for p, v in _latency(fio_job(out.results["light"])).items()
        ]

    return Experiment(
        "latency.alone", "4 KiB random reads, nothing beside them", script, figures, device=DEVICE, peers=()
    )


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


EXPERIMENTS = [beside("read"), beside("write"), alone(), appstart()]
