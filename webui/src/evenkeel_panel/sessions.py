# SPDX-License-Identifier: Apache-2.0
"""The users to whom sessions belong, as the agent reports them. The panel caches the agent's answers."""

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

# The maximum age of a cached answer. The agent signals most ends of sessions. It does not signal that a session ends by
# age or inactivity, so the panel may notice this end so much later.
MAX_AGE_S = 60.0
# The maximum age of a cached answer while the agent does not answer. Users who were logged in still see the last state of
# the board and its history, unless a session has ended since that answer: it may be theirs. They cannot change anything,
# because each change needs the agent.
STALE_S = 3600.0
MAX_ENTRIES = 512  # the maximum number of cached answers


class Sessions:
    """Asks the agent about each session at most once in MAX_AGE_S, and in addition at each action of the user.

    Guarantee: an answer is not used any more when the agent has signalled, or may have signalled, that a session has ended
    since. So a hanging agent keeps no session alive that it has ended. Two cases matter:

    - The agent hangs, and a call to end a session waits for it. The session has not ended, and whoever sent the call reads
      that the agent did not answer. When the agent goes on, it ends the session, and its signal arrives.
    - The connection for signals was lost, so a signal may have been missed: all answers become invalid. Users then see
      nothing until the agent answers. Showing the last state would be kinder, but might show it to a user who was
      removed. This connection lasts as long as the bus, so a hang or a crash of the agent alone is no such case (agent.py).
    """

    def __init__(self, agent: Agent, clock: Callable[[], float] = time.monotonic) -> None:
        self._agent = agent
        self._clock = clock
        self._lock = threading.Lock()
        # by secret: the agent's answer, and when it was given (monotonic time)
        self._known: OrderedDict[str, tuple[Identity, float]] = OrderedDict()
        self._valid_from = 0.0  # monotonic time; older answers are not used any more
        agent.on_sessions_changed(self.forget)

    def identity(self, secret: str, address: str, *, active: bool) -> Identity | None:
        """The user to whom SECRET belongs; None if it is not valid. Raises AgentError.

        ACTIVE: whether the request is an action of the user, and not a poll of a page.
        """
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
            with self._lock:
                known = self._known.get(secret)  # it may have ended during the call
                if known and now - known[1] < STALE_S and known[1] >= self._valid_from:
                    return known[0]
            raise
        with self._lock:
            self._known[secret] = (found, now)
            self._known.move_to_end(secret)
            while len(self._known) > MAX_ENTRIES:
                self._known.popitem(last=False)
        return found

    def is_known(self, secret: str) -> bool:
        """Whether the cached answer about SECRET is fresh enough, so that a poll does not need to ask the agent."""
        with self._lock:
            known = self._known.get(secret)
            return known is not None and self._clock() - known[1] < MAX_AGE_S and known[1] >= self._valid_from

    def end(self, secret: str) -> None:
        """Forget the answer about SECRET, whose user has logged out. If the agent knows of it, its signal follows."""
        with self._lock:
            self._known.pop(secret, None)

    def forget(self) -> None:
        """From now on, ask the agent again about every session, because one of them may have ended."""
        with self._lock:
            self._valid_from = self._clock()
