# SPDX-License-Identifier: Apache-2.0
"""The board as the pages show it: one cached view for every reader."""

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

FRESH_S = 0.9  # younger than the poll of a page, so that each poll sees new figures
DEAD_S = 2.0  # a hanging agent costs one caller its time-out, not every caller


@dataclass(frozen=True, slots=True)
class View:
    """Status and apps of one moment. Not `live`: the apps are the last known ones, their figures stale."""

    live: bool
    status: Status | None
    apps: tuple[App, ...]
    reason: str = ""  # why it is not live, a sentence


class Board:
    """Guarantee: at most one question to the agent at a time, at most one per FRESH_S (DEAD_S
    after a failure), however many browsers poll; no reader sees a view older than that.

    The names, weights and performances last seen are kept through `remember`, called only when they change,
    so that a panel that starts beside a dead agent still shows them.
    """

    def __init__(
        self,
        agent: Agent,
        recall: Callable[[], str | None],
        remember: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._agent = agent
        self._recall = recall
        self._remember = remember
        self._clock = clock
        self._lock = threading.Lock()
        self._view: View | None = None
        self._until = 0.0
        self._last: tuple[App, ...] | None = None  # last known, None until asked for
        self._kept = ""

    def view(self) -> View:
        with self._lock:
            if self._view is None or self._clock() >= self._until:
                self._view = self._ask()
                self._until = self._clock() + (FRESH_S if self._view.live else DEAD_S)
            return self._view

    def app(self, name: str) -> App | None:
        return next((app for app in self.view().apps if app.name == name), None)

    def set_weight(self, name: str, weight: int) -> App:
        """The app with its new weight; raises AgentError, and then nothing has changed."""
        return self._changed(self._agent.set_weight(name, weight))

    def set_performance(self, name: str, percent: int) -> App:
        """The app with its new performance; raises AgentError, and then nothing has changed."""
        return self._changed(self._agent.set_performance(name, percent))

    def _changed(self, app: App) -> App:
        with self._lock:
            if self._view is not None and self._view.live:
                apps = tuple(app if old.name == app.name else old for old in self._view.apps)
                self._view = dataclasses.replace(self._view, apps=apps)
                self._keep(apps)
        return app

    def start_app(self, name: str) -> None:
        self._control(self._agent.start_app, name)

    def stop_app(self, name: str) -> None:
        self._control(self._agent.stop_app, name)

    def _control(self, act: Callable[[str], None], name: str) -> None:
        try:
            act(name)
        finally:
            # also where it failed: the next to look sees what came of it
            self._expire()

    def _expire(self) -> None:
        with self._lock:
            self._until = 0.0

    def _ask(self) -> View:
        try:
            status = self._agent.status()
            apps = tuple(self._agent.list_apps())
        except AgentError as error:
            if self._last is None:
                self._last = _parse(self._recall())
            return View(live=False, status=None, apps=self._last, reason=str(error))
        self._keep(apps)
        return View(live=True, status=status, apps=apps)

    def _keep(self, apps: tuple[App, ...]) -> None:
        self._last = apps
        text = json.dumps([[a.name, a.title, a.description, a.unit, a.weight, a.performance] for a in apps])
        if text != self._kept:
            if text != self._recall():
                self._remember(text)
            self._kept = text


def _parse(text: str | None) -> tuple[App, ...]:
    try:
        rows = json.loads(text or "[]")
        # an earlier panel kept no performance
        return tuple(
            App(
                name=str(n),
                title=str(t),
                description=str(d),
                unit=str(u),
                weight=int(w),
                performance=int(p[0]) if p else 0,
            )
            for n, t, d, u, w, *p in rows
        )
    except (ValueError, TypeError):
        return ()
