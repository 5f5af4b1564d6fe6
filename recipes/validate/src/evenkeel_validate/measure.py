# SPDX-License-Identifier: Apache-2.0
"""Measures the cases: one function for each kind. It turns what the loads report into figures with targets.

A target of a promise is that of the lab. A short window holds few blocks, and then chance decides the last one. So the
range of a ratio is widened by one block of the slower group. A block is a request if the scheduler counts what it dispatches,
and otherwise an I/O of the load.
"""

import bisect
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evenkeel_common.files import why
from evenkeel_report import latencies
from evenkeel_report.latencies import Bins
from evenkeel_report.row import Figure

from . import cases, discards, fio, pagepool, priority, reader, recording
from .cases import Case, Job
from .errors import ValidateError
from .fio import Area, Result
from .loads import Load, Runner, Window
from .plan import MOVIE

DISTURBED_NOTE = "It is not judged: other programs used the device meanwhile, and not always equally."
CHANGED_NOTE = "It is not judged: alone, {name} had between {least:.1f} and {most:.1f} MB/s, so the device changed meanwhile."
BUSY_NOTE = "Other programs used the device meanwhile."
NOT_ALONE_NOTE = (
    "Other programs used the device more than the reader meanwhile. So no bound rests on this p99."
)
FEW_BLOCKS_NOTE = "Not all of it is judged: a group got so few I/Os that a single one decides."
NO_BASIS_NOTE = "It is not judged: the cases on which its bound rests were not measured."
FEW_NOTE = "It is not judged: chance can decide about so few reads."
SHORT_NOTE = "It is not judged: the load wrote its bytes in {seconds:.1f} s, too fast for a player to stop."
# The ratio and the shares may be wrong by this much (docs/reference/targets.md).
TOLERANCE = 0.02
# A ratio of a window with fewer blocks says too little to be judged.
WIDEST = 0.1
LEAST_PART = 0.95
# percent of a fixed share that a group may get
FIXED = (95.0, 105.0)
# A player that plays for less says too little.
LEAST_PLAYED_S = 5.0
# With fewer reads, p99 rests on fewer than ten of them. Then it is broken only if chance explains it with a probability below
# UNLIKELY.
MANY_READS, UNLIKELY = 1000, 0.01
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1.0}
# Bytes of the largest request of a device. Larger I/Os are split.
LARGEST = cases.MB
# A sustained rate below this share of the first rate is the end of the fast cache.
KNEE = 0.7
# The fast cache lasts for at least so many seconds: a single fast second may be chance. The rate after it is low for at least
# so many seconds: one or two slow ones are garbage collection.
FEWEST_FAST, FEWEST_SLOW = 2, 3
# After its rate has fallen, a stream needs so many seconds until all its seconds are slow.
FALL_S = 2.0
# ek-player and ek-disturb get their weight, too
PLAYER_WEIGHT = 200
# The page pool keeps at least this share of the priority files, in percent. Where the probes of the module are busy, a page
# may be charged to its reader.
LEAST_KEPT = 99.0


@dataclass
class Outcome:
    """What a case measured. `curve`: of latencies in µs. `series`: MB/s by second. `note`: a finding in words.

    `reads`: the curve of the reads alongside a stream of writes, whose own latencies are `curve`.

    `reached`: the part of its bytes that the slowest load wrote in its time, if the case has several windows.

    `unusable`: figures on which no bound may rest, because other programs have decided about them.
    """

    figures: list[Figure] = field(default_factory=list)
    curve: list[tuple[float, float]] = field(default_factory=list)
    series: list[tuple[float, float]] = field(default_factory=list)
    note: str = ""
    written: int = 0
    reached: float | None = None
    reads: list[tuple[float, float]] = field(default_factory=list)
    unusable: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Context:
    """What the functions need: the runner, the area of the target, and what was measured before.

    `known`: value of each figure so far, by name of the case and metric. `folder`: a folder on the file system of the
    target, or None. `scheduler`: sets the scheduler. `probe`: finds the flash channels of the disk. `pool`: the socket of
    ek-pool.
    """

    runner: Runner
    path: Path
    size: int
    first: int
    known: Mapping[tuple[str, str], float]
    folder: Path | None
    scheduler: Callable[[str], None]
    probe: Callable[[int], Mapping[str, Any]]
    subject: str = "evenkeel"
    seed: int = 1
    pool: Path = Path()

    @property
    def promised(self) -> bool:
        """Whether the scheduler under test is the one that promises something."""
        return self.subject == "evenkeel"


def measure(case: Case, context: Context, limit: int) -> Outcome:
    """Run CASE, which may write LIMIT bytes. Raises Stopped or ValidateError."""
    return KINDS[case.kind](case, context, limit)


