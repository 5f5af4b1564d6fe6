# SPDX-License-Identifier: Apache-2.0
"""The board as the pages show it: one cached view that all readers share."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .agent import Agent, AgentError, App, Status

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_AGE_S = 0.9  # less than the 1 s between two polls of a page, so that each poll gets new figures
RETRY_S = 2.0  # after a failure: one caller waits for a hanging agent's time-out, the others do not


@dataclass(frozen=True, slots=True)
class View:
    """Status and apps at one moment. If not `live`, the apps are the last known ones without valid figures."""

    live: bool
    status: Status | None
    apps: tuple[App, ...]
    reason: str = ""  # why it is not live: a sentence


class Board:
    """The agent behind a cache.

    Guarantee: however many browsers poll, the agent gets one query at a time, and one per MAX_AGE_S
    (RETRY_S after a failure). No reader sees an older view.

    The last known names, weights and fixed shares are saved with `save`, and only when they change.
    So a panel that starts while the agent is down still shows them; it reads them with `load`.
    """

    def __init__(
        self,
        agent: Agent,
        load: Callable[[], str | None],
        save: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._agent = agent
        self._load = load
        self._save = save
        self._clock = clock
        self._lock = threading.Lock()
        self._view: View | None = None
        self._expires = 0.0
        self._last: tuple[App, ...] | None = None  # last known apps; None: not loaded yet
        self._saved = ""

    def view(self) -> View:
        with self._lock:
            if self._view is None or self._clock() >= self._expires:
                self._view = self._query()
                self._expires = self._clock() + (MAX_AGE_S if self._view.live else RETRY_S)
            return self._view

    def app(self, name: str) -> App | None:
        return next((app for app in self.view().apps if app.name == name), None)

    def set_weight(self, name: str, weight: int) -> App:
        """The app with its new weight. Raises AgentError."""
        return self._changed(self._agent.set_weight(name, weight))

    def set_fixed_share(self, name: str, percent: int) -> App:
        """The app with its new fixed share. Raises AgentError."""
        return self._changed(self._agent.set_fixed_share(name, percent))

    def _changed(self, app: App) -> App:
        with self._lock:
            if self._view is not None and self._view.live:
                apps = tuple(app if old.name == app.name else old for old in self._view.apps)
                self._view = dataclasses.replace(self._view, apps=apps)
                self._remember(apps)
        return app

    def start_app(self, name: str) -> None:
        self._control(self._agent.start_app, name)

    def stop_app(self, name: str) -> None:
        self._control(self._agent.stop_app, name)

    def _control(self, act: Callable[[str], None], name: str) -> None:
        try:
            act(name)
        finally:
            # Also after an error, because the agent may have made the change. The next view shows whether it did.
            self._expire()

    def _expire(self) -> None:
        with self._lock:
            self._expires = 0.0

    def _query(self) -> View:
        try:
            status = self._agent.status()
            apps = tuple(self._agent.list_apps())
        except AgentError as error:
            if self._last is None:
                self._last = _parse(self._load())
            return View(live=False, status=None, apps=self._last, reason=str(error))
        self._remember(apps)
        return View(live=True, status=status, apps=apps)

    def _remember(self, apps: tuple[App, ...]) -> None:
        self._last = apps
        text = json.dumps([[a.name, a.title, a.description, a.unit, a.weight, a.fixed_share] for a in apps])
        if text != self._saved:
            if text != self._load():
                self._save(text)
            self._saved = text


def _parse(text: str | None) -> tuple[App, ...]:
    try:
        rows = json.loads(text or "[]")
        # an earlier panel saved no fixed share
        return tuple(
            App(
                name=str(n),
                title=str(t),
                description=str(d),
                unit=str(u),
                weight=int(w),
                fixed_share=int(p[0]) if p else 0,
            )
            for n, t, d, u, w, *p in rows
        )
    except (ValueError, TypeError):
        return ()
