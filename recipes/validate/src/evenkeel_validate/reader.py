# SPDX-License-Identifier: Apache-2.0
"""The light reader: the command of ek-light-reader, and its log. No I/O here.

fio plans reads, too. But it sleeps until shortly before a planned read and then waits in a loop. How long before, it measures
at its start. On a board with a busy processor, its threads then used a third of the processor for these loops, and reads
waited for each other.
"""

import math
from collections.abc import Sequence
from pathlib import Path

from evenkeel_report.latencies import Bins

from .cases import Job

PROGRAM = "ek-light-reader"
# planned reads are shared among this many threads, so that one slow read does not hold up all of them
THREADS = 8


def command(
    job: Job, files: Sequence[Path], *, offset: int, length: int, seconds: float, seed: int, log: Path
) -> list[str]:
    """The command that reads LENGTH bytes of each of FILES, from OFFSET on, and writes LOG at its end."""
    return [
        PROGRAM, f"--rate={job.per_second}", f"--readers={THREADS}", f"--size={job.size}", f"--offset={offset}",
        f"--length={length}", f"--seed={seed}", f"--duration={math.ceil(seconds)}s", f"--log={log}",
        *(["--buffered"] if job.buffered else []), "--", *map(str, files),
    ]  # fmt: skip


def logged(text: str, begin: float, end: float) -> Bins:
    """The latencies of reads in the log TEXT.

    Only reads count that were planned for the window from BEGIN to END, on the clock of time.monotonic(). Raises ValueError if
    the log is damaged.
    """
    bins: dict[int, int] = {}
    for line in text.splitlines():
        try:
            planned, took = map(int, line.split())
        except ValueError as error:
            raise ValueError(f"ek-light-reader wrote a line that is no read: {line[:80]!r}") from error
        if begin <= planned / 1e9 < end:
            # three significant digits are precise enough, and keep the table small
            digits = max(len(str(took)) - 3, 0)
            key = round(took, -digits) if digits else took
            bins[key] = bins.get(key, 0) + 1
    return bins


def intervals(job: Job) -> list[float]:
    """The seconds between two planned reads of each thread, as ek-light-reader plans them."""
    primes: list[int] = []
    number = 2
    while len(primes) < THREADS:
        if all(number % prime for prime in primes):
            primes.append(number)
        number += 1
    parts = [0.75 + 0.5 * (math.sqrt(prime) % 1) for prime in primes]
    return [sum(parts) / (job.per_second * part) for part in parts]
