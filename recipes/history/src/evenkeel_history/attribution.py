# SPDX-License-Identifier: Apache-2.0
"""Who slows whom: attributes the waiting time of each app to the apps that used the device meanwhile. A pure function.

While a request waits, the device serves requests of other apps, and of the same app. So the waiting time of an app in
an interval is divided among all apps, in proportion to the device time of each app in that interval. One part goes to
the waiting app itself: if an app has many requests at once, they also wait for each other.
"""

from collections.abc import Mapping

Blame = dict[tuple[str, str], int]  # (app that waited, app that used the device) → waiting time in µs


def attribute(waited: Mapping[str, int], served: Mapping[str, int]) -> Blame:
    """Divide the waiting time of each app in proportion to the device time of all apps.

    WAITED: waiting time by app. SERVED: device time by app. Both are in µs and not negative. Guarantees:

    - The parts of an app's waiting time add up to this time exactly. All parts are rounded down; then those with the
      largest remainders get 1 µs more.
    - A part differs from the exact proportion by less than 1 µs.
    - An app without device time gets no part of another app's waiting time.
    - If no app had device time, each app gets its own waiting time: it waited for its own requests.
    """
    blame: Blame = {}
    total = sum(served.values())
    for victim, time in waited.items():
        if time <= 0:
            continue
        if total <= 0:
            blame[victim, victim] = time
            continue
        parts = {who: divmod(time * own, total) for who, own in served.items() if own > 0}
        left = time - sum(whole for whole, _ in parts.values())
        first = sorted(parts, key=lambda who: (-parts[who][1], who))[:left]
        for who, (whole, _) in parts.items():
            if part := whole + (who in first):
                blame[victim, who] = part
    return blame
