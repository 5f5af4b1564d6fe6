# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH112, PTH116
"""Rates and latency percentiles of the apps from their cumulative counters, over a sliding window.

Once a second each app's io.evenkeel.stat is read; the difference to the last reading is one step, and
the window is the newest steps that together last window_s. Counters start again at 0 when a unit's cgroup
is made anew or evenkeel is switched on; what they show then has all happened since the last reading, so it
is the step. What happened between the last reading of a cgroup and its end is lost (under a second of I/O).
"""

import os
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .files import why
from .iostat import PERF_COUNTERS, DeviceStat, Histogram, StatError, parse, percentile
from .performance import Regulated, Use, use

STAT_FILE = "io.evenkeel.stat"
LATENCIES = ("rtotal", "wtotal")
READ_SIZE = 256 * 1024


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at a cgroup; without an identity there was none."""

    identity: int = 0  # inode of the cgroup's directory: two cgroups of one name differ in it
    devices: Mapping[str, DeviceStat] = field(default_factory=dict)
    text: bytes = b""  # of the file, to skip parsing what has not changed


ABSENT = Reading()


@dataclass(slots=True)
class Step:
    """What an app did between two readings; latency holds reads and writes, insert to completion."""

    rbytes: int = 0
    wbytes: int = 0
    latency: Histogram = field(default_factory=dict)
    regulated: dict[str, Regulated] = field(default_factory=dict)  # by device; where it is not: nothing


@dataclass(frozen=True, slots=True)
class Rates:
    """An app over the window: bytes per second, its part of all apps' bytes, p99 in µs (-1: no I/O)."""

    read_bps: float = 0.0
    write_bps: float = 0.0
    share: float = 0.0
    p99_us: float = -1.0
    window_s: float = 0.0
    use: Use = field(default_factory=Use)  # of its regulated performance


def _restarted(old: DeviceStat, new: DeviceStat) -> bool:
    if any(new.counters.get(key, 0) < value for key, value in old.counters.items()):
        return True
    return any(
        new.histograms.get(key, {}).get(index, 0) < count
        for key, histogram in old.histograms.items()
        for index, count in histogram.items()
    )


_ZERO = DeviceStat()


def step(old: Reading | None, new: Reading | None) -> Step:
    """The step from OLD to NEW. None is a reading that failed: nothing is known, so nothing is counted."""
    result = Step()
    if old is None or new is None or new is old:
        return result
    for name, device in new.devices.items():
        base = old.devices.get(name, _ZERO) if old.identity == new.identity else _ZERO
        if _restarted(base, device):
            base = _ZERO
        result.rbytes += device.counters.get("rbytes", 0) - base.counters.get("rbytes", 0)
        result.wbytes += device.counters.get("wbytes", 0) - base.counters.get("wbytes", 0)
        for key in LATENCIES:
            before = base.histograms.get(key, {})
            for index, count in device.histograms.get(key, {}).items():
                if count != before.get(index, 0):
                    result.latency[index] = result.latency.get(index, 0) + count - before.get(index, 0)
        regulated = Regulated(
            *(device.counters.get(key, 0) - base.counters.get(key, 0) for key in PERF_COUNTERS)
        )
        if regulated.ios:
            result.regulated[name] = regulated
    return result


class Sampler:
    """Not thread-safe as a whole: read() may run in another thread while nothing else is called."""

    def __init__(self, window_s: float, interval_s: float) -> None:
        self._window_s = window_s
        self._slack_s = (
            interval_s / 2
        )  # ticks come a little late or early; the number of steps stays the same
        self._last: dict[str, Reading | None] = {}
        self._last_s: float | None = None
        self._steps: deque[tuple[float, dict[str, Step]]] = deque()
        self.problems: dict[str, str] = {}  # by app: why its counters cannot be read

    def _read_one(self, directory: str, last: Reading | None) -> Reading:
        identity = os.stat(directory).st_ino
        fd = os.open(f"{directory}/{STAT_FILE}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = b""
            while chunk := os.read(fd, READ_SIZE):
                text += chunk
        finally:
            os.close(fd)
        if last is not None and last.identity == identity and last.text == text:
            return last
        return Reading(identity, parse(text.decode("ascii", "replace"), LATENCIES), text)

    def read(self, cgroups: Mapping[str, str | None]) -> dict[str, Reading | None]:
        """Look at each app's cgroup directory. None as directory: the app has no cgroup. Blocks."""
        readings: dict[str, Reading | None] = {}
        problems: dict[str, str] = {}
        for name, directory in cgroups.items():
            reading: Reading | None = ABSENT
            if directory is not None:
                try:
                    reading = self._read_one(directory, self._last.get(name))
                except OSError as error:
                    # a cgroup may go between any two of these calls, and a read of its file then fails too
                    reading = None if os.path.isdir(directory) else ABSENT
                    if reading is None:
                        problems[name] = f"{STAT_FILE} of {name} cannot be read: {why(error)}"
                except StatError as error:
                    reading = None
                    problems[name] = f"{STAT_FILE} of {name} is not understood: {error}"
            readings[name] = reading
        self.problems = problems
        return readings

    def add(self, now_s: float, readings: Mapping[str, Reading | None]) -> bool:
        """Take READINGS, made at the monotonic time NOW_S, as the newest.

        Tells whether a cgroup has gone, or evenkeel has come to a device or left it.
        """
        news = False
        for name, reading in readings.items():
            last = self._last.get(name, ABSENT)
            if reading is ABSENT:
                news |= last is not ABSENT
            elif reading and last and last is not ABSENT:
                news |= reading.devices.keys() != last.devices.keys()
        if self._last_s is not None and now_s > self._last_s:
            taken = {name: step(self._last.get(name), reading) for name, reading in readings.items()}
            self._steps.append((now_s - self._last_s, taken))
            enough = self._window_s - self._slack_s
            while self._span() - self._steps[0][0] >= enough:
                self._steps.popleft()
        self._last_s = now_s
        self._last = dict(readings)
        return news

    def _span(self) -> float:
        return sum(length for length, _ in self._steps)

    def rates(self, names: Iterable[str]) -> dict[str, Rates]:
        """The window's figures of NAMES; shares are of their sum."""
        span = self._span()
        sums = {name: Step() for name in names}
        for _, taken in self._steps:
            for name, total in sums.items():
                if part := taken.get(name):
                    total.rbytes += part.rbytes
                    total.wbytes += part.wbytes
                    for index, count in part.latency.items():
                        total.latency[index] = total.latency.get(index, 0) + count
                    for device, regulated in part.regulated.items():
                        total.regulated.setdefault(device, Regulated()).add(regulated)
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
                use=use(total.regulated.values(), span),
            )
        return result
