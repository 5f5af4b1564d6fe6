# SPDX-License-Identifier: Apache-2.0
"""The page of the bench, docs/reference/tuning.md and the comparison, from rows of every kind."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "recipes/validate/src"))

from evenkeel_report import compare, names, page, scale
from evenkeel_report.plots import PALETTE, Bars, Lines, Palette, Percentiles
from evenkeel_report.verdict import Verdict
from lab.model import Row
from lab.report import tuning

VOID = {"meta", "br", "hr", "link", "img", "input"}


def row(id_: str, value: float, **fields: Any) -> Row:
    defaults: dict[str, Any] = {
        "unit": "", "better": None, "target": None, "paper": None,
        "clock": "virtual", "kernel": "6.12", "subject": "evenkeel",
    }  # fmt: skip
    return Row(id_, value, **{**defaults, **fields})


class Tree(HTMLParser):
    """Reads a page; fails on an element that is not closed or closed twice."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"an attribute twice in {tag}"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def count(self, tag: str, css: str | None = None) -> int:
        return sum(t == tag and (css is None or css in (a.get("class") or "").split()) for t, a in self.tags)

    def plots(self) -> int:
        return self.count("svg", "plot")

    def visible_text(self) -> str:
        return " ".join(" ".join(self.text).split())


def drawn(rows: list[Row], verdicts: list[Verdict] | None = None, **more: Any) -> Tree:
    """The page, after the checks that apply to every page."""
    text = page.render(rows, title="Bench", meta={"made": "today"}, verdicts=verdicts or [], **more)
    tree = Tree(text)
    assert not re.search(r"https?://|//[a-z]|@import|url\(", text), "the page refers to something outside"
    assert not {"script", "img", "link", "iframe"} & {t for t, _ in tree.tags}
    ids = [a["id"] for _, a in tree.tags if "id" in a]
    assert len(ids) == len(set(ids))
    assert all(a["href"].removeprefix("#") in ids for _, a in tree.tags if a.get("href"))  # type: ignore[union-attr]
    for _, attributes in tree.tags:
        for name in ("x", "y", "x1", "x2", "y1", "y2", "width", "height", "cx", "cy", "d", "points"):
            value = attributes.get(name) or ""
            assert "nan" not in value, f"{name}={value}"
            assert "inf" not in value, f"{name}={value}"
            assert name not in ("width", "height") or not value.startswith("-")
    return tree


SIZES = (1, 30, 35, 40, 100)


def fair(direction: str = "read", kernel: str = "6.12", **fields: Any) -> list[Row]:
    return [
        row(f"fair.{direction}.{mb}m.qd1.depth64.ratio", 2.0 - mb / 1e4, target=(1.94, 2.06), paper=1.9,
            kernel=kernel, **{"baselines": {"bfq": 2 - mb / 100, "none": 1.0}, **fields})
        for mb in SIZES
    ]  # fmt: skip


MANY = [
    *fair(), *fair("write"), *fair(kernel="7.3"),
    *(row(f"latency.read.qd1.{p}", v, unit="µs", better="lower", baselines={"bfq": 3 * v})
      for p, v in (("p50", 100), ("p90", 140), ("p99", 400), ("p999", 2000), ("max", 9000))),
    *(row(f"cost.read.g{g}.instructions", 10400, better="lower", target=10500,
          baselines={"none": 8550, "bfq": 13000})
      for g in (1, 8, 64)),
    *(row(f"channel.case{i}.bandwidth", 90 + i, unit="MB/s", better="higher", target=100, must=i < 5)
      for i in range(40)),
    row("strange", 1), row("topic.metric", 2), row("", 3),
]  # fmt: skip


def test_a_page_without_rows_states_it() -> None:
    tree = drawn([])
    assert tree.plots() == 0
    assert "0 figures, 0 with a target" in tree.visible_text()
    assert "There are none." in tree.visible_text()


