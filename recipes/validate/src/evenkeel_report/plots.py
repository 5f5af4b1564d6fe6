# SPDX-License-Identifier: Apache-2.0
"""The three kinds of plot, as SVG: lines over a parameter, percentiles, bars.

A plot is drawn 360 px wide and scaled to its column. Colour is never the only
difference: each series has its own marker, and its name is next to its line or bar.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from evenkeel_report import scale
from evenkeel_report.markup import Markup, el, join
from evenkeel_report.names import number, target_text, with_unit
from evenkeel_report.row import Target

WIDTH = 360
# mean width of a letter of the page's font at 12 px, to decide which labels fit
LETTER = 6.65

# series with a fixed colour: index into the palette of plots.css; others take the next free one
COLOURS = {"evenkeel": 0, "bfq": 1, "kyber": 2, "mq-deadline": 3, "iocost": 4, "none": 6, "default": 6}
PALETTE = 10
FREE = tuple(i for i in range(PALETTE) if i not in COLOURS.values())
MARKERS = 6

Point = tuple[float, float]


@dataclass
class Palette:
    """Assigns each series a colour and a marker, the same in every plot of a page."""

    known: dict[str, int] = field(default_factory=lambda: dict(COLOURS))

    def index(self, name: str) -> int:
        if name not in self.known:
            taken = set(self.known.values())
            self.known[name] = next(i for i in range(PALETTE + len(taken)) if i not in taken)
        return self.known[name]

    def css(self, name: str, subject: str) -> str:
        index = self.index(name)
        if index >= PALETTE:
            # more series than colours: series with a fixed colour keep it, the others differ by marker
            index = FREE[index % len(FREE)]
        return f"c{index}" + (" subject" if name == subject else "")


def finite(points: Iterable[Point]) -> list[Point]:
    return [p for p in points if all(math.isfinite(v) for v in p)]


def marker(index: int, x: float, y: float, css: str, title: str | None = None) -> Markup:
    """One of six shapes of about the same area."""
    r = 4.5 if "subject" in css else 3.4
    shapes = (
        f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z",
        f"M{x - r:.1f} {y - r:.1f}h{2 * r}v{2 * r}h{-2 * r}z",
        f"M{x:.1f} {y - r * 1.2:.1f}l{r * 1.2:.1f} {r * 2.1:.1f}h{-r * 2.4:.1f}z",
        f"M{x:.1f} {y - r * 1.35:.1f}l{r * 1.35:.1f} {r * 1.35:.1f}l{-r * 1.35:.1f} {r * 1.35:.1f}"
        f"l{-r * 1.35:.1f} {-r * 1.35:.1f}z",
        f"M{x:.1f} {y + r * 1.2:.1f}l{r * 1.2:.1f} {-r * 2.1:.1f}h{-r * 2.4:.1f}z",
        f"M{x - r / 2.6:.1f} {y - r * 1.2:.1f}h{r / 1.3:.1f}v{r * 2.4:.1f}h{-r / 1.3:.1f}z",
    )
    children = [el("title", title)] if title else []
    return el("path", *children, class_=f"mark {css}", d=shapes[index % MARKERS])


def key(names: Sequence[str], palette: Palette, subject: str) -> Markup:
    """A legend: marker and name of each series."""
    items = [
        el(
            "li",
            el(
                "svg",
                marker(palette.index(n), 8, 7, palette.css(n, subject)),
                width=16, height=14, aria_hidden="true",
            ),
            el("b", n) if n == subject else n,
        )
        for n in names
    ]  # fmt: skip
    return el("ul", *items, class_="key")


# With more values on the x axis, a plot marks no single points.
MOST_MARKS = 24


@dataclass(frozen=True)
class Lines:
    """Several series over one parameter. The subject is drawn last, so that it is on top.

    `wanted` has the target at each x. `ideal` is a value and its label: a
    dashed line across the plot.
    """

    title: str
    x_axis: str
    y_axis: str
    series: Mapping[str, Sequence[Point]]
    subject: str
    paper: Sequence[Point] = ()
    wanted: Sequence[tuple[float, Target]] = ()
    better: str | None = None
    zero: bool = False
    x_log: bool = True
    # further values that the y axis must cover, so that several plots have the same axis
    extent: Sequence[float] = ()
    ideal: tuple[float, str] | None = None

    HEIGHT = 236

    def draw(self, palette: Palette) -> Markup:
        described = "; ".join(
            f"{n}: " + ", ".join(f"{number(x)} {self.x_axis} {number(y)}" for x, y in sorted(finite(p)))
            for n, p in self.series.items()
        )
        about = f"{self.y_axis} over {self.x_axis}. {described}"
        return _svg(self.HEIGHT, self.title, about, self.elements(palette))

    def elements(self, palette: Palette) -> list[Markup]:
        """The SVG elements of the plot, for an image with more than one plot."""
        left, right, top, bottom, height = 50.0, 250.0, 24.0, 196.0, self.HEIGHT
        series = {n: finite(p) for n, p in self.series.items()}
        paper = finite(self.paper)
        bounds = [
            b for _, t in self.wanted for b in (t if isinstance(t, tuple) else (t,)) if math.isfinite(b)
        ]
        xs = sorted({x for points in (*series.values(), paper) for x, _ in points})
        ys = [y for points in (*series.values(), paper) for _, y in points] + bounds + list(self.extent)
        if self.ideal:
            ys.append(self.ideal[0])
        log_x = self.x_log and bool(xs) and xs[0] > 0
        to_x = (scale.logarithmic(xs, left, right) if log_x
                else scale.linear(xs, left, right, zero=False, pad=0.04))  # fmt: skip
        # If values differ by more than a factor of eight, small values are visible on a logarithmic axis only.
        log_y = bool(ys) and not self.zero and min(ys) > 0 and max(ys) / min(ys) > 8
        to_y = (scale.logarithmic(ys, bottom, top) if log_y
                else scale.linear(ys, bottom, top, zero=self.zero))  # fmt: skip

        drawn: list[Markup] = [self._target(to_x, to_y, top)]
        for tick in to_y.ticks(5):
            y = to_y(tick)
            drawn += [
                el("line", class_="grid", x1=left, x2=right, y1=y, y2=y),
                el("text", number(tick), class_="tick", x=left - 5, y=y + 3.5, text_anchor="end"),
            ]
        # a curve over time: too many points for marks of their own
        dense = len(xs) > MOST_MARKS
        ticks = to_x.ticks(5) if dense else xs
        for tick in ticks if dense else _spaced(xs, to_x):
            drawn.append(
                el("text", number(tick), class_="tick", x=to_x(tick), y=bottom + 15, text_anchor="middle")
            )
        drawn += [el("line", class_="axis", x1=to_x(x), x2=to_x(x), y1=bottom, y2=bottom + 4) for x in ticks]
        drawn += [
            el("line", class_="axis", x1=left, x2=right, y1=bottom, y2=bottom),
            el("text", self.x_axis, class_="label", x=(left + right) / 2, y=height - 7, text_anchor="middle"),
            el("text", self.y_axis, class_="label", x=4, y=11),
        ]
        labels: list[tuple[float, str, str]] = []
        if paper:
            drawn.append(el("path", class_="paper", d=_path(paper, xs, to_x, to_y)))
            drawn += [
                el("circle", el("title", f"paper, {number(x)}: {number(y)}"), class_="paper-mark",
                   cx=to_x(x), cy=to_y(y), r=2.4)
                for x, y in paper
            ]  # fmt: skip
            labels.append((to_y(paper[-1][1]), "paper", "paper-text"))
        for name in sorted(series, key=lambda n: n == self.subject):
            points = sorted(series[name])
            if not points:
                continue
            css = palette.css(name, self.subject)
            drawn.append(el("path", class_=f"line {css}", d=_path(points, xs, to_x, to_y)))
            drawn += [
                marker(palette.index(name), to_x(x), to_y(y), css, f"{name}, {number(x)}: {number(y)}")
                for x, y in points
                if not dense
            ]
            labels.append((to_y(points[-1][1]), name, css))
        if self.ideal:
            # on top, so that a series with the ideal value does not hide the line
            y = to_y(self.ideal[0])
            drawn.append(el("line", class_="ideal", x1=left, x2=right, y1=y, y2=y))
            labels.append((y, self.ideal[1], "ideal-text"))
        drawn.append(_labels(labels, right + 9, top, bottom))
        return drawn

    def _target(self, to_x: scale.Scale, to_y: scale.Scale, top: float) -> Markup:
        """The range that the target allows, at each x."""
        upper: list[Point] = []
        lower: list[Point] = []
        for x, target in sorted(self.wanted):
            if isinstance(target, tuple):
                low, high = to_y(target[0]), to_y(target[1])
            elif self.better == "lower":
                low, high = to_y.start, to_y(target)
            else:
                low, high = to_y(target), top
            upper.append((to_x(x), high))
            lower.append((to_x(x), low))
        if not upper:
            return Markup()
        # extend the range to both sides of the plot, because a single x would have no area
        for edge in (upper, lower):
            edge.insert(0, (to_x.start, edge[0][1]))
            edge.append((to_x.end, edge[-1][1]))
        outline = " ".join(f"{x:.1f},{y:.1f}" for x, y in (*upper, *reversed(lower)))
        texts = list(dict.fromkeys(target_text(t, self.better) for _, t in self.wanted))
        note = f"target {texts[0]}" if len(texts) == 1 else "target"
        return el("polygon", el("title", note), class_="target", points=outline)


@dataclass(frozen=True)
class Percentiles:
    """The share of values at or below x, on a scale where each further nine (90, 99, 99.9 %) has the same height."""

    title: str
    unit: str
    # per series (value, share at or below it)
    series: Mapping[str, Sequence[Point]]
    subject: str
    # the whole distribution is known: the curve has no markers
    curve: bool = False

    # where the maximum is drawn: one nine beyond 99.9 %
    MAXIMUM = 4.0

    def draw(self, palette: Palette) -> Markup:
        left, right, top, bottom, height = 50.0, 346.0, 26.0, 190.0, 230
        # a value of 0 is drawn at the left edge, because a logarithmic axis has no 0
        series = {n: sorted(finite(p), key=lambda v: (v[1], v[0])) for n, p in self.series.items()}
        values = [x for points in series.values() for x, _ in points]
        to_x = scale.logarithmic(values, left, right)
        floor = min((self._nines(s) for points in series.values() for _, s in points), default=0.0)
        to_y = scale.Scale(min(floor, 0.25), self.MAXIMUM, bottom, top)

        drawn: list[Markup] = []
        ticks = ((0, "0 %"), (0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (1, "max"))
        for share, text in ticks:
            if self._nines(share) < to_y.low - 0.01:
                continue
            y = to_y(self._nines(share))
            drawn += [
                el("line", class_="grid", x1=left, x2=right, y1=y, y2=y),
                el("text", text, class_="tick", x=left - 5, y=y + 3.5, text_anchor="end"),
            ]
        for tick in _few(to_x.ticks(5), to_x):
            x = to_x(tick)
            drawn += [
                el("line", class_="grid", x1=x, x2=x, y1=top, y2=bottom),
                el(
                    "text",
                    number(tick),
                    class_="tick",
                    x=_inside(x, number(tick)),
                    y=bottom + 15,
                    text_anchor="middle",
                ),
            ]
        axis = f"latency, {self.unit}" if self.unit else "latency"
        drawn += [
            el("line", class_="axis", x1=left, x2=right, y1=bottom, y2=bottom),
            el("text", axis, class_="label", x=(left + right) / 2, y=height - 7, text_anchor="middle"),
            el("text", "share at or below", class_="label", x=4, y=11),
        ]
        for name in sorted(series, key=lambda n: n == self.subject):
            css = palette.css(name, self.subject)
            placed = [(to_x(x), to_y(self._nines(s))) for x, s in series[name]]
            drawn.append(el("path", class_=f"line {css}", d=_polyline(placed)))
            if self.curve:
                continue
            drawn += [
                marker(palette.index(name), px, py, css, f"{name}: {share_text(s)} {with_unit(x, self.unit)}")
                for (px, py), (x, s) in zip(placed, series[name], strict=True)
            ]
        described = "" if self.curve else "; ".join(
            f"{n}: " + ", ".join(f"{share_text(s)} {number(x)}" for x, s in p) for n, p in series.items()
        )  # fmt: skip
        return _svg(
            height, self.title, f"Latency in {self.unit or 'no unit'} by percentile. {described}", drawn
        )

    def _nines(self, share: float) -> float:
        return self.MAXIMUM if share >= 1 else min(-math.log10(1 - max(share, 0.0)), self.MAXIMUM)


@dataclass(frozen=True)
class Bars:
    """One figure of the subject and its baselines, the subject first."""

    title: str
    axis: str
    values: Mapping[str, float]
    subject: str
    target: Target | None = None
    better: str | None = None
    paper: float | None = None

    ROW = 19
    LABEL = 106.0

    def draw(self, palette: Palette) -> Markup:
        names = sorted(self.values, key=lambda n: n != self.subject)
        texts = {n: number(self.values[n]) for n in names}
        top = 16.0 if self.paper is not None else 6.0
        bottom = top + self.ROW * max(len(names), 1)
        height = round(bottom + 34)
        bounds = self.target if isinstance(self.target, tuple) else (self.target,)
        marks = [v for v in (*bounds, self.paper) if v is not None and math.isfinite(v)]
        shown = [v for v in self.values.values() if math.isfinite(v)] + marks
        # space for the text after the longest bar
        space = max((len(t) for t in texts.values()), default=0) * LETTER + 14
        below = space if min(shown, default=0.0) < 0 else 0.0
        to_x = scale.linear(shown, self.LABEL + below, WIDTH - space, zero=True, pad=0.0)
        zero = to_x(0.0)

        drawn: list[Markup] = [self._target(to_x, top, bottom)]
        drawn += [
            el("line", class_="grid", x1=to_x(t), x2=to_x(t), y1=top, y2=bottom)
            for t in _few(to_x.ticks(4), to_x)
        ]
        written: list[Markup] = []
        for i, name in enumerate(names):
            y = top + i * self.ROW
            css = palette.css(name, self.subject)
            value = self.values[name]
            end = to_x(value) if math.isfinite(value) else zero
            left = value < 0
            about = el("title", f"{name}: {texts[name]} {self.axis}")
            drawn.append(
                el(
                    "rect",
                    about,
                    class_=f"bar {css}",
                    x=min(zero, end),
                    y=y + 3,
                    width=abs(end - zero),
                    height=13,
                )
            )
            written += [
                el("text", about, _shorten(name, self.LABEL - 8), class_=f"name {css}",
                   x=self.LABEL - 6, y=y + 13.5, text_anchor="end"),
                el("text", texts[name], class_=f"value {css}",
                   x=end - 5 if left else end + 5, y=y + 13.5, text_anchor="end" if left else "start"),
            ]  # fmt: skip
        drawn.append(el("line", class_="axis", x1=zero, x2=zero, y1=top, y2=bottom))
        if self.paper is not None and math.isfinite(self.paper):
            x = to_x(self.paper)
            # the text stays inside the plot
            anchor = "start" if x < WIDTH / 2 else "end"
            text = f"paper {number(self.paper)}"
            drawn += [
                el("line", class_="paper", x1=x, x2=x, y1=top, y2=bottom),
                el("text", text, class_="tick paper-text", x=x, y=11, text_anchor=anchor),
            ]
        # drawn last, so that lines do not cross the figures
        drawn += written
        drawn += [
            el("text", number(t), class_="tick", x=to_x(t), y=bottom + 13, text_anchor="middle")
            for t in _few(to_x.ticks(4), to_x)
        ]
        drawn.append(
            el(
                "text",
                self.axis,
                class_="label",
                x=(to_x.start + to_x.end) / 2,
                y=height - 5,
                text_anchor="middle",
            )
        )
        described = ", ".join(f"{n} {texts[n]}" for n in names)
        return _svg(height, self.title, f"{self.axis}: {described}", drawn)

    def _target(self, to_x: scale.Scale, top: float, bottom: float) -> Markup:
        match self.target:
            case None:
                return Markup()
            case (low, high):
                start, end = to_x(low), to_x(high)
            case float() | int() as bound:
                start, end = (to_x.start, to_x(bound)) if self.better == "lower" else (to_x(bound), to_x.end)
        note = el("title", f"target {target_text(self.target, self.better)}")
        # an empty range stays visible
        return el(
            "rect", note, class_="target", x=start, y=top, width=max(end - start, 2.0), height=bottom - top
        )


def share_text(share: float) -> str:
    return "max" if share >= 1 else f"{number(100 * share)} %"


def _svg(height: int, title: str, description: str, drawn: Sequence[Markup]) -> Markup:
    return el(
        "svg", el("title", title), el("desc", description), *drawn,
        viewBox=f"0 0 {WIDTH} {height}", role="img", class_="plot",
    )  # fmt: skip


def _inside(x: float, text: str) -> float:
    """The x of a text's middle, moved so that the text ends within the plot."""
    return min(x, WIDTH - len(text) * LETTER / 2)


