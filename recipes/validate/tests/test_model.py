# SPDX-License-Identifier: Apache-2.0
"""The fit of the flash model. The measurements come from the model itself, with presets that the fit does not know."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from evenkeel_report.row import Row
from evenkeel_validate import measure, model, search, stream
from evenkeel_validate.errors import ValidateError
from evenkeel_validate.model import Fitted, Point
from evenkeel_validate.report import Report
from evenkeel_validate.stream import Follow, Stream
from sample import DEEP, sample

FLASHSIM = Path(__file__).resolve().parents[3] / "tests/flashsim"
# A fit takes as long as there are limits.
SIZES = (4, 16, 64, 256, 1024) if DEEP else (4, 16, 64, 1024)
DEPTHS = (1, 4, 32)
SPAN = 1 << 30
# less than a limit of sequential writes, and more than one of random writes
RESERVE_MB = 40


@pytest.fixture(scope="module")
def timing(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """The module timing.py, and the compiled model."""
    module = model.flashsim(FLASHSIM)
    return module, module.compiled(tmp_path_factory.mktemp("model"), "-O2")


def all_points() -> list[Point]:
    return [
        Point(random, write, kb << 10, depth, 1.0)
        for write in (False, True)
        for random in (False, True)
        for kb in SIZES
        for depth in DEPTHS
    ]


def measured(timing: tuple[Any, Any], preset: str, more: str = "") -> list[Point]:
    """The limits of a preset, as a validation would measure them: with jitter, retries and the map of the preset.

    Before each limit of writes, the device has been idle, and has collected for RESERVE_MB. MORE: other parameters.
    """
    found = []
    reserve = ",".join(filter(None, [more, f"gc_after_kb={RESERVE_MB << 10}"]))
    for point in all_points():
        ios, outstanding = model.requests(point, SPAN, timing[0])
        think = model.THINK_NS if point.depth == 1 else 0
        run = timing[1].run(preset, reserve if point.write else more, ios, qd=outstanding, think=think)
        half = 0 if point.whole else len(ios) // 2
        took = run.end - max((io.done for io in run.io[:half]), default=0)
        mbps = sum(io.bytes for io in run.io[half:]) * 1000 / took
        found.append(Point(point.random, point.write, point.size, point.depth, mbps))
    return found


def as_report(points: Sequence[Point], **more: float) -> Report:
    def row(id_: str, value: float) -> Row:
        return Row(id_, value, "MB/s", "higher", None, None, "host", "6.12", "evenkeel")

    rows = [row(f"device.{p.name.replace(' ', '-', 1).replace(' ', '.')}.mbps", p.mbps) for p in points]
    rows += [row(f"device.sustained.{name.replace('_', '-')}", value) for name, value in more.items()]
    return Report(
        "20260101-000000",
        "1",
        "full",
        "2026-01-01T00:00:00Z",
        rows=rows,
        subject="evenkeel",
        target={"bytes": 1 << 36, "span": SPAN},
    )


def followed(found: Sequence[Point], predict: model.Predict, **more: Any) -> Fitted:
    """A fit without a stream of writes. `complete`: adds parameters."""
    complete = more.pop("complete", dict)
    follow = Follow(None, lambda params, stream, think=0: stream, complete)
    return model.fit(found, predict, "", 1024, follow, **more)


@dataclass(frozen=True)
class Worn:
    """A device in use: its preset with parameters of garbage collection. `mb`: length of the stream."""

    preset: str
    more: str = ""
    mb: int = 4096

    def __str__(self) -> str:
        return f"{self.preset}-{self.more}" if self.more else self.preset


# Pauses of 137 and of 314 ms on all dies; of 129 ms, as long as 6 MB of writes; and of 27 ms, which lower the rate by 6 %.
WORN = [
    Worn("emmc51"), Worn("emmc51", "gc_after_kb=524288,gc_valid_pct=60", 2048), Worn("emmc50-slow"), Worn("sd-uhs3"),
]  # fmt: skip
# Loads that no validation measures: size of a write, and how many are outstanding, each with what a reader gets meanwhile.
OTHERS = ((128 << 10, 1), (512 << 10, 4))


def latencies(
    timing: tuple[Any, Any], preset: str, more: str, *, size: int, depth: int, mb: int, think: int = 20_000
) -> tuple[list[Any], list[Any]]:
    """The writes of a stream of MB, and the reads alongside it."""
    half = SPAN // 2
    writes = [timing[0].Io(timing[0].WRITE, i * size % half, size) for i in range((mb << 20) // size)]
    reads = stream.planned(timing[0], 600, half, half)
    timing[1].run(preset, more, writes, qd=depth, think=think, planned=reads)
    return writes, [io for io in reads if io.done]


def curve(ios: Sequence[Any]) -> list[tuple[float, float]]:
    """The curve of their latencies, as a report has it."""
    return stream.curve(io.done - io.arrive for io in ios)


def as_measured(timing: tuple[Any, Any], device: Worn) -> Report:
    """The report of a validation of DEVICE."""
    writes, reads = latencies(
        timing, device.preset, device.more, size=stream.WRITER.size, depth=stream.WRITER.depth, mb=device.mb
    )
    ends = [io.done / 1e9 for io in writes]
    series = [
        (s + 1.0, sum(s <= end < s + 1 for end in ends) * stream.WRITER.size / 1e6)
        for s in range(int(max(ends)))
    ]
    settled = series[measure.fall(series)][0] + measure.FALL_S
    found = as_report(measured(timing, device.preset, device.more))
    found.series["device.sustained"] = series
    later = [io for io in reads if io.arrive >= settled * 1e9]
    found.curves["device.sustained"] = {"evenkeel": curve(writes)}
    found.curves["device.sustained.read"] = {"evenkeel": curve(later)}
    alone = timing[0].scattered(timing[0].READ, 20_000, 4096, SPAN, seed=5)
    timing[1].run(device.preset, "", alone, qd=1, think=20_000)
    found.rows.extend(
        Row(
            f"{model.VARIED}.{name}",
            stream.of_curve(curve(alone), percent),
            "us",
            "lower",
            None,
            None,
            "host",
            "6.12",
            "",
        )
        for name, percent in {"p50": 50, "p90": 90, "p99": 99, "p999": 99.9}.items()
    )
    return found


@pytest.mark.parametrize("device", sample("twin", WORN), ids=str)
def test_the_twin_of_a_device_predicts_what_was_left_out(timing: tuple[Any, Any], device: Worn) -> None:
    """Limits, the figures of a stream past the fast cache, and what readers get alongside other streams."""
    pytest.importorskip("scipy", reason="the fit needs scipy")
    found = as_measured(timing, device)
    fitted = model.fit_report(found, FLASHSIM)
    assert fitted.median <= 0.10, fitted
    assert fitted.used + len(fitted.errors) == len(model.points(found))
    # the parameters are a device that the model accepts
    text = tomllib.loads(model.preset(fitted, "measured"))["measured"]["set"]
    assert timing[1].error("", text) == ""
    # the errors are those of the model with these parameters
    predict = model.predictor(*timing, SPAN)
    _, left = model.divide(model.points(found))
    params = {**fitted.params, model.RESERVE: fitted.reserve_mb}
    errors = sorted(abs(predict(params, p) / p.mbps - 1) for p in left)
    assert errors == pytest.approx(sorted(map(abs, fitted.errors.values())))
    assert int(fitted.params["gc_after_kb"]) > 0
    assert len(fitted.reader) == len(stream.LEFT_OUT)
    assert search.median(fitted.reader) <= 0.10, fitted.stream
    # both devices have used up their reserve before
    reads = []
    for size, depth in OTHERS:
        load = {"size": size, "depth": depth, "mb": 1536}
        worn = ",".join(filter(None, [device.more, "gc_after_kb=1"]))
        truth = curve(latencies(timing, device.preset, worn, **load)[1])
        twin = curve(latencies(timing, "", text + ",gc_after_kb=1", **load)[1])
        reads += [stream.of_curve(twin, p) / stream.of_curve(truth, p) - 1 for p in stream.READS.values()]
    assert search.median(reads) <= 0.10, reads


def as_stream(first: float, last: float, slowest: float) -> Stream:
    """Some writes take SLOWEST µs, and the others 4000."""
    writes = {name: 4_000.0 if percent < 99 else slowest for name, percent in stream.WRITES.items()}
    return Stream(2000, 4000, {"first": first, "last": last, **writes, **dict.fromkeys(stream.READS, 500.0)})


def test_a_stream_without_pauses_shows_no_garbage_collection() -> None:
    """Its fast cache is full: the rate falls, but no write waits much longer than the others."""
    for measured in (as_stream(120.0, 40.0, 13_000.0), as_stream(120.0, 119.0, 900_000.0), None):
        follow = Follow(measured, lambda params, stream, think=0: stream, lambda params: {"slc_kb": 7})
        assert follow.complete({"a": 1}) == {"a": 1, "slc_kb": 7}


def test_what_chance_changes_counts_less() -> None:
    """How the writes share a pause depends on the host; a fit to them alone found pauses that were a third too long."""
    measured = as_stream(120.0, 90.0, 100_000.0)

    def predict(params: model.Params, _: Stream, think: int = stream.THINK_NS) -> Stream:
        figures = dict(measured.figures)
        figures["write-p99.9"] *= 1 + think / 20_000 + int(params.get("seed", 0)) / 10
        figures["read-p99"] *= 1.5 if params.get("wrong") else 1.0
        return Stream(measured.before, measured.whole, figures)

    follow = Follow(measured, predict, lambda params: {})
    weighed = follow.with_chance({})
    assert weighed.chance["write-p99.9"] > 0.3
    assert weighed.chance["read-p99"] == 0
    assert 0 < search.loss(weighed.missed({})) < search.loss(follow.missed({})) / 3
    # what does not change counts more
    wrong, right = (search.loss(weighed.missed(params)) for params in ({"wrong": 1}, {}))
    alone = [search.loss(follow.missed(params)) for params in ({"wrong": 1}, {})]
    assert wrong - right > alone[0] - alone[1] > 0


def test_without_a_stream_nothing_is_known_of_chance() -> None:
    follow = Follow(None, lambda params, stream, think=0: stream, lambda params: {})
    assert follow.with_chance({}) is follow


def test_the_rates_of_a_stream() -> None:
    series = [(float(s + 1), 100.0 if s < 6 else 80.0 if s == 6 else 60.0 + s % 2) for s in range(20)]
    first, last, before, whole = stream.rates(series)
    assert (first, before) == (100.0, pytest.approx(640, abs=45))
    assert last == pytest.approx(60.5, abs=0.1)
    assert whole == sum(rate for _, rate in series)
    assert stream.read(as_report([])) is None


def test_times_that_do_not_vary_have_no_jitter(timing: tuple[Any, Any]) -> None:
    params = {"kind": "flash", "cmd_us": 90, "t_r_us": 60}
    even = as_report([])
    rows = dict.fromkeys(("p50", "p90", "p99", "p999"), 150.0)
    even.rows.extend(
        Row(f"{model.VARIED}.{name}", value, "us", "lower", None, None, "host", "6.12", "evenkeel")
        for name, value in rows.items()
    )
    assert model.variation(even, *timing, SPAN)(params) == {"jitter_pct": 0}
    assert model.variation(as_report([]), *timing, SPAN)(params) == {}


def test_jitter_is_found_where_half_of_the_reads_miss_the_map(timing: tuple[Any, Any]) -> None:
    """The figures that a validation measured on emmc51, whose jitter is 15 %."""
    params = {**model.FIXED, "capacity_mb": 65536, "channels": 2, "dies": 4, "active": 32, "depth": 32}
    params |= {"link_read_mbps": 252, "cmd_us": 90, "t_r_us": 68, "map_miss_us": 31}
    report = as_report([])
    report.rows.extend(
        Row(f"{model.VARIED}.{name}", value, "us", "lower", None, None, "host", "6.12", "evenkeel")
        for name, value in {"p50": 224.3, "p90": 240.6, "p99": 252.9, "p999": 634.9}.items()
    )
    found = model.variation(report, *timing, SPAN)(params)
    assert found["jitter_pct"] in (10, 15, 20)
    assert found["jitter_tail_in"] == model.TAIL_IN


def test_the_errors_are_those_of_the_whole_preset() -> None:
    """The fast cache follows from the stream of writes, and changes what the model predicts for writes."""
    pytest.importorskip("scipy", reason="the fit needs scipy")

    def predict(params: model.Params, point: Point) -> float:
        return 2.0 if "slc_kb" in params and point.write else 1.0

    found = followed(all_points(), predict, complete=lambda params: {"slc_kb": 1024})
    assert found.params["slc_kb"] == 1024
    assert found.errors == {p.name: float(p.write) for p in model.divide(all_points())[1]}


def test_no_parameter_exceeds_what_the_model_accepts(timing: tuple[Any, Any]) -> None:
    """A device whose bus is never the bottleneck: the fit would raise the rate of the bus without end."""
    pytest.importorskip("scipy", reason="the fit needs scipy")

    def predict(params: model.Params, _: Point) -> float:
        return float(params["link_write_mbps"])

    point = Point(False, True, 4096, 1, 1e9)
    found, _ = model._fit(
        {}, {"link_write_mbps": 1000.0}, lambda params: model.missed(predict, params, [point])
    )
    assert 10_000 < int(found["link_write_mbps"]) <= search.MOST
    assert timing[1].error("", f"link_write_mbps={found['link_write_mbps']}") == ""


def test_the_limits_of_a_report_are_read() -> None:
    points = [Point(True, False, 4096, 1, 5.5), Point(False, True, 4 << 20, 32, 100.0)]
    # the kernel merges sequential I/Os that wait
    merged = [Point(False, True, 4096, 32, 103.2), Point(False, False, 16 << 10, 4, 181.2)]
    assert model.points(as_report([*points, *merged])) == points
    assert points[1].name == "sequential write 4m qd32"
    assert model.points(as_report([Point(True, False, 4096, 1, 0.0)])) == []


def test_each_size_and_each_depth_is_left_out_somewhere() -> None:
    points = all_points()
    used, left = model.divide(points)
    assert sorted(map(repr, used + left)) == sorted(map(repr, points))
    assert len(left) == pytest.approx(len(points) / 3, abs=2)
    for write in (False, True):
        of_kind = [p for p in left if p.write == write]
        assert {p.depth for p in of_kind} == set(DEPTHS)
        assert {p.size for p in of_kind} == {kb << 10 for kb in SIZES}
    # in another order, the division is the same
    assert {repr(p) for p in model.divide(points[::-1])[1]} == {repr(p) for p in left}


def test_a_report_with_few_limits_is_refused() -> None:
    with pytest.raises(
        ValidateError, match="the report has 1 limits, too few for a fit; run `ek-validate run"
    ):
        followed([Point(True, False, 4096, 1, 5.5)], lambda params, point: 1.0)


def test_a_folder_without_the_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidateError, match=r"timing\.py is missing; run this command in a clone"):
        model.flashsim(tmp_path)


def test_the_fast_cache_follows_from_the_stream_of_writes() -> None:
    params = {"t_prog_us": 300}
    found = stream.cache(as_report([], first_mbps=120.0, last_mbps=40.0, fast_cache=2.048), params)
    assert found == {"slc_kb": 2_000_000, "t_prog_slc_us": 300, "t_prog_us": 900}
    assert stream.cache(as_report([], first_mbps=120.0, last_mbps=120.0), params) == {}


def test_large_writes_are_predicted_as_a_whole(timing: tuple[Any, Any]) -> None:
    """The device collects garbage during them. Small writes are too slow for that."""
    for point in (Point(True, True, 4 << 20, 32, 1.0), Point(False, True, 64 << 10, 1, 1.0)):
        assert sum(io.bytes for io in model.requests(point, SPAN, timing[0])[0]) == point.written
    assert (
        sum(io.bytes for io in model.requests(Point(False, True, 4 << 10, 1, 1.0), SPAN, timing[0])[0])
        < 4 << 20
    )
    predict = model.predictor(*timing, SPAN)
    point = Point(False, True, 1 << 20, 4, 1.0)
    params = {"kind": "flash", "buffer_kb": 1024, "gc_valid_pct": 50, "gc_after_kb": 1 << 20}
    clean, collected = (predict({**params, model.RESERVE: mb}, point) for mb in (1000, 1))
    assert collected < 0.8 * clean


def test_a_request_is_not_larger_than_the_kernel_allows(timing: tuple[Any, Any]) -> None:
    ios, outstanding = model.requests(Point(True, True, 4 << 20, 4, 1.0), SPAN, timing[0])
    assert {io.bytes for io in ios} == {512 << 10}
    assert outstanding == 32
    assert [io.pos for io in ios[:8]] == [ios[0].pos + i * (512 << 10) for i in range(8)]


def test_the_errors_are_told() -> None:
    fitted = Fitted({"kind": "flash"}, {"a": 0.01, "b": -0.5, "c": 0.03, "d": 0.02}, 8, "x")
    assert fitted.median == pytest.approx(0.025)
    assert fitted.lines()[1] == "The largest error is -50.0 % (b)."
    assert fitted.as_json()["errors"] == {"a": 0.01, "b": -0.5, "c": 0.03, "d": 0.02}


@pytest.mark.parametrize("name", ["", "A b", 'x"', "x" * 32])
def test_a_preset_needs_a_name(name: str) -> None:
    with pytest.raises(ValidateError, match="cannot name a preset"):
        model.preset(Fitted({}, {"a": 0.1}, 1, "x"), name)
