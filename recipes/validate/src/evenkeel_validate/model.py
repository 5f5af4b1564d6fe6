# SPDX-License-Identifier: Apache-2.0
"""Fits the parameters of the flash model (tests/flashsim) to a report, and says how well they predict the rest of it.

It runs in a clone of the project, because it compiles the model, and needs scipy. Every third limit of the report is
left out of the fit. The fit is judged by these limits alone: the median of |predicted ÷ measured - 1|.

Reads and writes are fitted one after the other. For each number of dies that work at once, scipy fits the times and
rates (Nelder-Mead on their logarithms, since all are positive and differ by orders of magnitude). The best structure
wins. Parameters that no measurement shows keep their defaults.

A long stream of writes shows what follows after some gigabytes, and what a reader gets meanwhile (stream.py).
"""

import functools
import importlib.util
import itertools
import math
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenkeel_report.names import number

from . import cases, search, stream
from .errors import ValidateError
from .report import Report
from .search import MOST, Params, median
from .stream import THINK_NS, Follow

LIMIT = re.compile(r"device\.(sequential|random)-(read|write)\.(\d+)([km])\.qd(\d+)\.mbps")
# every so many limits, one is left out of the fit
LEFT_OUT = 3
# The fit needs at least so many limits of reads, and of writes.
FEWEST = 4
MAX_KB = 512
# Requests of a prediction of reads and of small writes. Those of the first half do not count, because the buffer takes them.
READS, WRITES = 160, 500
# The kernel seldom merges I/Os from this size on. Of such writes, a prediction has all bytes of the case, because the device
# may collect garbage meanwhile.
LARGE = 64 << 10
# MB that the device writes without garbage collection in each limit of writes, because it collected while it was idle before.
# It is not a parameter of the model.
RESERVE = "reserve_mb"
# (channels, dies of a channel)
STRUCTURES = ((1, 1), (1, 2), (2, 2), (2, 4), (4, 4), (8, 2))
# the numbers of dies of a channel that are tried for writes
DIES = (1, 2, 4, 8)
# bytes of a limit of writes, by whether it is random
WRITTEN = {
    case.jobs[0].rw.startswith("rand"): case.written for case in cases.full() if case.kind == "limit" and case.written
}  # fmt: skip
# the number of structures that are searched for reads, of those that are tried; and the number for writes that a last search
# improves
SEARCHED, POLISHED = 3, 3
FIXED: Mapping[str, int | str] = {
    "kind": "flash", "planes": 2, "page_kb": 16, "channel_mbps": 400, "chunk_kb": 32, "map_cache": 1, "map_region_mb": 4,
    "max_kb": MAX_KB,
}  # fmt: skip
# names of the parameters that are fitted, with the first guess
READ = {"link_read_mbps": 200.0, "cmd_us": 60.0, "t_r_us": 60.0, "map_miss_us": 30.0}
WRITE = ("link_write_mbps", "cmd_write_us", "t_prog_us")
# how many times the measured rate of writes the link may have, in the guesses
FASTER = (1.2, 3.0)
# the largest median error of a model that may be used
MOST_ERROR = 0.1
# The reads that show how much times vary, and how many of them a prediction has
VARIED, VARIED_READS = "device.random-read.4k.qd1", 8000
# What is tried: jitter in percent, and how many times as long as the others one in TAIL_IN times is
JITTER, TAIL, TAIL_IN = (0, 5, 10, 15, 20, 30, 40), (2, 4, 8, 16, 32), 1000


@dataclass(frozen=True)
class Point:
    """A measured limit. `size` in bytes, `mbps` in 10^6 bytes per second."""

    random: bool
    write: bool
    size: int
    depth: int
    mbps: float

    @property
    def whole(self) -> bool:
        """Whether a prediction has all bytes of the case."""
        return self.write and self.size >= LARGE

    @property
    def written(self) -> int:
        """Bytes that its case writes."""
        return WRITTEN[self.random]

    @property
    def name(self) -> str:
        size = f"{self.size >> 20}m" if self.size >> 20 else f"{self.size >> 10}k"
        return f"{'random' if self.random else 'sequential'} {'write' if self.write else 'read'} {size} qd{self.depth}"


Predict = Callable[[Params, Point], float]


