# SPDX-License-Identifier: Apache-2.0
"""The bench as one self-contained HTML page: verdicts, plots, results of the papers, all rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from evenkeel_report import names
from evenkeel_report.markup import Markup, el, join
from evenkeel_report.names import Name, natural, number, state, with_unit
from evenkeel_report.plots import Bars, Lines, Palette, Percentiles, Point, key
from evenkeel_report.row import Row
from evenkeel_report.verdict import Verdict

# (case, kernel) → scheduler → points (µs, share of values at or below), the subject
# first. The case is a row's id without its metric, such as "latency.read.qd1".
Curves = Mapping[tuple[str, str], Mapping[str, Sequence[Point]]]

# parameters that can be the x axis if no size can, and if they have at least three values
SWEPT = ("cap", "nr", "tags")
# the order of baselines in all plots, the simplest first; other baselines follow by name
BASELINES = ("none", "default", "mq-deadline", "kyber", "bfq", "iocost")
# A case with at least this many percentiles has them in one plot.
FEWEST_PERCENTILES = 3
# In a topic with more bars than this, the bars are folded.
MOST_BARS = 24
# With more line plots than this, only the plots of the first metric are unfolded.
MOST_LINES = 12

STATES = (
    ("missed", "missed", "promises not met"),
    ("open", "open", "other targets not met"),
    ("ok", "held", "targets met"),
)
# text and style of the verdict on a paper's result
VERDICTS = {
    True: ("✓ Reproduced. ", "ok"),
    False: ("✗ Not reproduced. ", "open"),
    None: ("✗ Not judged: ", "missed"),
}
SIGNS = {"ok": "✓", "missed": "✗", "open": "○", "": ""}


def render(
    rows: Sequence[Row],
    *,
    title: str,
    meta: Mapping[str, str],
    verdicts: Sequence[Verdict],
    curves: Curves | None = None,
) -> str:
    """The whole page. Several rows may share an id when their kernels differ."""
    palette = Palette()
    by_topic: dict[str, list[Row]] = {}
    for row in rows:
        by_topic.setdefault(Name.of(row).topic, []).append(row)
    order = [
        *(t for t in names.TOPICS if t in by_topic),
        *sorted(t for t in by_topic if t not in names.TOPICS),
    ]
    anchors = {t: f"topic-{i}" for i, t in enumerate(order)}
    sort_key = _first_subject(rows)
    sections = [
        _topic(t, anchors[t], sorted(by_topic[t], key=sort_key), palette, _of_topic(curves or {}, t))
        for t in order
    ]
    body = join(
        el("header", el("h1", title), _meta(meta)),
        el("main",
           _summary(rows, by_topic, anchors),
           _shapes(verdicts),
           *sections,
           _table(by_topic, anchors)),
    )  # fmt: skip
    style = "".join((Path(__file__).parent / name).read_text() for name in ("plots.css", "page.css"))
    head = el(
        "head", el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", title), el("style", Markup(style)),
    )  # fmt: skip
    return "<!doctype html>\n" + el("html", head, el("body", body), lang="en") + "\n"


def _order(row: Row) -> tuple[object, ...]:
    return (natural(row.kernel), natural(row.id))


def _first_subject(rows: Sequence[Row]) -> Callable[[Row], tuple[object, ...]]:
    """The sort key: first the rows of the scheduler (`subject`) that has most rows, then the other rows."""
    subjects = [r.subject for r in rows]
    most = max(sorted(set(subjects)), key=subjects.count, default="")
    return lambda row: (row.subject != most, *_order(row))


def _of_topic(curves: Curves, topic: str) -> Curves:
    return {(case, kernel): v for (case, kernel), v in curves.items() if case.split(".")[0] == topic}


def _meta(meta: Mapping[str, str]) -> Markup | None:
    if not meta:
        return None
    return el("dl", *(el("div", el("dt", k), el("dd", v)) for k, v in meta.items()), class_="meta")


# ---- summary


def _summary(
    rows: Sequence[Row], by_topic: Mapping[str, Sequence[Row]], anchors: Mapping[str, str]
) -> Markup:
    count = {s: sum(state(r) == s for r in rows) for s, _, _ in STATES}
    targets = sum(count.values())
    tiles = [
        el("li", el("b", str(count[s])), el("span", f"{SIGNS[s]} {word}"), el("small", meaning), class_=s)
        for s, word, meaning in STATES
    ]
    parts: list[str | None] = [
        el("h2", "Summary"),
        el(
            "p",
            f"{_figures(rows)}, {targets} with a target. In the plots the target is shaded, the figure of "
            "the paper is dashed, and the subject is drawn thicker than its baselines.",
        ),
        el("ul", *tiles, class_="tiles"),
    ]
    parts += [
        _list(s, heading, [r for r in rows if state(r) == s])
        for s, heading in (("missed", "Missed"), ("open", "Open"))
    ]
    if by_topic:
        lines = [
            el("tr",
               el("th", el("a", names.TOPICS.get(t, t), href=f"#{anchors[t]}"), scope="row"),
               *(el("td", str(n), class_=f"n {s if n else 'zero'}")
                 for s, _, _ in STATES for n in [sum(state(r) == s for r in by_topic[t])]),
               el("td", str(len(by_topic[t])), class_="n"))
            for t in anchors
        ]  # fmt: skip
        head = [
            el("th", h, scope="col", class_="n" if i else None)
            for i, h in enumerate(("Topic", *(w for _, w, _ in STATES), "figures"))
        ]
        parts.append(
            el("div", el("table", el("thead", el("tr", *head)), el("tbody", *lines)), class_="scroll topics")
        )
    return el("section", *parts, id="summary")


def _each_readable(rows: Iterable[Row]) -> list[Row]:
    """Rows that are shown one by one, each in the unit that suits it."""
    return [readable for r in rows for readable in names.readable([r])[1]]


def _figures(rows: Sequence[Row]) -> str:
    return "1 figure" if len(rows) == 1 else f"{len(rows)} figures"


def _list(css: str, heading: str, rows: Sequence[Row]) -> Markup | None:
    if not rows:
        return None
    items = [
        el("li",
           el("code", r.id),
           el("span", f"{with_unit(r.value, r.unit)}, target {names.wanted(r)}", class_="figure"),
           el("small", f"{r.subject}, {r.kernel}"))
        for r in _each_readable(sorted(rows, key=_order))
    ]  # fmt: skip
    listed = el("ul", *items, class_=f"targets {css}")
    # Missed promises are never folded.
    if css == "open" and len(items) > 8:
        return el("details", el("summary", f"{heading}: {len(items)}"), listed)
    return join(el("h3", heading), listed)


def _shapes(verdicts: Sequence[Verdict]) -> Markup | None:
    if not verdicts:
        return None
    same = sum(v.reproduced is True for v in verdicts)
    unjudged = sum(v.reproduced is None for v in verdicts)
    items = [
        el("li",
           el("h3", v.title), el("p", v.claim),
           el("p", el("b", VERDICTS[v.reproduced][0]), v.why),
           el("p", v.cause) if v.cause else None,
           class_=VERDICTS[v.reproduced][1])
        for v in verdicts
    ]  # fmt: skip
    return el(
        "section",
        el("h2", "Results of the papers"),
        el(
            "p",
            f"{same} of {len(verdicts)} reproduced: the same winner and the same knee."
            + (f" {unjudged} could not be judged." if unjudged else ""),
        ),
        el("ul", *items, class_="shapes"),
        id="shapes",
    )


# ---- plots


@dataclass
class _Plots:
    """Plots of one topic by kind. Each row is drawn once."""

    # (metric, plot)
    lines: list[tuple[str, Markup]] = field(default_factory=list)
    percentiles: list[Markup] = field(default_factory=list)
    bars: list[Markup] = field(default_factory=list)


def _topic(topic: str, anchor: str, rows: Sequence[Row], palette: Palette, curves: Curves) -> Markup:
    plots = _Plots()
    rest = _percentile_plots(rows, plots, palette, curves)
    rest = _sweeps(rest, plots, palette)
    plots.bars += [_bar(r, palette) for r in _each_readable(rest)]
    first = plots.lines[0][0] if plots.lines else ""
    others = [p for metric, p in plots.lines if metric != first]
    more = _grid(others)
    if more is not None and len(plots.lines) > MOST_LINES:
        what = ", ".join(dict.fromkeys(metric for metric, _ in plots.lines if metric != first))
        more = el("details", el("summary", f"{len(others)} more plots: {what}"), more)
    bars = _grid(plots.bars)
    if bars is not None and len(plots.bars) > MOST_BARS:
        bars = el("details", el("summary", f"{len(plots.bars)} more figures as bars"), bars)
    kernels = sorted({r.kernel for r in rows}, key=natural)
    clocks = " and ".join(sorted({r.clock for r in rows}))
    about = f"{_figures(rows)}, {clocks} clock, kernel {', '.join(kernels)}."
    if topic == "cost":
        about += " Bars show the instructions that each scheduler adds to those of none."
    return el(
        "section", el("h2", names.TOPICS.get(topic, topic)), el("p", about, class_="faint"),
        _grid([p for metric, p in plots.lines if metric == first]), more, _grid(plots.percentiles), bars,
        id=anchor,
    )  # fmt: skip


def _grid(figures: Sequence[Markup]) -> Markup | None:
    return el("div", *figures, class_="plots") if figures else None


def _figure(plot: Markup, heading: str, note: str, state_: str = "", legend: Markup | None = None) -> Markup:
    return el(
        "figure", el("figcaption", el("b", heading), _badge(state_), el("small", note)),
        plot, legend,
    )  # fmt: skip


def _badge(state_: str) -> Markup | None:
    return el("span", f"{SIGNS[state_]} {state_}", class_=f"badge {state_}") if state_ else None


def _values(row: Row) -> dict[str, float]:
    """Values by scheduler, the subject first. A baseline with the subject's name does not replace it."""
    baselines = {n: row.baselines[n] for n in sorted(row.baselines, key=_rank) if n != row.subject}
    return {row.subject: row.value, **baselines}


