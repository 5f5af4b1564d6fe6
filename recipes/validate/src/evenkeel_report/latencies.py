# SPDX-License-Identifier: Apache-2.0
"""Percentiles and curves of latencies, which are counted by their length in ns. No I/O here."""

import math
from collections.abc import Mapping

Bins = Mapping[int, int]  # latency in ns -> number of I/Os
# points of a curve
POINTS = 60


def percentile(bins: Bins, share: float) -> float:
    """The latency in µs at or below which SHARE of the I/Os are; nan without I/Os."""
    total, seen = sum(bins.values()), 0
    for ns in sorted(bins):
        seen += bins[ns]
        # the product may be a little above a whole number
        if seen >= share * total * (1 - 1e-12):
            return ns / 1000
    return math.nan


def curve(bins: Bins) -> list[tuple[float, float]]:
    """Points (µs, share of I/Os at or below it) in rising order, at most POINTS and the maximum."""
    total, seen = sum(bins.values()), 0
    found: list[tuple[float, float]] = []
    step = 0.0
    for ns in sorted(bins):
        seen += bins[ns]
        share = seen / total
        # in the plot each further nine has the same height, so the points are spread over the nines
        nines = -math.log10(max(1 - share, 1e-6))
        if nines >= step or share == 1:
            found.append((ns / 1000, share))
            step = nines + 6 / POINTS
    return found
