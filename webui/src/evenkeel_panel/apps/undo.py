# SPDX-License-Identifier: Apache-2.0
"""The last change of each weight and fixed share that was made on this panel, so that it can be undone.

It is in settings.db: the agent keeps only the present value. Invariant: a change can be undone only while its value is
still the present one, so an undo never replaces a value that somebody else has set since.
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

FIELDS = ("weight", "fixed_share")
_log = logging.getLogger(__name__)


class Change(msgspec.Struct, frozen=True):
    """From `before` to `after`: weights, or percentages with 0 for "off"."""

    before: int
    after: int
    at: int = 0  # when it was made, seconds since 1970; 0: an earlier panel has not saved it


def _key(app: str, field: str) -> str:
    return f"undo/{field}/{app}"


def remember(db: Database, app: str, field: str, before: int, after: int, at: int) -> None:
    """Save that FIELD of APP has changed. If the value is the same as before, the last saved change stays.

    It does not fail, because the change itself has been made. If it cannot be saved, it cannot be undone.
    """
    if before == after:
        return
    try:
        db.set_setting(_key(app, field), msgspec.json.encode(Change(before, after, at)).decode())
    except sqlite3.Error as error:
        _log.error("the change of %s of %s cannot be undone, because it is not saved: %s", field, app, error)


def last(db: Database, app: App, field: str) -> Change | None:
    """The change of FIELD that can be undone; None if there is none."""
    saved = db.setting(_key(app.name, field))
    try:
        change = msgspec.json.decode(saved, type=Change) if saved else None
    except msgspec.DecodeError:
        return None
    return change if change and change.after == getattr(app, field) else None


def newest(changes: Mapping[str, Change]) -> tuple[str, Change] | None:
    """The field and the change that was made last, of CHANGES by field; None if the time of none is known."""
    known = [item for item in changes.items() if item[1].at]
    return max(known, key=lambda item: item[1].at) if known else None


def offered(db: Database, apps: Iterable[App]) -> dict[str, dict[str, Change]]:
    """App → field → the change that can be undone."""
    found = {app.name: {field: last(db, app, field) for field in FIELDS} for app in apps}
    return {name: {field: each for field, each in fields.items() if each} for name, fields in found.items()}
