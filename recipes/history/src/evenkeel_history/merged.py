# SPDX-License-Identifier: Apache-2.0
"""The exact sum of many periods, and what a chart shows of each. Pure functions.

A Sum has its histograms as dicts, which suits the sampler. A page adds thousands of histograms, so a Merged has them as
numbers (lanes.py). Both give the same result. rows.py makes a Packed of stored rows, and a Merged adds
those up.
"""

import operator
import sys
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import Any

from .lanes import BITS, Bands, Lanes, counts, histogram, percentile
from .period import LARGEST, Flow, Key, Sum

SCALARS = 6  # the number of scalars of a Flow


@lru_cache(64)
def positions(names: tuple[str, ...]) -> dict[str, int]:
    """By name: its position in NAMES. Spots with the same apps have the same dict."""
    return {name: number for number, name in enumerate(names)}


@dataclass(frozen=True, slots=True)
class Spot:
    """What a chart shows of a point: the I/O of each app, all devices and directions together.

    A cache has thousands of spots, so each has few objects: the values of all apps are together.
    """

    ms: int  # the sampled time
    # By app: its position. There may be apps without I/O, because spots that were made together have the same apps.
    apps: dict[str, int]
    _bytes: "array[int]"
    _p99_us: tuple[int | None, ...]
    _bands: Bands

    def bytes(self, app: str) -> int:
        return self._bytes[self.apps[app]] if app in self.apps else 0

    def p99_us(self, app: str) -> int | None:
        """None without requests."""
        return self._p99_us[self.apps[app]] if app in self.apps else None

    def bands(self, app: str | None) -> Lanes:
        """The latencies of APP, a lane for each BAND buckets. None: those of all apps."""
        if app is None:
            return self._bands.whole
        return self._bands.one(self.apps[app]) if app in self.apps else 0

    def size(self) -> int:
        """How many bytes of memory it needs, roughly."""
        return 150 + sys.getsizeof(self._bytes) + sys.getsizeof(self._p99_us) + self._bands.size()


def by_app(
    spots: Sequence[Spot], apps: Sequence[str]
) -> tuple[dict[str, Sequence[int]], dict[str, Sequence[int | None]]]:
    """The bytes of each of APPS in SPOTS, and the p99 latencies. This is faster than a question to each spot."""
    picks: dict[int, operator.itemgetter[Any]] = {}
    for spot in spots:
        if id(spot.apps) not in picks:
            # After the values of all apps comes that of an app that is not in the spot. The last index makes itemgetter()
            # return a tuple, even for one app.
            none = len(spot.apps)
            picks[id(spot.apps)] = operator.itemgetter(*(spot.apps.get(app, none) for app in apps), none)
    if not spots or not apps:  # without apps, itemgetter() would have one index, and would not return a tuple
        return dict.fromkeys(apps, ()), dict.fromkeys(apps, ())
    amounts = zip(*[picks[id(spot.apps)]((*spot._bytes, 0)) for spot in spots], strict=True)
    latencies = zip(*[picks[id(spot.apps)]((*spot._p99_us, None)) for spot in spots], strict=True)
    return dict(zip(apps, amounts, strict=False)), dict(zip(apps, latencies, strict=False))


@dataclass(slots=True)
class Mix:
    """The I/O of each app, to which other I/O is added: what a Spot is made of."""

    ms: int = 0
    apps: dict[str, tuple[int, Lanes]] = field(default_factory=dict)  # bytes, latencies

    def add(self, other: "Mix") -> None:
        self.ms += other.ms
        for app, (amount, latency) in other.apps.items():
            old = self.apps.get(app)
            self.apps[app] = (amount, latency) if old is None else (old[0] + amount, old[1] + latency)

    def size(self) -> int:
        """How many bytes of memory it needs, roughly."""
        return 800 + sum(100 + sys.getsizeof(latency) for _, latency in self.apps.values())

    def spot(self) -> Spot:
        latencies = [latency for _, latency in self.apps.values()]
        return Spot(
            self.ms,
            positions(tuple(self.apps)),
            array("Q", [min(amount, LARGEST) for amount, _ in self.apps.values()]),
            tuple([percentile(latency, 99) for latency in latencies]),
            Bands.of(latencies),
        )


