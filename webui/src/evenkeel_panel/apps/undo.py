# SPDX-License-Identifier: Apache-2.0
"""The last changes of the apps that were made on this panel, so that they can be undone.

They are in settings.db: the agent keeps only the present values. Three kinds:

- a weight, a fixed share, or whether the app runs: the last change of each, by app
- an app that was added: what it was when it was added
- an app that was removed: what it was, with all its settings

Invariant: a change can be undone only while what it has set is still present, so an undo never replaces what somebody else
has set since. The panel may see the board of a second ago. So the agent compares weights and fixed shares as well.
"""

from __future__ import annotations

import logging
import sqlite3
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from evenkeel_api.features.apps import App

    from ..db import Database

MEASURED = ("weight", "fixed_share")  # the effect of a change of these is measured
FIELDS = (*MEASURED, "running")
# Whether an app runs, by the active state of its unit. Any other state is not known.
RUNNING = dict.fromkeys(("active", "activating", "reloading", "refreshing"), 1)
RUNNING |= dict.fromkeys(("inactive", "deactivating", "maintenance", "failed"), 0)
REMOVED_S = 86400  # a removal is offered for an undo for this time
REMOVED_MOST = 8  # and at most this number of them
_REMOVED = "undo/removed"
_log = logging.getLogger(__name__)


class Change(msgspec.Struct, frozen=True):
    """From `before` to `after`: weights, percentages with 0 for "off", or 1 for an app that runs and 0 for another."""

    before: int
    after: int
    at: int = 0  # when it was made, seconds since 1970; 0: an earlier panel has not saved it


class Listed(msgspec.Struct, frozen=True):
    """An app as it was when somebody added or removed it, with all its settings."""

    name: str
    title: str
    description: str
    unit: str
    weight: int
    fixed_share: int = 0
    directories: list[str] = []  # its priority directories
    at: int = 0  # when it was added or removed, seconds since 1970


def listed(app: App, at: int, directories: Iterable[str] = ()) -> Listed:
    return Listed(
        app.name, app.title, app.description, app.unit, app.weight, app.fixed_share, list(directories), at
    )


def present(app: App, field: str) -> int:
    """The present value of FIELD; -1 if it is not known."""
    if field == "running":
        return RUNNING.get(app.active_state, -1)
    value: int = getattr(app, field)
    return value


def _key(app: str, field: str) -> str:
    return f"undo/{field}/{app}"


def _save(db: Database, key: str, what: str, value: object) -> None:
    """Save VALUE. It does not fail, because the change itself has been made. If it is not saved, it cannot be undone."""
    try:
        db.set_setting(key, msgspec.json.encode(value).decode())
    except sqlite3.Error as error:
        _log.error("%s cannot be undone, because it is not saved: %s", what, error)


# ---- values ----


def remember(db: Database, app: str, field: str, before: int, after: int, at: int) -> None:
    """Save that FIELD of APP has changed. If the value is the same as before, the last saved change stays."""
    if before != after:
        _save(db, _key(app, field), f"the change of {field} of {app}", Change(before, after, at))


def last(db: Database, app: App, field: str) -> Change | None:
    """The change of FIELD that can be undone; None if there is none."""
    saved = db.setting(_key(app.name, field))
    try:
        change = msgspec.json.decode(saved, type=Change) if saved else None
    except msgspec.DecodeError:
        return None
    return change if change and change.after == present(app, field) else None


def newest(changes: Mapping[str, Change]) -> tuple[str, Change] | None:
    """The field and the change that was made last and whose effect is measured, of CHANGES by field; None if no change is."""
    known = [item for item in changes.items() if item[0] in MEASURED and item[1].at]
    return max(known, key=lambda item: item[1].at) if known else None


def offered(db: Database, apps: Iterable[App]) -> dict[str, dict[str, Change]]:
    """App → field → the change that can be undone."""
    found = {app.name: {field: last(db, app, field) for field in FIELDS} for app in apps}
    return {name: {field: each for field, each in fields.items() if each} for name, fields in found.items()}


# ---- the list of apps ----


def remember_added(db: Database, app: Listed) -> None:
    _save(db, _key(app.name, "added"), f"the addition of {app.name}", app)


def is_as_added(db: Database, app: App) -> bool:
    """Whether the app was added on this panel, and has the settings that it got then."""
    saved = db.setting(_key(app.name, "added"))
    try:
        found = msgspec.json.decode(saved, type=Listed) if saved else None
    except msgspec.DecodeError:
        return False
    return found is not None and app.added and found == listed(app, found.at, found.directories)


def remember_removed(db: Database, app: Listed) -> None:
    others = [each for each in _removed(db) if each.name != app.name]
    _save(db, _REMOVED, f"the removal of {app.name}", [app, *others][:REMOVED_MOST])


def forget_removed(db: Database, name: str) -> None:
    """The app is listed again. Saving may fail: removed() does not offer an app that is listed."""
    _save(db, _REMOVED, "this undo", [each for each in _removed(db) if each.name != name])


def removed(db: Database, apps: Iterable[App], now: int) -> list[Listed]:
    """The apps whose removal can be undone, the last one first. Not those whose name or unit is in use again."""
    apps = list(apps)
    taken = {app.name for app in apps} | {app.unit for app in apps}
    return [each for each in _removed(db) if now - each.at < REMOVED_S and not {each.name, each.unit} & taken]


def _removed(db: Database) -> list[Listed]:
    saved = db.setting(_REMOVED)
    try:
        return msgspec.json.decode(saved, type=list[Listed]) if saved else []
    except msgspec.DecodeError:
        return []
