# SPDX-License-Identifier: Apache-2.0
"""ek-recorder beside what paper S1's cases have beside them (see rec.py), and power cuts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab import onfs
from lab.model import Experiment, Figure, Output, flashsim
from lab.report.rows import Rows
from lab.report.verdict import Verdict

# MiB of the paper's partition
PARTITION = 7067


def configuration(backend: str, *, retain: str = "128MiB", record: str = "16KiB", window: str = "1s") -> dict[str, str]:
    """The recorder's files in the guest: one channel, bench."""
    return {
        "/etc/ek-recorder/recorder.conf": "directory = /m\nsocket = /tmp/socket\ngroup =\nstatistics = /tmp/stats.json\n",
        "/etc/ek-recorder/channels.d/bench.conf": (
            f"record_size = {record}\nperiod = 5ms\nwindow = {window}\nretain = {retain}\nbackend = {backend}\n"
        ),
    }


START = r"""
start() { ek-recorder run > /tmp/recorder.log 2>&1 & recorder=$!; }
ready() { until grep -q '"state":"recording"' /tmp/stats.json 2> /dev/null && grep -q "\"segments\":$1," /tmp/stats.json; do
	kill -0 $recorder 2> /dev/null || fail "ek-recorder: $(tail -n 1 /tmp/recorder.log)"; sleep 0.2; done; }
"""


@dataclass(frozen=True)
class Case:
    way: str = "ring"
    backend: str = "direct"
    beside: tuple[str, ...] = ()
    writes: int = 10000
    sets: int = 5
    preset: str = "emmc50-slow"
    priority: int = 0


def script(case: Case) -> str:
    lines = [
        "uname -r | report kernel",
        "device",
        'scheduler "$DEV"',
        "mkdir /m",
        'mkfs.ext4 -q -J size=128 -E nodiscard,lazy_itable_init=1,lazy_journal_init=1 "/dev/$DEV" > /tmp/mkfs 2>&1'
        ' || fail "mkfs.ext4: $(tail -n 1 /tmp/mkfs)"',
        'ext4() { mount -t ext4 -o noatime,nodiscard,noinit_itable "/dev/$DEV" /m || fail "cannot mount ext4"; }',
        'ext4; fallocate -l 6300M /m/used && rm /m/used && umount /m || fail "cannot fill ext4"; ext4',
        START,
    ]
    if "read" in case.beside:
        lines += [
            "dd if=/dev/zero of=/m/read bs=2M count=48 2> /dev/null && sync || fail 'cannot write a file'",
            "ek-disturb --json --duration 3s read /m/read > /tmp/alone || fail 'ek-disturb failed'",
            "report alone < /tmp/alone",
        ]
    ring = "--ring " if case.way == "ring" else ""
    lines += [
        "start; ready 17; sleep 6",
        f'bench() {{ chrt -f {case.priority} ek-recorder bench --json {ring}"$@" bench; }}' if False else
        f'bench() {{ ek-recorder bench --json {ring}{f"--priority {case.priority} " if case.priority else ""}"$@" bench; }}',
        "cat /proc/stat | head -1 | report cpu0",
        f'bench --writes {case.writes} --sets {1 if case.beside else case.sets} > /tmp/quiet 2>&1; tail -n 1 /tmp/quiet | grep -q "^{{" || fail "bench: $(tail -n 1 /tmp/quiet)"',
        "report quiet < /tmp/quiet",
        "cat /proc/stat | head -1 | report cpu1",
    ]
    if case.beside:
        lines += [f"ek-disturb --json {b} /m/{b} > /tmp/{b} 2>&1 & pid_{b}=$!" for b in case.beside]
        lines += [
            f'bench --writes {case.writes} --sets {case.sets} > /tmp/beside 2>&1; tail -n 1 /tmp/beside | grep -q "^{{" || fail "bench: $(tail -n 1 /tmp/beside)"',
            "report beside < /tmp/beside",
        ]
        for b in case.beside:
            lines.append(f'kill $pid_{b}; wait $pid_{b} || fail "ek-disturb {b}: $(tail -n 1 /tmp/{b})"')
            lines.append(f"report {b} < /tmp/{b}")
    lines += ["kill $recorder; wait $recorder; cat /tmp/recorder.log | report log; cat /tmp/stats.json | report stats",
      "ek-recorder bench --check bench > /tmp/check 2>&1; report check < /tmp/check"]
    return "\n".join(lines) + "\n"


def experiment(name: str, case: Case, quick: bool = False) -> Experiment:
    def figures(out: Output) -> list[Figure]:
        w = onfs.last_json(out, "beside" if case.beside else "quiet")
        print(w, out.results.get("check"), out.results.get("log"))
        print(out.results.get("stats"))
        rows = [
            Figure("min", w["min_us"], "us", "lower"),
            Figure("max", w["max_us"], "us", "lower"),
        ]
        if case.beside:
            print("quiet", onfs.last_json(out, "quiet"))
        if "read" in case.beside:
            print(onfs.last_json(out, "read")["mbps"] / onfs.last_json(out, "alone")["mbps"])
        return rows

    return Experiment(
        name, "x", script(case), figures,
        device=flashsim(case.preset, slices=1, capacity_mb=PARTITION, memory_backed=1),
        subject="none", peers=(), quick=quick, memory=1536, files=configuration(case.backend),
        programs=("mkfs.ext4", "ek-recorder", *(("ek-disturb",) if case.beside else ())),
    )  # fmt: skip


EXPERIMENTS = [
    experiment("rec.ek.x1", Case(writes=2000, sets=1)),
    experiment("rec.ek.x2", Case(writes=1000, sets=1, beside=("truncate", "allocate"))),
    experiment("rec.ek.x3", Case(writes=1000, sets=1, beside=("read",))),
    experiment("rec.ek.x4", Case(writes=2000, sets=1, way="socket")),
    experiment("rec.ek.x6", Case(writes=2000, sets=1, way="socket", priority=50)),
    experiment("rec.ek.x7", Case(writes=1000, sets=1, way="socket", priority=50, beside=("truncate", "allocate"))),
    experiment("rec.ek.x8", Case(writes=1000, sets=1, backend="cached", beside=("truncate", "allocate"))),
    experiment("rec.ek.x5", Case(writes=1000, sets=1, beside=("truncate", "allocate"), priority=50)),
]
