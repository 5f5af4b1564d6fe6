# SPDX-License-Identifier: Apache-2.0
"""Fits the parameters of the flash model (tests/flashsim) to a report, and says how well they predict the rest of it.

It runs in a clone of the project, because it compiles the model, and needs scipy. Every third limit of the report is
left out of the fit. The fit is judged by these limits alone: the median of |predicted ÷ measured - 1|.

Reads and writes are fitted one after the other. For each number of dies that work at once, scipy fits the times and
rates (Nelder-Mead on their logarithms, since all are positive and differ by orders of magnitude). The best structure
wins. Parameters that no measurement shows keep their defaults.

The stream of writes shows what follows after some gigabytes. If its rate falls, and a percent of its writes wait much longer
than the others, the device collects garbage: it then pauses as a whole (collection()). If no write waits longer, its fast cache
is full (cache()).
"""

import functools
import importlib.util
import math
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evenkeel_report.names import number

from .errors import ValidateError
from .report import Report

LIMIT = re.compile(r"device\.(sequential|random)-(read|write)\.(\d+)([km])\.qd(\d+)\.mbps")
# every so many limits, one is left out of the fit
LEFT_OUT = 3
# The fit needs at least so many limits of reads, and of writes.
FEWEST = 4
# time from a completion to the next request of a host with one request at a time, as in tests/flashsim/timing.py
THINK_NS = 10_000
MAX_KB = 512
# Requests of a prediction of reads and of writes. Those of the first half do not count, because the buffer takes them.
READS, WRITES = 160, 500
# (channels, dies of a channel)
STRUCTURES = ((1, 1), (1, 2), (2, 2), (2, 4), (4, 4), (8, 2))
# evaluations of the model in one search, and the number of structures that are searched
STEPS = 60
SEARCHED = 3
# The stream of writes: its case, the size of its writes, and how many are outstanding (cases.full())
STREAM, STREAM_BYTES, STREAM_DEPTH = "device.sustained", 1 << 20, 8
# Garbage collection lowers the rate at least to this part. Chance changes the mean of many seconds by less.
LOWER = 0.95
# Writes wait for garbage collection if p99 ÷ p50 is this many times what the fall of the rate explains.
PAUSED = 1.5
# Figures of the stream from which garbage collection is fitted. The others are predicted.
OF_FIT = ("last", "p99")
STREAM_FIGURES = ("first", "last", "p50", "p90", "p99")
# time to erase a block, as in most presets; and the most pages of a block in the model
ERASE_US, MOST_PAGES = 5000, 8192
FIXED: Mapping[str, int | str] = {
    "kind": "flash", "planes": 2, "page_kb": 16, "channel_mbps": 400, "chunk_kb": 32, "map_cache": 1, "map_region_mb": 4,
    "max_kb": MAX_KB,
}  # fmt: skip
# The flash model accepts no higher rate, and no device has a longer time in µs.
MOST = 20_000
# names of the parameters that are fitted, with the first guess
READ = {"link_read_mbps": 200.0, "cmd_us": 60.0, "t_r_us": 60.0, "map_miss_us": 30.0}
WRITE = {"link_write_mbps": 150.0, "cmd_write_us": 60.0, "t_prog_us": 1000.0}
Params = Mapping[str, int | str]


@dataclass(frozen=True)
class Point:
    """A measured limit. `size` in bytes, `mbps` in 10^6 bytes per second."""

    random: bool
    write: bool
    size: int
    depth: int
    mbps: float

    @property
    def name(self) -> str:
        size = f"{self.size >> 20}m" if self.size >> 20 else f"{self.size >> 10}k"
        return f"{'random' if self.random else 'sequential'} {'write' if self.write else 'read'} {size} qd{self.depth}"


Predict = Callable[[Params, Point], float]


@dataclass(frozen=True)
class Stream:
    """The stream of writes: MB/s before and after its rate fell, MB written before, MB in all, percentiles of writes in µs."""

    first: float
    last: float
    before: float
    whole: float
    p50: float
    p90: float
    p99: float


PredictStream = Callable[[Params, Stream], Stream]


