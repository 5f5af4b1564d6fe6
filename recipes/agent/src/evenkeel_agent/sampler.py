# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH112
"""Rates and latency percentiles of the apps over a sliding window, from cumulative counters.

The difference between two readings of an app's io.evenkeel.stat is a step. The window consists of the newest steps that
together last window_s or longer. A step is computed only if somebody asks for rates: until then, the readings are
the bytes that the kernel printed.
"""

import math
import os
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from evenkeel_api.messages import Message
from evenkeel_common.files import why
from evenkeel_common.iostat import FIXED_COUNTERS, Histogram, StatError, percentile
from evenkeel_common.reading import ABSENT, STAT_FILE, Reading, base, read_counters

from .fixed_share import Counters, Usage, usage

LATENCIES = ("rtotal", "wtotal")


@dataclass(slots=True)
class Step:
    """I/O of an app between two readings. LATENCY counts reads and writes by their time from tag to completion."""

    rbytes: int = 0
    wbytes: int = 0
    latency: Histogram = field(default_factory=dict)
    # by device; only devices on which requests with a fixed share completed
    fixed: dict[str, Counters] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rates:
    """The I/O of an app over the last WINDOW_S seconds. SHARE is its part of the bytes of all apps, 0 to 1.

    P99_US is the 99th percentile of the latency in µs, or -1 without I/O.
    """

    read_bps: float = 0.0
    write_bps: float = 0.0
    share: float = 0.0
    p99_us: float = -1.0
    window_s: float = 0.0
    fixed_share: Usage = field(default_factory=Usage)


def step(old: Reading | None, new: Reading | None) -> Step:
    """The I/O between the readings OLD and NEW. A reading is None if it failed; the step is then empty."""
    result = Step()
    if old is None or new is None or new is old:
        return result
    for name, device in new.devices.items():
        first = base(old, new, name)
        result.rbytes += device.counters.get("rbytes", 0) - first.counters.get("rbytes", 0)
        result.wbytes += device.counters.get("wbytes", 0) - first.counters.get("wbytes", 0)
        for key in LATENCIES:
            before = first.histograms.get(key, {})
            for index, count in device.histograms.get(key, {}).items() - before.items():
                result.latency[index] = result.latency.get(index, 0) + count - before.get(index, 0)
        fixed = Counters(
            *(device.counters.get(key, 0) - first.counters.get(key, 0) for key in FIXED_COUNTERS)
        )
        if fixed.ios:
            result.fixed[name] = fixed
    return result


@dataclass(slots=True)
class _Interval:
    """The time between two samples, LENGTH_S long."""

    length_s: float
    before: Mapping[str, Reading | None]
    after: Mapping[str, Reading | None]
    steps: dict[str, Step] = field(default_factory=dict)  # those that somebody has asked for


class Sampler:
    """Computes the rates of the apps. Not thread-safe, but read() may run in another thread while rates() is called."""

    def __init__(self, window_s: float, interval_s: float) -> None:
        self._window_s = window_s
        # Samples are a little late or early. With this tolerance, the window always has the same number of steps.
        self._slack_s = interval_s / 2
        self._last: dict[str, Reading | None] = {}
        self._last_s: float | None = None
        self._intervals: deque[_Interval] = deque()
        self._unreadable: dict[str, Message] = {}  # by app
        self._unknown: dict[str, Message] = {}  # by app

    def read(self, cgroups: Mapping[str, str | None]) -> dict[str, Reading | None]:
        """Read the counters of each app from its cgroup directory. Blocks.

        A directory is None if the app has no cgroup; its reading is then ABSENT. A reading is None if
        the file cannot be read.
        """
        readings: dict[str, Reading | None] = {}
        problems: dict[str, Message] = {}
        for name, directory in cgroups.items():
            reading: Reading | None = ABSENT
            if directory is not None:
                try:
                    reading = read_counters(directory, self._last.get(name), LATENCIES)
                except OSError as error:
                    # The cgroup may be removed at any moment; then reading fails. This is not a problem.
                    reading = None if os.path.isdir(directory) else ABSENT
                    if reading is None:
                        problems[name] = Message(
                            "counters-unreadable", file=STAT_FILE, app=name, reason=why(error)
                        )
            readings[name] = reading
        self._unreadable = problems
        return readings

    def age_s(self, now_s: float) -> float:
        """The age of the newest sample at the monotonic time NOW_S."""
        return math.inf if self._last_s is None else now_s - self._last_s

    @property
    def problems(self) -> dict[str, Message]:
        """By app: why its counters cannot be read. A wrong format is known after rates() only."""
        return self._unreadable | self._unknown

    def add(self, now_s: float, readings: Mapping[str, Reading | None]) -> bool:
        """Add READINGS, taken at the monotonic time NOW_S.

        Returns whether a cgroup was removed, or a device got or lost evenkeel, since the last readings.
        """
        changed = False
        for name, reading in readings.items():
            last = self._last.get(name, ABSENT)
            if reading is ABSENT:
                changed |= last is not ABSENT
            elif reading and last and last is not ABSENT:
                changed |= reading is not last and reading.names != last.names
        if self._last_s is not None and now_s > self._last_s:
            self._intervals.append(_Interval(now_s - self._last_s, self._last, readings))
            enough = self._window_s - self._slack_s
            while self._span() - self._intervals[0].length_s >= enough:
                self._intervals.popleft()
        self._last_s = now_s
        self._last = dict(readings)
        return changed

    def _span(self) -> float:
        return sum(interval.length_s for interval in self._intervals)

    @staticmethod
    def _step(interval: _Interval, name: str) -> Step:
        """The step of the app NAME. It is empty if a reading has a wrong format."""
        found = interval.steps.get(name)
        if found is None:
            try:
                found = step(interval.before.get(name), interval.after.get(name))
            except StatError:
                found = Step()
            interval.steps[name] = found
        return found

    def _check(self, names: Iterable[str]) -> dict[str, Message]:
        """By app of NAMES: why its newest reading cannot be parsed."""
        found = {}
        for name in names:
            try:
                if reading := self._last.get(name):
                    _ = reading.devices
            except StatError as error:
                found[name] = Message("counters-unknown", file=STAT_FILE, app=name, reason=str(error))
        return found

    def rates(self, names: Iterable[str]) -> dict[str, Rates]:
        """The rates of the apps NAMES over the window. A share is the app's part of the bytes of all NAMES together."""
        span = self._span()
        names = list(names)
        self._unknown = self._check(names)
        sums = {name: Step() for name in names}
        for interval in self._intervals:
            for name, total in sums.items():
                part = self._step(interval, name)
                total.rbytes += part.rbytes
                total.wbytes += part.wbytes
                for index, count in part.latency.items():
                    total.latency[index] = total.latency.get(index, 0) + count
                for device, counters in part.fixed.items():
                    total.fixed.setdefault(device, Counters()).add(counters)
        everything = sum(total.rbytes + total.wbytes for total in sums.values())
        result = {}
        for name, total in sums.items():
            p99 = percentile(total.latency, 99)
            result[name] = Rates(
                read_bps=total.rbytes / span if span else 0.0,
                write_bps=total.wbytes / span if span else 0.0,
                share=(total.rbytes + total.wbytes) / everything if everything else 0.0,
                p99_us=-1.0 if p99 is None else float(p99),
                window_s=span,
                fixed_share=usage(total.fixed.values(), span),
            )
        return result
