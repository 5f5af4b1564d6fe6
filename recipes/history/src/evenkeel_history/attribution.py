# SPDX-License-Identifier: Apache-2.0
"""Who slows whom: attributes the waiting time of each app to the apps that used the device meanwhile. A pure function.

While a request waits, the device serves requests of other apps, and of the same app. So the waiting time of an app in
an interval is divided among all apps, in proportion to the device time of each app in that interval.

An app waits for its own requests only while it has more than one. How long that was is not known, but a bound is: the
time that its requests waited or were in the device, minus the time that the device was busy. The app's own part is in
proportion to its device time only within this bound. The other apps cause the rest. Otherwise a player that reads one
block at a time would cause a part of its own waiting time.
"""

from array import array
from collections.abc import Mapping
from functools import lru_cache
from itertools import product

from .library import library

Blame = dict[tuple[str, str], int]  # (app that waited, app that used the device) → waiting time in µs
LONG = 8  # bytes of a number of the C code


@lru_cache(2)
def pairs(apps: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """All pairs of APPS, row by row. A dict finds a key sooner if it is the same object."""
    return tuple(product(apps, apps))


def attribute(waited: Mapping[str, int], served: Mapping[str, int], elapsed_us: int) -> Blame:
    """Divide the waiting time of each app in proportion to the device time of all apps.

    WAITED: waiting time by app. SERVED: device time by app. ELAPSED_US: the length of the interval. All are in µs and not
    negative. C code computes the parts (src/attribution.c). Guarantees:

    - The parts of an app's waiting time add up to this time exactly. All parts are rounded down; then those with the
      largest remainders get 1 µs more.
    - The parts of two other apps are in proportion to their device times, with an error of less than 1 µs.
    - The own part of an app is at most in proportion to its device time. It is 0 if another app had device time and the
      app had at most one request at a time.
    - An app without device time gets no part of another app's waiting time.
    - If no other app had device time, the app gets its own waiting time.
    - If a time is 2**42 µs (50 days) or longer, the counters are wrong: there is no blame.
    """
    apps = sorted(waited.keys() | served.keys())
    times = array("Q", [waited.get(app, 0) for app in apps] + [served.get(app, 0) for app in apps])
    parts = array("Q", bytes(LONG * len(apps) ** 2))
    first, _ = times.buffer_info()
    if library().ek_history_attribute(
        first, first + LONG * len(apps), len(apps), elapsed_us, parts.buffer_info()[0]
    ):
        return {}
    return {pair: us for pair, us in zip(pairs(tuple(apps)), parts.tolist(), strict=True) if us}