def _rank(system: str) -> tuple[object, ...]:
    """Sort key: baselines have the same order everywhere."""
    return (BASELINES.index(system) if system in BASELINES else len(BASELINES), natural(system))


def _worst(rows: Iterable[Row]) -> str:
    found = {state(r) for r in rows}
    return next((s for s in ("missed", "open", "ok") if s in found), "")


def _percentile_plots(rows: Sequence[Row], plots: _Plots, palette: Palette, curves: Curves) -> list[Row]:
    """Draws the cases that have several percentiles; returns the other rows."""
    cases: dict[tuple[str, str, str, tuple[str, ...], str], list[Row]] = {}
    for row in rows:
        name = Name.of(row)
        if names.percentile(name.metric) is not None:
            cases.setdefault((row.kernel, row.subject, name.topic, name.case, row.unit), []).append(row)
    drawn: set[int] = set()
    remaining = dict(curves)
    for (kernel, subject, topic, case, unit), several in cases.items():
        known = remaining.pop((".".join((topic, *case)), kernel), None)
        if known is None and len(several) < FEWEST_PERCENTILES:
            continue
        drawn |= {id(row) for row in several}
        factor, several = names.readable(several)
        unit = several[0].unit
        heading = names.title(case) or "latency"
        series = _joined(several) if known is None else _scaled(known, factor)
        legend = key(_systems(series, subject), palette, subject)
        title = f"{heading}, {kernel}"
        plot = Percentiles(title, unit, series, subject, curve=known is not None).draw(palette)
        note = _note(several, kernel)
        plots.percentiles.append(_figure(plot, heading, note, _worst(several), legend))
    for (name_, kernel), known in remaining.items():
        heading = names.title(tuple(name_.split(".")[1:])) or name_
        subject = next(iter(known), "")
        plot = Percentiles(f"{heading}, {kernel}", "µs", known, subject, curve=True).draw(palette)
        plots.percentiles.append(_figure(plot, heading, kernel, "", key(list(known), palette, subject)))
    return [r for r in rows if id(r) not in drawn]


