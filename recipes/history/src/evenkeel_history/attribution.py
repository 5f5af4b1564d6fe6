# SPDX-License-Identifier: Apache-2.0
"""Who slows whom: attributes the waiting time of each app to the apps that the device served meanwhile. A pure function.

The scheduler keeps, for each cgroup, the time for which its requests waited, and by other cgroup the part during which the
device served that cgroup (docs/reference/scheduler.md: waited_us, waited_for). If requests of several cgroups are in the
device, each request has an equal share of the time. The rest of the waiting time is the cgroup's own: the device served
the cgroup itself, or nothing. This function joins cgroups to apps.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product, repeat

Blame = dict[tuple[str, str], int]  # (app that waited, app that used the device) → waiting time in µs


@dataclass(slots=True)
class Wait:
    """For how long the requests of a cgroup waited, in µs; other cgroups (inodes), and the part of this time for each one."""

    us: int
    cgroups: list[int]
    parts: list[int]


@lru_cache(2)
def pairs(apps: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """All pairs of APPS, row by row. A dict finds a key sooner if it is the same object."""
    return tuple(product(apps, apps))


def attribute(waits: Iterable[tuple[str, Wait]], apps: Mapping[int, str], rest: str) -> Blame:
    """The waiting time of each app, by the app that used the device.

    WAITS: the app and the waiting time of each cgroup, in µs and not negative. APPS: the app of each cgroup, by inode.
    REST: the app for a cgroup that is not in APPS. Guarantees:

    - The parts of an app's waiting time add up to this time exactly.
    - The part for another app is the sum of the parts for its cgroups. The scheduler rounds each of them down, so they
      may exceed the waiting time by a few µs: then the largest parts are reduced.
    - What is left is the app's own part.
    """
    blame: Blame = {}
    for app, wait in waits:
        parts, total = wait.parts, sum(wait.parts)
        if total > wait.us:
            parts, total = _reduced(parts, total - wait.us), wait.us
        # most of the work is done in C: with 16 busy apps, there are 256 parts each second
        causes = zip(repeat(app), map(apps.get, wait.cgroups, repeat(rest)))
        row = dict(zip(causes, parts, strict=True))
        if len(row) < len(parts):  # several cgroups of one app
            causes = zip(repeat(app), map(apps.get, wait.cgroups, repeat(rest)))
            row = _added({}, zip(causes, parts, strict=True))
        own = app, app
        row[own] = row.get(own, 0) + wait.us - total
        if own in blame:
            _added(blame, row.items())
        else:
            blame.update(row)
    return {pair: us for pair, us in blame.items() if us} if 0 in blame.values() else blame


def _added(blame: Blame, more: Iterable[tuple[tuple[str, str], int]]) -> Blame:
    """BLAME, to which MORE was added."""
    for pair, us in more:
        blame[pair] = blame.get(pair, 0) + us
    return blame


def _reduced(parts: Sequence[int], excess: int) -> list[int]:
    """PARTS without EXCESS, which is taken from the largest parts."""
    result = list(parts)
    for us, number in sorted(((us, number) for number, us in enumerate(parts)), reverse=True):
        result[number] -= min(us, excess)
        excess -= min(us, excess)
    return result
