# SPDX-License-Identifier: Apache-2.0
"""Does the lab show what a paper reports?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lab.model import Row
from lab.report.rows import Rows, Wanted


@dataclass(frozen=True)
class Verdict:
    """One shape of a paper (who wins, where the knee is) and whether it is reproduced.

    `claim` is the paper's, in words; `why` the measured evidence, or, where it
    is not reproduced, the cause. `reproduced` is None where the shape could not
    be judged, because rows that should be there are not.
    """

    name: str
    claim: str
    reproduced: bool | None
    why: str

    @property
    def word(self) -> str:
        return {True: "reproduced", False: "NOT reproduced", None: "NOT JUDGED"}[self.reproduced]


# of missing rows; the others are of the same kind
MOST_NAMED = 4

Shape = Callable[[Rows], Verdict | None]


def judge(
    shapes: Iterable[Shape], rows: Sequence[Row], expected: Callable[[Wanted], bool]
) -> tuple[list[Verdict], list[str]]:
    """(verdicts, names of the shapes that were left out).

    A shape is left out when it cannot be judged from what was to be measured
    this time: none of the values that it misses was `expected`. When one was,
    that is a defect, and a verdict that names them.
    """
    verdicts: list[Verdict] = []
    left_out: list[str] = []
    for shape in shapes:
        look_up = Rows(rows)
        if (verdict := shape(look_up)) is not None:
            verdicts.append(verdict)
            continue
        lost = [str(w) for w in look_up.missing if expected(w)]
        if look_up.missing and not lost:
            left_out.append(_name(shape))
            continue
        more = f" and {len(lost) - MOST_NAMED} more" if len(lost) > MOST_NAMED else ""
        why = (
            f"{', '.join(lost[:MOST_NAMED])}{more} missing" if lost else "no row that it asks for is missing"
        )
        verdicts.append(Verdict(_name(shape), (shape.__doc__ or "").strip().split("\n")[0], None, why))
    return verdicts, left_out


def _name(shape: Shape) -> str:
    topic = shape.__module__.rpartition(".")[2]
    return f"{topic} {getattr(shape, '__name__', '').removeprefix('shape_')}"
