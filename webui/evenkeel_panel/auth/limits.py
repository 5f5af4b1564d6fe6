# SPDX-License-Identifier: Apache-2.0
"""How often a password may be tried."""

from __future__ import annotations

import ipaddress
import time
from typing import TYPE_CHECKING

from flask_limiter import Limiter

from ..context import client

if TYPE_CHECKING:
    from flask import Response

# Only failures count. 300 tries a day against 10 characters are nothing; a person who mistypes
# waits a minute at most.
TRIES = "5 per minute; 30 per hour; 300 per day"


def network() -> str:
    """One IPv6 host owns a /64, so that is what counts as one client."""
    address = client()
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False)) if parsed.version == 6 else address


_told: dict[str, float] = {}


def worth_a_row(who: str, until: float) -> bool:
    """Once for each client and window: who is over the limit must not wear the flash, or flush the audit."""
    now = time.time()
    if now < _told.get(who, 0.0):
        return False
    if len(_told) > 256:
        _told.clear()
    _told[who] = until
    return True


def failed(response: Response) -> bool:
    return response.status_code == 401


limiter = Limiter(key_func=network, default_limits=[])
tries = limiter.shared_limit(TRIES, scope="password", methods=["POST"], deduct_when=failed)
