# SPDX-License-Identifier: Apache-2.0
"""The file of targets: bounds and expressions, what an entry applies to, and errors that name the entry."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import bench, experiments, targets
from lab.experiments import calibrate
from lab.model import Experiment, Figure, LabError, Output, Row
from lab.runner import Job, Result

KNOWN = {"a": 2.0, "b-c.d": 0.5, "gone": None, "paper": 100.0}


def entry(**fields: object) -> str:
    values = {
        "experiment": "x.*",
        "figure": "ratio",
        "bound": "<= 1",
        "kind": "promise",
        "why": "because",
        **fields,
    }
    lines = [
        f"{k} = {str(v).lower() if isinstance(v, bool) else repr(v)}"
        for k, v in values.items()
        if v is not None
    ]
    return "\n".join(["[[target]]", *lines, ""])


def row(figure: str, value: float, **more: object) -> Row:
    fields = {"better": None, "target": None, "paper": None, **more}
    return Row(f"x.y.{figure}", value, "", clock="virtual", kernel="6.12", subject="evenkeel", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1), ("-2.5", -2.5), ("2 * ([a] + [b-c.d])", 5), ("max(1, [a], 3 / 2)", 2), ("min([a], 1)", 1),
        ("[paper] / [a] - 1", 49),
    ],
)  # fmt: skip
def test_expressions(text: str, value: float) -> None:
    assert targets.calculate(text, KNOWN) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "[gone] * 1",
        "[absent]",
        "1 +",
        "len('x')",
        "__import__('os')",
        "2 ** 3",
        "max()",
        "True",
        "'1'",
        "1 if 1 else 2",
    ],
)
def test_anything_else_is_no_expression(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no expression|was not measured"):
        targets.calculate(text, KNOWN)


@pytest.mark.parametrize(
    ("bound", "better", "target"),
    [
        ("<= 1", "lower", 1), (">= 0.95", "higher", 0.95), ("1.96 .. 2.04", None, (1.96, 2.04)),
        ("0.9 * [paper] .. 1.1 * [paper]", None, (90, 110)), ("<= 2 * [other]", "lower", 6),
    ],
)  # fmt: skip
def test_a_row_gets_its_bound(bound: str, better: str | None, target: object) -> None:
    found = targets.read(entry(bound=bound)).give([row("ratio", 1, paper=100), row("other", 3)], "x.y")
    assert [(r.better, r.target, r.must) for r in found] == [(better, target, True), (None, None, False)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (entry(why=None), "needs experiment, figure, bound, kind and why"),
        (entry(unless="x"), "needs experiment, figure, bound, kind and why"),
        (entry(why=" "), "why is empty"),
        (entry(kind="hope"), "kind is 'hope', not promise or aim"),
        (entry(figure=[]), "figure must be a pattern or a list of patterns"),
        (entry(experiment="y.*"), r"there is no experiment y\.\*"),
        ("[other]\n", "unknown key other"),
        ("[[target", "targets: "),
    ],
)
def test_a_faulty_file_is_named(text: str, message: str) -> None:
    with pytest.raises(LabError, match=message):
        targets.read(text, ["x.y"])


@pytest.mark.parametrize(
    ("text", "rows", "message"),
    [
        (entry() * 2, [row("ratio", 1)], r"x\.y\.ratio has 2 targets"),
        (entry(), [row("ratio", 1, target=2, better="lower")], "declares a target in its experiment"),
        (entry(), [row("ratio", 1, better="higher")], "the target is <= 1, but higher is better"),
        (entry(bound="<= [gone]"), [row("ratio", 1)], r"needs \[gone\], which was not measured"),
        (entry(bound="about 1"), [row("ratio", 1)], "is not <= X"),
    ],
)
def test_a_target_that_cannot_be_given_is_an_error(text: str, rows: list[Row], message: str) -> None:
    with pytest.raises(LabError, match=message):
        targets.read(text).give(rows, "x.y")


def test_an_exception_has_an_entry_of_its_own() -> None:
    text = entry(**{"except": "x.z.ratio"}) + entry(experiment="x.z", bound="<= 2")
    found = targets.read(text, ["x.y", "x.z"])
    assert [e and e.bound for e in (found.entry("x.y", "ratio"), found.entry("x.z", "ratio"))] == [
        "<= 1",
        "<= 2",
    ]


@pytest.mark.parametrize(
    ("figure", "written", "baselines", "missing"),
    [
        ("ratio", ["ratio"], [], []),
        ("ratio", ["total"], [], ["x.y.ratio"]),
        (["a", "b"], ["a"], [], ["x.y.b"]),
        (["*.a", "*.b"], ["1.a"], [], []),
        (["*.a", "*.b"], ["c"], [], ["x.y.*.a or *.b"]),
        ("total-of-none", [], ["bfq"], []),
        ("total-of-none", [], ["none"], ["x.y.total-of-none"]),
        ("sum-of-best", [], [], []),
        ("sum-of-best", [], ["bfq"], ["x.y.sum-of-best"]),
    ],
)
def test_a_target_without_a_row_is_found(
    figure: object, written: list[str], baselines: list[str], missing: list[str]
) -> None:
    assert targets.read(entry(figure=figure)).unmatched("x.y", written, baselines) == missing


def test_the_bench_names_a_target_without_a_row() -> None:
    e = Experiment("x.y", "", ":", lambda _: [Figure("ratio", 1.0)], baselines=())
    results = [Result(Job(e, "6.12", "evenkeel"), Output({}), 1.0, False)]
    wanted = targets.read(entry(figure=["ratio", "total"]))
    assert bench.absent(results, bench.merge(results, None, wanted), wanted) == ["x.y.total"]


def test_the_file_is_sound() -> None:
    """load() raises for an experiment that does not exist. The reasons are sentences."""
    found = targets.load()
    assert all(e.why.endswith(".") for e in found.entries)
    # bounds without figures can be checked here
    for e in found.entries:
        if "[" not in e.bound:
            e.target({})


def test_only_listed_experiments_declare_targets() -> None:
    """Only channel, recorder and regulate still declare targets in code: see lab.targets.MOVING."""
    folder = Path(experiments.__file__).parent
    declaring = {
        f.stem for f in folder.glob("*.py") if "target=" in f.read_text() or "must=" in f.read_text()
    }
    assert declaring <= {"channel", "recorder", "regulate"}


def test_figures_that_a_device_does_not_meet_are_aims() -> None:
    """figures.toml says why a figure is open, targets.toml that it is not promised."""
    found = targets.load()
    for preset, figures in calibrate.CITED.items():
        for metric, want in figures.items():
            target = found.entry(f"calibrate.{preset}", metric)
            assert target is not None, (preset, metric)
            assert target.promise == ("open" not in want), (preset, metric)
            sign = "<=" if "most" in want else ">=" if "least" in want else "0.9"
            assert target.bound.startswith(sign), (preset, metric)


def test_all_of_the_issue_are_promises() -> None:
    """Regulation and the recorder under load were aims before."""
    found = targets.load()
    for experiment, figure in (
        ("regulate.served.emmc51.n4", "8k.accuracy"), ("regulate.served.hdd-5400.n4", "0.5k.gain"),
        ("regulate.corners", "deep-queue.8k.accuracy"), ("rec.ek.bgall", "times-quiet"), ("rec.ek.read", "max"),
        ("promise.three.emmc51", "least"), ("promise.random.3", "least"), ("promise.sixty.pipe", "heavy"),
    ):  # fmt: skip
        target = found.entry(experiment, figure)
        assert target is not None, (experiment, figure)
        assert target.promise, (experiment, figure)


def test_the_file_is_toml_that_others_can_read() -> None:
    assert set(tomllib.loads(targets.FILE.read_text())) == {"target"}
