# SPDX-License-Identifier: Apache-2.0
"""Latencies of reads that are planned at fixed intervals.

A reader that plans its next read when the previous one completes takes few samples while the device is slow. Here the
time of a read counts from its planned moment, so it includes the wait for the previous read.
"""

from collections.abc import Iterable


def rates(mean: float, readers: int) -> list[int]:
    """The rate of each reader, from 3/4 to 5/4 of MEAN. They differ, so that the readers do not read in step."""
    return [round(mean * (0.75 + 0.5 * i / max(readers - 1, 1))) for i in range(readers)]


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
