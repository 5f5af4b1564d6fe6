# SPDX-License-Identifier: Apache-2.0
"""Compares the figures that a picture or a page shows with the figures of a bench."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from evenkeel_report.compare import relative
from evenkeel_report.names import number

# a figure that is shown may differ from the measured figure by this share of it
TOLERANCE = 0.03


class Shown(NamedTuple):
    """A figure that is shown. A difference up to `near` never counts: for values close to 0, TOLERANCE is too strict."""

    what: str
    scheduler: str
    value: float
    near: float


class Check(NamedTuple):
    """`differences` are lines of text; `compared` are the figures that the rows contain."""

    differences: list[str]
    compared: list[Shown]


def check(shown: Iterable[Shown], measured: Callable[[Shown], float | None]) -> Check:
    """Compares figures with what was measured. Figures that were not measured are skipped."""
    found = Check([], [])
    for figure in shown:
        now = measured(figure)
        if now is None:
            continue
        found.compared.append(figure)
        change = relative(figure.value, now)
        if abs(now - figure.value) > figure.near and (change is None or abs(change) > TOLERANCE):
            found.differences.append(
                f"{figure.what}, {figure.scheduler}: shown {number(figure.value)}, measured {number(now)}"
            )
    return found
