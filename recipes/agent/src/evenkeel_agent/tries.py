# SPDX-License-Identifier: Apache-2.0
"""Limits for wrong passwords.

A wrong password counts against the account, and against the network from which it came. With these two counts alone, a
stranger behind the same NAT, or many hosts together, could lock out the owner. So each browser that has logged in has
a device secret. The agent counts its wrong passwords separately, and those of others do not count against it (OWASP:
device cookies).
"""

import ipaddress
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence

# The limits of a network or device, as pairs: a period in seconds, and how many wrong passwords it may have. With 300
# a day, nobody guesses a password of 10 characters. After 5 typing errors, a user waits for at most a minute.
LIMITS = ((60, 5), (3600, 30), (86400, 300))
# The limits of an account are higher, because all networks together count against it. They still prevent guessing.
ACCOUNT_LIMITS = ((60, 20), (3600, 120), (86400, 600))
KEYS = 4096  # the maximum number of counts; beyond it, the count that changed least recently is dropped


def network(address: str) -> str:
    """The network to which ADDRESS belongs. For IPv6: its /64, because one host may use all its addresses. Else ADDRESS."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]
    return str(ipaddress.ip_network((parsed, 64), strict=False)) if parsed.version == 6 else address


class Tries:
    """Counts of wrong passwords, by key. They exist in memory only, so a restart of the agent resets them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()

    @staticmethod
    def keys(user: str, address: str, device: str) -> tuple[tuple[str, Sequence[tuple[int, int]]], ...]:
        """The keys under which a try counts, with their limits. DEVICE: id of a browser that has logged in as USER, or ""."""
        if device:
            return ((f"device {user} {device}", LIMITS),)
        return ((f"network {network(address)}", LIMITS), (f"account {user}", ACCOUNT_LIMITS))

    def wait_s(self, user: str, address: str, device: str) -> int:
        """The seconds until the next try is allowed; 0 if it is allowed now."""
        now, wait = self._clock(), 0.0
        for key, limits in self.keys(user, address, device):
            times = self._wrong.get(key, ())
            for seconds, most in limits:
                recent = [at for at in times if at > now - seconds]
                if len(recent) >= most:
                    wait = max(wait, recent[-most] + seconds - now)
        return int(wait) + 1 if wait > 0 else 0

    def wrong(self, user: str, address: str, device: str) -> None:
        """Count a wrong password."""
        now = self._clock()
        for key, limits in self.keys(user, address, device):
            times = self._wrong.setdefault(key, deque(maxlen=limits[-1][1]))
            times.append(now)
            self._wrong.move_to_end(key)
        while len(self._wrong) > KEYS:
            self._wrong.popitem(last=False)
