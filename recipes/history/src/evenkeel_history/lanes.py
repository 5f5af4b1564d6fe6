# SPDX-License-Identifier: Apache-2.0
"""Histograms as numbers: the count of bucket N is in the LANE bytes from LANE * N on. Pure functions.

A page of the history adds thousands of histograms. Python adds two such numbers in C, which takes a small part of the
time of a loop over the buckets, and each needs a small part of the memory of a dict. A million requests per second would
fill a lane after half a million years.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import accumulate

from evenkeel_common.iostat import Histogram, bucket_upper, rank

LANE = 8
Lanes = int


def lanes(first: int, chunks: Iterable[bytes]) -> Lanes:
    """The histogram whose buckets from FIRST on have the counts CHUNKS. Each is LANE bytes long, least significant first."""
    return int.from_bytes(b"".join(chunks), "little") << (8 * LANE * first)


def chunk(count: int) -> bytes:
    return count.to_bytes(LANE, "little")


def counts(found: Lanes) -> Sequence[int]:
    """The counts of all buckets, up to the last one that is used."""
    size = -(-found.bit_length() // (8 * LANE))
    return struct.unpack(f"<{size}Q", found.to_bytes(size * LANE, "little"))


def histogram(found: Lanes) -> Histogram:
    return {index: count for index, count in enumerate(counts(found)) if count}


def percentile(found: Lanes, percent: int | Fraction) -> int | None:
    """As evenkeel_common.iostat.percentile()."""
    sums = list(accumulate(counts(found)))
    return bucket_upper(bisect_left(sums, rank(sums[-1], percent))) if sums else None
