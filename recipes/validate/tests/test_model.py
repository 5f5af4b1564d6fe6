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
