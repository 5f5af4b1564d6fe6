# SPDX-License-Identifier: Apache-2.0
"""The changes that the audit log has: who changed what, from which value to which. Pure, except for load().

Only an administrator may read the audit log, so only an administrator sees the changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evenkeel_api.features import accounts
from evenkeel_api.interface import METHODS
from evenkeel_api.roles import ADMIN, includes
from evenkeel_api.schema import Struct
from evenkeel_history.tiers import TIERS, slot

from .. import texts
from ..agent import AgentError
from ..context import call, identity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evenkeel_api.features.accounts import Entry

ROWS = 500  # rows of the audit log per call; the agent allows no more
CALLS = 4  # the maximum number of calls, so that a page over years stays fast
WEIGHT = "SetWeight"
# method → what the page calls it, and the argument that is the new value
NAMES = {
    WEIGHT: ("Weight", "weight"),
    "SetFixedShare": ("Fixed share", "percent"),
    "StartApp": ("Start", ""),
    "StopApp": ("Stop", ""),
    "InstallBundle": ("Update", "source"),
    "ChooseSlot": ("Slot of the next start", "slot"),
    "Restart": ("Restart of the board", ""),
    "FactoryReset": ("Factory reset", ""),
    "PowerOff": ("Switching off of the board", ""),
    "RestoreBackup": ("Restore of a backup", ""),
    "ApplyPreseed": ("Preseed file", ""),
    "SetHostName": ("Name of the board", "hostname"),
    "SetTimeZone": ("Time zone", "zone"),
    "SetTimeServers": ("Time servers", "servers"),
    "SetWearLimit": ("Wear limit", "percent"),
    "CheckSession": ("Use of an API token", ""),
    "ConfirmTotp": ("Code at log-in on", ""),
    "EndTotp": ("Code at log-in off", ""),
    "OpenRecording": ("Download of a recording", ""),
    "OpenSupportBundle": ("Download of the support bundle", ""),
    "GetBackup": ("Download of a backup", ""),
    "CreateToken": ("New API token", ""),
    "RemoveToken": ("Remove API token", ""),
}
# method → the method whose value it sets back
UNDOES = {"UndoWeight": WEIGHT, "UndoFixedShare": "SetFixedShare"}
# methods with a row in the audit log that change nothing
HARMLESS = frozenset({"GetBackup", "OpenRecording", "OpenSupportBundle", "SendTestAlert"})
EFFECT_S = 600  # the time before and after a change that are compared


class Change(Struct, frozen=True):
    """A change of the board that succeeded."""

    id: int  # number of its row in the audit log
    at: int
    user: str
    via: str  # panel, token, or bus for ekctl
    action: str  # name of the agent's method; of an undo: of the method whose value it sets back
    app: str  # name of the app; empty if the change is not about an app
    old: str | None  # the value before; None: not known, or the change has no value
    new: str | None
    detail: str  # all arguments, as in the audit log


@dataclass(frozen=True)
class Changes:
    rows: list[Change] = field(default_factory=list)  # newest first
    problem: str = ""  # why changes are missing, as a sentence; empty if none are


def is_change(action: str) -> bool:
    """Whether the method ACTION changes the board. Log-ins, changes of users and HARMLESS methods do not."""
    method = METHODS.get(action)
    if method is None or action in HARMLESS:
        return False
    return method.changes and method.action not in accounts.ACTIONS


def name(action: str) -> str:
    """What the page calls the method ACTION: “Set weight” for SetWeight, unless NAMES has better words."""
    if action in NAMES:
        return NAMES[action][0]
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", action).capitalize()


def arguments(entry: Entry) -> dict[str, str]:
    """The arguments in the detail of ENTRY: “name player, weight 300”. Only the last one may contain a comma."""
    method = METHODS[entry.action]
    names = [one.name for one in method.inputs if one.name not in method.secret]
    found: dict[str, str] = {}
    rest = entry.detail
    for number, each in enumerate(names):
        end = f", {names[number + 1]} " if number + 1 < len(names) else None
        text, _, _ = rest.partition(end) if end else (rest, "", "")
        if not text.startswith(f"{each} "):
            return found
        found[each] = text.removeprefix(f"{each} ")
        rest = rest[len(text) + 2 :]
    return found


def changes(log: Iterable[Entry], start: int, end: int) -> list[Change]:
    """The changes between START and END in LOG, newest first. LOG: rows of the audit log, newest first."""
    values: dict[tuple[str, str], str] = {}  # the last known value by method and app
    found = []
    for entry in sorted(log, key=lambda entry: entry.id):
        if entry.outcome or not is_change(entry.action):
            continue
        given = arguments(entry)
        app, action = given.get("name", ""), UNDOES.get(entry.action, entry.action)
        new = given.get(NAMES.get(action, ("", ""))[1])
        old = values.get((action, app))
        if new is not None:
            values[action, app] = new
        if start <= entry.at < end:
            found.append(
                Change(
                    entry.id, entry.at, entry.user, entry.via, action, app,
                    old if new is not None else None, new, entry.detail,
                )
            )  # fmt: skip
    return sorted(found, key=lambda change: (change.at, change.id), reverse=True)


def allowed() -> bool:
    """Whether the user may see the changes."""
    who = identity()
    return who is not None and includes(who.role, ADMIN)


def load(start: int, end: int) -> Changes:
    """The changes between START and END that the user may see."""
    if not allowed():
        return Changes([], texts.text("history-changes-hidden"))
    log: list[Entry] = []
    try:
        for _ in range(CALLS):
            rows = call("ListAudit", log[-1].id if log else 0, ROWS)
            log += rows
            if len(rows) < ROWS or rows[-1].at < start:
                return Changes(changes(log, start, end))
    except AgentError as error:
        return Changes([], texts.text("history-changes-unreadable", reason=str(error).rstrip(".")))
    return Changes(changes(log, start, end), texts.text("history-changes-cut", count=len(log)))


def effect(at: int, now: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Two spans to compare: before and after a change at AT. They leave out the step of the history that contains AT.

    Each has EFFECT_S seconds, or one step if only coarser steps are kept for this time.
    """
    step = next((tier.seconds for tier in TIERS if now - at < tier.keep_s), TIERS[-1].seconds)
    begin, length = slot(at, step), max(EFFECT_S, step)
    return (max(begin - length, 0), begin), (begin + step, begin + step + length)
