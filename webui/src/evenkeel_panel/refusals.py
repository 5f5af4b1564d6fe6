# SPDX-License-Identifier: Apache-2.0
"""Journal lines about requests that the panel refuses because they look forged.

The audit log has what users do. It belongs to the agent, which never gets these requests.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

PAUSE_S = (
    60.0  # the time between two lines about the same kind and address; otherwise a flood would wear the flash
)
MAX_ENTRIES = 256  # the maximum number of addresses that are remembered


class Refusals:
    """Logs refused requests: at most one line per kind and address in PAUSE_S."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._lock = threading.Lock()
        self._quiet_until: dict[tuple[str, str], float] = {}

    def log(self, kind: str, address: str, path: str) -> None:
        """Log a request from ADDRESS for PATH. KIND says why it was refused."""
        now = self._clock()
        with self._lock:
            if now < self._quiet_until.get((kind, address), 0.0):
                return
            if len(self._quiet_until) >= MAX_ENTRIES:
                self._quiet_until.clear()
            self._quiet_until[kind, address] = now + PAUSE_S
        # The path is from outside: repr() keeps it in one line.
        self._log.warning("refused a request %s: %s, path %r", kind, address, path[:80])
