# SPDX-License-Identifier: Apache-2.0
"""Who slows whom: attributes the waiting time of each app to the apps that used the device meanwhile. A pure function.

While a request waits, the device serves requests of other apps, and of the same app. So the waiting time of an app in
an interval is divided among all apps, in proportion to the device time of each app in that interval.

An app waits for its own requests only while it has more than one. How long that was is not known, but a bound is: the
time that its requests waited or were in the device, minus the time that the device was busy. The app's own part is in
proportion to its device time only within this bound. The other apps cause the rest. Otherwise a player that reads one
block at a time would cause a part of its own waiting time.
"""

from collections.abc import Mapping

Blame = dict[tuple[str, str], int]  # (app that waited, app that used the device) → waiting time in µs


def attribute(waited: Mapping[str, int], served: Mapping[str, int], elapsed_us: int) -> Blame:
    """Divide the waiting time of each app in proportion to the device time of all apps.

    WAITED: waiting time by app. SERVED: device time by app. ELAPSED_US: the length of the interval. All are in µs and not
    negative. Guarantees:

    - The parts of an app's waiting time add up to this time exactly. All parts are rounded down; then those with the
      largest remainders get 1 µs more.
    - The parts of two other apps are in proportion to their device times, with an error of less than 1 µs.
    - The own part of an app is at most in proportion to its device time. It is 0 if another app had device time and the
      app had at most one request at a time.
    - An app without device time gets no part of another app's waiting time.
    - If no other app had device time, the app gets its own waiting time.
    """
    blame: Blame = {}
    total = sum(served.values())
    busy = min(elapsed_us, total)
    users = [(who, us) for who, us in served.items() if us > 0]
    for victim, time in waited.items():
        if time <= 0:
            continue
        own = served.get(victim, 0)
        if own == total:
            blame[victim, victim] = time
            continue
        # the waiting time in which the app had more than one request; device times have an error of up to 1/16
        excess = time + own - busy - (own // 16 if total > elapsed_us else 0)
        excess = min(max(excess, 0), time)
        # each part is a fraction with the denominator WHOLE
        others, whole = time * total - excess * own, total * (total - own)
        left, rests = time, []
        for who, us in users:
            part, rest = divmod(excess * own * (total - own) if who == victim else others * us, whole)
            left -= part
            rests.append((-rest, who))
            blame[victim, who] = part
        for _, who in sorted(rests)[:left]:
            blame[victim, who] += 1
    return {pair: us for pair, us in blame.items() if us}
