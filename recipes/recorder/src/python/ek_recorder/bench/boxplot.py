# SPDX-License-Identifier: Apache-2.0
"""Draw a box plot as one self-contained SVG: the paper's cases below one another, on a logarithmic axis.

The plot is 360 units wide, so that it is legible on a phone, and follows the viewer's colour scheme. A box is the
middle half of all writes of the worst set, and its line the median. Whiskers reach from the shortest to the longest
write. For the paper, which gives no quartiles, a dot is the average. Every line has a label, so colour is not needed
to read the plot.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from .paper import Case
from .rows import Times, times

WIDTH, LEFT, RIGHT = 360.0, 64.0, 348.0
TOP, LINE, GAP = 92.0, 15.0, 24.0
LETTER = 5.4  # mean width of a character at 10 units
SERIES = ("paper", "write()", "recorder")

STYLE = """
svg { --paper: #fff; --ink: #1c1c1a; --soft: #6b6a66; --grid: #e4e2dc; --c0: #8a8780; --c1: #c2571a; --c2: #1668b8 }
@media (prefers-color-scheme: dark) {
  svg { --paper: #191918; --ink: #edece8; --soft: #a3a19b; --grid: #35342f; --c0: #9a978f; --c1: #f0935a; --c2: #6cb2f5 }
}
svg { background: var(--paper); max-width: 720px; font: 10px system-ui, sans-serif; fill: var(--ink) }
.name { font-weight: 600; font-size: 11px } .soft { fill: var(--soft) } .title { font-size: 13px; font-weight: 600 }
.grid { stroke: var(--grid) } .c0 { color: var(--c0) } .c1 { color: var(--c1) } .c2 { color: var(--c2) }
.whisker { stroke: currentColor; stroke-width: 1.4 } .dot { fill: currentColor }
.box { fill: currentColor; fill-opacity: .3; stroke: currentColor } .median { stroke: currentColor; stroke-width: 2.4 }
"""


def _short(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1e6:,.1f} s"
    if value >= 10_000:
        return f"{value / 1000:,.0f} ms"
    if value >= 1000:
        return f"{value / 1000:.1f} ms"
    return f"{value:.1f} µs" if value < 10 else f"{value:.0f} µs"


class _Axis:
    """Logarithmic axis of whole decades."""

    def __init__(self, values: Sequence[float]) -> None:
        positive = [v for v in values if v > 0] or [1.0]
        self.low = math.floor(math.log10(min(positive)))
        self.high = max(math.ceil(math.log10(max(positive))), self.low + 1)

    def __call__(self, value: float) -> float:
        at = (math.log10(max(value, 10.0**self.low)) - self.low) / (self.high - self.low)
        return LEFT + at * (RIGHT - LEFT)

    def decades(self) -> list[float]:
        return [10.0**n for n in range(self.low, self.high + 1)]


def _text(x: float, y: float, text: str, css: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{css}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{css}"/>'


def _mark(t: Times, axis: _Axis, y: float, label: str) -> list[str]:
    """Draw one line: whiskers, box and median, or a dot for the average, and the longest time as a number."""
    low, high = axis(t.min), axis(t.max)
    drawn = [f"<title>{escape(label)}</title>", _line(low, y, high, y, "whisker")]
    drawn += [_line(x, y - 3, x, y + 3, "whisker") for x in (low, high)]
    if t.p25 is not None and t.p50 is not None and t.p75 is not None:
        left, right = axis(t.p25), axis(t.p75)
        drawn.append(
            f'<rect x="{left:.1f}" y="{y - 4.5:.1f}" width="{max(right - left, 1.0):.1f}" height="9" class="box"/>'
        )
        drawn.append(_line(axis(t.p50), y - 4.5, axis(t.p50), y + 4.5, "median"))
        high = max(high, left + 1)
    else:
        drawn.append(f'<circle cx="{axis(t.avg):.1f}" cy="{y:.1f}" r="2.6" class="dot"/>')
    # the number goes to the right, or to the left if there is no space
    most = _short(t.max)
    fits = high + 5 + LETTER * len(most) <= WIDTH
    drawn.append(_text(high + 5 if fits else low - 5, y + 3.5, most, "", "start" if fits else "end"))
    return drawn


def draw(cases: Sequence[Case], known: Mapping[str, float], title: str, about: str) -> str:
    """Return an SVG document. Raises ValueError if nothing was measured."""
    found = [
        (case, (Times(case.min, case.avg, case.max), times(known, case.row), times(known, case.recorder_row)))
        for case in cases
    ]
    found = [(case, marks) for case, marks in found if marks[1] or marks[2]]
    if not found:
        raise ValueError("nothing to plot: none of these cases was measured")
    axis = _Axis([v for _, marks in found for t in marks if t for v in (t.min, t.max)])
    shown = [(case, [(i, t) for i, t in enumerate(marks) if t]) for case, marks in found]
    height = TOP + sum(GAP + LINE * len(marks) for _, marks in shown) + 14
    drawn = [_text(12, 22, title, "title")]
    drawn += [_text(12, 38 + 13 * i, line, "soft") for i, line in enumerate(about.split("\n")[:3])]
    for tick in axis.decades():
        x = axis(tick)
        anchor = "end" if x > RIGHT - 10 else "middle"
        drawn += [
            _line(x, TOP - 2, x, height - 8, "grid"),
            _text(x, TOP - 7, _short(tick).replace(".0", ""), "soft", anchor),
        ]
    y = TOP
    for case, marks in shown:
        y += GAP - 6
        drawn.append(_text(12, y, case.name.upper(), "name"))
        y += 6
        for i, t in marks:
            y += LINE
            label = f"{case.name.upper()}, {SERIES[i]}: min {_short(t.min)}, avg {_short(t.avg)}, max {_short(t.max)}"
            drawn.append(
                f'<g class="c{i}">{_text(12, y - 2, SERIES[i], "soft")}{"".join(_mark(t, axis, y - 5.5, label))}</g>'
            )
    described = "; ".join(
        f"{case.name.upper()}: "
        + ", ".join(f"{SERIES[i]} {_short(t.min)} to {_short(t.max)}" for i, t in marks)
        for case, marks in shown
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {height:.0f}" width="100%" role="img">\n'
        "<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
        f"<title>{escape(title)}</title>\n<desc>{escape(described)}</desc>\n<style>{STYLE}</style>\n"
        + "\n".join(drawn)
        + "\n</svg>\n"
    )
