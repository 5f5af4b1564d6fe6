# SPDX-License-Identifier: Apache-2.0
"""Limit of wrong passwords."""

from __future__ import annotations

import ipaddress
import time
from typing import TYPE_CHECKING

from flask_limiter import Limiter

from ..context import client

if TYPE_CHECKING:
    from flask import Response

# Only wrong passwords count. 300 tries a day cannot guess 10 characters, and a user who mistypes
# waits at most a minute.
TRIES = "5 per minute; 30 per hour; 300 per day"


def network() -> str:
    """The client's address; for IPv6 its /64, because one host owns all addresses of a /64."""
    address = client()
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False)) if parsed.version == 6 else address


_audited: dict[str, float] = {}  # client → end of the window for which it has an audit row


def should_audit(network: str, until: float) -> bool:
    """True once for each client and window.

    Otherwise a client over its limit would wear the flash and push older rows out of the audit log.
    """
    now = time.time()
    if now < _audited.get(network, 0.0):
        return False
    if len(_audited) > 256:
        _audited.clear()
    _audited[network] = until
    return True


def failed(response: Response) -> bool:
    return response.status_code == 401


limiter = Limiter(key_func=network, default_limits=[])
tries = limiter.shared_limit(TRIES, scope="password", methods=["POST"], deduct_when=failed)
