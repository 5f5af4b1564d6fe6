# SPDX-License-Identifier: Apache-2.0
"""The paper's table with the measured figures next to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .paper import Case
from .rows import Times, times

_HEAD = ("paper", "write() here", "ek-recorder")


def _number(value: float) -> str:
    """Format with a decimal only below 100."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.1f}"


def _columns(found: Times | Case | None) -> list[str]:
    return [_number(v) for v in (found.min, found.avg, found.max)] if found else ["–"] * 3


def table(cases: Sequence[Case], known: Mapping[str, float]) -> str:
    """Return the table as text, in µs. A dash stands for a figure that was not measured."""
    lines = [["", *(word for _ in _HEAD for word in ("min", "avg", "max"))]]
    for case in cases:
        lines.append(
            [
                case.name.upper(),
                *_columns(case),
                *_columns(times(known, case.row)),
                *_columns(times(known, case.recorder_row)),
            ]
        )
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    groups = [sum(widths[i : i + 3]) + 4 for i in (1, 4, 7)]
    head = [" " * widths[0], *(f"{name:^{width}}" for name, width in zip(_HEAD, groups, strict=True))]
    text = ["   ".join(head).rstrip()]
    for line in lines:
        cells = [f"{cell:>{width}}" for cell, width in zip(line[1:], widths[1:], strict=True)]
        text.append(
            "   ".join([f"{line[0]:<{widths[0]}}", *("  ".join(cells[i : i + 3]) for i in (0, 3, 6))])
        )
    return "\n".join([*text, *_readers(cases, known)])


def _readers(cases: Sequence[Case], known: Mapping[str, float]) -> list[str]:
    """Return lines with the throughput that a concurrent reader kept."""
    lines = []
    for case in cases:
        here = [known.get(f"{row}.reader-keeps") for row in (case.row, case.recorder_row)]
        if case.reader_keeps is None or here == [None, None]:
            continue
        measured = ["–" if v is None else f"{v:.0f} %" for v in here]
        lines.append(
            f"{case.name.upper()}: a concurrent reader keeps {case.reader_keeps:.0f} % (paper), {measured[0]} with write(),"
            f" {measured[1]} with ek-recorder"
        )
    return lines
