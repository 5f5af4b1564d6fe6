# SPDX-License-Identifier: Apache-2.0
"""ek-recorder where paper S1's cases (rec.py) had write(), and when the power is cut.

`ek-recorder bench` submits 16 KB each 5 ms; submission is what write() was there.
The same partition and disturbers as in rec.py, but the sysctls as they are: the
flusher is on in all cases. A channel of 17 segments of 8 MiB, so that one is
used anew each 2.5 s.

Sets differ by when they begin: by a part of the period, and by a second and more
against what comes each second or each five. The worst counts. 10,000 writes of
five sets by ring where nothing is beside (else one or two sets); beside an
allocator 1,000 of three or five and beside a reader 500 of up to three, as these
cost the host seconds a second.

The CPU is one of one instruction a nanosecond without a cache: submission by ring
is a copy of 16 KB, 1.9 us, unless an interrupt falls into it. Of each five
thousand or so one does. What it does then is in part the model of the flash:
up to 10,000 instructions a request.

The writer has SCHED_FIFO 50, as a control loop has. `quiet-other` is the same without: of 50,000 submissions two
were interrupted for 0.7 ms by another thread of the kernel that was due in the same tick.

`late` are records that were durable later than the window. `woken-late` are
submissions that began when the next one was due.

A power cut drops what no flush covers, or takes a part of it (tear): see
tests/flashsim.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from lab import onfs
from lab.model import Device, Experiment, Figure, Output, flashsim
from lab.report.rows import Rows
from lab.report.verdict import Verdict

# MiB of the paper's partition
PARTITION = 7067
# of the board's kernel (CONFIG_HZ), us
TICK = 4000.0
# paper S1: the reader keeps so much, %; max of ALL to its min
PAPER_READER, PAPER_SPREAD = 78.0, 3.5
# p99.99 of submission is to be at most, us
FASTEST = {"ring": 20.0, "socket": 100.0}
# submissions of which a 99.99th percentile can be told
ENOUGH = 10_000
# sets of 10,000 in the same guest before anybody disturbs it, the worst of which others are held against
QUIET_SETS = {"ring": 5, "socket": 2}
# the longest beside others is to be at most so many times that
BESIDE = 1.5
BOTH = ("truncate", "allocate")
QUARTILES = ("p25", "p50", "p75")


@dataclass(frozen=True)
class Case:
    """How records are given and written, what runs beside, how many in how many sets; SCHED_FIFO of the writer, 0: none."""

    way: str = "ring"
    backend: str = "direct"
    beside: tuple[str, ...] = ()
    writes: int = 10000
    sets: int = 5
    preset: str = "emmc50-slow"
    priority: int = 50


CASES = {
    "quiet": Case(),
    "quiet-other": Case(priority=0),
    "quiet-socket": Case(way="socket", sets=2),
    "quiet-cached": Case(backend="cached", sets=1),
    "bgtrunc": Case(beside=("truncate",), writes=1000),
    "bgall": Case(beside=BOTH, writes=1000),
    "bgall-socket": Case(way="socket", beside=BOTH, writes=1000, sets=3),
    "bgall-cached": Case(backend="cached", beside=BOTH, writes=1000, sets=3),
    "read": Case(beside=("read",), writes=500, sets=3),
    "read-socket": Case(way="socket", beside=("read",), writes=500, sets=1),
    "sd-quiet": Case(preset="sd-uhs3", sets=1),
    "sd-bgall": Case(beside=BOTH, writes=1000, sets=3, preset="sd-uhs3"),
}
QUICK = ("quiet", "bgall")
# one of each kind; the others are more of the same
FULL = (*QUICK, "quiet-socket", "read")


def configuration(
    backend: str, *, retain: str = "128MiB", segment: str = "8MiB", window: str = "1s"
) -> dict[str, str]:
    """The recorder's files in the guest, by path: one channel, `bench`."""
    channel = {
        "record_size": "16KiB",
        "period": "5ms",
        "window": window,
        "retain": retain,
        "segment": segment,
        "backend": backend,
    }
    recorder = {"directory": "/m", "socket": "/socket", "group": "", "statistics": "/stats"}
    return {
        path: "".join(f"{key} = {value}\n" for key, value in settings.items())
        for path, settings in (
            ("/etc/ek-recorder/recorder.conf", recorder),
            ("/etc/ek-recorder/channels.d/bench.conf", channel),
        )
    }