def _scaled(series: Mapping[str, Sequence[Point]], factor: float) -> dict[str, list[Point]]:
    return {name: [(x * factor, share) for x, share in points] for name, points in series.items()}


def _joined(rows: Sequence[Row]) -> dict[str, list[Point]]:
    """The percentiles of a case as points, per scheduler."""
    series: dict[str, list[Point]] = {}
    for row in rows:
        share = names.percentile(Name.of(row).metric)
        assert share is not None
        for system, value in _values(row).items():
            if math.isfinite(value):
                series.setdefault(system, []).append((value, share))
    return series


def _systems(series: Mapping[str, object], subject: str) -> list[str]:
    return sorted(series, key=lambda n: (n != subject, _rank(n)))


def _note(rows: Sequence[Row], kernel: str) -> str:
    """Targets and the paper's figures as text, for readers who cannot see the plot."""
    notes = [f"{Name.of(r).metric} target {names.wanted(r)}" for r in rows if r.target is not None]
    notes += [f"{Name.of(r).metric} paper {number(r.paper)}" for r in rows if r.paper is not None]
    return " · ".join([kernel, *notes])


# ---- lines over a parameter


def _axis(segment: str) -> tuple[str, float, str] | None:
    """(parameter, value, label of the axis) if the segment can be the x axis of a plot."""
    if (size := names.size_mb(segment)) is not None:
        return "size", size, "block size, MB"
    match = names.NUMBERED.fullmatch(segment)
    if match and match[1] in SWEPT:
        return match[1], float(match[2]), names.PARAMETERS[match[1]].replace(" {}", "").replace("{} ", "")
    return None


