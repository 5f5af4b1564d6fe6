# SPDX-License-Identifier: Apache-2.0
"""Histograms as numbers: the count of bucket N is in the LANE bytes from LANE * N on. Pure functions.

A page of the history adds thousands of histograms. Python adds two such numbers in C, which takes a small part of the
time of a loop over the buckets, and each needs a small part of the memory of a dict. A million requests per second would
fill a lane after half a million years.
"""

import struct
from collections.abc import Iterable, Sequence
from fractions import Fraction

from evenkeel_common.iostat import BUCKETS, Histogram, bucket_upper, rank

LANE = 8
BAND = 4  # buckets per band of bands(); eight buckets are a doubling of the latency
_BITS = 8 * LANE
_UPPER = [bucket_upper(index) for index in range(BUCKETS)]
Lanes = int


def lanes(first: int, chunks: Iterable[bytes]) -> Lanes:
    """The histogram whose buckets from FIRST on have the counts CHUNKS. Each is LANE bytes long, least significant first."""
    return int.from_bytes(b"".join(chunks), "little") << (_BITS * first)


def chunk(count: int) -> bytes:
    return count.to_bytes(LANE, "little")


def counts(found: Lanes) -> Sequence[int]:
    """The counts of all buckets, up to the last one that is used."""
    size = -(-found.bit_length() // _BITS)
    return struct.unpack(f"<{size}Q", found.to_bytes(size * LANE, "little"))


def _used(found: Lanes) -> tuple[int, Sequence[int]]:
    """The first used bucket, and the counts from this one up to the last one that is used. FOUND is not 0."""
    first = ((found & -found).bit_length() - 1) // _BITS
    return first, counts(found >> first * _BITS)


def histogram(found: Lanes) -> Histogram:
    if not found:
        return {}
    first, buckets = _used(found)
    return {index: count for index, count in enumerate(buckets, first) if count}


def bands(found: Lanes) -> Lanes:
    """FOUND with one lane for each BAND buckets."""
    pairs = found + (found >> _BITS)
    # each lane whose number is a multiple of BAND now has the sum of BAND lanes
    fours = pairs + (pairs >> 2 * _BITS)
    size = -(-found.bit_length() // _BITS)
    every = memoryview(fours.to_bytes((size + 1) * LANE, "little")).cast("Q")[::BAND]
    return int.from_bytes(every.tobytes(), "little")


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
