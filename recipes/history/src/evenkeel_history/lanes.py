# SPDX-License-Identifier: Apache-2.0
"""Histograms as numbers: the count of bucket N is in the LANE bytes from LANE * N on. Pure functions.

A page of the history adds thousands of histograms. Python adds two such numbers in C, which takes a small part of the
time of a loop over the buckets, and each needs a small part of the memory of a dict. A million requests per second would
fill a lane after half a million years.
"""

import struct
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from evenkeel_common.iostat import BUCKETS, Histogram, bucket_upper, rank

LANE = 8
BAND = 4  # buckets per band of bands(); eight buckets are a doubling of the latency
BITS = 8 * LANE  # of a lane
_UPPER = [bucket_upper(index) for index in range(BUCKETS)]
Lanes = int


def lanes(first: int, chunks: Iterable[bytes]) -> Lanes:
    """The histogram whose buckets from FIRST on have the counts CHUNKS. Each is LANE bytes long, least significant first."""
    return int.from_bytes(b"".join(chunks), "little") << (BITS * first)


def chunk(count: int) -> bytes:
    return count.to_bytes(LANE, "little")


def counts(found: Lanes) -> Sequence[int]:
    """The counts of all buckets, up to the last one that is used."""
    size = -(-found.bit_length() // BITS)
    return struct.unpack(f"<{size}Q", found.to_bytes(size * LANE, "little"))


def first_used(found: Lanes) -> int:
    """The first used bucket. FOUND is not 0."""
    return ((found & -found).bit_length() - 1) // BITS


def _used(found: Lanes) -> tuple[int, Sequence[int]]:
    """The first used bucket, and the counts from this one up to the last one that is used. FOUND is not 0."""
    first = first_used(found)
    return first, counts(found >> first * BITS)


def histogram(found: Lanes) -> Histogram:
    if not found:
        return {}
    first, buckets = _used(found)
    return {index: count for index, count in enumerate(buckets, first) if count}


def _bands(found: Lanes, size: int, width: int) -> bytes:
    """The counts of all bands in SIZE buckets. Each is WIDTH bytes long, which is 4 or 8, least significant first."""
    pairs = found + (found >> BITS)
    # each lane whose number is a multiple of BAND now has the sum of BAND lanes
    fours = pairs + (pairs >> 2 * BITS)
    view = memoryview(fours.to_bytes(size * LANE, "little")).cast("I" if width == 4 else "Q")
    return view[:: BAND * LANE // width].tobytes()


def bands(found: Lanes) -> Lanes:
    """FOUND with one lane for each BAND buckets."""
    return int.from_bytes(_bands(found, -(-found.bit_length() // BITS), LANE), "little")


@dataclass(frozen=True, slots=True)
class Bands:
    """The bands of several histograms, in few bytes: without the bands that none of them uses, and 4 bytes for a count.

    If all histograms together have 2**32 requests or more, a count has 8 bytes.
    """

    whole: Lanes = 0  # the bands of all histograms together
    first: int = 0  # the first band that a histogram uses
    width: int = LANE  # bytes of a count
    length: int = 0  # bytes of a histogram
    data: bytes = b""

    @classmethod
    def of(cls, histograms: Sequence[Lanes]) -> "Bands":
        total = sum(histograms)
        if not total:
            return cls()
        start, buckets = _used(total)
        first = start // BAND
        below, size = first * BAND * BITS, start - first * BAND + len(buckets)
        width = 4 if sum(buckets) < 1 << 32 else LANE
        parts = [_bands(each >> below, size, width) for each in histograms]
        return cls(bands(total), first, width, len(parts[0]), b"".join(parts))

    def one(self, number: int) -> Lanes:
        """The bands of the histogram NUMBER, counted from 0."""
        part = self.data[number * self.length : (number + 1) * self.length]
        if self.width == LANE:
            return int.from_bytes(part, "little") << BITS * self.first
        return lanes(self.first, map(chunk, struct.unpack(f"<{len(part) // 4}I", part)))

    def size(self) -> int:
        """How many bytes of memory it needs, roughly."""
        return 150 + sys.getsizeof(self.whole) + sys.getsizeof(self.data)


def percentile(found: Lanes, percent: int | Fraction) -> int | None:
    """As evenkeel_common.iostat.percentile()."""
    if not found:
        return None
    first, buckets = _used(found)
    total = sum(buckets)
    # from the largest latency down, because most callers want a percentile near it
    above = total - rank(total, percent)
    index = len(buckets) - 1
    while buckets[index] <= above:
        above -= buckets[index]
        index -= 1
    return _UPPER[first + index]
