# SPDX-License-Identifier: Apache-2.0
"""Tables of measured figures for docs/explanation: the papers' tables, with what the lab measures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from evenkeel_report.lookup import Rows
from evenkeel_report.names import number

from lab.model import Row
from lab.report import headline
from lab.report.markdown import DASH, UNMEASURED, table

OLD, NEW = "5.10", "6.12"
# the columns of controllers()
CONTROLLERS = {
    "bfq-nolowlat": "BFQ, `low_latency` off", "iocost": "iocost", "iocost-auto": "iocost-auto", "iomax": "`io.max`",
    "iolatency": "`io.latency`", "evenkeel": "Evenkeel",
}  # fmt: skip
_RATIO = re.compile(r"fair\.(?:host\.)?(read|write)\.(\d+)m(?:\.qd1\.depth64)?\.ratio")


def _number(value: float | None) -> str:
    return DASH if value is None else number(value)


def _ratio(value: float | None) -> str:
    return DASH if value is None else f"{value:.2f}"


def ratios(rows: Sequence[Row]) -> str:
    """The ratio at weights 2:1 by block size: the paper's, BFQ's on the paper's kernel version, then BFQ's and Evenkeel's."""
    measured = Rows(rows)
    sizes = {(m[1], int(m[2])) for r in rows if (m := _RATIO.fullmatch(r.id))}
    lines = []
    for direction, mb in sorted(sizes):
        old, new = f"fair.host.{direction}.{mb}m.ratio", f"fair.{direction}.{mb}m.qd1.depth64.ratio"
        paper = next((r.paper for r in (measured.row(old, OLD), measured.row(new)) if r and r.paper), None)
        lines.append([
            direction, str(mb), _ratio(paper), _ratio(measured.value(old, "bfq", OLD)),
            *(_ratio(measured.value(new, s)) for s in ("bfq", "evenkeel")),
        ])  # fmt: skip
    head = ["", "block, MB", f"paper: BFQ, {OLD}", f"BFQ, {OLD}", f"BFQ, {NEW}", f"Evenkeel, {NEW}"]
    return table(head, lines, right=range(1, 6)) if lines else f"{UNMEASURED}\n"


def stalls(rows: Sequence[Row], paper: Mapping[tuple[str, str, int], bool]) -> str:
    """How often the player stalls under each load. `paper`: (how, direction, MB) → whether the paper's player stalled."""
    measured = Rows(rows)
    lines = []
    for (how, direction, mb), stalled in paper.items():
        load = f"{how}.{direction}.{mb}m"
        values = [
            measured.value(f"stall.old.{load}.count", "bfq", OLD),
            *(measured.value(f"stall.{load}.count", s) for s in ("bfq", "evenkeel")),
        ]
        if any(v is not None for v in values):
            lines.append([
                f"{how} {direction}, {mb} MB", "stalls" if stalled else "none", *map(_number, values),
            ])  # fmt: skip
    head = ["load", f"paper: BFQ, {OLD}", f"BFQ, {OLD}", f"BFQ, {NEW}", f"Evenkeel, {NEW}"]
    return table(head, lines, right=range(2, 5)) if lines else f"{UNMEASURED}\n"


def controllers(rows: Sequence[Row]) -> str:
    """The lines of the README's table and the bandwidth that is left, for further schedulers and settings (CONTROLLERS)."""
    measured = Rows(rows)
    total = headline.Line(
        "Bandwidth of both groups that read 100 MB, % of that without a scheduler",
        lambda r, s: r.value("fair.emmc51.read.100m.total-of-none", s, NEW), lambda v: f"{v:.1f}", 1.0,
    )  # fmt: skip
    lines = []
    for line in (*headline.LINES, total):
        values = {s: line.value(measured, s) for s in CONTROLLERS}
        if any(v is not None for s, v in values.items() if s != "evenkeel"):
            lines.append([line.text, *(DASH if v is None else line.form(v) for v in values.values())])
    head = ["", *CONTROLLERS.values()]
    return table(head, lines, right=range(1, len(head))) if lines else f"{UNMEASURED}\n"


def writers(rows: Sequence[Row]) -> str:
    """The longest wait of a writer: write() in the paper's cases, and a submission to ek-recorder."""
    measured = Rows(rows)
    cases = (
        ("nothing", "none", "all", "quiet"),
        ("truncate and allocate", None, "all-bgall", "bgall"),
        ("a sequential read", "none-read", "all-read", "read"),
    )
    lines = []
    for load, conventional, proposed, recorder in cases:
        values = [
            measured.value(f"rec.base.{conventional}.max") if conventional else None,
            measured.value(f"rec.base.{proposed}.max"),
            measured.value(f"rec.ek.{recorder}.max"),
        ]
        if any(v is not None for v in values):
            lines.append([load, *map(_number, values)])
    head = ["load alongside", "write(), NONE, µs", "write(), ALL, µs", "ek-recorder by ring, µs"]
    return table(head, lines, right=range(1, 4)) if lines else f"{UNMEASURED}\n"
