# SPDX-License-Identifier: Apache-2.0
"""Two benches or two validations compared: which figures became better or worse, and which are gone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenkeel_report.names import Name, natural, number, percentile, state
from evenkeel_report.row import Row

# Two runs of one experiment on the virtual clock differ by less than this share.
EXACT = 0.01
# On the host's clock, other programs and the state of the flash change each figure. The next four shares are assumptions: no
# real device was measured again and again yet.
RATE = 0.05  # rates, ratios and shares, which are means of the whole window
USUAL = 0.10  # percentiles below p99
RARE = 0.30  # p99: a window of 2 s has two reads beyond it
# The slowest I/O is one I/O, and chance decides whether the flash collects garbage under it. It may double, or halve.
SLOWEST = 1.0
SLOWEST_METRICS = ("longest", "worst_ms", "total_ms", "read_max_ms")

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


def noise(row: Row) -> float:
    """The share by which a figure of this kind may change without a cause."""
    if row.clock == "virtual":
        return EXACT
    metric = Name.of(row).metric.removesuffix("-without")
    share = percentile(metric)
    if metric in SLOWEST_METRICS or (share is not None and share > 0.99):
        return SLOWEST
    if share is None:
        return RATE
    return USUAL if share < 0.99 else RARE


def compare(before: Sequence[Row], after: Sequence[Row], *, by_kernel: bool) -> Comparison:
    """Compare figures with the same id, and BY_KERNEL with the same kernel.

    A bench measures each figure on several kernels. A validation has one kernel, and a firmware update may change it.

    A figure is worse when
      - it moved by more than its noise in the wrong direction,
      - it is farther outside the range that is its target,
      - it is no longer a number, or
      - its target was met and is not met any more.
    A figure that `after` lacks counts as a regression too: otherwise dropping
    a row would hide it.
    """
    old, new = _by_key(before, by_kernel), _by_key(after, by_kernel)
    kernels = len({k for _, k in (*old, *new)}) > 1
    changed: list[Change] = []
    regressions: list[str] = []
    order = sorted((k for k in old if k in new), key=lambda k: (natural(k[0]), natural(k[1])))
    for k in order:
        was, now = old[k], new[k]
        change = relative(was.value, now.value)
        lost = was.holds() is True and now.holds() is False
        unit = was.unit != now.unit
        if not (_moved(change, noise(now)) or lost or unit):
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


def render(before: Sequence[Row], after: Sequence[Row], *, by_kernel: bool) -> tuple[str, list[str]]:
    """(text for a terminal, ids of the figures that became worse or are gone). BY_KERNEL: as of compare()."""
    found = compare(before, after, by_kernel=by_kernel)
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
        f"{found.compared - changed} within the noise, {len(found.gone)} gone"
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


def _moved(change: float | None, noise: float) -> bool:
    """Whether a figure changed by more than its noise. One that may double may also halve."""
    return change is None or change > noise or change < -min(noise, 0.5)


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


def _by_key(rows: Sequence[Row], by_kernel: bool) -> Mapping[Key, Row]:
    return {(r.id, r.kernel if by_kernel else ""): r for r in rows}


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
