# SPDX-License-Identifier: Apache-2.0
"""What a long stream of writes, and a reader alongside it, say about a device, for the fit of the flash model (model.py).

After some gigabytes, the rate of the stream falls, for one of two reasons:

- The device collects garbage: it writes some megabytes, and then pauses. So the slowest writes take as long as a pause. The
  rate says how much the device writes between two pauses.
- Its fast cache is full. Then no write waits much longer than the others.

The reader shows how long a read waits for a program in progress, and so how many dies share the work.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from evenkeel_report import latencies

from . import cases, reader, search
from .measure import fall
from .report import READS as SUFFIX
from .report import Report
from .search import Params

STREAM = next(case for case in cases.full() if case.kind == "sustained")
WRITER, READER = STREAM.jobs
# Time in ns from a completion to the next write. The host's time is not known. These show what depends on it.
THINK_NS, THINKS = 10_000, (5_000, 10_000, 20_000, 40_000)
# Garbage collection divides the rate by at least this. Chance changes the mean of many seconds by less.
LOWER = 1.05
# Writes wait for garbage collection if PAUSE ÷ ORDINARY is this many times what the fall of the rate explains.
PAUSED = 1.5
# The percentiles that are compared, by name: of all writes, and of the reads after the fall
WRITES = {f"write-p{percent}": percent for percent in (50, 75, 90, 95, 97, 98, 99, 99.5, 99.8, 99.9)}
READS = {f"read-p{percent}": percent for percent in (25, 50, 75, 90, 95, 99)}
FIGURES = ("first", "last", *WRITES, *READS)
# What a reader gets meanwhile. Of this, the fit sees only the reads that wait for no pause, and those that wait longest: a
# stream has few pauses, so the slowest writes alone depend on chance.
LEFT_OUT = tuple(READS)[1:-1]
# the percentiles that show a pause, and the ordinary one
PAUSES, ORDINARY = ("write-p99.8", "write-p99.9"), "write-p50"
# the percentile that shows it if reads wait for a pause
SLOWEST = "read-p99"
# time to erase a block, as in most presets; and the most pages of a block in the model
ERASE_US, MOST_PAGES = 5000, 8192
# rounds of corrections, and evaluations of the model in the last search
CORRECTIONS, POLISH = 6, 200
# values of the search that are no parameters of the model, but become some
OWN = ("free", "valid")


@dataclass(frozen=True)
class Stream:
    """`before`, `whole`: MB written before the rate fell, and in all. `figures`: MB/s, and percentiles in µs."""

    before: float
    whole: float
    figures: dict[str, float]

    def of(self, name: str) -> float:
        return self.figures[name]


class Predict(Protocol):
    """Runs a stream as long as the measured one. `think`: THINK_NS."""

    def __call__(self, params: Params, measured: Stream, think: int = THINK_NS) -> Stream: ...


def rates(series: Sequence[tuple[float, float]]) -> tuple[float, float, float, float]:
    """(MB/s before, MB/s after, MB before, MB in all) the fall of a stream. SERIES has (end in s, MB/s) of each second."""
    at = fall(series)
    starts = (0.0, *(end for end, _ in series))
    moved = [rate * (end - start) for start, (end, rate) in zip(starts, series, strict=False)]
    each = [rate for _, rate in series]
    # the second of the fall belongs to both
    first, last = each[: max(at - 1, 1)], each[at + 1 :]
    return sum(first) / len(first), sum(last) / len(last), sum(moved[:at]), sum(moved)


def read(found: Report) -> Stream | None:
    """The stream of a report; None if it is too short, or if its writes or reads were not timed."""
    series = found.series.get(STREAM.name, [])
    writes, reads = (
        found.curves.get(STREAM.name + suffix, {}).get(found.subject, []) for suffix in ("", SUFFIX)
    )
    if len(series) < 8 or not writes or not reads:
        return None
    first, last, before, whole = rates(series)
    percentiles = {name: of_curve(writes, percent) for name, percent in WRITES.items()}
    percentiles |= {name: of_curve(reads, percent) for name, percent in READS.items()}
    return Stream(before, whole, {"first": first, "last": last, **percentiles})


def planned(timing: Any, seconds: float, first: int, span: int) -> list[Any]:
    """The reads of READER in SECONDS, anywhere in the SPAN bytes from FIRST on."""
    times = sorted(
        (i + 1) * interval for interval in reader.intervals(READER) for i in range(int(seconds / interval))
    )
    ios = timing.scattered(timing.READ, len(times), READER.size, span)
    return [
        timing.Io(timing.READ, first + io.pos, io.bytes, round(at * 1e9))
        for io, at in zip(ios, times, strict=True)
    ]


def of_curve(points: Sequence[tuple[float, float]], percent: float) -> float:
    """The time at or below which PERCENT of a curve are, between two of its POINTS: (time, share), in rising order."""
    at, before = points[0][0], 0.0
    for time, share in points:
        if share >= percent / 100:
            return at * float((time / at) ** ((percent / 100 - before) / (share - before)))
        at, before = time, share
    return at


def curve(times: Iterable[int]) -> list[tuple[float, float]]:
    """The curve of TIMES in ns, as in a report."""
    return latencies.curve(Counter(times))


def predictor(timing: Any, model: Any, span: int, pairs: Callable[[Params], str]) -> Predict:
    """A function that runs a stream as long as a measured one on the model.

    The stream has the first half of SPAN bytes, and the reader has the second.
    """
    half = span // 2

    def predict(params: Params, measured: Stream, think: int = THINK_NS) -> Stream:
        count = round(measured.whole * 1e6) // WRITER.size
        ios = [timing.Io(timing.WRITE, i * WRITER.size % half, WRITER.size) for i in range(count)]
        # reads that are planned after the end of the stream never begin
        reads = planned(
            timing, 2 * measured.whole / min(measured.of("first"), measured.of("last")), half, half
        )
        done = model.run("", pairs(params), ios, qd=WRITER.depth, think=think, planned=reads).io
        ends = [io.done for io in done]
        before = min(max(round(measured.before * 1e6) // WRITER.size, 1), count - 1)
        # behind the fall, as rates() has it
        settled = min(before + (count - before) // 10, count - 2)
        took = curve(io.done - io.arrive for io in done)
        waited = curve(io.done - io.arrive for io in reads if io.done and io.arrive >= ends[settled])
        size = WRITER.size * 1000
        return Stream(
            measured.before,
            measured.whole,
            {
                "first": size * before / max(ends[:before]),
                "last": size * (count - settled) / (max(ends) - max(ends[:settled])),
                **{name: of_curve(took, percent) for name, percent in WRITES.items()},
                # a device that is far too fast for the measured one leaves no read
                **{name: of_curve(waited or took, percent) for name, percent in READS.items()},
            },
        )

    return predict


def cache(found: Report, params: Params) -> dict[str, int | str]:
    """Parameters of the fast cache, from the stream of writes; none if it showed no end of a cache."""
    rows = {row.id: row.value for row in found.rows}
    first, last = (rows.get(f"{STREAM.name}.{name}-mbps") for name in ("first", "last"))
    gb = rows.get(f"{STREAM.name}.fast-cache")
    if not (first and last and gb):
        return {}
    # the limits of writes were measured in the fast cache, so their program time is that of the cache
    fast = int(params["t_prog_us"])
    return {"slc_kb": round(gb * 1e6 / 1.024), "t_prog_slc_us": fast, "t_prog_us": round(fast * first / last)}


def collected(params: Params, free: float, valid: float, before: float) -> dict[str, int | str]:
    """Parameters of a device PARAMS that collects blocks with FREE and VALID pages, after BEFORE MB of writes.

    The share of valid pages is a whole percentage. The time of the rest of them is in that of the erase.
    """
    free, valid = max(free, 0.1), max(valid, 0.0)
    percent = min(int(100 * valid / (free + valid)), 99)
    block = min(max(round(free / (1 - percent / 100)), 2), MOST_PAGES)
    rest = valid - block * percent // 100
    return {
        "block_pages": block,
        "gc_valid_pct": percent,
        "gc_after_kb": max(round(before * 1e6 / 1024), 1),
        "t_erase_us": max(round(ERASE_US + rest * copied(params)), 1),
    }


def pages(params: Params) -> dict[str, float]:
    """The free and the valid pages of a block: the inverse of collected()."""
    block, percent = int(params["block_pages"]), int(params["gc_valid_pct"])
    kept = block * percent // 100
    return {"free": block - kept, "valid": kept + (int(params["t_erase_us"]) - ERASE_US) / copied(params)}


def copied(params: Params) -> int:
    """The time in µs to copy a page."""
    return int(params["t_r_us"]) + int(params["t_prog_us"])


@dataclass(frozen=True)
class Follow:
    """Fits what follows in a stream: garbage collection, or the end of a fast cache.

    `cached`: parameters of the cache. `chance`: the standard deviation of the logarithm of each figure, if it is known.
    """

    measured: Stream | None
    predict: Predict
    cached: Callable[[Params], Params]
    chance: Mapping[str, float] = field(default_factory=dict)

    def with_chance(self, params: Params) -> "Follow":
        """The same, with `chance` as a device PARAMS has it. Both measurement and prediction have their chance.

        The seed of the model and the time of the host change. Pauses are few, and which writes wait for one depends on both.
        """
        if self.measured is None:
            return self
        runs = [
            self.predict({**params, "seed": seed}, self.measured, think)
            for seed, think in enumerate(2 * THINKS)
        ]
        logs = {name: [math.log(run.of(name)) for run in runs] for name in FIGURES}
        return replace(self, chance={name: math.sqrt(2) * search.deviation(logs[name]) for name in FIGURES})

    def missed(self, params: Params) -> list[float]:
        """How far the predicted figures are from the measured ones, without those that are left out.

        All percentiles of writes together count as much as the other figures.
        """
        if self.measured is None:
            return []
        predicted = self.predict(params, self.measured)
        of = self.measured.of

        def missed(names: Sequence[str]) -> list[float]:
            ratios = [predicted.of(name) / of(name) for name in names]
            return search.misses(ratios, [self.chance[name] for name in names] if self.chance else ())

        return [
            *missed(tuple(WRITES)),
            *missed([n for n in FIGURES if n not in WRITES and n not in LEFT_OUT]),
        ]

    def errors(self, params: Params) -> dict[str, float]:
        """Predicted ÷ measured - 1 of each figure."""
        if self.measured is None:
            return {}
        predicted = self.predict(params, self.measured)
        return {name: predicted.of(name) / self.measured.of(name) - 1 for name in FIGURES}

    def guessed(self, params: Params) -> Params:
        """PARAMS with what follows in the stream, by a rough guess."""
        if self.measured is None or not self.pauses:
            return {**params, **self.cached(params)}
        return self._made(params, self._guess(params))

    def complete(self, params: Params) -> Params:
        """PARAMS with what follows in the stream. Some rounds of predictions correct the guess.

        The slowest reads, or writes, correct the length of a pause. The rate corrects the number of free pages.
        """
        found = self.guessed(params)
        if self.measured is None or not self.pauses:
            return found
        of = self.measured.of
        for _ in range(CORRECTIONS):
            got = self.predict(found, self.measured).of
            t_prog = int(found["t_prog_us"]) * got("first") / of("first")
            values = pages(found)
            # How the writes share a pause depends on the host. Reads come at their own times.
            shown = (SLOWEST,) if of(SLOWEST) > of(PAUSES[-1]) / 2 else PAUSES
            longer = math.prod((of(n) - of(ORDINARY)) / max(got(n) - got(ORDINARY), 1.0) for n in shown) ** (
                1 / len(shown)
            )
            lost = (1 / got("last") - 1 / got("first")) / (1 / of("last") - 1 / of("first"))
            longer, lost = (min(max(x, 0.5), 2.0) for x in (longer, lost))
            # the pause without the erase is that of the valid pages
            pause = (ERASE_US + values["valid"] * copied(found)) * longer
            faster = search.whole({"t_prog_us": t_prog})
            values = {
                "free": values["free"] * lost * longer,
                "valid": (pause - ERASE_US) / copied({**found, **faster}),
            }
            found = self._made({**found, **faster}, values)
        return found

    def polished(
        self, params: Params, names: Sequence[str], missed: Callable[[Params], list[float]]
    ) -> Params:
        """PARAMS with the values of NAMES, and with those of a block, that miss least."""
        if self.measured is None:
            return params
        guess = {name: float(params[name]) for name in names}
        if "gc_valid_pct" in params:
            guess |= pages(params)
        return search.best(guess, lambda values: self._made(params, values), missed, POLISH)[0]

    @property
    def pauses(self) -> bool:
        """Whether the rate falls, and some writes wait much longer than the fall explains: the device collects garbage."""
        if self.measured is None:
            return False
        of = self.measured.of
        fell = of("first") / of("last")
        return fell >= LOWER and of(PAUSES[-1]) / of(ORDINARY) >= PAUSED * fell

    def _guess(self, params: Params) -> dict[str, float]:
        """Pages of a block that are free and valid, for the pause and the rate of the stream."""
        assert self.measured is not None
        of = self.measured.of
        pause, part = of(PAUSES[-1]) - of(ORDINARY), of("last") / of("first")
        dies = int(params["channels"]) * int(params["dies"])
        page = dies * int(params["planes"]) * (int(params["page_kb"]) << 10)
        return {
            "free": of("first") * pause * part / (1 - part) / page,
            "valid": (pause - ERASE_US) / copied(params),
        }

    def _made(self, params: Params, values: Mapping[str, float]) -> Params:
        """PARAMS with VALUES."""
        assert self.measured is not None
        found = {**params, **search.whole({name: value for name, value in values.items() if name not in OWN})}
        if "free" not in values:
            return found
        return {**found, **collected(found, values["free"], values["valid"], self.measured.before)}