@dataclass(frozen=True)
class Fitted:
    """Parameters of the model. `errors`: predicted ÷ measured - 1 of each limit that was left out, by name.

    `stream`: the same of the figures of the stream of writes, if it was measured. `reserve_mb`: RESERVE.
    """

    params: Params
    errors: Mapping[str, float]
    used: int
    source: str
    stream: Mapping[str, float] = field(default_factory=dict)
    reserve_mb: int = 0

    @property
    def median(self) -> float:
        return median(self.errors.values())

    def as_json(self) -> dict[str, Any]:
        return {
            "params": dict(self.params),
            "median_error": self.median,
            "errors": dict(self.errors),
            "fitted": self.used,
            "stream_errors": dict(self.stream),
        }

    @property
    def reader(self) -> list[float]:
        """Errors of the figures of the stream that were left out of the fit: what a reader gets meanwhile."""
        return [error for name, error in self.stream.items() if name in stream.LEFT_OUT]

    def lines(self) -> list[str]:
        worst = max(self.errors, key=lambda name: abs(self.errors[name]))
        return [
            f"The model was fitted to {self.used} limits. It predicts {len(self.errors)} others with a median error of"
            f" {100 * self.median:.1f} %.",
            f"The largest error is {100 * self.errors[worst]:+.1f} % ({worst}).",
            *(
                [
                    "It was also fitted to the long stream of writes. It predicts the percentiles of a reader meanwhile"
                    f" with a median error of {100 * median(self.reader):.1f} %."
                ]
                if self.stream
                else []
            ),
        ]


def points(found: Report) -> list[Point]:
    """The measured limits of a report, without those of small sequential I/Os that wait: the kernel may merge them."""
    scale = {"k": 1 << 10, "m": 1 << 20}
    limits = [
        Point(m[1] == "random", m[2] == "write", int(m[3]) * scale[m[4]], int(m[5]), row.value)
        for row in found.rows
        if (m := LIMIT.fullmatch(row.id)) and row.value > 0
    ]
    return [p for p in limits if p.random or p.depth == 1 or p.size >= LARGE]


