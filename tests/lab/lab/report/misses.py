# SPDX-License-Identifier: Apache-2.0
"""The promises that a bench found not met, in words that the README's readers know."""

from __future__ import annotations

from collections.abc import Sequence

from lab.model import Row
from lab.report import names
from lab.report.names import natural, state

PAGE = "docs/reference/results.md#promises-not-met"
# What users see when a promise is missed, by row; {} is the figure. Other rows are shown by their ids.
WORDS = {
    "promise.small-medium.sd-uhs3.least": "On an SD card, a group that reads 4 KiB at random competes with one that reads"
    " 1 MiB at a time. One of them gets only {} of its share.",
    "stall.emmc51.buffered.write.100m.count": "On an eMMC that collects garbage, the number of stalls of a video player"
    " in 30 s is {} while another group writes through the page cache.",
}


def _line(row: Row) -> str:
    ((_, [shown])) = names.readable([row])
    figure = names.with_unit(shown.value, shown.unit)
    if row.id in WORDS:
        return f"- {WORDS[row.id].format(figure)}\n"
    return (
        f"- `{row.id}` on Linux {row.kernel} is {figure}; promised is {names.wanted(shown)} {shown.unit}".rstrip()
        + ".\n"
    )


def render(rows: Sequence[Row]) -> str:
    """How many promises the bench checked, and each one that is missed."""
    checked = [r for r in rows if r.must and state(r)]
    missed = sorted(
        (r for r in checked if state(r) == "missed"), key=lambda r: (natural(r.id), natural(r.kernel))
    )
    if not missed:
        return f"The last bench checked {len(checked)} promises, and all are met.\n"
    are = "is" if len(missed) == 1 else "are"
    return (
        f"The last bench checked {len(checked)} promises, and {len(missed)} {are} [not met]({PAGE}):\n\n"
        + "".join(map(_line, missed))
    )