_Points = list[tuple[float, Row]]


@dataclass(frozen=True)
class _Sweep:
    """The properties that all points of one plot share."""

    kernel: str
    others: tuple[str, ...]
    metric: str
    unit: str
    subject: str
    what: str
    label: str

    def figure(
        self, series: Mapping[str, Sequence[Point]], found: _Points, palette: Palette, extent: Sequence[float]
    ) -> Markup:
        points = sorted(found, key=lambda f: f[0])
        rows = [r for _, r in points]
        wanted = list(dict.fromkeys(names.wanted(r) for r in rows if r.target is not None))
        note = [self.kernel, *([f"target {wanted[0]}"] if len(wanted) == 1 else [])]
        heading = ": ".join(filter(None, (names.title(self.others), self.metric)))
        lines = Lines(
            f"{heading}, {self.kernel}",
            self.label,
            f"{self.metric}, {self.unit}" if self.unit else self.metric,
            series,
            self.subject,
            paper=[(x, r.paper) for x, r in points if r.paper is not None],
            wanted=[(x, r.target) for x, r in points if r.target is not None],
            better=next((r.better for r in rows if r.better), None),
            zero=self.metric != "ratio" and "-of-" not in self.metric,
            x_log=self.what == "size",
            extent=extent,
        )
        return _figure(lines.draw(palette), heading, " · ".join(note), _worst(rows))


def _sweeps(rows: Sequence[Row], plots: _Plots, palette: Palette) -> list[Row]:
    """Draws the figures that were measured at several sizes; returns the other rows."""
    grouped: dict[_Sweep, _Points] = {}
    for row in rows:
        name = Name.of(row)
        axes = [(i, a) for i, a in ((i, _axis(s)) for i, s in enumerate(name.case)) if a is not None]
        if not axes or name.metric == "instructions":
            continue
        # the size is the x axis if there is one
        at, (what, value, label) = min(axes, key=lambda found: found[1][0] != "size")
        others = name.case[:at] + name.case[at + 1 :]
        sweep = _Sweep(row.kernel, others, name.metric, row.unit, row.subject, what, label)
        grouped.setdefault(sweep, []).append((value, row))
    sweeps = {
        s: found
        for s, found in grouped.items()
        if len({x for x, _ in found}) >= (2 if s.what == "size" else 3)
    }
    # readers compare ratios of different cases: all plots have the same y axis
    ratios = [
        y for s, found in sweeps.items() if s.metric == "ratio" for _, r in found for y in _values(r).values()
    ]
    extent = [v for v in ratios if math.isfinite(v)]
    family = _families(sweeps)
    # all ratios first, then all totals: plots of one kind are next to each other
    for metric in dict.fromkeys(sorted((s.metric for s in sweeps), key=lambda m: m != "ratio")):
        shared = extent if metric == "ratio" else ()
        for sweep, measured in sweeps.items():
            if sweep.metric != metric or sweep in family:
                continue
            _, rows_ = names.readable([r for _, r in measured])
            found = [(x, r) for (x, _), r in zip(measured, rows_, strict=True)]
            series: dict[str, list[Point]] = {}
            for x, row in found:
                for system, y in _values(row).items():
                    series.setdefault(system, []).append((x, y))
            unit = rows_[0].unit
            plots.lines.append((metric, replace(sweep, unit=unit).figure(series, found, palette, shared)))
        for common in dict.fromkeys(c for s, (c, _) in family.items() if s.metric == metric):
            members = {name: sweeps[s] for s, (c, name) in family.items() if c == common}
            named = {n: [(x, r.value) for x, r in found] for n, found in members.items()}
            everything = [p for found in members.values() for p in found]
            # a palette of their own, because these lines are not schedulers
            plots.lines.append((metric, common.figure(named, everything, Palette(), shared)))
    drawn = {id(r) for found in sweeps.values() for _, r in found}
    return [r for r in rows if id(r) not in drawn]


