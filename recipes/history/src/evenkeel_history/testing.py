# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S311  (random figures need no cryptography)
"""Generates the history of 16 busy apps. Tests of size and speed use it, also those of the panel. A board does not have it."""

import random
from collections.abc import Iterable

from evenkeel_common.iostat import bucket

from .period import READ, SYSTEM, WRITE, Period, Sum, pack
from .rows import add_up
from .store import Store
from .tiers import TIERS

APPS = [f"app-{number:02}" for number in range(16)]
REQUESTS = 200  # number of random latencies per histogram; more latencies would hardly fill more buckets


def busy(seed: int, ms: int = 60_000, apps: list[str] = APPS) -> Period:
    """A span of MS milliseconds in which every app reads, writes and waits for every other app.

    Latencies have a log-normal distribution.
    """
    draw = random.Random(seed)
    result = Sum(ms=ms)
    everybody = [*apps, SYSTEM]
    for number, app in enumerate(everybody):
        for direction in (READ, WRITE):
            flow = result.flow((app, "mmcblk0", direction))
            scale = draw.randint(2, 200) * ms // 60_000 + 1
            middle = 6.5 + number % 5 * 0.4 + direction
            for _ in range(REQUESTS):
                index = bucket(int(draw.lognormvariate(middle, 0.7)))
                flow.latency[index] = flow.latency.get(index, 0) + draw.randint(1, scale)
            flow.ios = sum(flow.latency.values())
            flow.bytes = flow.ios * draw.choice((4096, 16384, 131072))
            flow.wait_us = flow.ios * draw.randint(100, 3000)
            flow.service_us = flow.ios * draw.randint(100, 2000)
            flow.gates = draw.randint(0, 50)
            flow.gate_us = flow.gates * draw.randint(100, 5000)
        for other in everybody:
            result.blame[app, other] = draw.randint(1, ms * 100)
        result.add_stalls(app, draw.randint(0, 3), draw.randint(0, 500))
    return result.period()


def total(periods: Iterable[Period]) -> Sum:
    """The sum of the rows that PERIODS are stored as."""
    return add_up(((0, pack(each)) for each in periods), spots=False).total.sum()


def fill(store: Store, end: int, apps: list[str] = APPS, kinds: int = 12) -> None:
    """Fill STORE with the rows of all tiers that it would have after two years that end at END (seconds since 1970).

    Each tier has KINDS different rows, which repeat.
    """
    db, last = store._db, 0
    assert db is not None
    nexts, lasts = dict(store._next), dict(store._lasts)
    db.execute("BEGIN")
    for number, tier in enumerate(TIERS):
        pool = [pack(busy(seed, tier.seconds * 1000, apps)) for seed in range(kinds)]
        begin = end - tier.rows * tier.seconds
        for row in range(tier.rows):
            if number:
                # the last finer row that this row covers; the newest row covers up to the newest finer row
                last = max(TIERS[number - 1].rows - (tier.rows - 1 - row), 0)
            store._insert(db, tier, nexts, begin + row * tier.seconds, last, pool[row % kinds])
        lasts[tier.table] = last
    db.execute("COMMIT")
    store._next, store._lasts = nexts, lasts