@dataclass(frozen=True)
class Fitted:
    """Parameters of the model. `errors`: predicted ÷ measured - 1 of each limit that was left out, by name.

    `stream`: the same of the stream of writes, if garbage collection was fitted to it; also of the figures OF_FIT.
    """

    params: Params
    errors: Mapping[str, float]
    used: int
    source: str
    stream: Mapping[str, float] = field(default_factory=dict)

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
    def left_of_stream(self) -> list[float]:
        """Errors of the figures of the stream that were left out of the fit."""
        return [error for name, error in self.stream.items() if name not in OF_FIT]

    def lines(self) -> list[str]:
        worst = max(self.errors, key=lambda name: abs(self.errors[name]))
        return [
            f"The model was fitted to {self.used} limits. It predicts {len(self.errors)} others with a median error of"
            f" {100 * self.median:.1f} %.",
            f"The largest error is {100 * self.errors[worst]:+.1f} % ({worst}).",
            *(
                [
                    "Garbage collection was fitted to the stream of writes. It predicts the figures of the stream that were"
                    f" left out with a median error of {100 * median(self.left_of_stream):.1f} %."
                ]
                if self.stream
                else []
            ),
        ]


def median(values: Iterable[float]) -> float:
    """The median of the absolute values."""
    ordered = sorted(map(abs, values))
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def points(found: Report) -> list[Point]:
    """The measured limits of a report."""
    scale = {"k": 1 << 10, "m": 1 << 20}
    return [
        Point(m[1] == "random", m[2] == "write", int(m[3]) * scale[m[4]], int(m[5]), row.value)
        for row in found.rows
        if (m := LIMIT.fullmatch(row.id)) and row.value > 0
    ]


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
    return ",".join(f"{name}={value}" for name, value in params.items())


