# SPDX-License-Identifier: Apache-2.0
"""Fixed shares: what the time of a request is compared with, and percentiles."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "recipes/validate/src"))

from evenkeel_report.lookup import Rows
from lab.experiments import regulate
from lab.model import Output, Row

MS = 1_000_000


def window(seconds: float, requests: int, each_ms: float) -> str:
    """The section `count` of a window of `seconds` in which the device completed `requests` of `each_ms`."""
    return (
        f"{5 * MS} 100 700\n{int(5 * MS + seconds * 1e9)} {100 + requests} {700 + round(requests * each_ms)}"
    )


def row(id_: str, value: float) -> Row:
    return Row(id_, value, "", None, None, None, "virtual", "6.12", "evenkeel")


def processes(n: int, ns: int) -> str:
    """The section of ten processes: the requests of the first n took `ns`, those of the others a fifth of it."""
    return "\n".join([f"1000 8000 {ns}"] * n + [f"5000 8000 {ns // 5}"] * (10 - n))


def test_a_service_time_is_that_of_a_request_or_the_interval() -> None:
    """Formula (4): the lesser of the mean time of a request and the mean interval between completions.

    With idle time between requests it is the former, and with several requests at once the latter.
    """
    out = Output({"one.count": window(10, 500, 8), "deep.count": window(10, 5000, 16)})
    assert regulate.service(out, "one") == 8 * MS
    assert regulate.service(out, "deep") == 2 * MS


def test_an_ideal_time_is_that_of_a_slower_device() -> None:
    """Formula (3)."""
    assert regulate.ideal(8 * MS) == 80 * MS
    assert regulate.ideal(2 * MS, depth=8) == 160 * MS
    assert regulate.ideal(8 * MS, percent=50) == 16 * MS


def sections(names: list[str], n: int, actual_ms: int) -> dict[str, str]:
    """A guest's report: alone, a request takes 8 ms. With all processes, the device completes a request each 4 ms."""
    found = {f"alone.{bs}.count": window(10, 1200, 8) for bs in regulate.SIZES}
    for name in names:
        found[name] = processes(n, actual_ms * MS)
        found[f"{name}.count"] = window(10, 2500, 30)
        found[f"{name}.times"] = f"4000 {actual_ms * MS} {2 * actual_ms * MS}"
    return found


def test_the_accuracy_compares_with_the_job_alone() -> None:
    """On a device that is twice as fast with a full queue, a request may take half of its ideal time. That is not accurate."""
    (e,) = (e for e in regulate.EXPERIMENTS if e.name == "regulate.served.hdd-5400.n4")
    names = [f"{rule}{bs}" for bs in regulate.SIZES for rule in ("", "earlier.", "paper.")]
    found = {f.metric: f for f in e.figures(Output(sections(names, 4, 40)))}
    assert found["8k.accuracy"].value == 0.5
    assert found["8k.accuracy"].target == regulate.ON_TIME
    assert (found["8k.accuracy-p50"].value, found["8k.accuracy-p99"].value) == (0.5, 1.0)
    assert found["8k.same-run"].value == 1.0
    assert (found["8k.paper.accuracy"].value, found["8k.paper.same-run"].value) == (0.5, 1.0)
    assert (found["8k.earlier.iops"].value, found["8k.gain"].value) == (250, 1.0)
    assert (found["8k.gain"].target, found["8k.gain"].paper) == (regulate.GAIN, 1.9)


def test_the_papers_accuracies_stand_beside_the_same_measure() -> None:
    by_name = {e.name: e for e in regulate.EXPERIMENTS}
    names = [f"{rule}{bs}" for bs in regulate.SIZES for rule in ("", "earlier.", "paper.")]
    for n, earlier, paper in ((2, 1.02, 1.08), (3, None, None), (5, 1.01, 1.04)):
        e = by_name[f"regulate.served.hdd-5400.n{n}"]
        known = {f.metric: f.paper for f in e.figures(Output(sections(names, n, 40)))}
        assert (known["8k.earlier.same-run"], known["8k.paper.same-run"]) == (earlier, paper)
        assert known["4k.paper.same-run"] is None
        assert known["8k.accuracy"] is None


def test_a_rule_limits_all_requests_in_the_device() -> None:
    (e,) = (e for e in regulate.EXPERIMENTS if e.name == "regulate.served.emmc51.n2")
    lines = e.script.splitlines()
    assert "serve 8k 2 8k 0 1" in lines
    for name, cap in (("earlier", 4), ("paper", 8)):
        assert f"PRESET='{regulate.EMMC},depth={cap},active={cap}'" in lines
        assert f"serve {name}.8k 2 8k {cap} 1" in lines
    # alone, and with evenkeel's own search, the device has its own depth
    assert lines.index("serve 8k 2 8k 0 1") < lines.index(f"PRESET='{regulate.EMMC},depth=4,active=4'")


def test_few_requests_have_no_99th_percentile() -> None:
    with pytest.raises(ValueError, match="999 requests: too few"):
        regulate.times(Output({"r.times": "999 1 2"}), "r")


@pytest.mark.parametrize("count", [1, 2, 100, 101])
def test_the_guest_takes_percentiles_by_rank(count: int) -> None:
    begin = regulate.SERVE.index("percentiles() {")
    function = regulate.SERVE[begin : regulate.SERVE.index("\n}\n", begin) + 3]
    values = "".join(f"{7 * (i * 37 % count + 1) * MS}\n" for i in range(count))
    done = subprocess.run(
        ["sh", "-c", f"{function}percentiles"], input=values, capture_output=True, text=True, check=True
    )
    median, last = (count + 1) // 2, -(-99 * count // 100)
    assert done.stdout == f"{count} {7 * median * MS} {7 * last * MS}\n"


def test_the_accuracy_by_cap_has_the_shape_of_the_paper() -> None:
    rows = [row(f"regulate.accuracy.n2.cap{c}.same-run", 1 + c / 100) for c in regulate.CAPS]
    verdict = regulate.shape_cap(Rows(rows))
    assert verdict is not None
    assert verdict.reproduced is True
    flat = [row(f"regulate.accuracy.n2.cap{c}.same-run", 1.01) for c in regulate.CAPS]
    verdict = regulate.shape_cap(Rows(flat))
    assert verdict is not None
    assert verdict.reproduced is False
    assert regulate.shape_cap(Rows(rows[1:])) is None


def accuracies(earlier: float, paper: float, step: float) -> list[Row]:
    """Rows of both rules by n; `step` is what each further process adds."""
    values = {"earlier": earlier, "paper": paper}
    return [
        row(f"regulate.accuracy.n{n}.cap{regulate.RULES[rule](n)}.same-run", values[rule] + step * n)
        for rule, n in regulate.PAPER_ACCURACY
    ]


@pytest.mark.parametrize(
    ("earlier", "paper", "step", "reproduced"),
    [(1.02, 1.1, -0.01, True), (1.1, 1.02, -0.01, False), (1.02, 1.1, 0.01, False)],
)
def test_the_accuracy_of_the_rules_has_the_shape_of_the_paper(
    earlier: float, paper: float, step: float, reproduced: bool
) -> None:
    verdict = regulate.shape_rules(Rows(accuracies(earlier, paper, step)))
    assert verdict is not None
    assert verdict.reproduced is reproduced
    assert regulate.shape_rules(Rows(accuracies(earlier, paper, step)[:-1])) is None
