# SPDX-License-Identifier: Apache-2.0
"""Axes: map values to pixels and choose the ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Maps [low, high] to [start, end] pixels. A logarithmic scale takes positive values only."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of a value. Values outside the range are drawn at its edge."""
        low, high, at = (
            math.log10(v) if self.log else v for v in (self.low, self.high, max(value, self.low))
        )
        share = min((at - low) / (high - low), 1.0)
        return self.start + share * (self.end - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        """Round values within the range."""
        return _log_ticks(self.low, self.high, count) if self.log else _ticks(self.low, self.high, count)


def linear(values: Iterable[float], start: float, end: float, *, zero: bool, pad: float = 0.06) -> Scale:
    """A scale that covers the values with a margin and is never empty; with `zero` it includes 0."""
    seen = [*values, *([0.0] if zero else [])] or [0.0]
    low, high = min(seen), max(seen)
    if low == high:
        low, high = (low - abs(low) / 2, high + abs(high) / 2) if low else (0.0, 1.0)
    margin = (high - low) * pad
    return Scale(
        low if zero and low == 0 else low - margin,
        high if zero and high == 0 else high + margin,
        start, end,
    )  # fmt: skip


def logarithmic(values: Iterable[float], start: float, end: float) -> Scale:
    """A scale that covers the positive values, with a small margin at each end."""
    seen = [v for v in values if v > 0] or [1.0]
    low, high = min(seen), max(seen)
    margin = max((high / low) ** 0.04, 1.1)
    return Scale(low / margin, high * margin, start, end, log=True)


def _ticks(low: float, high: float, count: int) -> list[float]:
    raw = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def _log_ticks(low: float, high: float, count: int) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        found = [m * 10.0**d for d in decades for m in steps if low <= m * 10.0**d <= high]
        if len(found) <= count + 2:
            break
    every = math.ceil(len(found) / (count + 2)) if found else 1
    # a range of less than a factor of two may contain no round value
    return found[::every] if len(found) > 1 else _ticks(low, high, 3)