def requests(point: Point, span: int, timing: Any) -> tuple[list[Any], int]:
    """(requests, requests outstanding): the kernel splits an I/O into requests of at most MAX_KB."""
    request = min(point.size, MAX_KB << 10)
    each = -(-point.size // request)
    op = timing.WRITE if point.write else timing.READ
    count = max((WRITES if point.write else READS) // each, 2 * point.depth + 2)
    if point.random:
        starts = [io.pos for io in timing.scattered(op, count, point.size, span)]
    else:
        starts = [i * point.size for i in range(count)]
    made = [timing.Io(op, start + i * request, request) for start in starts for i in range(each)]
    return made, point.depth * each


def predictor(timing: Any, model: Any, span: int) -> Predict:
    """A function that runs a limit on the model, and returns MB/s."""

    def predict(params: Params, point: Point) -> float:
        ios, outstanding = requests(point, span, timing)
        run = model.run("", pairs(params), ios, qd=outstanding, think=THINK_NS if point.depth == 1 else 0)
        first, second = run.io[: len(ios) // 2], run.io[len(ios) // 2 :]
        return float(sum(io.bytes for io in second) * 1000 / max(run.end - max(io.done for io in first), 1))

    return predict


def _minimise(loss: Callable[[Sequence[float]], float], start: Sequence[float]) -> tuple[list[float], float]:
    try:
        from scipy.optimize import minimize
    except ImportError as error:
        raise ValidateError(
            "the fit needs scipy (package python3-scipy); the build root of the project has it"
        ) from error
    found = minimize(
        loss, start, method="Nelder-Mead", options={"maxfev": STEPS, "xatol": 0.01, "fatol": 1e-4}
    )
    return [float(x) for x in found.x], float(found.fun)


def loss(predict: Predict, params: Params, used: Sequence[Point]) -> float:
    """Mean square of the logarithms of predicted ÷ measured."""
    return sum(math.log(predict(params, p) / p.mbps) ** 2 for p in used) / len(used)


def _fit(
    predict: Predict, base: Params, guess: Mapping[str, float], used: Sequence[Point]
) -> tuple[dict[str, int | str], float]:
    """(parameters, loss): BASE with the best values of the parameters in GUESS."""

    def params(logs: Sequence[float]) -> dict[str, int | str]:
        return {
            **base,
            **{n: max(round(math.exp(min(x, math.log(MOST)))), 1) for n, x in zip(guess, logs, strict=True)},
        }

    best, value = _minimise(
        lambda logs: loss(predict, params(logs), used), [math.log(v) for v in guess.values()]
    )
    return params(best), value


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
    complete: Callable[[Params], Params] = lambda params: params,
) -> Fitted:
    """Fit the model to the limits MEASURED. Raises ValidateError if there are too few.

    COMPLETE adds parameters that do not follow from limits. The errors are those of the complete parameters.
    """
    used, left = divide(measured)
    reads, writes = [p for p in used if not p.write], [p for p in used if p.write]
    if min(len(reads), len(writes)) < FEWEST or not left:
        raise ValidateError(
            f"the report has {len(measured)} limits, too few for a fit; run `ek-validate run --profile full --only device`"
        )
    base: dict[str, int | str] = dict(FIXED)
    base["capacity_mb"] = capacity_mb
    depths = [min(p.depth, 32) for p in used]
    guess = {**READ, "link_read_mbps": 1.1 * max(p.mbps for p in reads)}
    tried = sorted(_structures(depths), key=lambda s: loss(predict, {**base, **s, **_rounded(guess)}, reads))
    best = min(
        (_fit(predict, {**base, **s}, guess, reads) for s in tried[:SEARCHED]), key=lambda found: found[1]
    )[0]
    most = max(p.mbps for p in writes)
    candidates = []
    for buffer_kb in (0, 1024):
        dies = int(best["channels"]) * int(best["dies"]) * 32 * 1024
        write = {**WRITE, "link_write_mbps": 1.2 * most, "t_prog_us": max(dies / most, 50.0)}
        candidates.append(_fit(predict, {**best, "buffer_kb": buffer_kb}, write, writes))
    params = complete(min(candidates, key=lambda found: found[1])[0])
    errors = {p.name: predict(params, p) / p.mbps - 1 for p in left}
    return Fitted(params, errors, len(used), source)


def _rounded(values: Mapping[str, float]) -> dict[str, int]:
    return {name: max(round(value), 1) for name, value in values.items()}


def cache(found: Report, params: Params) -> dict[str, int | str]:
    """Parameters of the fast cache, from the stream of writes; none if it showed no end of a cache."""
    rows = {row.id: row.value for row in found.rows}
    first, last = rows.get("device.sustained.first-mbps"), rows.get("device.sustained.last-mbps")
    gb = rows.get("device.sustained.fast-cache")
    if not (first and last and gb):
        return {}
    # the limits of writes were measured in the fast cache, so their program time is that of the cache
    fast = int(params["t_prog_us"])
    return {"slc_kb": round(gb * 1e6 / 1.024), "t_prog_slc_us": fast, "t_prog_us": round(fast * first / last)}


def turn(series: Sequence[tuple[float, float]]) -> tuple[float, float, float, float]:
    """(MB/s before, MB/s after, MB before, MB in all) of the second in which the rate of a stream falls most clearly.

    It is the one that leaves the least sum of squares around the two means. SERIES has (end in s, MB/s) of each second.
    """
    starts = (0.0, *(at for at, _ in series))
    moved = [rate * (at - start) for start, (at, rate) in zip(starts, series, strict=False)]
    rates = [rate for _, rate in series]

    def squares(part: Sequence[float]) -> float:
        mean = sum(part) / len(part)
        return sum((rate - mean) ** 2 for rate in part)

    at = min(range(2, len(rates) - 1), key=lambda i: squares(rates[:i]) + squares(rates[i:]))
    # the second of the fall belongs to both
    first, last = rates[: max(at - 1, 1)], rates[at + 1 :]
    return sum(first) / len(first), sum(last) / len(last), sum(moved[:at]), sum(moved)


def stream(found: Report) -> Stream | None:
    """The stream of writes of a report; None if it is too short, or if its writes were not timed."""
    rows = {row.id: row.value for row in found.rows}
    series = found.series.get(STREAM, [])
    percentiles = [rows.get(f"{STREAM}.{name}", 0.0) for name in ("p50", "p90", "p99")]
    if len(series) < 8 or not all(percentiles):
        return None
    return Stream(*turn(series), *percentiles)


def stream_predictor(timing: Any, model: Any) -> PredictStream:
    """A function that runs a stream as long as a measured one on the model."""
    each = STREAM_BYTES // (MAX_KB << 10)

    def predict(params: Params, measured: Stream) -> Stream:
        count = round(measured.whole * 1e6) // STREAM_BYTES
        ios = [timing.Io(timing.WRITE, i * (MAX_KB << 10), MAX_KB << 10) for i in range(count * each)]
        done = model.run("", pairs(params), ios, qd=STREAM_DEPTH * each).io
        writes = [done[i : i + each] for i in range(0, len(done), each)]
        took = sorted(max(io.done for io in w) - min(io.arrive for io in w) for w in writes)
        ends = [max(io.done for io in w) / 1e9 for w in writes]
        before = min(max(round(measured.before * 1e6) // STREAM_BYTES, 1), count - 1)
        # behind the fall, as turn() has it
        settled = min(before + (count - before) // 10, count - 2)
        share = STREAM_BYTES / 1e6
        return Stream(
            share * before / max(ends[:before]),
            share * (count - settled) / (max(ends) - max(ends[:settled])),
            measured.before,
            measured.whole,
            *(took[min(int(count * part), count - 1)] / 1000 for part in (0.5, 0.9, 0.99)),
        )

    return predict


def collection(measured: Stream | None, params: Params, predict: PredictStream) -> dict[str, int | str]:
    """Parameters of garbage collection, from the stream of writes; none if it did not show any.

    A device that collects garbage writes `gain` bytes, and then pauses. So the rate and the pause determine both: the pause is
    the time that a percent of the writes wait longer than the median, and the rate says how much is written between two
    pauses. A block of the model is as large as that needs. The search then improves both.
    """
    if measured is None or measured.last > LOWER * measured.first:
        return {}
    if measured.p99 / measured.p50 < PAUSED * measured.first / measured.last:
        return {}
    pause = measured.p99 - measured.p50
    part = measured.last / measured.first
    dies = int(params["channels"]) * int(params["dies"])
    page = dies * int(params["planes"]) * (int(params["page_kb"]) << 10)
    free = measured.first * pause * part / (1 - part) / page
    valid = max(pause - ERASE_US, 1.0) / (int(params["t_r_us"]) + int(params["t_prog_us"]))

    def complete(logs: Sequence[float]) -> dict[str, int | str]:
        pages = [max(math.exp(min(x, math.log(MOST_PAGES))), 0.01) for x in logs]
        block = min(max(round(sum(pages)), 2), MOST_PAGES)
        return {
            "block_pages": block,
            "gc_valid_pct": min(max(round(100 * pages[1] / sum(pages)), 0), 99),
            "gc_after_kb": max(round(measured.before * 1e6 / 1024), 1),
            "t_erase_us": ERASE_US,
        }

    def loss_of(logs: Sequence[float]) -> float:
        predicted = predict({**params, **complete(logs)}, measured)
        return sum(math.log(getattr(predicted, n) / getattr(measured, n)) ** 2 for n in OF_FIT)

    return complete(_minimise(loss_of, [math.log(free), math.log(valid)])[0])


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
        measured, predict_stream = stream(found), stream_predictor(timing, model)
        collected: dict[str, int | str] = {}

        def complete(params: Params) -> Params:
            collected.update(collection(measured, params, predict_stream))
            return {**params, **(collected or cache(found, params))}

        fitted = fit(
            points(found),
            remembered(predictor(timing, model, span)),
            f"{found.id}, {found.target.get('model', '')}",
            capacity_mb,
            complete,
        )
        if collected:
            assert measured is not None
            predicted = predict_stream(fitted.params, measured)
            errors = {n: getattr(predicted, n) / getattr(measured, n) - 1 for n in STREAM_FIGURES}
            fitted = replace(fitted, stream=errors)
        return fitted


def remembered(predict: Predict) -> Predict:
    """PREDICT with a memory: the search often tries the same whole numbers again."""
    kept = functools.cache(lambda params, point: predict(dict(params), point))
    return lambda params, point: kept(tuple(params.items()), point)


def preset(fitted: Fitted, name: str) -> str:
    """The preset as TOML. The lab takes `set` as the parameters of a device: load flashsim preset= set=…"""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,30}", name):
        raise ValidateError(f"{name!r} cannot name a preset; use a-z, 0-9 and -, at most 31 characters")
    about = f"fitted to the validation {fitted.source}".replace("\\", "").replace('"', "'")
    return (
        f'# Made by `ek-validate model`. Median error of left-out limits: {number(100 * fitted.median)} %\n'
        f'[{name}]\nabout = "{about}"\nset = "{pairs(fitted.params)}"'
    )  # fmt: skip
