# SPDX-License-Identifier: Apache-2.0
"""What the pages of validations show, as pure functions of the agent's answers and of what somebody chose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, get_args

import msgspec
from evenkeel_api.features.validation import Profile, Topic, Validation, ValidationOrder, ValidationRow
from evenkeel_api.schema import Struct
from msgspec import Meta

from .. import texts

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def order(fields: Mapping[str, str]) -> ValidationOrder | None:
    """The order that somebody chose in the form; None if a choice is not in the lists."""
    compares, exclusive = fields.get("compare", "no"), fields.get("exclusive", "no")
    profile, topic = fields.get("profile", "quick"), fields.get("topic", "")
    if profile not in get_args(Profile) or topic not in get_args(Topic):
        return None
    if not {compares, exclusive} <= {"yes", "no"}:
        return None
    return msgspec.convert(
        {"profile": profile, "topic": topic, "compare": compares == "yes", "exclusive": exclusive == "yes"},
        type=ValidationOrder,
    )


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