# start; ready SEGMENTS: the recorder works and has made them all; bench NAME OPTION...: a report in /tmp/NAME
HELPERS = """
start() { rm -f /stats; ek-recorder run > /tmp/recorder 2>&1 & recorder=$!; }
ready() {
	until grep -q '"state":"recording"' /stats 2> /dev/null && grep -q "\\"segments\\":$1," /stats; do
		kill -0 $recorder 2> /dev/null || fail "ek-recorder: $(tail -n 1 /tmp/recorder)"
		sleep 0.2
	done
}
bench() {
	bench_name=$1; shift
	ek-recorder bench --json "$@" bench > /tmp/$bench_name 2> /tmp/error
	[ -s /tmp/$bench_name ] || fail "ek-recorder bench: $(tail -n 1 /tmp/error)"
	report $bench_name < /tmp/$bench_name
}
"""
# the partition of rec.py
MOUNTED = """
uname -r | report kernel
device
scheduler "$DEV"
mkdir /m
mkfs.ext4 -q -J size=128 -E nodiscard,lazy_itable_init=1,lazy_journal_init=1 "/dev/$DEV" > /tmp/mkfs 2>&1 ||
	fail "mkfs.ext4: $(tail -n 1 /tmp/mkfs)"
ext4() { mount -t ext4 -o noatime,nodiscard,noinit_itable "/dev/$DEV" /m || fail "cannot mount ext4"; }
"""
# block bitmaps of groups that were never used need not be read: use all
USED = 'ext4; fallocate -l 6300M /m/used && rm /m/used && umount /m || fail "cannot fill ext4"; ext4\n'


def script(case: Case) -> str:
    lines = [HELPERS, MOUNTED, USED]
    if "read" in case.beside:
        lines += [
            "dd if=/dev/zero of=/m/read bs=2M count=48 2> /dev/null && sync || fail 'cannot write a file'",
            "ek-disturb --json --duration 3s read /m/read > /tmp/alone || fail 'ek-disturb failed'",
            "report alone < /tmp/alone",
        ]
    way = " ".join(
        [
            *(["--ring"] if case.way == "ring" else []),
            *([f"--priority {case.priority}"] if case.priority else []),
        ]
    )
    lines.append("start; ready 17")
    if case.beside:
        lines.append(f"bench quiet {way} --writes 10000 --sets {QUIET_SETS[case.way]}")
    lines += [f"ek-disturb --json {b} /m/{b} > /tmp/{b} 2>&1 & pid_{b}=$!" for b in case.beside]
    lines.append(f"bench writer {way} --writes {case.writes} --sets {case.sets}")
    for b in case.beside:
        lines.append(f'kill $pid_{b}; wait $pid_{b} || fail "ek-disturb {b}: $(tail -n 1 /tmp/{b})"')
        lines.append(f"report {b} < /tmp/{b}")
    lines += [
        'kill $recorder; wait $recorder || fail "ek-recorder: $(tail -n 1 /tmp/recorder)"',
        'ek-recorder bench --check bench > /tmp/check 2>&1 || fail "check: $(cat /tmp/check)"',
    ]
    return "\n".join(lines) + "\n"


def longest_alone(case: Case, longest: float, least: float) -> list[Figure]:
    # by ring a submission is what write() was in the paper; a writer by socket is held to its p99.99
    held = case.priority > 0 and case.way == "ring"
    return [
        Figure(
            "max", longest, "us", "lower", target=round(1.2 * least + TICK, 1) if held else None, paper=309, must=held
        ),
        Figure(
            "spread", round(longest / least, 2), "max/min", "lower", target=PAPER_SPREAD if held else None, must=held
        ),
    ]  # fmt: skip


def longest_beside(case: Case, out: Output, longest: float) -> list[Figure]:
    """Against what the same guest took before anybody disturbed it."""
    quiet = onfs.last_json(out, "quiet")["max_us"]
    paper = {("read",): 418, ("truncate",): 9178, BOTH: 12482}[case.beside]
    return [
        Figure("max", longest, "us", "lower", target=round(BESIDE * quiet, 1), paper=paper),
        Figure("quiet-max", quiet, "us", "lower"),
        Figure("times-quiet", round(longest / quiet, 2), "max/max", "lower", target=BESIDE),
    ]


def percentile_of_many(case: Case, p9999: float) -> list[Figure]:
    """Of few it would be the longest, which has a row of its own."""
    if case.writes * case.sets < ENOUGH:
        return []
    return [Figure("p9999", p9999, "us", "lower", target=FASTEST[case.way], must=True)]


