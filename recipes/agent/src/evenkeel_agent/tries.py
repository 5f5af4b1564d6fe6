# SPDX-License-Identifier: Apache-2.0
"""Limits of wrong passwords.

A wrong password counts for the account and for the network that it came from. Someone behind the same NAT, or many
hosts together, could so lock out the owner. Therefore a browser that has logged in before has a device secret: its
tries have a count of their own, and no one else's tries count against it (OWASP: device cookies).
"""

import ipaddress
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence

# Seconds and wrong passwords. 300 a day cannot guess 10 characters; a user who mistypes waits at most a minute.
LIMITS = ((60, 5), (3600, 30), (86400, 300))
# An account is known to many networks: their tries together may be more, and still cannot guess a password.
ACCOUNT_LIMITS = ((60, 20), (3600, 120), (86400, 600))
KEYS = 4096  # counts that are kept; beyond it, the one that was not used for longest is forgotten


def network(address: str) -> str:
    """The network that ADDRESS is one host of: for IPv6 its /64, because one host owns all addresses of a /64."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]
    return str(ipaddress.ip_network((parsed, 64), strict=False)) if parsed.version == 6 else address


class Tries:
    """Counts of wrong passwords, by key. They live in memory: a restart of the agent forgets them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()

    @staticmethod
    def keys(user: str, address: str, device: str) -> tuple[tuple[str, Sequence[tuple[int, int]]], ...]:
        """What a try counts for. DEVICE: the id of a device that has logged in as USER before, or ""."""
        if device:
            return ((f"device {user} {device}", LIMITS),)
        return ((f"network {network(address)}", LIMITS), (f"account {user}", ACCOUNT_LIMITS))

    def wait_s(self, user: str, address: str, device: str) -> int:
        """Seconds until the next try is allowed; 0: now."""
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