def _polyline(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) if points else ""


def _path(points: Sequence[Point], xs: Sequence[float], to_x: scale.Scale, to_y: scale.Scale) -> str:
    """A line with a gap where the series was not measured."""
    at = dict(points)
    runs: list[list[Point]] = [[]]
    for x in xs:
        if x in at:
            runs[-1].append((to_x(x), to_y(at[x])))
        elif runs[-1]:
            runs.append([])
    return "".join(_polyline(run) for run in runs)


def _spaced(xs: Sequence[float], to_x: scale.Scale) -> list[float]:
    """The ticks whose text fits; both ends have priority."""
    kept: list[float] = []
    for x in (*xs[:1], *xs[-1:], *xs):
        half = len(number(x)) * LETTER / 2 + 3
        if all(abs(to_x(x) - to_x(k)) >= half + len(number(k)) * LETTER / 2 for k in kept):
            kept.append(x)
    return kept


def _few(ticks: Sequence[float], to_x: scale.Scale) -> list[float]:
    return sorted(_spaced(ticks, to_x))


def _labels(labels: Sequence[tuple[float, str, str]], x: float, top: float, bottom: float) -> Markup:
    """The names of lines at their right ends, moved apart where they would overlap."""
    step = 13.5
    placed = sorted(labels)
    ys = [y for y, _, _ in placed]
    for i in range(1, len(ys)):
        ys[i] = max(ys[i], ys[i - 1] + step)
    limit = bottom + 4
    for i in reversed(range(len(ys))):
        ys[i] = min(ys[i], limit)
        limit = ys[i] - step
    drawn = []
    for (at, name, css), y in zip(placed, ys, strict=True):
        if abs(at - y) > 2:
            drawn.append(el("line", class_="leader", x1=x - 6, x2=x - 1, y1=at, y2=y))
        text = _shorten(name, WIDTH - x)
        drawn.append(el("text", el("title", name), text, class_=f"name {css}", x=x, y=y + 3.5))
    return join(*drawn)


def _shorten(text: str, width: float) -> str:
    fits = int(width / LETTER)
    return text if len(text) <= fits else f"{text[: max(fits - 1, 1)]}…"