@dataclass(frozen=True, slots=True)
class Packed:
    """A sum of rows in few bytes, for a cache."""

    ms: int
    keys: tuple[Key, ...]
    scalars: "array[int]"  # of all flows
    first: int  # the bucket with which the latencies begin
    latencies: tuple[Lanes, ...]  # by flow
    matrices: dict[tuple[str, ...], Lanes]
    stalls: dict[str, tuple[int, int]]

    def latencies_from(self, first: int) -> Sequence[Lanes]:
        """By flow: its latencies from the bucket FIRST on, which is not after the first one."""
        shift = BITS * (self.first - first)
        return [latency << shift for latency in self.latencies] if shift else self.latencies

    def sum(self) -> Sum:
        result = Merged()
        result.add([self])
        return result.sum()

    def size(self) -> int:
        """How many bytes of memory it needs, roughly."""
        numbers = [*self.latencies, *self.matrices.values()]
        return 1000 + 90 * len(self.keys) + sys.getsizeof(self.scalars) + sum(map(sys.getsizeof, numbers))


@dataclass(slots=True)
class Merged:
    """The sum of periods."""

    ms: int = 0
    # the scalars of a Flow, then its latencies as Lanes
    flows: dict[Key, list[int]] = field(default_factory=dict)
    # by the apps of its rows and columns: the matrix of who slows whom, a lane in µs for each pair
    matrices: dict[tuple[str, ...], Lanes] = field(default_factory=dict)
    stalls: dict[str, tuple[int, int]] = field(default_factory=dict)  # as in Sum

    def _add_flow(self, key: Key, numbers: list[int]) -> None:
        old = self.flows.get(key)
        self.flows[key] = numbers if old is None else list(map(operator.add, old, numbers))

    def _add_matrix(self, names: tuple[str, ...], matrix: Lanes) -> None:
        self.matrices[names] = self.matrices.get(names, 0) + matrix

    def _add_stalls(self, app: str, count: int, ms: int) -> None:
        old = self.stalls.get(app, (0, 0))
        self.stalls[app] = old[0] + count, old[1] + ms

    def add(self, parts: Iterable[Packed]) -> None:
        """Add PARTS. Those with the same flows are added up first, in C."""
        groups: dict[tuple[Key, ...], list[Packed]] = {}
        for part in parts:
            groups.setdefault(part.keys, []).append(part)
            self.ms += part.ms
            for names, matrix in part.matrices.items():
                self._add_matrix(names, matrix)
            for app, (count, ms) in part.stalls.items():
                self._add_stalls(app, count, ms)
        for keys, group in groups.items():
            first = min(part.first for part in group)
            scalars = list(map(sum, zip(*[part.scalars for part in group], strict=True)))
            latencies = map(sum, zip(*[part.latencies_from(first) for part in group], strict=True))
            for number, (key, latency) in enumerate(zip(keys, latencies, strict=True)):
                numbers = scalars[SCALARS * number : SCALARS * (number + 1)]
                self._add_flow(key, [*numbers, latency << BITS * first])

    def sum(self, *, matrix: bool = True) -> Sum:
        """The sum as dicts. If MATRIX is false, who slowed whom is left out."""
        result = Sum(self.ms, stalls=dict(self.stalls))
        for key, (amount, ios, wait_us, gate_us, gates, service_us, latency) in self.flows.items():
            result.flows[key] = Flow(amount, ios, wait_us, gate_us, gates, service_us, histogram(latency))
        for names, times_us in self.matrices.items() if matrix else ():
            times = zip(product(names, names), counts(times_us), strict=False)
            result.add_blame({pair: us for pair, us in times if us})
        return result
