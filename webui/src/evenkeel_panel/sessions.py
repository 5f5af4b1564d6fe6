# SPDX-License-Identifier: Apache-2.0
"""Who a session belongs to, as the agent says. The panel remembers the answer for some seconds."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from .agent import AgentRefused, AgentUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from evenkeel_api.features.accounts import Identity

    from .agent import Agent

MAX_AGE_S = (
    60.0  # the agent signals when a session ends; only the end by inactivity is noticed this much later
)
# While the agent does not answer, people who were logged in see its last state; they cannot change anything.
STALE_S = 3600.0
MAX_ENTRIES = 512


class Sessions:
    """Asks the agent at most once in MAX_AGE_S for each session, unless its user did something."""

    def __init__(self, agent: Agent, clock: Callable[[], float] = time.monotonic) -> None:
        self._agent = agent
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[Identity, float]] = (
            OrderedDict()
        )  # by secret: answer and its time
        self._valid_from = 0.0  # older answers do not count
        agent.on_sessions_changed(self.forget)

    def identity(self, secret: str, address: str, *, active: bool) -> Identity | None:
        """Who SECRET belongs to; None if it is not valid. ACTIVE: the user did something. Raises AgentUnreachable."""
        if not secret:
            return None
        now = self._clock()
        with self._lock:
            known = self._known.get(secret)
            if known and not active and now - known[1] < MAX_AGE_S and known[1] >= self._valid_from:
                return known[0]
        try:
            found: Identity = self._agent.call("CheckSession", secret, address, active)
        except AgentRefused as error:
            with self._lock:
                self._known.pop(secret, None)
            if error.kind in ("NotLoggedIn", "NotAuthorized"):
                return None
            raise
        except AgentUnreachable:
            if known and now - known[1] < STALE_S:
                return known[0]
            raise
        with self._lock:
            self._known[secret] = (found, now)
            self._known.move_to_end(secret)
            while len(self._known) > MAX_ENTRIES:
                self._known.popitem(last=False)
        return found

    def is_known(self, secret: str) -> bool:
        """Whether the answer about SECRET is still fresh, so that a poll need not ask."""
        with self._lock:
            known = self._known.get(secret)
            return known is not None and self._clock() - known[1] < MAX_AGE_S and known[1] >= self._valid_from

    def forget(self) -> None:
        """Ask the agent again about every session."""
        with self._lock:
            self._valid_from = self._clock()
