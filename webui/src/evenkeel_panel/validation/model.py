# SPDX-License-Identifier: Apache-2.0
"""What the pages of validations show, as pure functions of the agent's answers and of what somebody chose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from evenkeel_api.features.validation import (
    COMPARE,
    EXCLUSIVE,
    OneProfile,
    OneTopic,
    Profile,
    Topic,
    Validation,
    ValidationRow,
)
from evenkeel_api.schema import Struct
from msgspec import Meta

from .. import texts

if TYPE_CHECKING:
    from evenkeel_api.features.validation import ValidationPlan

PROFILES = {
    "quick": "Quick: an overview, 2 minutes at most",
    "full": "Full: all cases of the papers, 45 minutes at most",
    "soak": "Soak: all cases, and again after long streams of writes, 8 hours at most",
}
TOPICS = {
    "": "Everything",
    "device": "Limits of the device",
    "latency": "Latencies of small reads",
    "fair": "Weights",
    "promise": "Unequal competitors",
    "stall": "Stalls of a player",
    "rec": "Recording",
    "regulate": "Fixed shares",
    "channel": "Flash channels",
    "pool": "Priority directories",
}
# state of a report → class of its pill, and what the page calls it
STATES = {"running": ("wait", "running"), "complete": ("ok", "complete"), "partial": ("wait", "partial")}
# verdict → class of its pill, and what the page calls it
VERDICTS = {"held": ("ok", "held"), "broken": ("bad", "broken"), "open": ("off", "not judged")}


class Overview(Struct, frozen=True):
    """The data of the page."""

    validation: Annotated[Validation, Meta(description="the validation that runs")]
    reports: Annotated[list[ValidationRow], Meta(description="all reports, the newest first")]


Choice = Literal["yes", "no"]
REFUSAL = Meta(extra={"refusal": "validation-choice"})


class Order(Struct, frozen=True):
    """What somebody chose in the form."""

    profile: Annotated[OneProfile, REFUSAL] = "quick"
    topic: Annotated[OneTopic, REFUSAL] = ""
    compare: Annotated[Choice, COMPARE, REFUSAL] = "no"
    exclusive: Annotated[Choice, EXCLUSIVE, REFUSAL] = "no"

    @property
    def arguments(self) -> tuple[Profile, Topic, bool, bool]:
        """The arguments of PlanValidation and StartValidation."""
        return self.profile, self.topic, self.compare == "yes", self.exclusive == "yes"


def announcement(plan: ValidationPlan) -> list[str]:
    """What the user must know before the start, as sentences."""
    share = plan.endurance_percent
    lines = [
        texts.text("validation-writes", amount=f"{plan.written_bytes / 1e6:,.0f} MB", where=plan.where),
        *([] if plan.proven else [texts.text("validation-unproven")]),
        texts.text("validation-wears", percent=f"{share:.2g}")
        if share >= 0
        else texts.text("validation-wear-unknown"),
        texts.text(
            "validation-takes", time=duration(plan.takes_s), most=duration(plan.most_s), cases=plan.cases
        ),
    ]
    if plan.exclusive:
        lines.append(texts.text("validation-pauses-all", most=duration(plan.most_s)))
    else:
        lines += [texts.text("validation-slows")] if plan.groups else []
        lines.append(texts.text("validation-goes-on"))
    if plan.discards:
        lines.append(texts.text("validation-discards-alone" if plan.exclusive else "validation-discards"))
    if len(plan.schedulers) > 1:
        code = "validation-schedulers-alone" if plan.exclusive else "validation-schedulers"
        lines.append(texts.text(code, schedulers=", ".join(plan.schedulers)))
    if plan.evicts:
        lines.append(texts.text("validation-evicts"))
    return lines


def effects(found: Validation) -> list[str]:
    """What the apps notice while the validation runs, as sentences."""
    if found.exclusive:
        lines = [texts.text("validation-pauses")]
    else:
        lines = [texts.text("validation-slows-now")] if found.groups else []
    if found.scheduler not in ("", "evenkeel") and not found.exclusive:
        lines.append(texts.text("validation-unweighed", scheduler=found.scheduler))
    return lines


def duration(seconds: int) -> str:
    """2 min, or 90 s, or 1.5 h"""
    if seconds < 100:
        return f"{seconds} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def percent_done(found: Validation) -> int:
    """The part of the time that has passed, from 0 to 99."""
    whole = found.ran_s + found.left_s
    return min(99, round(100 * found.ran_s / whole)) if whole else 0


def utc(text: str) -> str:
    """2026-01-31 12:00 of 2026-01-31T12:00:00Z"""
    return text[:16].replace("T", " ")
