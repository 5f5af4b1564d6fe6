# SPDX-License-Identifier: Apache-2.0
"""The I/O in a span of time: counters, histograms, stalls, and who slowed whom. Pure functions, without files.

A Period is the form for storage: it is small, and msgspec decodes it in C. A Sum is the form for computation: Periods
and Sums are added to it, in any order. Numbers of bytes and requests are exact, and so are times. Two kinds of numbers
are rounded when they are stored, to halve the size: counts in a histogram (error at most 1/32), and times in the matrix
of who slows whom (at most 1/128). To merge spans of time, histograms are added. Percentiles are never merged.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import msgspec
from evenkeel_common.iostat import Histogram, bucket_upper, percentile

from . import zstd
from .attribution import Blame, pairs

SYSTEM = ""  # the name that stands for everything on the board that is not an app
READ, WRITE = 0, 1
Key = tuple[str, str, int]  # app, device, READ or WRITE


@dataclass(slots=True)
class Flow:
    """I/O of an app on a device in one direction. Times are sums over all its requests, in µs."""

    bytes: int = 0
    ios: int = 0
    wait_us: int = 0  # time from tag to issue, plus gate_us
    gate_us: int = 0  # time that requests waited for a scheduler tag
    gates: int = 0  # number of requests that waited for a scheduler tag
    service_us: int = 0  # time in the device
    latency: Histogram = field(default_factory=dict)  # from tag to completion, as the app sees it

    def add(self, other: "Flow") -> None:
        self.bytes += other.bytes
        self.ios += other.ios
        self.wait_us += other.wait_us
        self.gate_us += other.gate_us
        self.gates += other.gates
        self.service_us += other.service_us
        self.add_latency(other.latency)

    def add_latency(self, latency: Histogram) -> None:
        mine = self.latency
        if not mine:  # a copy in C
            mine.update(latency)
            return
        for index, count in latency.items():
            mine[index] = mine.get(index, 0) + count

    def scalars(self) -> tuple[int, ...]:
        return self.bytes, self.ios, self.wait_us, self.gate_us, self.gates, self.service_us

    def percentile(self, percent: object) -> int | None:
        """The percentile of the latency as the upper bound of its bucket, in µs; None without requests."""
        return percentile(self.latency, percent)  # type: ignore[arg-type]

    @property
    def longest(self) -> int | None:
        return bucket_upper(max(self.latency)) if self.latency else None


class Period(msgspec.Struct, array_like=True, frozen=True):
    """A stored span of time. In the other fields, an app or device is its index in APPS or DEVICES."""

    ms: int  # the sampled part of the span, in ms
    apps: list[str]
    devices: list[str]
    # Rows: app, device, direction, the scalars of Flow. If the histogram is not empty, its first used bucket follows,
    # then the short() counts of all buckets from this one to the last used one.
    flows: list[list[int]]
    # A matrix as one list: for each app that waited, the short() time in µs for each app that used the device. Empty
    # if no app waited.
    blame: list[int]
    stalls: list[int]  # triples: app, number of stalls, their total duration in ms


def short(number: int, bits: int) -> int:
    """A code for NUMBER that keeps its BITS most significant bits. A larger number never has a smaller code."""
    shift = max(number.bit_length() - bits, 0)
    return (shift << (bits - 1)) + (number >> shift)


def shorts(numbers: Iterable[int], bits: int) -> list[int]:
    """short() of all NUMBERS, without a call for each one."""
    exact, half = 1 << bits, 1 << (bits - 1)
    return [n if n < exact else (shift := n.bit_length() - bits) * half + (n >> shift) for n in numbers]


def long(code: int, bits: int) -> int:
    """The number for CODE: the middle of the numbers that have this code. Its relative error is at most 1/2**BITS."""
    half = 1 << (bits - 1)
    if code < 2 * half:
        return code
    shift = code // half - 1
    return ((code % half + half) << shift) + (1 << shift >> 1)


COUNT_BITS, BLAME_BITS = 5, 7
LARGEST = (1 << 64) - 1  # the largest number that msgpack has
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Period)
MAX_PERIOD = 4 << 20  # the maximum size of a decompressed Period, in bytes; pack() never makes a larger one


@dataclass(slots=True)
class Sum:
    """The sum of periods."""

    ms: int = 0
    flows: dict[Key, Flow] = field(default_factory=dict)
    blame: Blame = field(default_factory=dict)
    stalls: dict[str, tuple[int, int]] = field(default_factory=dict)  # by app: number, total duration in ms

    def flow(self, key: Key) -> Flow:
        found = self.flows.get(key)
        if found is None:
            found = self.flows[key] = Flow()
        return found

    def add_flow(self, key: Key, flow: Flow) -> None:
        """Add FLOW. It may become a part of the Sum, so the caller must not use it any more."""
        if found := self.flows.get(key):
            found.add(flow)
        else:
            self.flows[key] = flow

    def add_blame(self, blame: Blame) -> None:
        mine = self.blame
        if not mine:  # a copy in C
            mine.update(blame)
            return
        for pair, us in blame.items():
            mine[pair] = mine.get(pair, 0) + us

    def add_stalls(self, app: str, count: int, ms: int) -> None:
        old = self.stalls.get(app, (0, 0))
        self.stalls[app] = old[0] + count, old[1] + ms

    def add(self, other: "Sum") -> None:
        self.ms += other.ms
        for key, flow in other.flows.items():
            self.flow(key).add(flow)
        self.add_blame(other.blame)
        for app, (count, ms) in other.stalls.items():
            self.add_stalls(app, count, ms)

    def period(self) -> Period:
        names = {app for app, _, _ in self.flows}.union(*self.blame, self.stalls)
        apps = {name: index for index, name in enumerate(sorted(names))}
        devices = {name: index for index, name in enumerate(sorted({device for _, device, _ in self.flows}))}
        flows = []
        for (app, device, direction), flow in sorted(self.flows.items()):
            row = [apps[app], devices[device], direction, *flow.scalars()]
            if latency := flow.latency:
                first, last = min(latency), max(latency)
                counts = [0] * (last - first + 1)
                for index, count in zip(latency, shorts(latency.values(), COUNT_BITS), strict=True):
                    counts[index - first] = count
                row += [first, *counts]
            flows.append(row)
        return Period(
            self.ms,
            list(apps),
            list(devices),
            flows,
            shorts(map(self.blame.get, pairs(tuple(apps)), repeat(0)), BLAME_BITS) if self.blame else [],
            [n for app, (count, ms) in sorted(self.stalls.items()) for n in (apps[app], count, ms)],
        )


def _saturated(value: Any) -> Any:
    """VALUE, in which LARGEST stands for each larger number."""
    if isinstance(value, int):
        return min(value, LARGEST)
    if isinstance(value, dict):
        return {key: _saturated(each) for key, each in value.items()}
    return [_saturated(each) for each in value] if isinstance(value, list | tuple) else value


def encode(value: Period | Sum) -> bytes:
    """VALUE as msgpack. It never fails: LARGEST stands for each larger number. Few sums need that, so it comes second."""
    try:
        return _encoder.encode(value)
    except OverflowError:
        return _encoder.encode(_saturated(msgspec.to_builtins(value)))


def pack(period: Period) -> bytes:
    return zstd.compress(encode(period))


def unzip(data: bytes) -> bytes:
    """What pack() has compressed: a Period as msgpack. Raises ValueError if DATA is damaged: it has a checksum."""
    if not data.startswith(zstd.MAGIC):
        return _unzip_old(data)
    length = zstd.length(data)
    if length is None or length > MAX_PERIOD:
        raise ValueError("a stored period is cut off or too long")
    with zstd.Decompressor(length) as room:
        text = room.decompress(data)
    if text is None:
        raise ValueError("a stored period cannot be read: it is damaged")
    return text


def _unzip_old(data: bytes) -> bytes:
    """As unzip(), for a row of a version that compressed with zlib."""
    zipped = zlib.decompressobj()
    try:
        text = zipped.decompress(data, MAX_PERIOD)
    except zlib.error as error:
        raise ValueError(f"a stored period cannot be read: {error}") from error
    if not zipped.eof:
        raise ValueError("a stored period is cut off or too long")
    return text


def unpack(data: bytes) -> Period:
    """The Period from which pack() made DATA. Raises ValueError if DATA is damaged.

    The checksum detects damage, so the numbers need no further check.
    """
    try:
        return _decoder.decode(unzip(data))
    except msgspec.DecodeError as error:
        raise ValueError(f"a stored period cannot be read: {error}") from error