def _families(sweeps: Mapping[_Sweep, _Points]) -> dict[_Sweep, tuple[_Sweep, str]]:
    """Sweeps without baselines that differ in one number (such as tags) become lines of one plot.

    Returns what the members of a family share, and each member's name in it.
    """
    found: dict[_Sweep, list[tuple[_Sweep, str]]] = {}
    for sweep, points in sweeps.items():
        numbered = [(i, m) for i, s in enumerate(sweep.others) if (m := names.NUMBERED.fullmatch(s))]
        plain = all(not r.baselines and r.target is None and r.paper is None for _, r in points)
        if not numbered or not plain:
            continue
        at, match = numbered[0]
        others = (*sweep.others[:at], *sweep.others[at + 1 :], sweep.subject, f"by {match[1]}")
        common = replace(sweep, others=others, subject="")
        found.setdefault(common, []).append((sweep, names.words(sweep.others[at])))
    return {
        member: (common, name)
        for common, members in found.items()
        if len(members) > 1
        for member, name in members
    }


# ---- bars


def _bar(row: Row, palette: Palette) -> Markup:
    name = Name.of(row)
    values = _values(row)
    target, paper, axis = row.target, row.paper, f"{name.metric}, {row.unit}" if row.unit else name.metric
    note = [row.kernel]
    base = values.get("none")
    if name.topic == "cost" and name.metric == "instructions" and base is not None and len(values) > 1:
        note.append(f"{number(base)} without a scheduler")
        values = {n: v - base for n, v in values.items() if n != "none"}
        axis = "instructions added per I/O"
        paper = None if paper is None else paper - base
        match target:
            case (low, high):
                target = (low - base, high - base)
            case float() | int() as bound:
                target = bound - base
    if target is not None:
        note.append(f"target {names.target_text(target, row.better)}")
    elif row.better:
        note.append(f"{row.better} is better")
    heading = ": ".join(filter(None, (names.title(name.case), name.metric))) or name.topic
    bars = Bars(
        f"{heading}: {axis}, {row.kernel}", axis or "value", values, row.subject, target, row.better, paper
    )
    return _figure(bars.draw(palette), heading, " · ".join(note), state(row))


# ---- all rows

COLUMNS = ("figure", "value", "verdict", "target", "paper", "baselines", "kernel", "clock")


def _table(by_topic: Mapping[str, Sequence[Row]], anchors: Mapping[str, str]) -> Markup:
    parts = [
        el(
            "details",
            el("summary", f"{names.TOPICS.get(t, t)} ({len(by_topic[t])})"),
            el(
                "div",
                _rows(sorted(by_topic[t], key=lambda r: (natural(r.id), natural(r.kernel)))),
                class_="scroll",
            ),
        )
        for t in anchors
    ]
    return el("section", el("h2", "All figures"), *(parts or [el("p", "There are none.")]), id="rows")


def _rows(rows: Sequence[Row]) -> Markup:
    head = el("thead", el("tr", *(el("th", c, scope="col") for c in COLUMNS)))
    return el("table", head, el("tbody", *(_row(r) for r in _each_readable(rows))), class_="rows")


def _row(row: Row) -> Markup:
    verdict = state(row)
    baselines = [
        el("span", el("i", n), f" {number(v)}", class_="baseline")
        for n, v in sorted(row.baselines.items(), key=lambda p: natural(p[0]))
    ]
    value = join(el("b", number(row.value)), f" {row.unit}" if row.unit else None, el("small", row.subject))
    cells: tuple[tuple[str, str, str], ...] = (
        ("value", value, "n"),
        ("verdict", _badge(verdict) or "–", ""),
        ("target", names.wanted(row) or "–", "n"),
        ("paper", "–" if row.paper is None else number(row.paper), "n"),
        ("baselines", join(*baselines) if baselines else "–", "baselines"),
        ("kernel", row.kernel, ""),
        ("clock", row.clock, ""),
    )
    return el(
        "tr",
        el("th", el("code", row.id), scope="row"),
        *(
            el(
                "td",
                el("div", v),
                class_=f"{css} empty".strip() if v == "–" else css or None,
                data_label=label,
            )
            for label, v, css in cells
        ),
    )
