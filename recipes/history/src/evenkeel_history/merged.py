# SPDX-License-Identifier: Apache-2.0
"""The exact sum of many periods, and what a chart shows of each. Pure functions.

A Sum has its histograms as dicts, which suits the sampler. A page adds thousands of histograms, so a Merged has them as
numbers (lanes.py). Both give the same result.
"""

import operator
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from .lanes import LANE, Lanes, bands, chunk, counts, histogram, lanes, percentile
from .period import BLAME_BITS, COUNT_BITS, Flow, Key, Period, Sum, long

_FIRST = 9  # index in a row of Period.flows at which the histogram begins


def _chunks(bits: int) -> list[bytes]:
    """By code of short(): the number for the code, as lanes() takes it."""
    numbers = (long(code, bits) for code in range(65 << (bits - 1)))
    return [chunk(number) for number in numbers if number < 1 << (8 * LANE - 1)]


_COUNTS, _TIMES = _chunks(COUNT_BITS), _chunks(BLAME_BITS)


class Part(NamedTuple):
    """The I/O of an app in a point of a chart, all devices and directions together."""

    bytes: int
    p99_us: int | None  # None without requests
    bands: Lanes  # the latencies, a lane for each BAND buckets


@dataclass(frozen=True, slots=True)
class Spot:
    """What a chart shows of a point. It needs a small part of the memory of the histograms."""

    ms: int  # the sampled time
    apps: dict[str, Part]

    def size(self) -> int:
        """How many bytes of memory it needs, roughly."""
        return 800 + sum(100 + sys.getsizeof(part.bands) for part in self.apps.values())


@dataclass(slots=True)
class Mix:
    """The I/O of each app, to which periods are added: what a Spot is made of."""

    ms: int = 0
    apps: dict[str, tuple[int, Lanes]] = field(default_factory=dict)  # bytes, latencies

    def add(self, other: "Mix") -> None:
        self.ms += other.ms
        for app, (amount, latency) in other.apps.items():
            self.add_flow(app, amount, latency)

    def add_flow(self, app: str, amount: int, latency: Lanes) -> None:
        old = self.apps.get(app)
        self.apps[app] = (amount, latency) if old is None else (old[0] + amount, old[1] + latency)

    def size(self) -> int:
        """How many bytes of memory it needs, roughly."""
        return 800 + sum(100 + sys.getsizeof(latency) for _, latency in self.apps.values())

    def spot(self) -> Spot:
        return Spot(
            self.ms,
            {
                app: Part(amount, percentile(latency, 99), bands(latency))
                for app, (amount, latency) in self.apps.items()
            },
        )


@dataclass(slots=True)
class Merged:
    """The sum of periods."""

    ms: int = 0
    flows: dict[Key, list[int]] = field(
        default_factory=dict
    )  # the scalars of Flow, then its latencies as Lanes
    # by the apps of its rows and columns: the matrix of who slows whom, a lane in µs for each pair
    matrices: dict[tuple[str, ...], Lanes] = field(default_factory=dict)
    stalls: dict[str, tuple[int, int]] = field(default_factory=dict)  # as in Sum

    def add_period(self, period: Period, mix: Mix | None = None, *, matrix: bool = True) -> None:
        """Add PERIOD, also to MIX. If MATRIX is false, who slowed whom is left out."""
        # Many periods have the same names. One string for each needs less memory.
        apps, devices = [sys.intern(app) for app in period.apps], period.devices
        self.ms += period.ms
        if mix is not None:
            mix.ms += period.ms
        for row in period.flows:
            latency = 0
            if len(row) > _FIRST:
                # The 0 makes itemgetter() return a tuple, even if there is one code.
                latency = lanes(row[_FIRST], operator.itemgetter(*row[_FIRST + 1 :], 0)(_COUNTS))
            self._add_flow((apps[row[0]], devices[row[1]], row[2]), [*row[3:_FIRST], latency])
            if mix is not None:
                mix.add_flow(apps[row[0]], row[3], latency)
        if matrix and period.blame:
            self._add_matrix(tuple(apps), lanes(0, operator.itemgetter(*period.blame, 0)(_TIMES)))
        for at in range(0, len(period.stalls), 3):
            app, count, ms = period.stalls[at : at + 3]
            self._add_stalls(apps[app], count, ms)

    def _add_flow(self, key: Key, numbers: list[int]) -> None:
        old = self.flows.get(key)
        # Lists are never changed, because several Merged may have the same one.
        self.flows[key] = numbers if old is None else list(map(operator.add, old, numbers))

    def _add_matrix(self, names: tuple[str, ...], matrix: Lanes) -> None:
        self.matrices[names] = self.matrices.get(names, 0) + matrix

    def _add_stalls(self, app: str, count: int, ms: int) -> None:
        old = self.stalls.get(app, (0, 0))
        self.stalls[app] = old[0] + count, old[1] + ms

    def add(self, other: "Merged") -> None:
        self.ms += other.ms
        for key, numbers in other.flows.items():
            self._add_flow(key, numbers)
        for names, matrix in other.matrices.items():
            self._add_matrix(names, matrix)
        for app, (count, ms) in other.stalls.items():
            self._add_stalls(app, count, ms)

    def size(self) -> int:
        """How many bytes of memory it needs, roughly."""
        numbers = [*(numbers[-1] for numbers in self.flows.values()), *self.matrices.values()]
        return 1000 + sum(450 + sys.getsizeof(number) for number in numbers)

    def sum(self) -> Sum:
        result = Sum(self.ms, stalls=dict(self.stalls))
        for key, (amount, ios, wait_us, gate_us, gates, service_us, latency) in self.flows.items():
            result.flows[key] = Flow(amount, ios, wait_us, gate_us, gates, service_us, histogram(latency))
        for names, matrix in self.matrices.items():
            times = zip(product(names, names), counts(matrix), strict=False)
            result.add_blame({pair: us for pair, us in times if us})
        return result


def total(periods: Iterable[Period]) -> Sum:
    result = Merged()
    for period in periods:
        result.add_period(period)
    return result.sum()
