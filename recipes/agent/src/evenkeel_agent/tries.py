# SPDX-License-Identifier: Apache-2.0
"""Limits for wrong passwords.

A wrong password counts against the account, and against the network from which it came. With these two counts alone, a
stranger behind the same NAT, or many hosts together, could lock out the owner. So each browser that has logged in has
a device secret. The agent counts its wrong passwords separately, and those of others do not count against it (OWASP:
device cookies).

Guarantee: of the tries for one account that do not come from a known browser, no more wrong ones are checked than
ACCOUNT_LIMITS allow, whatever names and addresses they and other tries have. The same holds for the known browsers of an
account together. No count is dropped before it expires, and all counts take less than 5 MB.

Names and networks that anybody may invent have no counts of their own. They share the cells of a count-min sketch: each
key has a cell in each of ROWS rows, chosen by a secret hash, and the key's count is that of its lowest cell. So a count may
be too high, if other keys have filled all cells of a key, but never too low. A name that does not exist is counted like
one that does: the answers do not reveal which names exist.
"""

import hashlib
import ipaddress
import math
import secrets
import time
from array import array
from collections.abc import Callable, Sequence

Limits = Sequence[tuple[int, int]]
# The limits of a network or a known browser, as pairs: a period in seconds, and how many wrong passwords it may have. With
# 300 a day, nobody guesses a password of 10 characters. After 5 typing errors, a user waits for at most a minute.
LIMITS: Limits = ((60, 5), (3600, 30), (86400, 300))
# The limits of an account are higher, because all networks together count against it. They still prevent guessing. They
# also apply to a wider network: a host may have a /48 of IPv6, and with it 65,536 networks.
ACCOUNT_LIMITS: Limits = ((60, 20), (3600, 120), (86400, 600))
ROWS = 2
# Cells in a row. A password hash takes 30 ms at least, so 2,000 tries a minute are checked at most. With the limits of
# wider networks, it takes hundreds of hosts to fill a noticeable part of the cells.
ACCOUNTS, NETWORKS, WIDER = 128, 512, 128
BROWSERS = 32  # the maximum number of counts of the known browsers of an account
PENDING = 8  # the maximum number of passwords that are being checked (MAX_HASHING in accounts.py)
ALL, OTHERS = (
    "all",
    "others",
)  # the counts of all known browsers of an account, and of those without one; no ids of browsers
DAY_S = 86400


def network(address: str) -> str:
    """The network to which ADDRESS belongs. For IPv6: its /64, because one host may use all its addresses. Else ADDRESS."""
    return _network(address, 32, 64)


def wider(address: str) -> str:
    """The /24 of an IPv4 address, or the /48 of an IPv6 address."""
    return _network(address, 24, 48)


def _network(address: str, four: int, six: int) -> str:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]
    length = four if parsed.version == 4 else six
    if length == parsed.max_prefixlen:
        return address
    return str(ipaddress.ip_network((parsed, length), strict=False))


class Count:
    """The times of wrong passwords, oldest first, in whole seconds. As many as LIMITS need."""

    __slots__ = ("_limits", "_times")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._times = array("I")

    def wait_s(self, now: float) -> float:
        """The seconds until the next try is allowed; 0 if it is allowed now."""
        times, wait = self._times, 0.0
        for seconds, most in self._limits:
            if len(times) >= most:
                wait = max(wait, times[-most] + seconds - now)
        return wait

    def add(self, at: int) -> None:
        self._times.append(at)
        # If a try turns out to be right, take_back() removes it. Then an older one counts again.
        del self._times[: -self._limits[-1][1] - PENDING]

    def take_back(self, at: int) -> None:
        self._times.remove(at)

    def expired(self, now: float) -> bool:
        return not self._times or self._times[-1] + DAY_S <= now


class Sketch:
    """A count-min sketch of counts with the same limits. WIDTH: cells in each row."""

    def __init__(self, limits: Limits, width: int) -> None:
        self._limits = limits
        self._width = width
        self._cells: dict[tuple[int, int], Count] = {}  # by row and column
        self._key = secrets.token_bytes(16)

    def cells(self, key: str) -> list[Count]:
        """The cells of KEY. Its count is that of the lowest one."""
        text = key.encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(text, key=self._key, digest_size=4 * ROWS).digest()
        columns = (int.from_bytes(digest[4 * row : 4 * row + 4], "big") % self._width for row in range(ROWS))
        return [self._cells.setdefault(place, Count(self._limits)) for place in enumerate(columns)]


class Try:
    """A try whose password is being checked. It counts as wrong unless right() is called."""

    def __init__(self, counts: Sequence[Count], at: int) -> None:
        self._counts = counts
        self._at = at
        for count in counts:
            count.add(at)

    def right(self) -> None:
        for count in self._counts:
            count.take_back(self._at)


class Tries:
    """Counts of wrong passwords. They exist in memory only, so a restart of the agent resets them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._accounts = Sketch(ACCOUNT_LIMITS, ACCOUNTS)
        self._networks = Sketch(LIMITS, NETWORKS)
        self._wider = Sketch(ACCOUNT_LIMITS, WIDER)
        self._known: dict[str, dict[str, Count]] = {}  # by user and known browser

    def wait_s(self, user: str, address: str, device: str) -> int:
        """The seconds until the next try is allowed; 0 if it is allowed now.

        DEVICE: id of a browser that has logged in as USER, or "".
        """
        now = self._clock()
        waits = (min(cell.wait_s(now) for cell in cells) for cells in self._counts(user, address, device))
        return math.ceil(max(waits))

    def begin(self, user: str, address: str, device: str) -> Try:
        """Count a try as wrong. Call this before the check of its password: others may be checked at the same time."""
        cells = [cell for cells in self._counts(user, address, device) for cell in cells]
        return Try(cells, math.ceil(self._clock()))

    def _counts(self, user: str, address: str, device: str) -> list[list[Count]]:
        """The counts of a try, each as its cells."""
        if device:
            return [[count] for count in self._browser(user, device)]
        return [
            self._accounts.cells(user),
            self._networks.cells(network(address)),
            self._wider.cells(wider(address)),
        ]

    def _browser(self, user: str, device: str) -> tuple[Count, Count]:
        """The counts of all known browsers of USER together, and of this one."""
        now = self._clock()
        if user not in self._known:  # users that were removed meanwhile
            self._known = {name: one for name, one in self._known.items() if not one[ALL].expired(now)}
        found = self._known.setdefault(user, {ALL: Count(ACCOUNT_LIMITS), OTHERS: Count(LIMITS)})
        if device not in found and len(found) >= BROWSERS:
            for name in [name for name, count in found.items() if count.expired(now)]:
                if name not in (ALL, OTHERS):
                    del found[name]
            if len(found) >= BROWSERS:
                device = OTHERS
        return found[ALL], found.setdefault(device, Count(LIMITS))
