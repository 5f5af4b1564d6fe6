# SPDX-License-Identifier: Apache-2.0
"""Two benches compared: which figures became better or worse, and which are gone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenkeel_report.names import natural, number, state
from evenkeel_report.row import Row

# two runs of one experiment differ by less than this
NOISE = 0.01

Key = tuple[str, str]


@dataclass(frozen=True)
class Change:
    """A figure that differs. `share`: the change in percent, empty if it is not meaningful."""

    name: str
    before: str
    after: str
    share: str
    verdict: str


@dataclass(frozen=True)
class Comparison:
    """`compared`: number of figures that both have. `worse`, `gone`: ids. The other lists are for a reader."""

    changed: list[Change]
    only_before: list[str]
    only_after: list[str]
    compared: int
    worse: list[str]
    gone: list[str]


def compare(before: Sequence[Row], after: Sequence[Row]) -> Comparison:
    """Compare figures with the same id and kernel. A figure is worse when
      - it moved by more than 1 % in the wrong direction,
      - it is farther outside the range that is its target,
      - it is no longer a number, or
      - its target was met and is not met any more.
    A figure that `after` lacks counts as a regression too: otherwise dropping
    a row would hide it.
    """
    old, new = _by_key(before), _by_key(after)
    kernels = len({k for _, k in (*old, *new)}) > 1
    changed: list[Change] = []
    regressions: list[str] = []
    order = sorted((k for k in old if k in new), key=lambda k: (natural(k[0]), natural(k[1])))
    for k in order:
        was, now = old[k], new[k]
        change = relative(was.value, now.value)
        lost = was.holds() is True and now.holds() is False
        unit = was.unit != now.unit
        if not (change is None or abs(change) > NOISE or lost or unit):
            continue
        verdict = f"unit was {was.unit or 'none'}, is {now.unit or 'none'}" if unit else _verdict(was, now)
        if lost and not unit:
            verdict = "worse, target no longer met"
        if verdict.startswith("worse"):
            regressions.append(now.id)
        share = "" if change is None else f"{100 * change:+.1f} %"
        changed.append(Change(_name(k, kernels), number(was.value), number(now.value), share, verdict))
    only_before, only_after = (
        [
            f"{_name(k, kernels)} {_suffix(here[k])}".rstrip()
            for k in sorted((k for k in here if k not in there), key=lambda k: (natural(k[0]), natural(k[1])))
        ]
        for here, there in ((old, new), (new, old))
    )
    gone = [k[0] for k in old if k not in new]
    return Comparison(changed, only_before, only_after, len(order), regressions, gone)


def render(before: Sequence[Row], after: Sequence[Row]) -> tuple[str, list[str]]:
    """(text for a terminal, ids of the figures that became worse or are gone)."""
    found = compare(before, after)
    table = [(c.name, c.before, c.after, c.share, c.verdict) for c in found.changed]
    lines = _columns([("figure", "before", "after", "change", ""), *table]) if table else []
    if lines:
        lines.append("")
    lines += [f"only before: {text}" for text in found.only_before]
    lines += [f"only after: {text}" for text in found.only_after]
    worse, changed = len(found.worse), len(found.changed)
    better = sum(c.verdict == "better" for c in found.changed)
    figures = "1 figure" if found.compared == 1 else f"{found.compared} figures"
    lines.append(
        f"{figures} compared: {worse} worse, {better} better, "
        f"{changed - worse - better} changed otherwise, "
        f"{found.compared - changed} within 1 %, {len(found.gone)} gone"
    )
    return "\n".join(lines) + "\n", [*found.worse, *found.gone]


def relative(was: float, now: float) -> float | None:
    """The change as a share of the old value; None if that is not meaningful."""
    if was == now:
        return 0.0
    if was == 0 or not (math.isfinite(was) and math.isfinite(now)):
        # NaN before and after is no change
        return 0.0 if math.isnan(was) and math.isnan(now) else None
    return (now - was) / abs(was)


def _verdict(was: Row, now: Row) -> str:
    if math.isnan(now.value):
        return "worse"
    if math.isnan(was.value):
        return "changed"
    if now.better is not None:
        return "better" if (now.value < was.value) == (now.better == "lower") else "worse"
    if isinstance(now.target, tuple):
        before, after = (_outside(v, now.target) for v in (was.value, now.value))
        return "worse" if after > before else "better" if after < before else "changed"
    return "changed"


def _outside(value: float, target: tuple[float, float]) -> float:
    """How far a value is from the range; 0 inside."""
    return max(target[0] - value, value - target[1], 0.0)


def _by_key(rows: Sequence[Row]) -> Mapping[Key, Row]:
    return {(r.id, r.kernel): r for r in rows}


def _name(k: Key, kernels: bool) -> str:
    return f"{k[0]} ({k[1]})" if kernels else k[0]


def _suffix(row: Row) -> str:
    return " ".join(filter(None, (number(row.value), row.unit, state(row))))


def _columns(table: Sequence[Sequence[str]]) -> list[str]:
    """Name and verdict are aligned to the left, numbers to the right."""
    widths = [max(len(line[i]) for line in table) for i in range(5)]
    return [
        "  ".join(
            cell.rjust(width) if 0 < i < 4 else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    ]
