# SPDX-License-Identifier: Apache-2.0
"""What a validation on the data partition would do, as ek-validation tells it. It measures nothing and changes nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import plan, target
from .loads import Launcher, Ungrouped
from .runs import Places
from .session import Request, Session
from .target import Target

FOLDER = Path("/data")
FindTarget = Callable[[Places, int], Target]


class NothingToMeasure(Exception):
    """No case of the plan can run. str() has the reasons."""


def data_folder(places: Places, size: int) -> Target:
    """A file of SIZE bytes on the data partition. Raises ValidateError."""
    return target.of_folder(places.sys, FOLDER, size)


def plan_of(
    places: Places,
    find_target: FindTarget,
    profile: str,
    topic: str,
    compares: bool,
    version: str,
    launcher: Launcher | None = None,
) -> dict[str, Any]:
    """The plan, as evenkeel_api has it (ValidationPlan). `left_out` is a dict of reasons by case.

    LAUNCHER pauses the apps; None: apps are not paused.
    Raises NothingToMeasure, or ValidateError.
    """
    found, only = plan.PROFILES[profile], [f"{topic}."] if topic else []
    where = find_target(places, plan.space(found, only))
    request = Request(found, where, only, None if compares else [], exclusive=launcher is not None)
    made = Session(places, launcher or Ungrouped(), request, version).make_plan()
    if not made.steps:
        raise NothingToMeasure(
            "; ".join(dict.fromkeys(made.skipped.values())) or f"the profile {profile} has none"
        )
    return {
        "where": where.where,
        "cases": len(made.steps),
        "written_bytes": made.total,
        "endurance_percent": plan.endurance(made.total, where.capacity) if where.capacity else -1.0,
        "takes_s": made.seconds,
        "most_s": made.profile.seconds,
        "schedulers": plan.schedulers_of(made),
        "exclusive": request.exclusive,
        "groups": plan.has_groups(made),
        "discards": plan.discards_space(made),
        "left_out": made.skipped,
        "evicts": plan.evicts(made),
        "proven": made.proven,
    }