def _loads(case: Case, context: Context, limit: int, jobs: Sequence[Job] | None = None) -> list[Load]:
    """The fio loads of JOBS (default: all of the case), each in its own part of the target."""
    parts = fio.areas(context.path, context.size, max(len(case.jobs), 1), context.first)
    found = []
    for i, job in enumerate(case.jobs):
        if jobs is not None and job not in jobs:
            continue
        found.append(
            _reader(case, context, job, [parts[i].path], parts[i].offset, parts[i].size)
            if job.per_second
            else _load(case, context, job, parts[i], limit if job.writes else 0)
        )
    return found


def _reader(case: Case, context: Context, job: Job, files: Sequence[Path], offset: int, length: int) -> Load:
    """The light reader JOB, which reads LENGTH bytes of each of FILES, from OFFSET on."""
    log = context.runner.scratch / f"{job.name}.reads"
    arguments = reader.command(
        job, files, offset=offset, length=length, seconds=case.settle + case.seconds + 60,
        seed=context.seed * 1000 + case.jobs.index(job) * 100 + 1, log=log,
    )  # fmt: skip
    # reads of the page cache move nothing on the device
    return Load(job.name, arguments, job.weight, job.fixed, log, moves=not job.cached)


def _load(case: Case, context: Context, job: Job, area: Area, limit: int) -> Load:
    """The fio load of JOB in AREA, which ends after LIMIT bytes (0: no limit)."""
    scratch = context.runner.scratch
    try:
        text = fio.job_file(
            job, area, seconds=case.settle + case.seconds + 60, limit=limit,
            seed=context.seed * 1000 + case.jobs.index(job) * 100 + 1,
        )  # fmt: skip
    except ValueError as error:
        raise ValidateError(str(error)) from error
    file, report = scratch / f"{job.name}.fio", scratch / f"{job.name}.json"
    file.write_text(text)
    return Load(
        job.name, ["fio", "--eta=never", "--output-format=json+", f"--output={report}", str(file)], job.weight, job.fixed,
        report, moves=job.rw != "trim",  # groups do not count discards
    )  # fmt: skip


def _run(
    case: Case, context: Context, limit: int, loads: Sequence[Load], **more: Any
) -> tuple[Window, dict[str, Result]]:
    """Run the loads. Returns the window, and the reports of fio by load."""
    window = context.runner.run(loads, settle=case.settle, seconds=case.seconds, limit=limit, **more)
    results = {}
    for load in loads:
        if load.arguments[0] == "fio":
            try:
                results[load.name] = fio.parse(context.runner.report(load))
            except ValueError as error:
                raise ValidateError(f"{case.name}: {error}") from error
    return window, results


def _written(window: Window, results: Mapping[str, Result]) -> int:
    """Bytes that the case wrote: what the groups count, or fio, if the groups count less."""
    return max(window.total_written, sum(r.written for r in results.values()))


def _limit(case: Case, context: Context, limit: int) -> Outcome:
    _, results = _run(case, context, limit, _loads(case, context, limit))
    result = results["job"]
    if not result.ios:
        raise ValidateError(f"{case.name}: the device completed no request")
    return Outcome(
        [
            Figure("mbps", round(result.mbps, 2), "MB/s", "higher"),
            Figure("iops", round(result.iops, 1), "IOPS", "higher"),
            *_percentiles(result.bins),
        ],
        written=result.written,
    )  # fmt: skip


