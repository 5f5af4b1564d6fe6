# SPDX-License-Identifier: Apache-2.0
"""The tiers of the history: how long which resolution is kept, and when finer periods become a coarser one. Pure.

Invariants of a tier's rows:

- Rows are only appended, with a rising number (seq). Nothing is changed afterwards.
- A coarser row covers the finer rows after those of its predecessor, up to the number `last`. So each finer row is in
  exactly one coarser row, or in none yet, whatever the clock did.
- The clock may jump. Then two rows can have the same start, and a reader adds them up. Rates use the time that was
  sampled, so that they stay right.
- Rows are removed by number, not by time: a clock that jumps ahead cannot remove the past.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MINUTE, HOUR, DAY = 60, 3600, 86400
LIVE_S = 2 * HOUR  # seconds are kept in RAM for this long


@dataclass(frozen=True, slots=True)
class Tier:
    seconds: int  # span of a row
    keep_s: int  # for how long rows are kept

    @property
    def rows(self) -> int:
        return self.keep_s // self.seconds

    @property
    def table(self) -> str:
        return f"period_{self.seconds}"


# The last two keep a chart over a year as short as one over a day: no chart reads more than 200 rows.
TIERS = (
    Tier(MINUTE, 14 * DAY),
    Tier(10 * MINUTE, 90 * DAY),
    Tier(HOUR, 730 * DAY),
    Tier(12 * HOUR, 730 * DAY),
    Tier(4 * DAY, 732 * DAY),
)


def slot(at: int, seconds: int) -> int:
    """The start of the slot of SECONDS that contains the time AT."""
    return at // seconds * seconds


def closed(rows: Iterable[tuple[int, int]], seconds: int) -> list[Sequence[int]]:
    """Groups of finer rows that make a coarser row each.

    ROWS: (seq, start) by number, those that are in no coarser row yet. Neighbours in the same slot of SECONDS are a
    group. The last group is not closed yet, because its slot may go on.
    """
    groups: list[list[int]] = []
    current: int | None = None
    for seq, start in rows:
        if (found := slot(start, seconds)) != current:
            groups.append([])
            current = found
        groups[-1].append(seq)
    return list(groups[:-1])


def best(span_s: int, points: int = 200) -> int:
    """Index of the finest tier that shows SPAN_S with at most POINTS rows."""
    for index, tier in enumerate(TIERS):
        if span_s <= tier.seconds * points and span_s <= tier.keep_s:
            return index
    return len(TIERS) - 1
