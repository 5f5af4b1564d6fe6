# SPDX-License-Identifier: Apache-2.0
"""io.evenkeel.stat: its text, its histogram buckets, and percentiles from them. Pure functions.

A line per device: "MAJ:MIN key=value ...", all cumulative but the weight. Latency histograms are
log-linear, 8 buckets to each power of two (relative error at most 1/8), of latencies in microseconds.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

BUCKETS = 200  # the last one also takes everything above it
PERF_COUNTERS = ("perf_ios", "perf_late", "perf_ideal_us", "perf_actual_us")  # of a regulated group only
COUNTERS = frozenset(("rbytes", "wbytes", "rios", "wios", "rmerged", "wmerged", "throttled", *PERF_COUNTERS))
HISTOGRAMS = frozenset(("rwait", "rserv", "rtotal", "wwait", "wserv", "wtotal"))

Histogram = dict[int, int]  # bucket index -> number of requests


class StatError(ValueError):
    """The text is not what evenkeel writes; the message says where."""


@dataclass(slots=True)
class DeviceStat:
    """One line; what the line does not have is 0 or empty."""

    weight: int = 0
    counters: dict[str, int] = field(default_factory=dict)
    histograms: dict[str, Histogram] = field(default_factory=dict)


def bucket(latency_us: int) -> int:
    """The bucket of a latency: exact below 8 µs, then 8 to each power of two, clamped to the last."""
    if latency_us < 8:
        return max(latency_us, 0)
    e = latency_us.bit_length() - 1
    return min((e - 2) * 8 + ((latency_us >> (e - 3)) & 7), BUCKETS - 1)


def bucket_upper(index: int) -> int:
    """The largest latency in µs of bucket INDEX."""
    if index < 8:
        return index
    return ((8 + index % 8 + 1) << (index // 8 + 2 - 3)) - 1


def percentile(histogram: Mapping[int, int], percent: int) -> int | None:
    """Upper bound in µs of the bucket with the request of rank ceil(PERCENT % of all); None if empty."""
    total = sum(histogram.values())
    if total <= 0:
        return None
    rank = max(1, -(-total * percent // 100))
    for index in sorted(histogram):
        rank -= histogram[index]
        if rank <= 0:
            return bucket_upper(index)
    raise AssertionError("the rank is never above the total")


def _number(text: str, what: str) -> int:
    # int() takes far more than the kernel writes: signs, underscores, other scripts' digits
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise StatError(f"{what} is {text!r:.40}, not a number")
    return int(text)


def _histogram(text: str, what: str) -> Histogram:
    histogram: Histogram = {}
    if text == "-":
        return histogram
    for pair in text.split(","):
        left, colon, right = pair.partition(":")
        index = _number(left, f"a bucket of {what}")
        if not colon or index >= BUCKETS:
            raise StatError(f"{what} has the bucket {pair!r:.40}")
        histogram[index] = histogram.get(index, 0) + _number(right, f"bucket {index} of {what}")
    return histogram


def _device(name: str) -> bool:
    major, _, minor = name.partition(":")
    return all(part.isascii() and part.isdigit() for part in (major, minor))


def parse(text: str, histograms: Container[str] = HISTOGRAMS) -> dict[str, DeviceStat]:
    """The devices of io.evenkeel.stat by "MAJ:MIN"; of the histograms only those in HISTOGRAMS are read.

    Unknown keys are passed over, because a newer kernel adds some; a known key with a value that evenkeel
    would not write raises StatError.
    """
    devices: dict[str, DeviceStat] = {}
    for line in text.splitlines():
        fields = line.split()
        if not fields:
            continue
        name = fields[0]
        if not _device(name):
            raise StatError(f"a line starts with {name!r:.40}, not with a device number")
        if name in devices:
            raise StatError(f"device {name} is there twice")
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
            elif key == "weight":
                device.weight = _number(value, f"weight of {name}")
    return devices