def figures(case: Case, out: Output) -> list[Figure]:
    w = onfs.last_json(out, "writer")
    durable = w["durable"]
    if (w["writes"], w["sets"]) != (case.writes, case.sets) or durable is None:
        raise ValueError(f"not the report that was asked for: {w}")
    least = w["min_us"]
    rows = [
        Figure("min", least, "us", "lower"),
        Figure("avg", w["avg_us"], "us", "lower"),
        *(Figure(p, w[f"{p}_us"], "us") for p in QUARTILES),
        *percentile_of_many(case, w["p9999_us"]),
        Figure("late", durable["late"], "records", "lower", target=0, must=True),
        Figure("lost", w["lost"] + durable["lost"], "records", "lower", target=0, must=True),
        Figure("woken-late", w["late"], "writes", "lower"),
        Figure("durable-max", round(durable["max_us"] / 1e3, 1), "ms", "lower", target=1000, must=True),
        *(longest_beside(case, out, w["max_us"]) if case.beside else longest_alone(case, w["max_us"], least)),
    ]  # fmt: skip
    if "read" in case.beside:
        kept = 100 * onfs.last_json(out, "read")["mbps"] / onfs.last_json(out, "alone")["mbps"]
        rows.append(
            Figure(
                "reader-keeps", round(kept, 1), "%", "higher", target=PAPER_READER, must=True,
                paper=PAPER_READER,
            )
        )  # fmt: skip
    return rows


def beside(name: str, case: Case) -> Experiment:
    return Experiment(
        f"rec.ek.{name}",
        f"16 KB each 5 ms by {case.way}, {case.backend}, {case.sets} sets"
        + (f", beside {' and '.join(case.beside)}" if case.beside else "") + f", {case.preset}",
        script(case), lambda out: figures(case, out),
        device=flashsim(case.preset, slices=1, capacity_mb=PARTITION, memory_backed=1),
        subject="none", figures_of="ek-recorder", peers=(), quick=name in QUICK, deep=name not in FULL, memory=1536,
        timeout=1800 if "read" in case.beside else 900,
        programs=("mkfs.ext4", "ek-recorder", *(("ek-disturb",) if case.beside else ())),
        files=configuration(case.backend),
    )  # fmt: skip


# --- power cuts ---------------------------------------------------------------------------

CUTS = 50


def removable(preset: str, **override: int) -> Device:
    """A flash model whose power can be cut: one that is made in configfs."""
    at = "/sys/kernel/config/flashsim/x"
    values = {"preset": preset, **override, "power": 1}
    lines = ["load flashsim", f"mkdir {at} || fail 'cannot make a device'"]
    lines += [f"echo {v} > {at}/{k} || fail 'cannot set {k}'" for k, v in values.items()]
    return Device("x", "\n".join(lines), ("flashsim",), capacity_mb=override["capacity_mb"])


# Each cut: at a moment between 0.3 and 1.5 s of recording, where a batch is written each 0.1 s in 10 ms or so. Of
# each four cuts two are at any moment, and two up to 8 ms after the device has got something to do.
# /proc/uptime has 10 ms, and is read after the cut: a record seems to be older than it was. No input, no
# record: `write` only waits until the recorder answers.
CUT = """
ext4
start; ready 5
ms() { awk '{ print int($1 * 1000) }' /proc/uptime; }
at=/sys/kernel/config/flashsim/x
# without a process of its own: it is over in ms
busy() {
	until false; do
		while read -r key value; do
			[ "$key" != in_device ] || [ "$value" = 0 ] || return 0
		done < /sys/kernel/debug/flashsim/x/stats
	done
}
for i in $(seq @CUTS@); do
	started=$(ms)
	ek-recorder bench --ring --priority 50 --writes 1000000 bench > /tmp/writer 2>&1 & writer=$!
	sleep "$(awk -v i="$i" 'BEGIN { srand(@SEED@ + i); printf "%.4f", 0.3 + 1.2 * rand() }')"
	how=$([ $((i % 2)) = 0 ] && echo drop || echo tear)
	[ $((i % 4)) -lt 2 ] || { busy; sleep "0.00$((i % 9))"; }
	echo $how > $at/power_cut || fail "cannot cut"
	cut=$(ms)
	kill -9 $recorder $writer; wait $recorder $writer
	# io_uring lets go of its files a moment after the process has ended
	tries=0
	until umount /m 2> /dev/null; do
		tries=$((tries + 1))
		[ $tries -lt 100 ] || fail "cut $i: cannot unmount"
		sleep 0.02
	done
	echo 1 > $at/power_restore || fail "cannot restore"
	ext4
	ek-recorder bench --check bench > /tmp/check 2> /tmp/error
	[ -s /tmp/check ] || fail "cut $i: $(tail -n 1 /tmp/error)"
	begin=$(ms)
	start
	until [ -S /socket ] && ek-recorder write --socket /socket bench < /dev/null 2> /tmp/error; do
		kill -0 $recorder 2> /dev/null || fail "cut $i: ek-recorder: $(tail -n 1 /tmp/recorder)"
		sleep 0.01
	done
	echo "$how $started $cut $(($(ms) - begin)) $(cat /tmp/check)"
done > /tmp/cuts
report cuts < /tmp/cuts
kill $recorder; wait $recorder
ek-recorder bench --check bench > /tmp/check 2>&1 || fail "after the last cut: $(cat /tmp/check)"
"""
WINDOW_MS = 200


