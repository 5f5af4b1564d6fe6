# SPDX-License-Identifier: Apache-2.0
"""docs/images/ratio.svg: the ratio of two groups with weights 2:1, by block size."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from evenkeel_report import plots
from evenkeel_report.lookup import Rows
from evenkeel_report.markup import Markup, el
from evenkeel_report.plots import WIDTH, Lines, Palette, Point

from lab.model import LabError, Row
from lab.report import stale
from lab.report.stale import Shown

KERNEL = "6.12"
IDEAL = 2.0
# the schedulers in the picture: name in the rows -> name in the legend
SERIES = {"none": "none", "bfq": "BFQ", "evenkeel": "Evenkeel"}
PANELS = {"read": "Direct reads", "write": "Direct writes"}
# a ratio in the picture may differ from the measured ratio by this much
NEAR = 0.02

_ROW = re.compile(r"fair\.(read|write)\.(\d+)m\.qd1\.depth64\.ratio")
_XMLNS = "http://www.w3.org/2000/svg"
TITLE = "Bandwidth ratio of two groups with weights 2:1, by block size"
# the device on which the rows of _ROW are measured
DEVICE = "a model of flash with a bandwidth and a cost per command, and no other property"

# direction -> scheduler -> (MB, ratio), in the order of sizes
Series = Mapping[str, Mapping[str, Sequence[Point]]]


def shows(row_id: str) -> bool:
    """Whether the picture has the figures of this row."""
    return _ROW.fullmatch(row_id) is not None


def series(rows: Sequence[Row]) -> Series:
    """The figures of the picture. Raises LabError when a panel would be empty."""
    found: dict[str, dict[str, list[Point]]] = {d: {s: [] for s in SERIES} for d in PANELS}
    for row in rows:
        match = _ROW.fullmatch(row.id)
        if match and row.kernel == KERNEL:
            for scheduler, value in ((row.subject, row.value), *row.baselines.items()):
                if scheduler in SERIES:
                    found[match[1]][scheduler].append((int(match[2]), value))
    for direction, lines in found.items():
        if not any(lines.values()):
            raise LabError(f"no row fair.{direction}.*.qd1.depth64.ratio on kernel {KERNEL}")
    return {d: {s: sorted(points) for s, points in lines.items()} for d, lines in found.items()}


def draw(rows: Sequence[Row], *, revision: str, release: str) -> str:
    """The picture, with its figures as JSON in the element <metadata>. Raises LabError."""
    drawn = series(rows)
    everything = [v for lines in drawn.values() for points in lines.values() for _, v in points]
    palette = Palette({name: Palette().index(scheduler) for scheduler, name in SERIES.items()})
    height, top, gap = 330, 88, 16
    width = len(PANELS) * WIDTH + gap
    panels: list[Markup] = []
    for i, (direction, heading) in enumerate(PANELS.items()):
        lines = Lines(
            heading, "block size, MB (logarithmic)", "bandwidth ratio A:B",
            {SERIES[s]: points for s, points in drawn[direction].items()}, SERIES["evenkeel"],
            zero=True, extent=everything, ideal=(IDEAL, "ideal 2:1"),
        )  # fmt: skip
        panels.append(
            el(
                "g",
                el("text", heading, x=4, y=-8, font_weight="bold"),
                *lines.elements(palette),
                transform=f"translate({8 + i * (WIDTH + gap)} {top})",
            )
        )
    embedded = {"kernel": release, "revision": revision, "series": drawn}
    style = (Path(plots.__file__).parent / "plots.css").read_text()
    described = f"Two groups with weights 2:1 on Linux {release}, on {DEVICE}. " + " ".join(
        f"{heading}: {'; '.join(_listed(n, drawn[d][s]) for s, n in SERIES.items() if drawn[d][s])}."
        for d, heading in PANELS.items()
    )
    svg = el(
        "svg",
        el("title", TITLE), el("desc", described), el("metadata", json.dumps(embedded, sort_keys=True)),
        el("style", Markup(style)),
        el("rect", width=width, height=height, rx=8, fill="#fff"),
        el("text", TITLE, x=12, y=26, font_size=14, font_weight="bold"),
        el("text", f"on {DEVICE}", x=12, y=44), *panels,
        xmlns=_XMLNS, viewBox=f"0 0 {width} {height}", width=width, height=height, role="img", class_="plot",
    )  # fmt: skip
    return f"{svg}\n"


def _listed(name: str, points: Sequence[Point]) -> str:
    return f"{name} " + ", ".join(f"{ratio:.2f} at {mb:g} MB" for mb, ratio in points)


def embedded(svg: str) -> dict[str, Any]:
    """What draw() embedded: kernel, revision, series. Raises LabError when the picture has no such data."""
    try:
        text = ElementTree.fromstring(svg).findtext(f"{{{_XMLNS}}}metadata")  # noqa: S314
        found: dict[str, Any] = json.loads(text or "")
    except (ElementTree.ParseError, ValueError) as error:
        raise LabError(f"the picture has no figures; 'make pictures' draws it again ({error})") from None
    return found


def shown(svg: str) -> list[Shown]:
    """The figures of a picture. Raises LabError."""
    return [
        Shown(f"fair.{direction}.{mb:g}m.qd1.depth64.ratio", scheduler, ratio, NEAR)
        for direction, lines in embedded(svg)["series"].items()
        for scheduler, points in lines.items()
        for mb, ratio in points
    ]


def check(svg: str, rows: Sequence[Row]) -> stale.Check:
    """Compares the figures of a picture with rows. Raises LabError."""
    measured = Rows(rows)
    return stale.check(shown(svg), lambda figure: measured.value(figure.what, figure.scheduler, KERNEL))
