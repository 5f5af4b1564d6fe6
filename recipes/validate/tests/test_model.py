# SPDX-License-Identifier: Apache-2.0
"""The fit of the flash model. The measurements come from the model itself, with presets that the fit does not know."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from evenkeel_report.row import Row
from evenkeel_validate import model
from evenkeel_validate.errors import ValidateError
from evenkeel_validate.model import Fitted, Point
from evenkeel_validate.report import Report
from sample import DEEP, sample

FLASHSIM = Path(__file__).resolve().parents[3] / "tests/flashsim"
# A fit takes as long as there are limits.
SIZES = (4, 16, 64, 256, 1024) if DEEP else (4, 16, 64, 1024)
DEPTHS = (1, 4, 32)
SPAN = 1 << 30


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


def measured(timing: tuple[Any, Any], preset: str) -> list[Point]:
    """The limits of a preset, as a validation would measure them: with jitter, retries and the map of the preset."""
    found = []
    for point in all_points():
        ios, outstanding = model.requests(point, SPAN, timing[0])
        run = timing[1].run(preset, "", ios, qd=outstanding, think=model.THINK_NS if point.depth == 1 else 0)
        half = len(ios) // 2
        took = run.end - max(io.done for io in run.io[:half])
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
        target={"bytes": 1 << 36, "span": SPAN},
    )


@pytest.mark.parametrize("preset", sample("twin", ["emmc51", "emmc50-slow", "sd-uhs3"]))
def test_the_twin_of_a_preset_predicts_what_was_left_out(timing: tuple[Any, Any], preset: str) -> None:
    pytest.importorskip("scipy", reason="the fit needs scipy")
    points = measured(timing, preset)
    fitted = model.fit_report(as_report(points), FLASHSIM)
    assert fitted.median <= 0.10, fitted
    assert fitted.used + len(fitted.errors) == len(points)
    # the parameters are a device that the model accepts
    text = tomllib.loads(model.preset(fitted, "measured"))["measured"]["set"]
    assert timing[1].error("", text) == ""
    # the errors are those of the model with these parameters
    predict = model.predictor(*timing, SPAN)
    _, left = model.divide(points)
    errors = sorted(abs(predict(fitted.params, p) / p.mbps - 1) for p in left)
    assert errors == pytest.approx(sorted(map(abs, fitted.errors.values())))


def streamed(
    timing: tuple[Any, Any], preset: str, more: str, mb: int
) -> tuple[list[tuple[float, float]], dict[str, float]]:
    """The rate of each second and the percentiles of a stream of MB, as a validation measures them."""
    ios = [timing[0].Io(timing[0].WRITE, i << 19, 1 << 19) for i in range(2 * mb)]
    done = timing[1].run(preset, more, ios, qd=16).io
    writes = [done[i : i + 2] for i in range(0, len(done), 2)]
    took = sorted(max(io.done for io in w) - min(io.arrive for io in w) for w in writes)
    ends = [max(io.done for io in w) for w in writes]
    seconds = int(max(ends) / 1e9)
    series = [
        (float(s + 1), sum(s <= end / 1e9 < s + 1 for end in ends) * (1 << 20) / 1e6) for s in range(seconds)
    ]
    return series, {f"p{n}": took[len(took) * n // 100] / 1000 for n in (50, 90, 99)}


# the valid part of a block, and so pauses of 0.1 and of 0.3 s
@pytest.mark.parametrize("valid", sample("garbage", [25, 60]))
def test_garbage_collection_follows_from_the_stream_of_writes(timing: tuple[Any, Any], valid: int) -> None:
    """What the stream shows besides the fit is predicted, from measurements alone. So is a longer stream."""
    pytest.importorskip("scipy", reason="the fit needs scipy")
    preset, reserve, mb = "emmc51", 512, 2048
    truth = f"gc_after_kb={reserve << 10},gc_valid_pct={valid}"
    series, percentiles = streamed(timing, preset, truth, mb)
    found = as_report(measured(timing, preset), **percentiles)
    found.series["device.sustained"] = series
    fitted = model.fit_report(found, FLASHSIM)
    assert fitted.median <= 0.10, fitted
    assert set(fitted.stream) == set(model.STREAM_FIGURES)
    assert model.median(fitted.left_of_stream) <= 0.10, fitted.stream
    assert "slc_kb" not in fitted.params
    text = tomllib.loads(model.preset(fitted, "measured"))["measured"]["set"]
    assert timing[1].error("", text) == ""
    # twice as long, in a device whose reserve was used before
    ours = streamed(
        timing, "", text.replace(f"gc_after_kb={fitted.params['gc_after_kb']}", "gc_after_kb=1"), 2 * mb
    )[0]
    theirs = streamed(timing, preset, f"gc_after_kb=1,gc_valid_pct={valid}", 2 * mb)[0]
    assert len(ours) == pytest.approx(len(theirs), rel=0.1)


def test_a_stream_without_pauses_shows_no_garbage_collection() -> None:
    """Its fast cache is full: the rate falls, but no write waits much longer than the others."""

    def predict(params: model.Params, stream: model.Stream) -> model.Stream:
        raise AssertionError("there is nothing to fit")

    for first, last, p99 in ((120.0, 40.0, 260_000.0), (120.0, 119.0, 900_000.0)):
        found = model.Stream(first, last, 2000, 4000, 70_000.0, 200_000.0, p99)
        assert model.collection(found, {}, predict) == {}
    assert model.collection(None, {}, predict) == {}


def test_the_fall_of_a_stream() -> None:
    series = [(float(s + 1), 100.0 if s < 6 else 80.0 if s == 6 else 60.0 + s % 2) for s in range(20)]
    first, last, before, whole = model.turn(series)
    assert (first, before) == (100.0, pytest.approx(640, abs=45))
    assert last == pytest.approx(60.5, abs=0.1)
    assert whole == sum(rate for _, rate in series)
    assert model.stream(as_report([])) is None


def test_the_errors_are_those_of_the_whole_preset() -> None:
    """The fast cache follows from the stream of writes, and changes what the model predicts for writes."""
    pytest.importorskip("scipy", reason="the fit needs scipy")

    def predict(params: model.Params, point: Point) -> float:
        return 2.0 if "slc_kb" in params and point.write else 1.0

    found = model.fit(all_points(), predict, "", 1024, lambda params: {**params, "slc_kb": 1024})
    assert found.params["slc_kb"] == 1024
    assert found.errors == {p.name: float(p.write) for p in model.divide(all_points())[1]}


def test_no_parameter_exceeds_what_the_model_accepts(timing: tuple[Any, Any]) -> None:
    """A device whose bus is never the bottleneck: the fit would raise the rate of the bus without end."""
    pytest.importorskip("scipy", reason="the fit needs scipy")

    def predict(params: model.Params, _: Point) -> float:
        return float(params["link_write_mbps"])

    found, _ = model._fit(predict, {}, {"link_write_mbps": 1000.0}, [Point(False, True, 4096, 1, 1e9)])
    assert 10_000 < int(found["link_write_mbps"]) <= model.MOST
    assert timing[1].error("", f"link_write_mbps={found['link_write_mbps']}") == ""


def test_the_limits_of_a_report_are_read() -> None:
    points = [Point(True, False, 4096, 1, 5.5), Point(False, True, 4 << 20, 32, 100.0)]
    assert model.points(as_report(points)) == points
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
        model.fit([Point(True, False, 4096, 1, 5.5)], lambda params, point: 1.0, "", 1024)


def test_a_folder_without_the_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidateError, match=r"timing\.py is missing; run this command in a clone"):
        model.flashsim(tmp_path)


def test_the_fast_cache_follows_from_the_stream_of_writes() -> None:
    params = {"t_prog_us": 300}
    found = model.cache(as_report([], first_mbps=120.0, last_mbps=40.0, fast_cache=2.048), params)
    assert found == {"slc_kb": 2_000_000, "t_prog_slc_us": 300, "t_prog_us": 900}
    assert model.cache(as_report([], first_mbps=120.0, last_mbps=120.0), params) == {}


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
