# SPDX-License-Identifier: Apache-2.0
"""Parses io.evenkeel.stat and computes percentiles from its histograms. Pure functions.

docs/reference/scheduler.md defines the format, the fields and the histogram buckets.
"""

import re
from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate
from operator import mul

BUCKETS = 200  # number of buckets of a histogram; the last bucket also counts all larger latencies
# counters that only groups with a fixed share have
FIXED_COUNTERS = ("fixed_ios", "fixed_late", "fixed_ideal_us", "fixed_actual_us")
COUNTERS = frozenset(
    ("rbytes", "wbytes", "rios", "wios", "rmerged", "wmerged", "throttled", *FIXED_COUNTERS, "waited_us")
)
HISTOGRAMS = frozenset(("rwait", "rserv", "rtotal", "rgate", "wwait", "wserv", "wtotal", "wgate"))

PARTS = "waited_for"  # by cgroup, the part of waited_us during which the device served that cgroup
MAX_PARTS = 128  # the kernel prints at most so many parts

Histogram = dict[int, int]  # bucket index -> number of requests


class StatError(ValueError):
    """The text is not in the format of io.evenkeel.stat. The message says what is wrong in it."""


@dataclass(slots=True)
class DeviceStat:
    """One line of the file: the counters of one device. WEIGHT is 0, and COUNTERS or HISTOGRAMS lack what the line lacks."""

    weight: int = 0
    counters: dict[str, int] = field(default_factory=dict)
    histograms: dict[str, Histogram] = field(default_factory=dict)
    waited_for: dict[int, int] = field(default_factory=dict)  # cgroup (inode), or 0 -> time in µs


def bucket(latency_us: int) -> int:
    """The index of the bucket that counts a latency."""
    if latency_us < 8:
        return max(latency_us, 0)
    e = latency_us.bit_length() - 1
    return min((e - 2) * 8 + ((latency_us >> (e - 3)) & 7), BUCKETS - 1)


def bucket_upper(index: int) -> int:
    """The largest latency in µs of bucket INDEX."""
    if index < 8:
        return index
    return ((8 + index % 8 + 1) << (index // 8 + 2 - 3)) - 1


# by bucket: the sum of its smallest and its largest latency in µs, which is twice the middle
_ENDS = [(bucket_upper(index - 1) + 1 if index else 0) + bucket_upper(index) for index in range(BUCKETS)]


def rank(total: int, percent: int | Fraction) -> int:
    """Which of TOTAL requests, sorted by their latency and counted from 1, is the percentile PERCENT (nearest rank)."""
    # exact, and much faster than arithmetic with a Fraction
    numerator, denominator = percent.as_integer_ratio()
    return max(1, -(-total * numerator // (100 * denominator)))


def percentiles(histogram: Mapping[int, int], percents: Iterable[int | Fraction]) -> list[int | None]:
    """Each of PERCENTS (nearest rank) as the upper bound of its bucket, in µs; None without requests."""
    indices = sorted(histogram)
    sums = list(accumulate(map(histogram.__getitem__, indices)))
    if not sums or sums[-1] <= 0:
        return [None for _ in percents]
    return [bucket_upper(indices[bisect_left(sums, rank(sums[-1], percent))]) for percent in percents]


def percentile(histogram: Mapping[int, int], percent: int | Fraction) -> int | None:
    """The percentile PERCENT, as from percentiles()."""
    return percentiles(histogram, (percent,))[0]


def time_of(histogram: Mapping[int, int]) -> int:
    """The sum of the latencies in HISTOGRAM, in µs. Each counts as the middle of its bucket: the error is at most 1/16."""
    twice: int = sum(map(mul, map(_ENDS.__getitem__, histogram), histogram.values()))
    return twice // 2


def _number(text: str, what: str) -> int:
    # This check comes before int(), which also accepts signs, underscores and digits of other scripts.
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise StatError(f"{what} is {text!r:.40}, not a whole number")
    return int(text)


# Pairs of numbers with at most 20 digits. The plus signs after a quantity keep the search from going back.
_PAIRS = re.compile(r"[0-9]{1,20}+:[0-9]{1,20}+(?:,[0-9]{1,20}+:[0-9]{1,20}+)*+")


def _histogram(text: str, what: str) -> Histogram:
    histogram: Histogram = {}
    if text == "-":
        return histogram
    if _PAIRS.fullmatch(text):
        numbers = list(map(int, text.replace(":", ",").split(",")))
        histogram = dict(zip(numbers[::2], numbers[1::2], strict=True))
        if len(histogram) * 2 == len(numbers) and max(histogram) < BUCKETS:
            return histogram
        histogram = {}
    # The text has a bucket twice, or an error: look at one pair after the other.
    for pair in text.split(","):
        left, colon, right = pair.partition(":")
        index = _number(left, f"a bucket of {what}")
        if not colon or index >= BUCKETS:
            raise StatError(f"{what} contains {pair!r:.40}, which is not BUCKET:COUNT")
        histogram[index] = histogram.get(index, 0) + _number(right, f"bucket {index} of {what}")
    return histogram


def _parts(text: str, what: str) -> dict[int, int]:
    parts: dict[int, int] = {}
    if text == "-":
        return parts
    pairs = text.split(",")
    if len(pairs) > MAX_PARTS:
        raise StatError(f"{what} has {len(pairs)} parts")
    for pair in pairs:
        left, colon, right = pair.partition(":")
        cgroup = _number(left, f"a cgroup of {what}")
        if not colon or cgroup in parts:
            raise StatError(f"{what} contains {pair!r:.60}, which is not CGROUP:TIME or is there twice")
        parts[cgroup] = _number(right, f"cgroup {cgroup} of {what}")
    return parts


def _device(name: str) -> bool:
    major, _, minor = name.partition(":")
    return all(part.isascii() and part.isdigit() for part in (major, minor))


def parse(text: str, histograms: Container[str] = HISTOGRAMS) -> dict[str, DeviceStat]:
    """The lines of io.evenkeel.stat by device ("MAJ:MIN"). Only the histograms in HISTOGRAMS are parsed.

    Unknown keys are ignored, because a newer evenkeel may add some. If a known key has a value that evenkeel never
    writes, it raises StatError.
    """
    devices: dict[str, DeviceStat] = {}
    for line in text.splitlines():
        fields = line.split()
        if not fields:
            continue
        name = fields[0]
        if not _device(name):
            raise StatError(f"a line starts with {name!r:.40}, not with a device number MAJ:MIN")
        if name in devices:
            raise StatError(f"device {name} has two lines")
        device = devices[name] = DeviceStat()
        for token in fields[1:]:
            key, equals, value = token.partition("=")
            if not equals:
                continue
            if key in COUNTERS:
                device.counters[key] = _number(value, f"{key} of {name}")
            elif key in HISTOGRAMS:
                if key in histograms:
                    device.histograms[key] = _histogram(value, f"{key} of {name}")
            elif key == PARTS:
                device.waited_for = _parts(value, f"{key} of {name}")
            elif key == "weight":
                device.weight = _number(value, f"weight of {name}")
    return devices
