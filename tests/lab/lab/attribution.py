# SPDX-License-Identifier: Apache-2.0
"""Who slows whom: the matrix of evenkeel-history agrees with a trace of each request.

**The truth** comes from a trace alone. A request waits from its insertion into the scheduler until the driver starts it
(`block_rq_insert`, `block_rq_issue`). A submitter that finds no tag waits until it has one (`ek_gate`). From its start until
its completion (`block_rq_complete`), a request is in the device. At each instant, the device belongs in equal parts to the
requests in it. So while w requests of a victim wait, and c of the d requests in the device are another group's, this group
causes w * c / d of the victim's waiting time per unit of time. What is left is the victim's own: the device serves the victim
itself, or nothing. A request's group follows from its sector, because each job has a slice of the device of its own.
truth() sums this up over all instants between two events. It uses no counter of the scheduler.

**The estimate** is what a board shows: code of evenkeel_history reads `io.evenkeel.stat` once a second.

`worst` is the largest error of an entry of the matrix. An entry's error is its deviation from the truth, relative to the true
entry, or to 5 % of the victim's waiting time if the entry is smaller. So an entry that should be 0 counts, too, and so does
the victim's own part. Deviations of up to 1 µs for each request of the victim do not count (PATH). `rows` is the largest error
of a victim's whole waiting time. `waiting` is how many requests wait on average.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evenkeel_history.attribution import attribute
from evenkeel_history.increase import Counters
from evenkeel_history.period import Sum
from evenkeel_history.sampler import LOOKUP

from lab import trace
from lab.competing import tree
from lab.kernels import TOP
from lab.model import Experiment, Figure, Output
from lab.promise import Case, runners_of

# The trace and the scheduler note the time at different points of a request's path through the kernel. To write the trace is
# a part of this path. So deviations of up to this time (ns) for each time that a request waits do not count.
PATH = 1000
# guest seconds until the first reading; the number of seconds that are compared
SETTLE, SECONDS = 3, 10
# From the first reading on, the scheduler counts each request that it gets later. The second one begins the comparison.
READINGS = SECONDS + 2
SMALL = 0.05
EVENTS = ("insert", "merge", "issue", "requeue", "complete")
Matrix = dict[tuple[str, str], float]
# time in ns, group, added to its requests that wait, added to those in the device
Change = tuple[int, str, int, int]
_CHANGES = {"insert": (1, 0), "merge": (-1, 0), "issue": (-1, 1), "requeue": (1, -1), "complete": (0, -1)}


@functools.cache
def _library() -> None:
    """Compile the C code of evenkeel_history, which then loads it."""
    out = TOP / "build/lab/libek-history.so"
    out.parent.mkdir(parents=True, exist_ok=True)
    program = TOP / "recipes/history/tests/history_library.py"
    part = out.with_suffix(f".{os.getpid()}")
    subprocess.run([sys.executable, program, part], check=True)
    part.replace(out)
    os.environ["EK_HISTORY_LIBRARY"] = str(out)


def script(case: Case) -> str:
    """The guest's script."""
    loads = [r.load(case.device, case.parts) for r in runners_of(case)]
    files = " ".join(f"/cg/{r.group}/io.evenkeel.stat" for r in runners_of(case))
    lines = [
        "uname -r | report kernel", "device", 'scheduler "$DEV"', *tree(case.groups(), loads),
        *trace.start(*(f"block/block_rq_{event}" for event in EVENTS), "evenkeel/ek_gate"),
        *(f"in_group {r.group} {load.command} > /tmp/{r.name}.log 2>&1 & pid_{r.name}=$!"
          for r, load in zip(runners_of(case), loads, strict=True)),
        f"sleep {SETTLE}",
        # The trace has the time of each reading. The shell reads by itself, and before other tasks: so the time is exact.
        "renice -n -20 $$ > /dev/null",
        f"n=0; while [ $n -lt {READINGS} ]; do",
        f"for f in {files}; do echo sample > $t/trace_marker; read -r line < $f; echo \"$line\"; done > /tmp/sample$n",
        "n=$((n + 1)); sleep 1; done",
        *(f'kill -0 "$pid_{r.name}" || fail "{r.name} has ended: $(tail -n 1 /tmp/{r.name}.log)"' for r in runners_of(case)),
        *trace.stop(),
        "killall -9 fio",
        *(f"stat -c %i {' '.join(f'/cg/{r.group}' for r in runners_of(case))} | report cgroups",),
        f"n=0; while [ $n -lt {READINGS} ]; do report sample$n < /tmp/sample$n; n=$((n + 1)); done",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Recorded:
    """What a trace has: the changes in the order of time, and for each group the times at which its file was read."""

    changes: list[Change]
    samples: dict[str, list[int]]


def recorded(case: Case, out: Output, cgroups: Mapping[int, str]) -> Recorded:
    names = {r.slice_: r.group for r in runners_of(case)}
    slice_sectors = (case.device.capacity_mb // case.parts) << 11
    changes: list[Change] = []
    samples: list[int] = []
    queued: Counter[int] = Counter()  # the first sectors of requests that wait
    for time, name, fields, data in trace.read(out.results["trace"], out.results["formats"]):
        if name == "print":
            samples += [time] if b"sample" in data else []
        elif name == "ek_gate":
            group = cgroups[fields["cgroup"]]
            changes += [(time - fields["waited"], group, 1, 0), (time, group, -1, 0)]
        else:
            sector, event = fields["sector"], name.removeprefix("block_rq_")
            if event == "requeue" and queued[sector]:
                continue  # the device had no tag for it
            if event in ("insert", "requeue"):
                queued[sector] += 1
            elif event == "merge" and not queued[sector]:
                continue  # it was merged before its insertion
            elif event in ("merge", "issue"):
                # a bio may have been merged at the front
                first = sector if queued[sector] else min(s for s, n in queued.items() if n and s > sector)
                queued[first] -= 1
                if not queued[first]:
                    del queued[first]
            changes.append((time, names[sector // slice_sectors], *_CHANGES[event]))
    changes.sort(key=lambda change: change[0])
    groups = list(names.values())
    return Recorded(changes, {group: samples[n :: len(groups)] for n, group in enumerate(groups)})


def truth(
    changes: Iterable[Change], windows: Mapping[str, tuple[int, int]]
) -> tuple[dict[str, float], Matrix]:
    """The waiting time of each group within its window, and its parts by group that was served. All in ns."""
    waiting: dict[str, int] = defaultdict(int)
    inside: dict[str, int] = defaultdict(int)
    waits: dict[str, float] = defaultdict(float)
    matrix: Matrix = defaultdict(float)
    last = 0
    for time, group, more_waiting, more_inside in [
        *changes,
        (max(end for _, end in windows.values()), "", 0, 0),
    ]:
        device = sum(inside.values())
        for victim, count in waiting.items():
            begin, end = windows.get(victim, (0, 0))
            waited = count * (min(time, end) - max(last, begin))
            if waited <= 0:
                continue
            waits[victim] += waited
            matrix[victim, victim] += waited
            for by, served in inside.items():
                if by != victim and served:
                    matrix[victim, by] += waited * served / device
                    matrix[victim, victim] -= waited * served / device
        last = time
        waiting[group] += more_waiting
        inside[group] += more_inside
        if waiting[group] < 0 or inside[group] < 0:
            raise ValueError(f"a request of {group} is in the trace only in part")
    return waits, matrix


def estimate(texts: Iterable[str], cgroups: Mapping[int, str]) -> Matrix:
    """The matrix in ns that evenkeel-history has from TEXTS after the second one. A text has a line for each group."""
    _library()
    counters = {group: Counters() for group in cgroups.values()}
    found = Sum()
    for number, text in enumerate(texts):
        waits = []
        for (group, known), line in zip(counters.items(), text.splitlines(), strict=True):
            # evenkeel_history reads the file each second, and the waiting times in it each fifth second
            if number % LOOKUP == 1:
                waits += [(group, wait) for wait in known.waits(line.encode())]
        if number > 1:  # the second reading has all that was before
            found.add_blame(attribute(waits, cgroups, ""))
    return {pair: 1000 * us for pair, us in found.blame.items()}


def error(true: Matrix, found: Matrix, waits: Mapping[str, float], requests: Mapping[str, int]) -> float:
    """The largest error of an entry, as the module's docstring defines it. REQUESTS: those that waited, by victim."""
    worst = 0.0
    for victim, by in true.keys() | found.keys():
        wait = waits.get(victim, 0)
        expected = max(true.get((victim, by), 0), SMALL * wait)
        off = abs(found.get((victim, by), 0) - true.get((victim, by), 0)) - PATH * requests.get(victim, 0)
        if expected:
            worst = max(worst, off / expected)
    return worst


def figures(case: Case, out: Output) -> list[Figure]:
    groups = [r.group for r in runners_of(case)]
    cgroups = dict(zip(map(int, out.results["cgroups"].split()), groups, strict=True))
    seen = recorded(case, out, cgroups)
    for group, samples in seen.samples.items():
        if len(samples) != READINGS:
            raise ValueError(f"the trace has {len(samples)} readings of {group}")
    windows = {group: (samples[1], samples[-1]) for group, samples in seen.samples.items()}
    waits, true = truth(seen.changes, windows)
    found = estimate((out.results[f"sample{n}"] for n in range(READINGS)), cgroups)
    if not sum(waits.values()):
        raise ValueError("no request waited")
    requests = Counter(
        group
        for time, group, more, _ in seen.changes
        if more > 0 and windows[group][0] <= time < windows[group][1]
    )
    # the same for whole rows: one entry each
    whole: Matrix = {(victim, ""): wait for victim, wait in waits.items()}
    rows: Matrix = {
        (victim, ""): sum(us for (who, _), us in found.items() if who == victim) for victim in groups
    }
    return [
        Figure("worst", round(error(true, found, waits, requests), 4), "", "lower"),
        Figure("rows", round(error(whole, rows, waits, requests), 4), "", "lower"),
        Figure(
            "waiting",
            round(sum(waits[v] / (end - begin) for v, (begin, end) in windows.items() if v in waits), 2),
            "",
        ),
    ]


def experiment(case: Case, *, quick: bool = False, pool: tuple[str, int] | None = None) -> Experiment:
    """The experiment of a case."""
    buffers = sum(j.copies * j.qd * j.size for j in case.jobs) >> 20
    return Experiment(
        f"attribution.{case.name}", case.about(), script(case), lambda out: figures(case, out), device=case.device,
        figures_of="evenkeel-history", baselines=(), quick=quick, pool=pool, memory=768 + trace.BUFFER_MB + buffers,
        limit=300, timeout=900,
    )  # fmt: skip
