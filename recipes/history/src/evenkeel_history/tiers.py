# SPDX-License-Identifier: Apache-2.0
"""The tiers of the history. Each tier has rows of one resolution and keeps them for a fixed time. Pure functions.

When a slot of a coarser tier is complete, the finer rows in it are added up to a coarser row. Invariants of the rows:

- Rows are only appended, with a rising number (seq). A row is never changed.
- A coarser row covers finer rows: those after the last finer row of its predecessor, up to the number `last`. So each
  finer row is in exactly one coarser row, or in none yet, even if the clock jumps.
- If the clock jumps, two rows can have the same start. A reader adds them up. It computes rates with the sampled time,
  so the rates stay correct.
- Rows are removed by number, not by time. So a clock that jumps ahead does not remove the past.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MINUTE, HOUR, DAY = 60, 3600, 86400
LIVE_S = 2 * HOUR  # the service keeps data by seconds in RAM for this long


@dataclass(frozen=True, slots=True)
class Tier:
    seconds: int  # span of a row, in s
    keep_s: int  # how long rows are kept, in s

    @property
    def rows(self) -> int:
        return self.keep_s // self.seconds

    @property
    def table(self) -> str:
        return f"period_{self.seconds}"


# The last two tiers serve charts over more than 8 days. With them, no chart reads more than 200 rows.
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
    """The groups of finer rows that can become a coarser row each.

    ROWS: (seq, start) of the finer rows that no coarser row covers yet, sorted by seq. Consecutive rows in the same slot
    of SECONDS form a group. The last group is left out, because more rows of its slot may follow.
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
