# SPDX-License-Identifier: Apache-2.0
"""Who slows whom: a victim's waiting time, attributed to those who had the device meanwhile. A pure function.

While a request waits, the device serves requests of the others, and of the same app. So the waiting time of an
interval is divided in proportion to the device time that each one took in that interval. The part of the app itself is
kept, too: an app with many requests at once also waits for its own.
"""

from collections.abc import Mapping

Blame = dict[tuple[str, str], int]  # (who waited, who had the device) → waiting time in µs


def attribute(waited: Mapping[str, int], served: Mapping[str, int]) -> Blame:
    """Divide the waiting time WAITED of each app by the device time SERVED of all apps, both in µs and not negative.

    Guarantees:
    - The parts of an app add up to its waiting time exactly: rounding errors go to the largest remainders.
    - A part differs from the exact proportion by less than 1 µs.
    - An app without device time is not blamed by others.
    - If nobody had device time, an app waited for requests of its own that were not served yet.
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