def middle(rates: Sequence[float]) -> float:
    """The median. Of an even number of rates, it is the larger one of two: slow seconds are more frequent than fast ones."""
    return sorted(rates)[len(rates) // 2]


def knee(series: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """(rate at first, rate at last, GB written until the rate fell below KNEE of the first for good; nan if it did not).

    The end of the cache is the point that leaves the fewest seconds on the wrong side: slow ones before it, fast ones after
    it. A second is slow if its rate is below KNEE of the median before the point. Up to a third of the seconds before the point
    may be slow, because flash collects garbage. Up to a quarter of those after it may be fast, because a cache empties itself
    when the device is idle. The rate at first is the median before the point, however short the cache lasts.
    """
    if len(series) < 4:
        return math.nan, math.nan, math.nan
    rates = [rate for _, rate in series]
    quarter = max(len(rates) // 4, 1)
    found, fewest = 0, math.inf
    before, after = sorted(rates[: FEWEST_FAST - 1]), sorted(rates[FEWEST_FAST - 1 :])
    for end in range(FEWEST_FAST, len(rates) - FEWEST_SLOW + 1):
        bisect.insort(before, rates[end - 1])
        del after[bisect.bisect_left(after, rates[end - 1])]
        least = KNEE * before[len(before) // 2]
        slow, fast = bisect.bisect_left(before, least), len(after) - bisect.bisect_left(after, least)
        if slow > end // 3 or fast > len(after) // 4:
            continue
        # The first knee counts. But a slow second shortly before the end of the cache is no end of it.
        if slow + fast < fewest or (slow + fast == fewest and end < found + FEWEST_SLOW):
            found, fewest = end, slow + fast
    last = middle(rates[found:][-quarter:])
    if not found:
        return middle(rates[:quarter]), last, math.nan
    first = middle(rates[:found])
    took = [
        at - start
        for start, at in zip((0.0, *(at for at, _ in series)), (at for at, _ in series), strict=False)
    ]
    moved = sum(rate * time for rate, time in zip(rates[:found], took, strict=False))
    # The cache ended within the next second. Its rate says when, between the rates before and after it.
    then = middle(rates[found + 1 :][:quarter])
    part = min(max((rates[found] - then) / (first - then), 0.0), 1.0) if first > then else 0.0
    return first, last, (moved + first * part * took[found]) / 1000


def fall(series: Sequence[tuple[float, float]]) -> int:
    """The index of the second in which the rate of a stream falls most clearly. SERIES has (end in s, MB/s) of each second.

    It is the one that leaves the least sum of squares around the means before and after it. A stream has at least 4 seconds.
    """
    rates = [rate for _, rate in series]

    def squares(part: Sequence[float]) -> float:
        mean = sum(part) / len(part)
        return sum((rate - mean) ** 2 for rate in part)

    return min(range(2, len(rates) - 1), key=lambda i: squares(rates[:i]) + squares(rates[i:]))


def _sustained(case: Case, context: Context, limit: int) -> Outcome:
    window, results = _run(case, context, limit, _loads(case, context, limit), series=True)
    stream, light = case.jobs
    first, last, gb = knee(window.series)
    figures = [Figure("first-mbps", first, "MB/s", "higher"), Figure("last-mbps", last, "MB/s", "higher")]
    if math.isfinite(gb):
        figures.append(Figure("fast-cache", round(gb, 2), "GB"))
    figures = [f for f in figures if math.isfinite(f.value)]
    if not figures:
        raise ValidateError(
            f"{case.name}: it wrote for {window.seconds:.0f} s only, too short to see a trend"
        )
    # garbage collection makes single writes and reads wait, which the rate of a second does not show
    writes = results[stream.name].bins
    reads = _planned(case, context, light, window, window.series[fall(window.series)][0] + FALL_S)
    return Outcome(
        [*figures, *_percentiles(writes), *_percentiles(reads, "read-")],
        curve=latencies.curve(writes),
        reads=latencies.curve(reads),
        series=list(window.series),
        written=results[stream.name].written,
    )


def _percentiles(bins: Bins, prefix: str = "") -> list[Figure]:
    return [
        Figure(prefix + name, round(latencies.percentile(bins, share), 1), "us", "lower")
        for name, share in PERCENTILES.items()
        if bins
    ]


def _planned(case: Case, context: Context, job: Job, window: Window, settle: float = 0) -> Bins:
    """The latencies of the planned reads of JOB in WINDOW, without those of its first SETTLE seconds."""
    try:
        text = (context.runner.scratch / f"{job.name}.reads").read_text()
        return reader.logged(text, window.begin + settle, window.end)
    except (OSError, ValueError) as error:
        raise ValidateError(f"{case.name}: {error}") from error


def light_bound(known: Mapping[tuple[str, str], float], load: Job, one: float | None = None) -> float | None:
    """The target of a light reader's p99 in µs: twice the time of one request of the load and of its own read.

    A scheduler cannot interrupt a request, so the reader waits for one that the device has. ONE: the time of a flush or a
    discard alone, in µs. If the reader's p99 alone is known and longer, that is the bound. None if the times were not measured.
    """
    large = (
        one
        if load.stops_all
        else known.get((f"device.sequential-{'write' if load.writes else 'read'}.1m.qd1", "p50"))
    )
    own, alone = known.get(("latency.alone", "p50")), known.get(("latency.alone", "p99"))
    if large is None or own is None:
        return None
    return round(max(2 * (large + own), alone or 0.0), 1)


def _trims(job: Job | None, folder: Path | None) -> Load | None:
    """The load that discards in the file system of FOLDER; None if fio runs JOB."""
    if job is None or job.rw != "trim" or folder is None:
        return None
    return Load(
        job.name, [sys.executable, "-I", str(discards.__file__), str(folder / "discards")], job.weight
    )


def _one(case: Case, context: Context, limit: int) -> tuple[float, int]:
    """(time of one flush or discard of the load alone in µs, bytes written)."""
    load = case.stopping
    assert load is not None
    alone = replace(case, settle=cases.ONE_SETTLE_S, seconds=cases.ONE_S)
    trims = _trims(load, context.folder)
    part = limit // 4
    window, results = _run(alone, context, part, [trims] if trims else _loads(alone, context, part, [load]))
    if trims:
        found = _json(context, trims, case)
        if not found["each_us"]:
            raise ValidateError(f"{case.name}: no discard ended within {found['seconds']:.1f} s")
        return float(found["each_us"]), window.total_written
    result = results[load.name]
    if not result.ios:
        raise ValidateError(f"{case.name}: the device completed no request")
    # The time of a write with fsync is that of both. fio has no latency of the two together.
    one = 1e6 * result.seconds / result.ios if load.sync else latencies.percentile(result.bins, 0.5)
    return one, _written(window, results)


def _latency(case: Case, context: Context, limit: int) -> Outcome:
    one, before = _one(case, context, limit) if case.stopping else (None, 0)
    limit = max(limit - before, 0)
    light, load = case.jobs[0], case.jobs[1] if len(case.jobs) > 1 else None
    trims = _trims(load, context.folder)
    loads = [*_loads(case, context, limit, [light]), trims] if trims else _loads(case, context, limit)
    window, results = _run(case, context, limit, loads)
    # Before the window, the start of the load takes the processor, and the scheduler does not know the load yet.
    bins = _planned(case, context, light, window)
    if not bins:
        raise ValidateError(f"{case.name}: no planned read completed")
    bound = light_bound(context.known, load, one) if load else None
    # the journal of a file system writes for a load that flushes or discards, but not in its group
    note = BUSY_NOTE if load and not load.stops_all and window.disturbed else ""
    if bound is not None and undecided(bins, bound):
        bound, note = None, FEW_NOTE
    elif load and bound is None:
        note = NO_BASIS_NOTE
    # A light reader moves so few bytes that any other program moves a large part of all bytes.
    disturbed = not load and window.others > sum(window.read.values())
    figures = [
        Figure(
            name, round(latencies.percentile(bins, share), 1), "us", "lower",
            target=bound if name == "p99" else None, must=name == "p99" and bound is not None and context.promised,
        )
        for name, share in PERCENTILES.items()
    ]  # fmt: skip
    if load:
        rate = _trimmed(context, trims, case) if trims else results[load.name].mbps
        figures.append(Figure("load-mbps", round(rate, 2), "MB/s", "higher"))
    if one is not None:
        figures.append(Figure("load-one", round(one, 1), "us", "lower"))
    return Outcome(
        figures, curve=latencies.curve(bins), written=before + _written(window, results),
        note=NOT_ALONE_NOTE if disturbed else note, unusable=frozenset({"p99"} if disturbed else ()),
    )  # fmt: skip


def undecided(bins: Bins, bound: float) -> bool:
    """Whether p99 of a few reads is above BOUND, and chance alone may have caused it. BOUND is in µs."""
    count = sum(bins.values())
    if count >= MANY_READS or latencies.percentile(bins, PERCENTILES["p99"]) <= bound:
        return False
    slow = sum(n for ns, n in bins.items() if ns / 1000 > bound)
    fewer = sum(math.comb(count, k) * 0.01**k * 0.99 ** (count - k) for k in range(slow))
    return 1 - fewer >= UNLIKELY


def block(job: Job, window: Window) -> int:
    """The smallest number of bytes by which the count of a group grows."""
    return min(job.size, LARGEST) if window.dispatched else job.size


def _trimmed(context: Context, trims: Load, case: Case) -> float:
    """MB/s that the file system discarded."""
    found = _json(context, trims, case)
    if not found["bytes"]:
        raise ValidateError(f"{case.name}: the file system discarded nothing in {found['seconds']:.1f} s")
    return float(found["bytes"] / found["seconds"] / 1e6)


def around(wanted: float, block: int, slower: float) -> tuple[float, float] | None:
    """The range of a ratio that should be WANTED, if the slower group moved SLOWER bytes in blocks of BLOCK bytes.

    None if chance could change it by more than WIDEST. SLOWER: also what the group should have moved, if that is more. So a
    group that got nothing is judged, too.
    """
    tolerance = max(TOLERANCE, block / slower) if slower else 1.0
    if tolerance > WIDEST:
        return None
    return (round(wanted * (1 - tolerance), 3), round(wanted * (1 + tolerance), 3))


def _ratio(case: Case, context: Context, limit: int) -> Outcome:
    window, results = _run(case, context, limit, _loads(case, context, limit))
    moved = [window.read[j.name] + window.written[j.name] for j in case.jobs]
    if not sum(moved):
        raise ValidateError(f"{case.name}: no group was served in {window.seconds:.1f} s")
    # if the second group got nothing, the ratio is huge instead of undefined
    ratio = round(min(moved[0] / max(moved[1], 1), 99.0), 3)
    target = around(2.0, block(case.jobs[1], window), max(moved[1], moved[0] / 2))
    figures = [
        Figure("ratio", ratio, "", target=target, paper=case.paper.get("ratio"), must=context.promised),
        Figure("total", round(sum(moved) / window.seconds / 1e6, 2), "MB/s", "higher"),
        Figure("longest", round(1000 * fio.slowest(list(results.values())), 1), "ms", "lower"),
    ]
    return Outcome(figures, written=_written(window, results), note=_few(figures))


def _few(figures: Sequence[Figure]) -> str:
    """A note if not all ratios or shares among FIGURES have a bound; else ""."""
    return (
        FEW_BLOCKS_NOTE
        if any(f.metric.startswith(("ratio", "share")) and f.target is None for f in figures)
        else ""
    )


def _shares(case: Case, context: Context, limit: int) -> Outcome:
    window, results = _run(case, context, limit, _loads(case, context, limit))
    moved = {j.name: window.read[j.name] + window.written[j.name] for j in case.jobs}
    total, weights = sum(moved.values()), sum(j.weight for j in case.jobs)
    if not total:
        raise ValidateError(f"{case.name}: no group was served in {window.seconds:.1f} s")
    figures = []
    for job in case.jobs:
        part = moved[job.name] / total / (job.weight / weights)
        entitled = total * job.weight / weights
        target = around(100.0, block(job, window), max(moved[job.name], entitled))
        figures.append(
            Figure(f"share-{job.name}", round(100 * part, 2), "%", target=target, must=context.promised)
        )
    figures.append(Figure("total", round(total / window.seconds / 1e6, 2), "MB/s", "higher"))
    return Outcome(figures, written=_written(window, results), note=_few(figures))


def parts(
    jobs: Sequence[Job], alone: Mapping[str, float], together: Mapping[str, float]
) -> tuple[float, dict[str, float]]:
    """(least part ÷ share, the part of each job in percent). The rates are in MB/s."""
    weights = sum(j.weight for j in jobs)
    part = {j.name: together[j.name] / alone[j.name] if alone[j.name] else 0.0 for j in jobs}
    return min(part[j.name] / (j.weight / weights) for j in jobs), {n: 100 * p for n, p in part.items()}


def _promise(case: Case, context: Context, limit: int) -> Outcome:
    """Each job alone, then all together, then each job that writes alone once more, because writes change a device.

    At first each job that writes runs without being counted: a device that has rested can be faster until it collects garbage
    again. The rate alone of a job that writes is the mean of the other two. All are measured without a scheduler. A job writes
    faster alone than contended. So it gets three parts of the bytes each time that it runs alone, and two parts for the
    contended run.

    If the two rates alone differ, the device changed meanwhile, and nobody knows its rate during the contended run. Then the
    promise counts as broken only if it is broken by the lower of the two, too (changed()).
    """
    writers = [job for job in case.jobs if job.writes]
    part = limit // (9 * len(writers) + 2)
    alone: dict[str, list[float]] = {}
    windows: list[Window] = []
    written, reached = 0, 1.0

    def measure_alone(jobs: Sequence[Job]) -> None:
        nonlocal written, reached
        context.scheduler("none")
        try:
            for job in jobs:
                own = 3 * part if job.writes else 0
                one = case
                if not job.writes:
                    one = replace(
                        case,
                        settle=min(case.settle, cases.ALONE_SETTLE_S),
                        seconds=min(case.seconds, cases.ALONE_S),
                    )
                window, results = _run(one, context, own, _loads(one, context, own, [job]))
                windows.append(window)
                alone.setdefault(job.name, []).append(window.mbps(job.name))
                moved = _written(window, results)
                written += moved
                reached = min(reached, moved / own) if own else reached
        finally:
            context.scheduler(context.subject)

    if writers:
        measure_alone(writers)
        alone.clear()
    measure_alone(case.jobs)
    contended = 2 * part if writers else 0
    window, results = _run(case, context, contended, _loads(case, context, contended))
    windows.append(window)
    moved = _written(window, results)
    written += moved
    reached = min(reached, moved / contended) if contended else reached
    if writers:
        measure_alone(writers)
    rates = {name: sum(found) / len(found) for name, found in alone.items()}
    known = min(min(found) / rates[name] if rates[name] else 1.0 for name, found in alone.items())
    # An app that becomes busy takes its share of one of the windows.
    least, part_of = parts(case.jobs, rates, {j.name: window.mbps(j.name) for j in case.jobs})
    note, bound = "", None
    if any(w.disturbed for w in windows):
        note = DISTURBED_NOTE
    elif found := changed(least, (LEAST_PART, math.inf), (LEAST_PART * known, math.inf)):
        bound = round(found[0], 3)
    else:
        name = min(alone, key=lambda n: min(alone[n]) / rates[n] if rates[n] else 1.0)
        note = CHANGED_NOTE.format(name=name, least=min(alone[name]), most=max(alone[name]))
    return Outcome(
        [
            Figure(
                "least", round(least, 3), "", "higher", bound, must=context.promised and bound is not None
            ),
            Figure("sum", round(sum(part_of.values()), 1), "%", "higher"),
            *(Figure(f"part-{name}", round(part, 1), "%", "higher") for name, part in part_of.items()),
        ],
        note=note,
        written=written,
        reached=reached,
    )


def changed(
    value: float, strict: tuple[float, float], wide: tuple[float, float]
) -> tuple[float, float] | None:
    """The range that judges VALUE, on a device whose rates alone before and after differ.

    STRICT is the range by their mean, WIDE the one that allows for both. If WIDE is more than WIDEST away from STRICT, a value
    between the two is neither held nor broken. Then the result is None.
    """
    if abs(wide[0] / strict[0] - 1) <= WIDEST:
        return wide
    if strict[0] <= value <= strict[1]:
        return strict
    return None if wide[0] <= value <= wide[1] else wide


def _fixed(case: Case, context: Context, limit: int) -> Outcome:
    """A fixed share, in percent of what the group is entitled to: PERCENT of its rate alone, without a scheduler.

    The lab promises 99 to 102 % on an exact clock. On a device, other programs change a rate of 8 s by some percent, up to
    loads.DISTURBED. So a validation promises what it promises to unequal competitors, FIXED. The rate alone is the mean of one
    before and one after. If these two differ, nobody knows the rate meanwhile, and the bounds are those of both.
    """
    job = case.jobs[0]
    alone: list[float] = []
    windows: list[Window] = []

    def measure_alone() -> None:
        context.scheduler("none")
        try:
            window, _ = _run(case, context, 0, _loads(case, context, 0, [job]))
            windows.append(window)
            alone.append(window.mbps(job.name))
        finally:
            context.scheduler(context.subject)

    measure_alone()
    window, _ = _run(case, context, 0, _loads(case, context, 0))
    windows.append(window)
    measure_alone()
    if not min(alone):
        raise ValidateError(f"{case.name}: the device completed no request")
    mean = sum(alone) / len(alone)
    accuracy = 100 * window.mbps(job.name) / (mean * job.fixed / 100)
    bounds = (round(FIXED[0] * min(alone) / mean, 1), round(FIXED[1] * max(alone) / mean, 1))
    note, bound = "", None
    if any(w.disturbed for w in windows):
        note = DISTURBED_NOTE
    elif found := changed(accuracy, FIXED, bounds):
        bound = found
    else:
        note = CHANGED_NOTE.format(name=job.name, least=min(alone), most=max(alone))
    must = context.promised and bound is not None
    return Outcome(
        [
            Figure("accuracy", round(accuracy, 1), "%", target=bound, must=must),
            Figure("rest", round(window.mbps(case.jobs[1].name), 2), "MB/s", "higher"),
        ],
        note=note,
    )


def _json(context: Context, load: Load, case: Case) -> dict[str, Any]:
    """The JSON that a program of ours prints as its last line."""
    text = context.runner.output(load).strip()
    try:
        found: dict[str, Any] = json.loads(text.rpartition("\n")[2])
    except ValueError as error:
        raise ValidateError(
            f"{case.name}: {load.name} printed no report: {text[-200:] or 'nothing'}"
        ) from error
    return found


def player(movie: Path, seconds: float) -> list[str]:
    """The command of the paper's player (recipes/loads/README.md)."""
    return [
        "ek-player", "--movie", str(MOVIE), "--movie-seconds", "60", "--buffered", "--cold", "--advise", "player",
        "--chunk", "32K", "--buffer-ms", "300", "--index", "16K", "--index-every", "5", "--duration", f"{seconds:g}",
        "--json", str(movie),
    ]  # fmt: skip


def _stall(case: Case, context: Context, limit: int) -> Outcome:
    assert context.folder is not None
    loads = _loads(case, context, limit)
    film = Load("player", player(context.folder / "movie", case.seconds), PLAYER_WEIGHT, lasting=False)
    window, results = _run(case, context, limit, [film, *loads])
    report = _json(context, film, case)
    # a player that stopped did stop, however short the time
    short = window.seconds < LEAST_PLAYED_S and not report["stalls"]
    busy = BUSY_NOTE if window.disturbed else ""
    return Outcome(
        [
            Figure(
                "count", report["stalls"], "", "lower", None if short else 0, paper=case.paper["stalled"],
                must=context.promised and not short,
            ),
            Figure("total_ms", round(report["stall_ms"], 1), "ms", "lower"),
            Figure("worst_ms", round(report["worst_stall_ms"], 1), "ms", "lower"),
            Figure("read_max_ms", round(report["read_max_us"] / 1000, 1), "ms", "lower"),
            # the rate of the load shows that the scheduler does not avoid stalls by starving it
            Figure("load-mbps", round(window.mbps("load"), 2), "MB/s", "higher"),
        ],
        written=_written(window, results),
        note=SHORT_NOTE.format(seconds=window.seconds) if short else busy,
    )  # fmt: skip


def _record(case: Case, context: Context, limit: int) -> Outcome:
    assert context.folder is not None
    writes = int(case.seconds / cases.RECORD_EVERY_S)
    writer = Load(
        "writer",
        [
            "ek-writer", "--replace", "--record", "16K", "--every", "5ms", "--total", "100MB", "--writes", str(writes),
            "--sync-every", "2MB", "--sync-thread", "--allocate", "preallocate", "--sync", "range", "--json",
            str(context.folder / "rec"),
        ],
    )  # fmt: skip
    window, _ = _run(case, context, 0, [writer, *_disturbing(case, context, context.folder)])
    report = _json(context, writer, case)
    return Outcome(
        [
            Figure(name, round(report[f"write_{name}_us"], 1), "us", "lower", paper=case.paper.get(name))
            for name in ("p50", "p99", "p999", "max")
        ],
        written=max(window.total_written, int(report["bytes"])),
    )


def _disturbing(case: Case, context: Context, folder: Path) -> list[Load]:
    """The programs in the background of a recording. They end by themselves, because a killed validation cannot end them."""
    duration = f"--duration={math.ceil(case.longest) + 60}s"
    return [
        Load(
            f"disturb-{what}",
            # it reads the test file, and creates other files
            ["ek-disturb", duration, "--json", what, str(context.path)]
            if what == "read"
            else ["ek-disturb", duration, "--replace", "--json", what, str(folder / what)],
        )
        for what in cases.disturbances(case)
    ]


def _recorder(case: Case, context: Context, limit: int) -> Outcome:
    """What the recorder promises: no record is on the medium later than its durability window, and none is lost.

    The recorder does not depend on the scheduler. So these bounds hold for every scheduler.
    """
    assert context.folder is not None
    writes = int(cases.RECORDER_S / cases.RECORD_EVERY_S)
    folder, scratch = context.folder / recording.FOLDER, context.runner.scratch / recording.FOLDER
    writer = Load(
        "writer",
        [
            sys.executable,
            "-I",
            str(recording.__file__),
            str(folder),
            str(scratch),
            str(writes),
            str(cases.RECORDER_RETAIN),
            str(cases.RECORDER_SEGMENT),
        ],
    )
    window, _ = _run(case, context, 0, [writer, *_disturbing(case, context, context.folder)])
    found = _json(context, writer, case)
    durable = found["durable"]
    if found["writes"] != writes or durable is None:
        raise ValidateError(f"{case.name}: the recorder wrote {found['writes']} of {writes} records in time")
    return Outcome(
        [
            Figure("late", durable["late"], "records", "lower", 0, must=True),
            Figure("lost", found["lost"] + durable["lost"], "records", "lower", 0, must=True),
            Figure(
                "durable-max",
                round(durable["max_us"] / 1000, 1),
                "ms",
                "lower",
                1000 * recording.WINDOW_S,
                must=True,
            ),
            # A busy processor delays a submission, too. The lab measures it on an exact clock.
            *(Figure(name, round(found[f"{name}_us"], 1), "us", "lower") for name in ("p50", "p99", "max")),
        ],
        written=window.total_written,
    )


def _channels(case: Case, context: Context, limit: int) -> Outcome:
    found = context.probe(int(case.seconds))
    return Outcome(
        [Figure("channels", found["channels"]), Figure("sure", found["sure"])], note=str(found["finding"])
    )


@dataclass(frozen=True)
class Kept:
    """What was left of the priority files. `share`: of their pages in the cache, from 0 to 1. `bins`: of the reads."""

    share: float
    bins: Bins
    mbps: float

    def us(self, name: str) -> float:
        """The percentile NAME of the reads, in µs."""
        return round(latencies.percentile(self.bins, PERCENTILES[name]), 1)


def _pass(
    case: Case, context: Context, seconds: float, *, once: bool = False
) -> tuple[Window, dict[str, Result]]:
    """Read priority files, and meanwhile the whole test file for SECONDS, or ONCE."""
    assert context.folder is not None
    light, stream = case.jobs
    files = priority.paths(context.folder / priority.FOLDER)
    part = replace(case, seconds=seconds)
    loads = [
        _reader(part, context, light, files, 0, cases.PRIORITY_BYTES // len(files)),
        _load(part, context, stream, Area(context.path, 0, context.size), context.size if once else 0),
    ]
    return _run(part, context, 0, loads)


def _filled(case: Case, context: Context) -> float:
    """Read the whole test file, so that the memory is full. Returns the seconds that it took. Raises ValidateError."""
    window, results = _pass(case, context, case.seconds, once=True)
    if not window.early:
        raise ValidateError(
            f"{case.name}: the device read only {results['stream'].read / 1e6:.0f} of {context.size / 1e6:.0f} MB of the test"
            f" file in {window.seconds:.0f} s, which did not fill the page cache"
        )
    return window.seconds


def _kept(case: Case, context: Context, files: priority.Files, seconds: float) -> Kept:
    """Load the files, and measure what a stream of SECONDS leaves of them."""
    files.load()
    window, results = _pass(case, context, seconds)
    share = files.cached()
    bins = _planned(case, context, case.jobs[0], window)
    if not bins:
        raise ValidateError(f"{case.name}: no planned read completed")
    return Kept(share, bins, results[case.jobs[1].name].mbps)


def _grown(case: Case, context: Context, files: priority.Files) -> None:
    """Read the test file until the page pool covers the priority files, but not more than GROWTH_PASSES times.

    The pool grows with the misses of priority files. So all of them are read again before each pass.
    """
    for _ in range(cases.GROWTH_PASSES):
        files.load()
        _filled(case, context)
        for _ in range(cases.GROWTH_S):
            if pagepool.covers(pagepool.state(context.pool), cases.PRIORITY_BYTES):
                return
            context.runner.pause(1)


def _cache(case: Case, context: Context, limit: int) -> Outcome:
    assert context.folder is not None
    folder = context.folder / priority.FOLDER
    if limit < case.written:
        raise ValidateError(
            f"{case.name}: it writes {case.written / 1e6:.0f} MB, and the budget has {limit / 1e6:.0f} MB left"
        )
    try:
        with priority.made(folder) as files:
            seconds = max(_filled(case, context), cases.CACHE_S)
            without = _kept(case, context, files, seconds)
            # Pages keep the group to which they were charged. So the files must enter the cache again.
            files.drop()
            with pagepool.held(context.pool, folder):
                _grown(case, context, files)
                covered = pagepool.covers(pagepool.state(context.pool), cases.PRIORITY_BYTES)
                found = _kept(case, context, files, seconds)
                after = pagepool.state(context.pool)
                pagepool.protected(after, folder)
    except OSError as error:
        raise ValidateError(f"{case.name}: {error.filename or folder}: {why(error)}") from error
    # The pool promises nothing if it is smaller than what it has.
    covered = covered and pagepool.covers(after, cases.PRIORITY_BYTES)
    return Outcome(
        [
            Figure(
                "kept", round(100 * found.share, 2), "%", "higher", LEAST_KEPT if covered else None, must=covered
            ),
            Figure("kept-without", round(100 * without.share, 2), "%"),
            *(Figure(name, found.us(name), "us", "lower") for name in ("p50", "p99")),
            *(Figure(f"{name}-without", without.us(name), "us") for name in ("p50", "p99")),
            Figure("target", round(after.target_bytes / 1e6, 1), "MB"),
            Figure("load-mbps", round(found.mbps, 2), "MB/s", "higher"),
        ],
        curve=latencies.curve(found.bins),
        written=cases.PRIORITY_BYTES,
    )  # fmt: skip


KINDS: Mapping[str, Callable[[Case, Context, int], Outcome]] = {
    "limit": _limit,
    "sustained": _sustained,
    "latency": _latency,
    "ratio": _ratio,
    "shares": _shares,
    "promise": _promise,
    "stall": _stall,
    "record": _record,
    "recorder": _recorder,
    "fixed": _fixed,
    "channels": _channels,
    "cache": _cache,
}