def test_many_rows_each_in_the_table_and_in_one_plot() -> None:
    tree = drawn(MANY)
    bodies = tree.count("table", "rows")
    assert tree.count("tr") - bodies - 1 - len({r.id.split(".")[0] for r in MANY}) == len(MANY)
    # three sweeps, one distribution, the rest bars
    assert tree.plots() == 3 + 1 + 3 + 40 + 3
    for svg in (i for i, (t, a) in enumerate(tree.tags) if t == "svg" and a.get("class") == "plot"):
        assert [t for t, _ in tree.tags[svg + 1 : svg + 3]] == ["title", "desc"]


def test_the_summary_counts_and_names_what_is_missed_first() -> None:
    rows = [
        row("a.held", 1, better="lower", target=1, must=True),
        row("a.missed", 2, better="lower", target=1, must=True),
        row("a.open", 2, better="lower", target=1),
        row("a.range", 2, target=(2.5, 3), must=True),
        row("a.none", 2),
    ]
    text = drawn(rows).visible_text()
    assert "5 figures, 4 with a target" in text
    assert re.search(r"2 ✗ missed .* 1 ○ open .* 1 ✓ held", text)
    assert text.index("Missed a.missed") < text.index("a.range") < text.index("Open a.open")
    assert "2, target ≤ 1" in text
    assert "2, target 2.5 … 3" in text


