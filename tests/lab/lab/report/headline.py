# SPDX-License-Identifier: Apache-2.0
"""The table of the README: a few figures that the quick bench measures, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evenkeel_report.lookup import Rows
from evenkeel_report.names import number

from lab.model import LabError, Row
from lab.report import stale
from lab.report.markdown import DASH, table
from lab.report.source import Source
from lab.report.stale import Shown

KERNEL = "6.12"
# the experiments of the table: `bench --quick --baselines` measures them with all baselines of the full bench
EXPERIMENTS = frozenset({
    "stall.emmc51.direct.write.100m", "stall.emmc51.buffered.write.100m", "fair.emmc51.read.100m",
    "fair.emmc51.write.100m", "fair.emmc51.shares.3-2-2-1", "latency.beside.read", "cost.read",
})  # fmt: skip
COLUMNS = {
    "none": "none", "mq-deadline": "mq-deadline", "bfq": "BFQ", "iocost": "iocost", "evenkeel": "Evenkeel",
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A line of the table.

    `value` gives the figure of a scheduler, None if it was not measured.
    `near`: figures that differ by no more than this count as equal, so the table is still up to date.
    """

    text: str
    value: Callable[[Rows, str], float | None]
    form: Callable[[float], str]
    near: float


def _row(id_: str, factor: float = 1.0) -> Callable[[Rows, str], float | None]:
    def value(rows: Rows, scheduler: str) -> float | None:
        found = rows.value(id_, scheduler, KERNEL)
        return None if found is None else found * factor

    return value


def _share_error(rows: Rows, scheduler: str) -> float | None:
    """The largest deviation of the four groups from their shares, in percent of the share."""
    shares = [rows.value(f"fair.emmc51.shares.3-2-2-1.share-{g}", scheduler, KERNEL) for g in "abcd"]
    known = [s for s in shares if s is not None]
    return max(abs(s - 100) for s in known) if len(known) == len(shares) else None


def _cost(rows: Rows, scheduler: str) -> float | None:
    """Instructions above `none`. Each guest also measures mq-deadline, so its cost follows from two rows of Evenkeel."""
    id_ = "cost.read.g1"
    if scheduler == "none":
        return None  # it would be the difference of two runs of `none`: only noise
    found = rows.value(f"{id_}.added", scheduler, KERNEL)
    if found is None and scheduler == "mq-deadline":
        own, over = (rows.value(f"{id_}.{m}", "evenkeel", KERNEL) for m in ("added", "over-mq-deadline"))
        found = None if own is None or over is None else own - over
    return found


def _ratio(value: float) -> str:
    return f"{value:.2f}"


def _ms(value: float) -> str:
    return number(float(f"{value:.3g}"))


LINES = (
    Line(
        "p99 latency of a light reader while another group reads 100 MB blocks, ms",
        _row("latency.beside.read.p99", 1e-3), _ms, 0.02,
    ),
    Line(
        "Longest read of a video player while another group writes 100 MB blocks with direct I/O, ms",
        _row("stall.emmc51.direct.write.100m.read_max_ms"), _ms, 3.0,
    ),
    Line(
        "Longest read of a video player while another group writes 100 MB blocks through the page cache, ms",
        _row("stall.emmc51.buffered.write.100m.read_max_ms"), _ms, 3.0,
    ),
    Line(
        "Bandwidth ratio at weights 2:1, direct reads of 100 MB (ideal: 2.00)",
        _row("fair.emmc51.read.100m.ratio"), _ratio, 0.02,
    ),
    Line(
        "Bandwidth ratio at weights 2:1, direct writes of 100 MB (ideal: 2.00)",
        _row("fair.emmc51.write.100m.ratio"), _ratio, 0.02,
    ),
    Line(
        "Largest error of a share at weights 3:2:2:1, direct reads of 100 MB, %",
        _share_error, lambda v: f"{v:.1f}", 1.0,
    ),
    Line(
        "CPU cost of a 4 KiB read, instructions more than with none",
        _cost, lambda v: number(round(v)), 20.0,
    ),
)  # fmt: skip


def render(rows: Sequence[Row], source: Source) -> str:
    """The table, and a sentence about where its figures come from."""
    measured = Rows(rows)
    lines = [
        [
            line.text,
            *(DASH if (v := line.value(measured, s)) is None else line.form(v) for s in COLUMNS),
        ]
        for line in LINES
    ]
    head = ["", *COLUMNS.values()]
    return f"{table(head, lines, right=range(1, len(head)))}\n{source.short(KERNEL)}\n"


def shown(text: str) -> list[Shown]:
    """The figures of a table that render() wrote. Raises LabError when it is not such a table."""
    known = {line.text: line for line in LINES}
    found = []
    cells = [
        [c.strip() for c in line.strip("| ").split(" | ")]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    if not cells or [c.strip() for c in cells[0]] != list(COLUMNS.values()):
        raise LabError("the table of figures has other columns; 'make docs' renews it")
    for label, *values in cells[2:]:
        if label not in known or len(values) != len(COLUMNS):
            raise LabError(f"the table of figures has an unknown line {label!r}; 'make docs' renews it")
        for scheduler, value in zip(COLUMNS, values, strict=True):
            if value == DASH:
                continue
            try:
                figure = float(value.replace(",", "").replace("−", "-"))
            except ValueError:
                raise LabError(f"{label}, {scheduler}: {value!r} is not a figure") from None
            found.append(Shown(label, scheduler, figure, known[label].near))
    return found


def check(text: str, rows: Sequence[Row]) -> stale.Check:
    """Compares the figures of the table with rows. Raises LabError."""
    measured = Rows(rows)
    lines = {line.text: line for line in LINES}
    return stale.check(shown(text), lambda figure: lines[figure.what].value(measured, figure.scheduler))
