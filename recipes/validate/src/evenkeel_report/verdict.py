# SPDX-License-Identifier: Apache-2.0
"""Verdicts: does a result of a paper have the same shape in the lab?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from evenkeel_report.lookup import Rows, Wanted
from evenkeel_report.papers import PAPERS
from evenkeel_report.row import Row


@dataclass(frozen=True)
class Verdict:
    """One shape (which scheduler wins, where a curve bends) and whether the lab reproduces it.

    `claim` states the shape. `why` is the measured evidence. `cause` explains a
    difference from the paper; it is empty when there is none. `paper` is a key
    of PAPERS, or empty for a claim that no paper makes. `reproduced` is None
    when rows are missing that should be there.
    """

    name: str
    claim: str
    reproduced: bool | None
    why: str
    cause: str = ""
    paper: str = ""

    @property
    def word(self) -> str:
        return {True: "reproduced", False: "NOT reproduced", None: "NOT JUDGED"}[self.reproduced]

    @property
    def title(self) -> str:
        """The name, with the paper's authors."""
        return f"{PAPERS[self.paper].short}: {self.name}" if self.paper else self.name

    def line(self) -> str:
        """The verdict for a terminal."""
        text = f"{self.word}: {self.title}. Claim: {self.claim}. Measured: {self.why}."
        return f"{text} Cause: {self.cause}" if self.cause else text


# A message names at most this many missing rows. The other missing rows are usually of the same kind.
MOST_NAMED = 4

Shape = Callable[[Rows], Verdict | None]


def judge(
    shapes: Iterable[Shape], rows: Sequence[Row], expected: Callable[[Wanted], bool]
) -> tuple[list[Verdict], list[str]]:
    """(verdicts, names of the shapes that were left out).

    A shape is left out if this run was not meant to measure any of its missing
    values: none of them was `expected`. If a missing value was expected, that is
    a defect, and the verdict names the missing rows.
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