def divide(measured: Sequence[Point]) -> tuple[list[Point], list[Point]]:
    """(limits for the fit, limits that are left out). Both have all kinds; the division is the same each time."""
    used: list[Point] = []
    left: list[Point] = []
    for write in (False, True):
        of_kind = sorted((p for p in measured if p.write == write), key=lambda p: (p.random, p.size, p.depth))
        for i, point in enumerate(of_kind):
            # shifted by one in each round, so that each depth and each size is left out somewhere
            (left if (i + i // LEFT_OUT) % LEFT_OUT == 1 else used).append(point)
    return used, left


def flashsim(folder: Path) -> Any:
    """The module tests/flashsim/timing.py. Raises ValidateError."""
    file = folder / "timing.py"
    spec = importlib.util.spec_from_file_location("flashsim_timing", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise ValidateError(
            f"{file} is missing; run this command in a clone of the project, or give --flashsim DIR"
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules["flashsim_timing"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def pairs(params: Params) -> str:
    return ",".join(f"{name}={value}" for name, value in params.items() if name != RESERVE)


def requests(point: Point, span: int, timing: Any) -> tuple[list[Any], int]:
    """(requests, requests outstanding): the kernel splits an I/O into requests of at most MAX_KB."""
    request = min(point.size, MAX_KB << 10)
    each = -(-point.size // request)
    op = timing.WRITE if point.write else timing.READ
    several = max((WRITES if point.write else READS) // each, 2 * point.depth + 2)
    count = point.written // point.size if point.whole else several
    if point.random:
        starts = [io.pos for io in timing.scattered(op, count, point.size, span)]
    else:
        starts = [i * point.size % span for i in range(count)]
    made = [timing.Io(op, start + i * request, request) for start in starts for i in range(each)]
    return made, point.depth * each


def predictor(timing: Any, model: Any, span: int) -> Predict:
    """A function that runs a limit on the model, and returns MB/s."""

    def predict(params: Params, point: Point) -> float:
        if point.write and RESERVE in params:
            params = {**params, "gc_after_kb": int(params[RESERVE]) << 10}
        ios, outstanding = requests(point, span, timing)
        run = model.run("", pairs(params), ios, qd=outstanding, think=THINK_NS if point.depth == 1 else 0)
        if point.whole:
            return float(run.mbps)
        first, second = run.io[: len(ios) // 2], run.io[len(ios) // 2 :]
        return float(sum(io.bytes for io in second) * 1000 / max(run.end - max(io.done for io in first), 1))

    return predict


def missed(predict: Predict, params: Params, used: Sequence[Point]) -> list[float]:
    """What PARAMS miss of the limits USED."""
    return search.misses([predict(params, p) / p.mbps for p in used])


def _fit(
    base: Params, guess: Mapping[str, float], missed_of: Callable[[Params], list[float]]
) -> tuple[Params, float]:
    """(parameters, loss): BASE with the best values of the parameters in GUESS."""
    return search.best(guess, lambda values: {**base, **search.whole(values)}, missed_of)


def _structures(depths: Sequence[int]) -> Iterator[dict[str, int | str]]:
    """The structures that are tried: dies, and whether the device works on several commands at once."""
    for channels, dies in STRUCTURES:
        for active in sorted({1, max(depths)}):
            yield {"channels": channels, "dies": dies, "active": active, "depth": 32}


def fit(
    measured: Sequence[Point],
    predict: Predict,
    source: str,
    capacity_mb: int,
    follow: Follow,
    vary: Callable[[Params], Params] = lambda params: {},
) -> Fitted:
    """Fit the model to the limits MEASURED, and to what FOLLOWs in a stream. Raises ValidateError if there are too few limits.

    Limits of writes show how fast all dies together are. How many dies a channel has, and so how long a read waits for one of
    them, the reader alongside the stream shows. VARY adds how much times vary.
    """
    used, left = divide(measured)
    reads, writes = [p for p in used if not p.write], [p for p in used if p.write]
    if min(len(reads), len(writes)) < FEWEST or not left:
        raise ValidateError(
            f"the report has {len(measured)} limits, too few for a fit; run `ek-validate run --profile full --only device`"
        )

    def of_reads(params: Params) -> list[float]:
        return missed(predict, params, reads)

    def of_guessed(params: Params) -> list[float]:
        return missed(predict, follow.guessed(params), writes)

    def of_stream(params: Params) -> list[float]:
        return [*missed(predict, params, writes), *follow.missed(params)]

    def of_all(params: Params) -> float:
        return search.loss([*of_reads(params), *of_stream(params)])

    base = {**FIXED, "capacity_mb": capacity_mb}
    depths = [min(p.depth, 32) for p in used]
    guess = {**READ, "link_read_mbps": 1.1 * max(p.mbps for p in reads)}
    tried = sorted(
        _structures(depths), key=lambda s: search.loss(of_reads({**base, **s, **search.whole(guess)}))
    )
    best = min((_fit({**base, **s}, guess, of_reads) for s in tried[:SEARCHED]), key=lambda found: found[1])[
        0
    ]
    params: Params = {**best, **vary(best)}
    candidates: list[Params] = []
    for buffer_kb in (0, 1024):
        own: Params = {**params, "buffer_kb": buffer_kb}
        starts = sorted(
            _guesses(own, writes, follow.pauses),
            key=lambda guess: search.loss(of_guessed({**own, **search.whole(guess)})),
        )
        found, _ = min((_fit(own, start, of_guessed) for start in starts[:2]), key=lambda found: found[1])
        candidates += _divided(found) if follow.measured else [found]
    completed = [follow.complete(params) for params in candidates]
    follow = follow.with_chance(min(completed, key=of_all))

    def polished(params: Params) -> Params:
        return follow.polished(params, (*WRITE, RESERVE) if RESERVE in params else WRITE, of_stream)

    params = min(map(polished, sorted(completed, key=of_all)[:POLISHED]), key=of_all)
    errors = {p.name: predict(params, p) / p.mbps - 1 for p in left}
    reserve = int(params.get(RESERVE, 0))
    params = {name: value for name, value in params.items() if name != RESERVE}
    return Fitted(params, errors, len(used), source, follow.errors(params), reserve)


def _guesses(base: Params, writes: Sequence[Point], pauses: bool) -> Iterator[dict[str, float]]:
    """First guesses of searches: the rate of writes is that of the link, or that of the dies behind it.

    PAUSES: whether the device collects garbage, and perhaps also in the limits of sequential writes.
    """
    most = max(p.mbps for p in writes)
    pages = int(base["channels"]) * int(base["dies"]) * 32 * 1024
    least = min(p.size / p.mbps for p in writes)
    reserves = (WRITTEN[False] / 4e6, WRITTEN[False] / 0.5e6) if pauses else (0,)
    for faster, reserve in itertools.product(FASTER, reserves):
        yield {
            "link_write_mbps": faster * most, "cmd_write_us": 0.8 * least, "t_prog_us": max(pages / most, 50.0),
            **({RESERVE: reserve} if reserve else {}),
        }  # fmt: skip


def _divided(params: Params) -> Iterator[Params]:
    """PARAMS with other numbers of dies, which together program as fast."""
    for dies in DIES:
        t_prog = round(int(params["t_prog_us"]) * dies / int(params["dies"]))
        if 1 <= t_prog <= MOST:
            yield {**params, "dies": dies, "t_prog_us": t_prog}


def fit_report(found: Report, folder: Path) -> Fitted:
    """Fit the model in FOLDER to a report. Raises ValidateError."""
    timing = flashsim(folder)
    span = max(int(found.target.get("span", 1 << 30)), 64 << 20)
    capacity_mb = max(int(found.target.get("bytes") or 0) >> 20, 2 * (span >> 20))
    with tempfile.TemporaryDirectory() as out:
        try:
            model = timing.compiled(Path(out), "-O2")
        except OSError as error:
            raise ValidateError(
                f"cannot compile the flash model: {error}; run this command in the build root"
            ) from error
        follow = Follow(
            stream.read(found),
            stream.predictor(timing, model, span, pairs),
            functools.partial(stream.cache, found),
        )
        return fit(
            points(found),
            remembered(predictor(timing, model, span)),
            f"{found.id}, {found.target.get('model', '')}",
            capacity_mb,
            follow,
            variation(found, timing, model, span),
        )


def variation(found: Report, timing: Any, model: Any, span: int) -> Callable[[Params], Params]:
    """A function that finds how much times vary: the jitter from p90 and p99 of reads, and the tail from p999.

    p90 alone would not do: where half of the reads miss the map, p50 lies between the times of both halves.
    """
    rows = {row.id: row.value for row in found.rows}
    p50, p90, p99, p999 = (rows.get(f"{VARIED}.{name}", 0.0) for name in ("p50", "p90", "p99", "p999"))

    def vary(params: Params) -> Params:
        def off(wanted: Mapping[float, float], more: Params) -> float:
            ios = timing.scattered(timing.READ, VARIED_READS, 4096, span)
            done = model.run("", pairs({**params, **more}), ios, qd=1, think=THINK_NS).io
            points = stream.curve(io.done - io.arrive for io in done)
            middle = stream.of_curve(points, 50) / p50
            return sum(abs(math.log(stream.of_curve(points, q) / middle / us)) for q, us in wanted.items())

        if not (p50 and p90 and p99 and p999):
            return {}
        jitters: list[Params] = [{"jitter_pct": pct} for pct in JITTER]
        jitter = min(jitters, key=lambda more: off({90: p90, 99: p99}, more))
        tails: list[Params] = [
            jitter,
            *({**jitter, "jitter_tail_in": TAIL_IN, "jitter_tail_x": x} for x in TAIL),
        ]
        return min(tails, key=lambda more: off({99.9: p999}, more))

    return vary


def remembered(predict: Predict) -> Predict:
    """PREDICT with a memory: the search often tries the same whole numbers again."""
    kept = functools.cache(lambda params, point: predict(dict(params), point))
    return lambda params, point: kept(tuple(params.items()), point)


def check_name(name: str) -> None:
    """Raises ValidateError if NAME cannot name a preset."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,30}", name):
        raise ValidateError(f"{name!r:.60} cannot name a preset; use a-z, 0-9 and -, at most 31 characters")


def preset(fitted: Fitted, name: str) -> str:
    """The preset as TOML. The lab takes `set` as the parameters of a device: load flashsim preset= set=…"""
    check_name(name)
    about = f"fitted to the validation {fitted.source}".replace("\\", "").replace('"', "'")
    return (
        f'# Made by `ek-validate model`. Median error of left-out limits: {number(100 * fitted.median)} %\n'
        f'[{name}]\nabout = "{about}"\nset = "{pairs(fitted.params)}"'
    )  # fmt: skip
