# SPDX-License-Identifier: Apache-2.0
"""The changes of the board: what was changed when, from which value to which. Pure, except for load().

The agent lists the changes that its methods made, and the ends of validations and updates follow from their own reports.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from evenkeel_api.features.changes import LISTED
from evenkeel_api.schema import Struct
from evenkeel_history.tiers import HOUR, TIERS, slot
from msgspec import Meta

from .. import texts
from ..agent import AgentError
from ..context import call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evenkeel_api.features import changes
    from evenkeel_api.features.update import Update
    from evenkeel_api.features.validation import ValidationRow

WEIGHT = "SetWeight"
VALIDATION, VALIDATED = "StartValidation", "ValidationEnded"
INSTALL, INSTALLED = "InstallBundle", "BundleInstalled"
# What the pages History and Audit log call a method of the agent, or an end that has no method.
NAMES = {
    WEIGHT: "Weight",
    "SetFixedShare": "Fixed share",
    "StartApp": "Start",
    "StopApp": "Stop",
    INSTALL: "Update",
    INSTALLED: "Update installed",
    "ChooseSlot": "Slot of the next start",
    "Restart": "Restart of the board",
    "FactoryReset": "Factory reset",
    "PowerOff": "Switching off of the board",
    "RestoreBackup": "Restore of a backup",
    "ApplyPreseed": "Preseed file",
    "SetHostName": "Name of the board",
    "SetTimeZone": "Time zone",
    "SetTimeServers": "Time servers",
    "SetWearLimit": "Wear limit",
    VALIDATION: "Start of a validation",
    "CancelValidation": "Cancellation of the validation",
    VALIDATED: "End of the validation",
    "CheckSession": "Use of an API token",
    "ConfirmTotp": "Code at log-in on",
    "EndTotp": "Code at log-in off",
    "OpenRecording": "Download of a recording",
    "OpenSupportBundle": "Download of the support bundle",
    "GetBackup": "Download of a backup",
    "CreateToken": "New API token",
    "RemoveToken": "Remove API token",
}
EFFECT_S = 600  # the time before and after a change that are compared
# A validation takes at most 8 h, and an installation less. If one began in this time before the span, it may end in it.
LONGEST_S = 9 * HOUR


class BoardChange(Struct, frozen=True):
    """A change of the board that succeeded."""

    id: Annotated[int, Meta(description="number of its row in the audit log; 0: an end, which has no row")]
    at: Annotated[int, Meta(description="seconds since 1970")]
    action: Annotated[
        str,
        Meta(
            description="name of the agent's method, as in `ListChanges`; `ValidationEnded` or `BundleInstalled` for an end"
        ),
    ]
    app: Annotated[str, Meta(description="name of the app; empty if the change is not about an app")]
    old: Annotated[
        str | None, Meta(description="the value before; null: not known, or the change has no value")
    ]
    new: Annotated[str | None, Meta(description="the value after it")]


@dataclass(frozen=True)
class Changes:
    rows: list[BoardChange] = field(default_factory=list)  # newest first
    problem: str = ""  # why changes are missing, as sentences; empty if none are


def name(action: str) -> str:
    """What the page calls the method ACTION: “Set weight” for SetWeight, unless NAMES has better words."""
    return NAMES.get(action) or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", action).capitalize()


def load(start: int, end: int) -> Changes:
    """The changes between START and END.

    The agent is asked for validations and updates only if one began in this span or shortly before, because the programs
    that it asks may have to start first.
    """
    try:
        listed: list[changes.Change] = call("ListChanges", max(start - LONGEST_S, 0), end)
    except AgentError as error:
        return Changes([], texts.text("history-changes-unreadable", reason=str(error).rstrip(".")))
    begun = {change.action for change in listed}
    ends: list[BoardChange] = []
    problem = ""
    if len(listed) == LISTED and listed[-1].at >= start:
        problem = texts.text("history-changes-cut", count=LISTED)
    try:
        if VALIDATION in begun:
            ends += validated(call("ListValidations"))
        if INSTALL in begun:
            ends += installed(call("GetUpdate"))
    except AgentError as error:
        problem = f"{problem} {texts.text('history-ends-unreadable', reason=str(error).rstrip('.'))}".strip()
    rows = [
        BoardChange(row.id, row.at, row.action, row.app, row.before or None, row.value or None)
        for row in listed
    ]
    shown = [row for row in (*rows, *ends) if start <= row.at < end]
    return Changes(sorted(shown, key=lambda row: (row.at, row.id), reverse=True), problem)


def _time(text: str) -> int | None:
    """The Unix time of TEXT, a time in UTC in ISO 8601; None if there is none."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int(found.replace(tzinfo=found.tzinfo or UTC).timestamp())


def validated(rows: Sequence[ValidationRow]) -> list[BoardChange]:
    """The ends of the validations ROWS."""
    return [
        BoardChange(
            0, at, VALIDATED, "", None, row.reason or f"{row.held} promises held, {row.broken} broken"
        )
        for row in rows
        if (at := _time(row.ended)) is not None
    ]


def installed(update: Update) -> list[BoardChange]:
    """The installations of the bundles that the slots have."""
    return [
        BoardChange(0, at, INSTALLED, "", None, f"{one.version} in slot {one.name}")
        for one in update.slots
        if (at := _time(one.installed_at)) is not None
    ]


def effect(at: int, now: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Two spans to compare: before and after a change at AT. They leave out the step of the history that contains AT.

    Each has EFFECT_S seconds, or one step if only coarser steps are kept for this time.
    """
    step = next((tier.seconds for tier in TIERS if now - at < tier.keep_s), TIERS[-1].seconds)
    begin, length = slot(at, step), max(EFFECT_S, step)
    return (max(begin - length, 0), begin), (begin + step, begin + step + length)
