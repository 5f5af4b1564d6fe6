# SPDX-License-Identifier: Apache-2.0
"""Latencies of reads that are planned at fixed intervals.

A reader that plans its next read when the previous one completes takes few samples while the device is slow. Here the
time of a read counts from its planned moment, so it includes the wait for the previous read.
"""

from collections.abc import Iterable


def waits(times: Iterable[float], interval: float, end: float) -> list[float]:
    """The time of each read of one reader from its planned moment, in the order of the reads.

    TIMES: how long each read took from its start. A late read starts when the previous one completes. INTERVAL: between
    two planned moments. END: when the reader ended. Reads that were planned but never started have waited at least until
    then. All are in one unit.
    """
    took = 0.0
    found = []
    for time in times:
        took = max(took - interval, 0.0) + time
        found.append(took)
    return found + [end - i * interval for i in range(len(found), int(end / interval))]
