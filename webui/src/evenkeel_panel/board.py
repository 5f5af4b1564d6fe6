# SPDX-License-Identifier: Apache-2.0
"""The board as the pages show it: one cached view that all readers share."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenkeel_api.features.apps import App

from .agent import AgentUnreachable
from .texts import sentence

if TYPE_CHECKING:
    from collections.abc import Callable

    from evenkeel_api.features.board import Health, Snapshot, Status

MAX_AGE_S = 0.9  # less than the 1 s between two polls of a page, so that each poll gets new figures
RETRY_S = 2.0  # after a failure: one caller waits for a hanging agent's time-out, the others do not


@dataclass(frozen=True, slots=True)
class View:
    """Status and apps at one moment. If not `live`, the apps are the last known ones without valid figures."""

    live: bool
    status: Status | None
    apps: tuple[App, ...]
    reason: str = ""  # why it is not live: a sentence
    number: int = 0  # another one for each view


class Board:
    """The agent behind a cache.

    Guarantee: however many browsers poll, the agent gets one query at a time, and one per MAX_AGE_S
    (RETRY_S after a failure). No reader sees an older view. What is rendered from a view is kept with it, so
    that all readers share it.

    The caller passes the query, because the agent answers it for a session: the callers check that.

    The last known names, weights and fixed shares are saved with `save`, and only when they change.
    So a panel that starts while the agent is down still shows them; it reads them with `load`.
    """

    def __init__(
        self,
        load: Callable[[], str | None],
        save: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._save = save
        self._clock = clock
        self._lock = threading.Lock()
        self._view: View | None = None
        self._expires = 0.0
        self._number = int(time.time()) * 1000  # another one after a restart of the panel
        self._rendered: dict[str, tuple[str, bytes]] = {}  # of the present view, by path: type and content
        self._rendering = threading.Lock()
        self._last: tuple[App, ...] | None = None  # last known apps; None: not loaded yet
        self._saved = ""
        self._health: Health | None = None
        self._health_reason = ""
        self._health_expires = 0.0

    def view(self, query: Callable[[], Snapshot]) -> View:
        """The present view. QUERY raises AgentError; one that is not AgentUnreachable is passed on."""
        with self._lock:
            if self._view is None or self._clock() >= self._expires:
                self._put(self._query(query))
                assert self._view
                self._expires = self._clock() + (MAX_AGE_S if self._view.live else RETRY_S)
            return self._view

    def rendered(self, view: View, path: str, mimetype: str, render: Callable[[], str | bytes]) -> bytes:
        """What RENDER makes of VIEW for PATH, made once."""
        with self._rendering:
            with self._lock:
                same = self._view is view
                found = self._rendered.get(path) if same else None
            if found is None:
                made = render()
                found = mimetype, made.encode() if isinstance(made, str) else made
                with self._lock:
                    if self._view is view:
                        self._rendered[path] = found
            return found[1]

    def kept(self, path: str) -> tuple[int, str, bytes] | None:
        """Number, type and content of what was rendered for PATH, if its view is still the present one and live."""
        with self._lock:
            view, found = self._view, self._rendered.get(path)
            if found is None or view is None or not view.live or self._clock() >= self._expires:
                return None
            return view.number, *found

    def health(self, query: Callable[[], Health]) -> tuple[Health | None, str]:
        """The health that anybody may know, or None and the reason."""
        with self._lock:
            if self._clock() >= self._health_expires:
                try:
                    self._health, self._health_reason = query(), ""
                except AgentUnreachable as error:
                    self._health, self._health_reason = None, str(error)
                self._health_expires = self._clock() + (MAX_AGE_S if self._health else RETRY_S)
            return self._health, self._health_reason

    def changed(self, app: App) -> None:
        """Show the new state of APP at once."""
        with self._lock:
            if self._view is not None and self._view.live:
                apps = tuple(app if old.name == app.name else old for old in self._view.apps)
                self._put(dataclasses.replace(self._view, apps=apps))
                self._remember(apps)

    def expire(self) -> None:
        """The agent may have changed something. The next view shows it."""
        with self._lock:
            self._expires = 0.0

    def _put(self, view: View) -> None:
        self._number += 1
        self._view = dataclasses.replace(view, number=self._number)
        self._rendered = {}

    def _query(self, query: Callable[[], Snapshot]) -> View:
        try:
            snapshot = query()
        except AgentUnreachable as error:
            if self._last is None:
                self._last = _parse(self._load())
            return View(live=False, status=None, apps=self._last, reason=sentence(error.note))
        apps = tuple(snapshot.apps)
        self._remember(apps)
        return View(live=True, status=snapshot.status, apps=apps)

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