@pytest.mark.parametrize("value", [0, 0.0, -3.5, 1e-12, 1e15, -1e15, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("baselines", [{}, {"bfq": 0.0}, {"bfq": -7.0, "none": 1e18}, {"bfq": math.nan}])
def test_no_value_breaks_a_plot(value: float, baselines: dict[str, float]) -> None:
    rows = [
        *(replace(r, value=value, baselines=baselines) for r in fair()),
        *(row(f"latency.x.{p}", value, baselines=baselines) for p in ("p50", "p99", "max")),
        *(row(f"cost.read.g{g}.instructions", value, baselines=baselines) for g in (1, 2)),
        row("stall.x.total", value, baselines=baselines, better="lower", target=0, paper=value),
        row("stall.y.total", value, baselines=baselines, better="higher", target=(-1, 1)),
    ]
    assert drawn(rows).plots() == 6


def test_names_are_escaped_wherever_they_appear() -> None:
    bad = "<script>alert(1)</script>&\"'"
    rows = [
        *(replace(r, subject=bad, kernel=bad, baselines={bad + "2": 1.0}, unit=bad) for r in fair(bad)),
        row(
            f"{bad}.{bad}.{bad}",
            1,
            unit=bad,
            subject=bad,
            kernel=bad,
            baselines={bad: 2},
            target=9,
            better="higher",
        ),
        *(row(f"latency.{bad}.{p}", 1, subject=bad, baselines={bad + "3": 2}) for p in ("p50", "p90", "max")),
    ]
    tree = drawn(
        rows,
        [Verdict(bad, bad, False, bad)],
        curves={(f"latency.{bad}", bad): {bad: [(1.0, 0.5), (2.0, 1.0)]}},
    )
    assert bad in "".join(tree.text)


def test_a_sweep_is_read_from_ids_in_any_order_of_segments() -> None:
    rows = [row(f"fair.read.depth64.{mb}m.qd4.ratio", 2) for mb in (30, 1)]
    tree = drawn(rows)
    assert tree.plots() == 1
    assert "read, hw depth 64, QD 4: ratio" in tree.visible_text()
    # With one size there is no line plot.
    assert "1 MB" in drawn(rows[1:]).visible_text()


def test_each_kernel_has_its_own_plot() -> None:
    assert drawn([*fair(kernel="6.12"), *fair(kernel="7.3")]).plots() == 2


def test_sweeps_without_baselines_that_differ_in_a_number_share_a_plot() -> None:
    rows = [row(f"fair.tags{nr}.read.{mb}m.ratio", 2) for nr in (32, 64, 256) for mb in (8, 100)]
    tree = drawn(rows)
    assert tree.plots() == 1
    assert "read, evenkeel, by tags: ratio" in tree.visible_text()
    assert all(f"{nr} tags" in tree.visible_text() for nr in (32, 64, 256))


def test_many_sweeps_fold_all_but_the_ratios() -> None:
    rows = [
        row(f"fair.case{c}x.{mb}m.{metric}", 2, baselines={"bfq": 1})
        for c in range(8) for mb in (1, 100) for metric in ("total", "ratio")
    ]  # fmt: skip
    tree = drawn(rows)
    assert tree.plots() == 16
    assert "8 more plots: total" in tree.visible_text()
    assert "more plots" not in drawn(rows[:16]).visible_text()


def test_a_baseline_that_was_not_measured_interrupts_its_line() -> None:
    points = {"evenkeel": [(1.0, 2.0), (2.0, 2.0), (4.0, 2.0)], "bfq": [(1.0, 1.0), (4.0, 1.0)]}
    svg = Lines("t", "x", "y", points, "evenkeel").draw(Palette())
    paths = dict(re.findall(r'class="line (c\d)[^"]*" d="([^"]*)"', svg))
    assert paths["c0"].count("M") == 1
    assert paths["c1"].count("M") == 2


def test_the_target_and_the_paper_are_drawn() -> None:
    tree = drawn(fair())
    assert tree.count("polygon", "target") == 1
    assert tree.count("path", "paper") == 1
    assert tree.count("path", "line") == 3
    assert "6.12 · target 1.94 … 2.06" in tree.visible_text()


def test_the_axis_of_shares_begins_near_their_target() -> None:
    rows = [
        row(f"fair.read.{mb}m.total-of-none", 99 + mb / 100, unit="%", better="higher", target=99,
            baselines={"none": 100.0, "bfq": 97.0})
        for mb in (1, 30, 100)
    ]  # fmt: skip
    text = page.render(rows, title="Bench", meta={}, verdicts=[])
    ticks = re.findall(r'<text class="tick"[^>]*text-anchor="end"[^>]*>([\d.]+)<', text)
    assert ticks
    assert min(map(float, ticks)) > 90


def test_cost_is_what_a_scheduler_adds() -> None:
    costs = {"none": 8550.0, "bfq": 13000.0}
    text = drawn(
        [row("cost.read.g1.instructions", 10400, better="lower", target=10500, baselines=costs)]
    ).visible_text()
    assert "8,550 without a scheduler · target ≤ 1,950" in text
    assert "instructions added per I/O: evenkeel 1,850, bfq 4,450" in text
    # without `none` there is nothing to subtract
    text = drawn([row("cost.read.g1.instructions", 10400, baselines={"bfq": 13000})]).visible_text()
    assert "evenkeel 10,400, bfq 13,000" in text


@pytest.mark.parametrize(
    ("value", "baseline", "shown"),
    [
        (9999, 9999.4, "9,999 us"),
        (126513.5, 1, "126.5 ms"),
        (2324, 34744, "2.324 ms"),
        (math.inf, 9.0, "∞ us"),
    ],
)
def test_long_times_are_shown_in_ms(value: float, baseline: float, shown: str) -> None:
    one = row(
        "stall.x.longest",
        value,
        unit="us",
        better="lower",
        target=1000,
        paper=5000,
        baselines={"bfq": baseline},
    )
    text = drawn([one, row("stall.x.other_us", 50000, unit="us")]).visible_text()
    number_, unit = shown.split()
    assert f"{shown}, target ≤ {'1' if unit == 'ms' else '1,000'}" in text
    assert f"longest, {unit}: evenkeel {number_}" in text
    assert f"paper {'5' if unit == 'ms' else '5,000'} " in text
    # The metric's name contains the unit.
    assert "50,000 us" in text
    # Values in one plot have one unit.
    rows = [row(f"latency.x.{p}", v, unit="us") for p, v in (("p50", 200), ("p99", 4000), ("max", value))]
    text = drawn(
        rows, curves={("latency.x", "6.12"): {"evenkeel": [(200.0, 0.5), (value, 1.0)]}}
    ).visible_text()
    assert ("latency, ms" in text) == (value > 10000 and math.isfinite(value))


def test_the_subject_comes_first_and_stands_out() -> None:
    svg = Bars("t", "y", {"bfq": 1.0, "evenkeel": 2.0}, "evenkeel").draw(Palette())
    assert re.findall(r'class="bar ([^"]*)"', svg) == ["c0 subject", "c1"]


def test_bars_of_negative_values_go_the_other_way() -> None:
    svg = Bars("t", "y", {"a": -2.0, "b": 4.0}, "a").draw(Palette())
    bars = [
        (float(x), float(w))
        for x, w in re.findall(r'class="bar[^>]*? x="([\d.]+)"[^>]*? width="([\d.]+)"', svg)
    ]
    (a, a_width), (b, b_width) = bars
    assert a + a_width == pytest.approx(b, abs=0.2)
    assert b_width == pytest.approx(2 * a_width, abs=0.3)


def test_percentiles_have_the_same_space_for_each_nine() -> None:
    points = [(1.0, 0.9), (2.0, 0.99), (4.0, 0.999), (8.0, 1.0)]
    svg = Percentiles("t", "µs", {"a": points}, "a").draw(Palette())
    match = re.search(r'class="line[^"]*" d="M([^"]*)"', svg)
    assert match
    ys = [float(p.split()[1]) for p in match[1].split("L")]
    steps = [a - b for a, b in pairwise(ys)]
    assert steps == [pytest.approx(steps[0], abs=0.2)] * 3
    assert steps[0] > 0


def test_few_percentiles_are_bars() -> None:
    assert drawn([row("latency.read.p50", 1), row("latency.read.p99", 2)]).count("rect", "bar") == 2


def test_known_series_keep_their_colours_among_more_series_than_colours() -> None:
    palette = Palette()
    own = {n: palette.css(n, "") for n in ("evenkeel", "bfq", "none")}
    others = [palette.css(f"s{i}", "") for i in range(3 * PALETTE)]
    assert not set(own.values()) & set(others)
    assert palette.css("s0", "") == others[0]


def test_the_verdicts_on_the_papers_are_listed() -> None:
    text = drawn(
        [],
        [
            Verdict("fair knee", "fails at 35 MB", True, "at 45"),
            Verdict("rec order", "flat", False, "no ext4"),
        ],
    ).visible_text()
    assert "1 of 2 reproduced" in text
    assert "fair knee fails at 35 MB ✓ Reproduced. at 45" in text
    assert "rec order flat ✗ Not reproduced. no ext4" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (2, "2"), (1.954, "1.954"), (1.95449, "1.954"), (0.5, "0.5"), (12.5, "12.5"),
        (999.96, "1,000"), (8550, "8,550"), (123456, "123,456"), (-3, "−3"), (2.5e12, "2.5e12"),
        (1e-7, "1e-7"),
        (math.inf, "∞"), (math.nan, "not a number"), (-0.0, "0"),
    ],
)  # fmt: skip
def test_numbers(value: float, text: str) -> None:
    assert names.number(value) == text


