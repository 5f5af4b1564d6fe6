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

# The maximum age of a view: less than the 1 s between two polls of a page, so that each poll gets new figures.
MAX_AGE_S = 0.9
# The maximum age of a view for pages about days and years, which show only names of apps and devices from it.
NAMES_AGE_S = 10.0
# After a failure, the agent is not asked again for this time: callers get the failure at once, without a timeout.
RETRY_S = 2.0


@dataclass(frozen=True, slots=True)
class View:
    """The status and the apps at one moment. If it is not `live`, the apps are the last known ones without valid figures."""

    live: bool
    status: Status | None
    apps: tuple[App, ...]
    reason: str = ""  # why the view is not live: a sentence
    number: int = 0  # no two views have the same number

    @property
    def titles(self) -> dict[str, str]:
        """The titles of the apps, by name."""
        return {app.name: app.title for app in self.apps}


class Board:
    """A cache of the agent's answers.

    Guarantee: however many browsers poll, the agent gets one query at a time, and at most one per MAX_AGE_S
    (RETRY_S after a failure). No reader sees an older view, except for readers of names. The text that is rendered from a
    view is cached with it, so that it is rendered once for all readers.

    view() gets the query from its caller, because the agent answers a query only with the secret of a session.
    Readers get the cached answer to the query of another reader. So a caller must have checked its own session.

    The last known names, weights and fixed shares are saved with `save` when they change. If the panel starts while
    the agent does not answer, it reads them with `load` and shows them.
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
        self._names_expire = 0.0
        self._number = int(time.time()) * 1000  # so numbers of views differ after a restart of the panel
        self._rendered: dict[str, tuple[str, bytes]] = {}  # texts of the present view, by path: type, content
        self._rendering = threading.Lock()
        self._last: tuple[App, ...] | None = None  # last known apps; None: not loaded yet
        self._saved = ""
        self._health: Health | None = None
        self._health_reason = ""
        self._health_expires = 0.0

    def view(self, query: Callable[[], Snapshot], *, names: bool = False) -> View:
        """The present view. If QUERY raises AgentUnreachable, the view is not live. Other errors are passed on.

        NAMES: the reader needs names of apps and devices only, so the view may be NAMES_AGE_S old.
        """
        with self._lock:
            if self._view is None or self._clock() >= (self._names_expire if names else self._expires):
                self._put(self._query(query))
                assert self._view
                now = self._clock()
                self._expires = now + (MAX_AGE_S if self._view.live else RETRY_S)
                self._names_expire = now + (NAMES_AGE_S if self._view.live else RETRY_S)
            return self._view

    def rendered(self, view: View, path: str, mimetype: str, render: Callable[[], str | bytes]) -> bytes:
        """The text that RENDER makes of VIEW for PATH. RENDER is called once per view and path."""
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
        """The number of the view, and type and content of its text for PATH.

        None if it has no such text, is not live, or has expired.
        """
        with self._lock:
            view, found = self._view, self._rendered.get(path)
            if found is None or view is None or not view.live or self._clock() >= self._expires:
                return None
            return view.number, *found

    def health(self, query: Callable[[], Health]) -> tuple[Health | None, str]:
        """The part of the board's health that needs no log-in. If the agent does not answer: None and the reason."""
        with self._lock:
            if self._clock() >= self._health_expires:
                try:
                    self._health, self._health_reason = query(), ""
                except AgentUnreachable as error:
                    self._health, self._health_reason = None, str(error)
                self._health_expires = self._clock() + (MAX_AGE_S if self._health else RETRY_S)
            return self._health, self._health_reason

    def changed(self, app: App) -> None:
        """Put the new state APP into the view, so that pages show it at once."""
        with self._lock:
            if self._view is not None and self._view.live:
                apps = tuple(app if old.name == app.name else old for old in self._view.apps)
                self._put(dataclasses.replace(self._view, apps=apps))
                self._remember(apps)

    def expire(self) -> None:
        """Make the next call of view() ask the agent, because the agent may have changed something."""
        with self._lock:
            self._expires = self._names_expire = 0.0

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
        # a row that an earlier version of the panel saved has no fixed share
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
