# SPDX-License-Identifier: Apache-2.0
"""Competing loads: the guest's script, and the figures that are read from its report."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import experiments
from lab.competing import Load, script
from lab.experiments import fair, tree
from lab.model import LabError, Output

NESTED = {"a": 200, "a/x": 100, "a/y": 300, "b": 100}
LOADS = [Load("x", "a/x", "true"), Load("y", "a/y", "true"), Load("b", "b", "true")]


def written(groups: Mapping[str, int], loads: list[Load]) -> list[str]:
    return script(loads, groups, settle=1, seconds=1, counted=False).splitlines()


def test_a_group_enables_io_control_before_its_children_are_created() -> None:
    lines = written(NESTED, LOADS)
    at = lines.index("group a 200")
    assert lines[at + 1].startswith("echo +io > /cg/a/cgroup.subtree_control || fail ")
    assert lines[at + 2 : at + 5] == ["group a/x 100", "group a/y 300", "group b 100"]
    assert "subtree_control" not in "".join(lines[at + 2 :])
    assert any(line.startswith("in_group a/y true > /tmp/y.log") for line in lines)
    assert any("/cg/*/io.evenkeel.stat /cg/*/*/io.evenkeel.stat" in line for line in lines)


def test_flat_groups_need_only_their_weights() -> None:
    lines = written({"a": 200, "b": 100}, [Load("b", "b", "true")])
    assert lines[3:5] == ["group a 200", "group b 100"]
    assert lines[-1] == "cat /cg/*/io.evenkeel.stat 2> /dev/null | report stat"


@pytest.mark.parametrize("groups", [NESTED, {"a": 1, "a/b": 2, "a/b/c": 3}, {}])
def test_the_script_has_valid_shell_syntax(groups: dict[str, int]) -> None:
    text = "\n".join(written(groups, LOADS if groups is NESTED else []))
    subprocess.run(["sh", "-n"], input=text, text=True, check=True)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"a/x": 100, "a": 200}, "group a/x: a must be listed before it"),
        ({"a": 200, "a/x/y": 100}, "group a/x/y: a/x must be listed before it"),
        ({"": 1}, "'' cannot name a group"),
        ({"/a": 1}, "'/a' cannot name a group"),
        ({"a": 1, "a/": 1}, "'a/' cannot name a group"),
        ({"a": 1, "a/..": 1}, "'a/..' cannot name a group"),
        ({"a b": 1}, "'a b' cannot name a group"),
        ({"a\n": 1}, "cannot name a group"),
        ({"$a": 1}, "cannot name a group"),
    ],
)
def test_invalid_groups_are_refused(groups: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        written(groups, [])


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (Load("a/x", "a/x", "true"), "'a/x' cannot name a load"),
        (Load("a-x", "a/x", "true"), "'a-x' cannot name a load"),
        (Load("", "b", "true"), "'' cannot name a load"),
        (Load("x", "a", "true"), "load x: a is not a leaf"),
        (Load("x", "c", "true"), "load x: c is not a group"),
        (Load("x", "x", "true"), "load x: x is not a group"),
    ],
)
def test_loads_must_run_in_leaves(load: Load, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        written(NESTED, [load])


def _served(*mb: int) -> Output:
    """A report with the counters of eight slices. `mb`: the MB that the first slices read in 2 s. The others read nothing."""

    def table(time: float, read: list[int]) -> str:
        return "\n".join([str(time), "slice", *(f"{i} 0 {n * 10**6} 0 0 0" for i, n in enumerate(read))])

    return Output({"begin": table(5, [0] * 8), "end_": table(7, [*mb, *[0] * (8 - len(mb))])})


@pytest.mark.parametrize(
    ("name", "mb"), [("fair.tree", (100, 300, 200)), ("fair.tree.idle", (200, 100)), ("fair.tree", (1, 3, 2))]
)
def test_exact_shares_in_a_tree_are_100_percent(name: str, mb: tuple[int, ...]) -> None:
    (wanted,) = (e for e in tree.EXPERIMENTS if e.name == name)
    figures = wanted.figures(_served(*mb))
    assert [f.value for f in figures] == [*[100] * len(mb), sum(mb) / 2]
    assert [f.metric for f in figures][-2:] == ["share-b", "total"]


def test_shares_show_a_scheduler_that_ignores_the_tree() -> None:
    """The leaves get 100, 300 and 100, as if they were siblings."""
    figures = tree.EXPERIMENTS[0].figures(_served(100, 300, 100))
    assert [f.value for f in figures] == [120, 120, 60, 250]


@pytest.mark.parametrize("name", ["fair.read.1m.qd1.depth64", "fair.shares.3-2", "fair.tree", "fair.trim"])
def test_a_window_without_any_io_is_an_error(name: str) -> None:
    with pytest.raises(LabError, match="no group was served in the window of 2 s"):
        experiments.load()[name].figures(_served(0, 0))


def test_a_group_that_gets_nothing_still_gives_a_ratio() -> None:
    (e,) = (e for e in fair.EXPERIMENTS if e.name == "fair.read.1m.qd1.depth64")
    assert [f.value for f in e.figures(_served(0, 100))] == [0, 50]
    assert [f.value for f in e.figures(_served(100, 0))] == [50000, 50]


def test_the_papers_shares_are_relative_to_the_weights_too() -> None:
    (split,) = (e for e in fair.EXPERIMENTS if e.name == "fair.shares.3-2")
    figures = split.figures(_served(294, 200))
    assert [(f.value, f.paper) for f in figures[:2]] == [(99.19, 99.2), (101.21, 101.2)]


@pytest.mark.parametrize(
    ("ratios", "wanted"),
    [([2.0, 2.1, 1.9], 1.9), ([2, 0.5, 7], 0.5), ([2, 0.5, 9], 9), ([0, 2], 0.01), ([1e9, 2], 99)],
)
def test_the_worst_second_differs_most_from_two(ratios: list[float], wanted: float) -> None:
    assert fair.worst(ratios) == wanted


def test_large_blocks_are_counted_each_second() -> None:
    """The mean is 2:1, but in one of the seconds one group gets almost the whole bandwidth."""
    (large,) = (e for e in fair.EXPERIMENTS if e.name == "fair.read.100m.qd1.depth64")
    n = fair.seconds("read", 100)

    def table(time: float, a: int, b: int) -> str:
        return "\n".join([str(time), "slice", *(f"{i} 0 {v * 10**6} 0 0 0" for i, v in enumerate((a, b)))])

    results, a, b = {"begin": table(0, 0, 0)}, 0, 0
    for i in range(n):
        a, b = (a + 200, b + 10) if i == 3 else (a + 140, b + 70)
        results[f"at{i + 1}"] = table(i + 1, a, b)
    got = {f.metric: f.value for f in large.figures(Output({**results, "end_": results[f"at{n}"]}))}
    assert got["ratio-worst-1s"] == 20
    assert got["ratio"] == pytest.approx(2, abs=0.2)
    # a single second without any I/O is not an error
    results["at2"] = results["at1"].replace("1\n", "2\n", 1)
    assert large.figures(Output({**results, "end_": results[f"at{n}"]}))
    assert (
        large.script.index("counters begin")
        < large.script.index("counters at$i")
        < large.script.index("counters end_")
    )


def test_on_5_10_requests_are_counted_from_a_trace_by_second() -> None:
    (e,) = (e for e in fair.EXPERIMENTS if e.name == "fair.tags32.read.4m")
    subprocess.run(["sh", "-n"], input=e.script, text=True, check=True)
    rows = ["2000 1000"] * 17 + ["1000 1000", "4000 1000"]
    got = {f.metric: f.value for f in e.figures(Output({"seconds": "\n".join(rows)}))}
    assert got["ratio-worst-1s"] in (1, 4)
    assert (got["ratio-least"], got["ratio"]) == (1.833, 2.053)
    with pytest.raises(ValueError, match="1 seconds were traced, not 19"):
        e.figures(Output({"seconds": "1 1"}))
    with pytest.raises(LabError, match="no group was served in the window of 19 s"):
        e.figures(Output({"seconds": "\n".join(["0 0"] * 19)}))