@pytest.mark.parametrize(
    ("metric", "share"),
    [("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("p9999", 0.9999), ("max", 1), ("p100", 1), ("p5", 0.05),
     ("pages", None), ("p", None), ("iops", None)],
)  # fmt: skip
def test_percentile_names(metric: str, share: float | None) -> None:
    assert names.percentile(metric) == share


@pytest.mark.parametrize(("low", "high"), [(1, 100), (0.2, 0.21), (1e-9, 1e9), (5, 5), (99, 101)])
def test_every_axis_has_ticks_within(low: float, high: float) -> None:
    for s in (scale.logarithmic([low, high], 0, 100), scale.linear([low, high], 0, 100, zero=False)):
        ticks = s.ticks()
        assert 2 <= len(ticks) <= 9
        assert all(-0.01 <= s(t) <= 100.01 for t in ticks)
        assert ticks == sorted(ticks)


# ---- docs/reference/tuning.md

SETTINGS = [
    tuning.Setting(
        "vm.dirty_bytes", "conf/sysctl.d/60-evenkeel.conf", "64 MB", "20 %", "a second of writing"
    ),
    tuning.Setting("vm.swappiness", "conf/sysctl.d/60-evenkeel.conf", "1", "60", "no swap"),
]


def tuned(id_: str, ours: float, default: float | None, better: str | None = "lower", **more: Any) -> Row:
    return row(id_, ours, better=better, baselines={} if default is None else {"default": default}, **more)


def test_a_setting_is_shown_with_its_gain_and_cost() -> None:
    rows = [
        tuned("tune.dirty_bytes.sync.max", 300, 600, unit="ms"),
        tuned("tune.dirty_bytes.seqwrite.mbps", 63, 65, "higher"),
        tuned("tune.dirty_bytes.seqread.mbps", 201, 200, "higher"),
    ]
    text = tuning.render(rows, SETTINGS)
    assert (
        "Better: sync (longest) 300 instead of 600 ms. Worse: seqwrite (bandwidth) 63 instead of 65."
        " No difference on 1 other." in text
    )
    assert "| sync | longest, ms | 300 | 600 | +50 % |" in text
    assert "| seqwrite | bandwidth | 63 | 65 | −3.1 % |" in text
    assert "| seqread | bandwidth | 201 | 200 | none |" in text
    assert "A second of writing. Set in" in text
    assert "`vm.swappiness` | 1 | 60 | Not measured in this bench. |" in text


def test_a_setting_without_a_gain_is_stated() -> None:
    text = tuning.render(
        [tuned("tune.swappiness.x.y", 100, 100.5), tuned("tune.swappiness.x.z", 0, 0)], SETTINGS
    )
    assert "No measurable gain." in text


@pytest.mark.parametrize(
    "id_", ["tune.vm.dirty_bytes.a.b", "tune.vm_dirty_bytes.a.b", "tune.dirty_bytes.a.b"]
)
def test_a_setting_is_found_by_its_name_or_the_last_of_it(id_: str) -> None:
    text = tuning.render([tuned(id_, 1, 2)], SETTINGS)
    assert "Better: a (b) 1 instead of 2." in text
    assert "not among the settings" not in text


@pytest.mark.parametrize(
    ("ours", "default", "better", "gain"),
    [
        (50, 100, "lower", 0.5), (50, 100, "higher", -0.5), (0, 0, "lower", 0.0), (5, 0, "lower", None),
        (-50, -100, "higher", 0.5), (5, None, "lower", None), (5, 6, None, None),
        (math.nan, 6, "lower", None),
    ],
)  # fmt: skip
def test_gain(ours: float, default: float | None, better: str | None, gain: float | None) -> None:
    assert tuning.gain(tuned("tune.a.b.c", ours, default, better)) == gain


def test_nothing_measured_is_lost() -> None:
    rows = [
        replace(tuned("tune.nr_requests.fair.ratio", 2, 1, "higher"), baselines={"default": 1.0, "256": 1.5}),
        tuned("tune.swappiness.case.metric", 5, None),
        tuned("fair.read.1m.ratio", 5, 6),
    ]
    text = tuning.render(rows, SETTINGS)
    assert "## `nr_requests`\n\nMeasured, and not among the settings." in text
    assert "| fair | ratio | 2 | 1 | 1.5 | +100 % |" in text
    assert "1 without a default to compare with." in text
    assert "fair.read" not in text
    assert tuning.render([], []).startswith("# Tuning: the effect of each setting\n\nThis page")


def test_what_was_tried_and_is_not_set_says_why() -> None:
    tried = [
        tuning.Setting("queue/nr_requests", "", "256", "64", "the device is the limit"),
        tuning.Setting("vm.laptop_mode", "", "5", "0", "never measured"),
    ]
    text = tuning.render([tuned("tune.nr_requests.seq.mbps", 2, 2, "higher")], SETTINGS, tried)
    assert (
        "## `queue/nr_requests`: not set\n\nTried with 256; the kernel's default is 64. The device is the limit."
        in text
    )
    # Every tried value has a section, even without a row in this bench.
    assert "## `vm.laptop_mode`: not set" in text
    assert text.endswith("Never measured.\n\nNot measured in this bench.\n")
    assert "not among the settings" not in text


def test_tables_survive_bars_in_names() -> None:
    text = tuning.render([tuned("tune.swappiness.a|b.c", 1, 2)], SETTINGS)
    (line,) = (x for x in text.splitlines() if x.startswith("| a"))
    assert line == "| a\\|b | c | 1 | 2 | +50 % |"


# ---- lab compare


def compared(was: Row, now: Row) -> tuple[str, list[str]]:
    return compare.render([was], [now], by_kernel=True)


@pytest.mark.parametrize(
    ("was", "now", "fields", "verdict"),
    [
        (100, 102, {"better": "lower"}, "worse"),
        (100, 98, {"better": "lower"}, "better"),
        (100, 102, {"better": "higher"}, "better"),
        (100, 98, {"better": "higher"}, "worse"),
        (100, 100.9, {"better": "lower"}, None),
        (100, 103, {}, "changed"),
        (2.2, 2.3, {"target": (1.9, 2.1)}, "worse"),
        (2.0, 2.2, {"target": (1.9, 2.1)}, "worse, target no longer met"),
        (2.4, 2.2, {"target": (1.9, 2.1)}, "better"),
        (1.92, 2.0, {"target": (1.9, 2.1)}, "changed"),
        # within 1 %, but the target is lost
        (100, 100.5, {"better": "lower", "target": 100}, "worse, target no longer met"),
        (0, 5, {"better": "lower"}, "worse"),
        (0, 0, {"better": "lower"}, None),
        (5, math.nan, {"better": "lower"}, "worse"),
        (math.nan, math.nan, {"better": "lower"}, None),
        (-10, -5, {"better": "higher"}, "better"),
    ],
)
def test_a_change_is_judged_by_its_direction(
    was: float, now: float, fields: dict[str, Any], verdict: str | None
) -> None:
    text, regressions = compared(row("a.b", was, **fields), row("a.b", now, **fields))
    line = next((x for x in text.splitlines() if x.startswith("a.b ")), None)
    assert (line is None) == (verdict is None)
    assert line is None or line.endswith(f"  {verdict}")
    assert regressions == (["a.b"] if verdict and verdict.startswith("worse") else [])


def test_rows_of_one_file_only_are_named() -> None:
    text, regressions = compare.render(
        [row("gone.x", 1), row("same.x", 2)], [row("same.x", 2), row("new.x", 3)], by_kernel=True
    )
    assert "only before: gone.x 1\n" in text
    assert "only after: new.x 3\n" in text
    assert text.endswith(
        "1 figure compared: 0 worse, 0 better, 0 changed otherwise, 1 within the noise, 1 gone\n"
    )
    # A missing figure counts as a regression.
    assert regressions == ["gone.x"]


def test_figures_of_different_kernels_are_not_mixed() -> None:
    before = [row("a.x", 1, better="lower", kernel="6.12"), row("a.x", 9, better="lower", kernel="7.3")]
    after = [row("a.x", 1, better="lower", kernel="6.12"), row("a.x", 10, better="lower", kernel="7.3")]
    text, regressions = compare.render(before, after, by_kernel=True)
    assert regressions == ["a.x"]
    assert "a.x (7.3)" in text
    assert "a.x (6.12)" not in text


def test_another_unit_is_no_regression() -> None:
    text, regressions = compared(
        row("a.x", 1, unit="ms", better="lower"), row("a.x", 1000, unit="µs", better="lower")
    )
    assert "unit was ms, is µs" in text
    assert regressions == []


def test_nothing_to_compare() -> None:
    text, regressions = compare.render([], [], by_kernel=True)
    assert text == "0 figures compared: 0 worse, 0 better, 0 changed otherwise, 0 within the noise, 0 gone\n"
    assert regressions == []