def cut_figures(out: Output) -> list[Figure]:
    lines = out.results["cuts"].splitlines()
    if len(lines) != CUTS:
        raise ValueError(f"{len(lines)} cuts, not {CUTS}")
    lost_old = torn = in_part = oldest = slowest = 0
    for line in lines:
        _how, started, cut, restart, report = line.split(" ", 4)
        found = json.loads(report)
        # nothing of this run is there: it lost all that it submitted
        age = int(cut) - max(int(started), found["last_monotonic_ns"] // 1000000)
        oldest = max(oldest, age)
        slowest = max(slowest, int(restart))
        lost_old += age > WINDOW_MS or found["missing"] > 0
        torn += found["wrong"] + found["damage"]
        in_part += found["torn"] > 0
    return [
        Figure("cuts", len(lines), "cuts"),
        Figure("in-part", in_part, "batches"),
        Figure("lost_old", lost_old, "cuts", "lower", target=0, must=True),
        Figure("torn", torn, "records", "lower", target=0, must=True),
        Figure("lost_ms", oldest, "ms", "lower", target=WINDOW_MS, must=True),
        Figure("restart_ms", slowest, "ms", "lower", target=2000, must=True),
    ]


def power_cuts(name: str, backend: str, seed: int) -> Experiment:
    return Experiment(
        f"rec.ek.powercut-{name}", f"{CUTS} power cuts while 16 KB each 5 ms are recorded, {backend}",
        HELPERS + MOUNTED + CUT.replace("@CUTS@", str(CUTS)).replace("@SEED@", str(seed)), cut_figures,
        device=removable("emmc50-slow", capacity_mb=1024, memory_backed=1),
        subject="none", figures_of="ek-recorder", peers=(), deep=True, memory=1536, timeout=900, limit=900,
        programs=("mkfs.ext4", "ek-recorder"),
        files=configuration(backend, retain="16MiB", segment="4MiB", window=f"{WINDOW_MS}ms"),
    )  # fmt: skip


# --- a start ----------------------------------------------------------------------------

# Two segments of 1 GiB, the largest that a channel may have; one of them is written to two thirds, 46,000 x 16 KB. Then
# the recorder is killed: the next one has no mark that says where it ended.
RESTART = """
ext4
start; ready 2
bench fill --ring --every 1ms --writes 46000
kill -9 $recorder; wait $recorder
read=$(awk '{ print $3 }' /sys/block/$DEV/stat)
ms() { awk '{ print int($1 * 1000) }' /proc/uptime; }
begin=$(ms)
start
until [ -S /socket ] && ek-recorder write --socket /socket bench < /dev/null 2> /tmp/error; do
	kill -0 $recorder 2> /dev/null || fail "ek-recorder: $(tail -n 1 /tmp/recorder)"
	sleep 0.01
done
echo "$(($(ms) - begin)) $(($(awk '{ print $3 }' /sys/block/$DEV/stat) - read))" | report restart
kill $recorder; wait $recorder || fail "ek-recorder: $(tail -n 1 /tmp/recorder)"
ek-recorder bench --check bench > /tmp/check 2>&1 || fail "check: $(cat /tmp/check)"
"""


def restart_figures(out: Output) -> list[Figure]:
    took, sectors = map(int, out.results["restart"].split())
    return [
        Figure("restart_ms", took, "ms", "lower", target=2000, must=True),
        Figure("read", round(sectors / 2048, 1), "MiB", "lower", target=96, must=True),
    ]


def restart(preset: str) -> Experiment:
    return Experiment(
        f"rec.ek.restart-{preset}", f"a start after a crash, segments of 1 GiB, {preset}",
        HELPERS + MOUNTED + RESTART, restart_figures,
        device=flashsim(preset, slices=1, capacity_mb=4096, memory_backed=1),
        subject="none", figures_of="ek-recorder", peers=(), deep=True, memory=2560, timeout=900,
        programs=("mkfs.ext4", "ek-recorder"), files=configuration("direct", retain="1GiB", segment="1GiB"),
    )  # fmt: skip


# --- hours --------------------------------------------------------------------------------

# A day at 3.2 MB/s fills 16,875 segments of 16 MiB, the largest that a channel has by itself. What a day brings beside
# copying comes once a segment, so as many are filled here, of 1 MiB each: an hour and a half of the guest, which costs
# the host a quarter of an hour. All of the day would cost four hours.
DAY_SEGMENTS, HOURS_WRITES = 16875, 1080000
HOURS = f"""
ext4
start; ready 17
rss() {{ awk '/VmRSS/ {{ print $2 }}' /proc/$recorder/status; }}
generation() {{ sed -n 's/.*"generation":\\([0-9]*\\).*/\\1/p' /stats; }}
bench warm --ring --every 5ms --writes 2000
{{ rss; generation; }} > /tmp/run
bench writer --ring --every 5ms --writes {HOURS_WRITES}
{{ rss; generation; }} >> /tmp/run
report run < /tmp/run
kill $recorder; wait $recorder || fail "ek-recorder: $(tail -n 1 /tmp/recorder)"
ek-recorder bench --check bench > /tmp/check 2>&1 || fail "check: $(cat /tmp/check)"
"""


def hours_figures(out: Output) -> list[Figure]:
    w = onfs.last_json(out, "writer")
    before, first, after, last = map(int, out.results["run"].split())
    durable = w["durable"]
    return [
        Figure("writes", w["writes"], "writes"),
        Figure("segments", last - first, "segments", "higher", target=DAY_SEGMENTS, must=True),
        Figure("late", durable["late"], "records", "lower", target=0, must=True),
        Figure("lost", w["lost"] + durable["lost"], "records", "lower", target=0, must=True),
        Figure("max", w["max_us"], "us", "lower"),
        Figure("grown", after - before, "KiB", "lower", target=0, must=True),
    ]


EXPERIMENTS = [
    *(beside(name, case) for name, case in CASES.items()),
    *(
        power_cuts(f"{backend}{part}", backend, 1000 * part)
        for backend in ("direct", "cached")
        for part in (1, 2)
    ),
    *(restart(preset) for preset in ("emmc50-slow", "sd-uhs3")),
    Experiment(
        "rec.ek.hours", "as many segments as a day fills: 90 min of the guest's clock, 16 KB each 5 ms by ring",
        HELPERS + MOUNTED + HOURS, hours_figures,
        device=flashsim("emmc50-slow", slices=1, capacity_mb=1024, memory_backed=1),
        subject="none", figures_of="ek-recorder", peers=(), deep=True, memory=1024, limit=12000, timeout=4000,
        programs=("mkfs.ext4", "ek-recorder"), files=configuration("direct", retain="16MiB", segment="1MiB"),
    ),
]  # fmt: skip


def shape_ours(rows: Rows) -> Verdict | None:
    """Past the paper: ten times shorter than its conventional method, and no longer beside others than without."""
    none, quiet = rows.value("rec.base.none.max"), rows.value("rec.ek.quiet.max")
    times = {
        n: rows.value(f"rec.ek.{n}.times-quiet") for n, c in CASES.items() if c.beside and c.way == "ring"
    }
    known = {n: v for n, v in times.items() if v is not None}
    beside = {n: rows.value(f"rec.ek.{n}.max") or 0.0 for n in known}
    if none is None or quiet is None or not known:
        return None
    worst = max(known, key=lambda n: known[n])
    longest = max(quiet, *beside.values())
    return Verdict(
        "S1 ek-recorder", "submission by ring: at least 10 times shorter than the worst write() of NONE, and beside others"
        f" at most {BESIDE} times as long as in the same guest before",
        reproduced=none >= 10 * longest and known[worst] <= BESIDE,
        why=f"NONE {none:.0f} us; ek-recorder {quiet:.1f} us quiet, {longest:.1f} at worst: {none / longest:.0f} times shorter;"
        f" beside others {known[worst]:.2f} times its quiet one at worst ({worst})",
    )  # fmt: skip


SHAPES = [shape_ours]
