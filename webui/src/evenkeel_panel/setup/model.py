# SPDX-License-Identifier: Apache-2.0
"""The steps of the set-up, and its progress. Pure.

The steps are the existing pages with their forms. A bar above each of them leads to the next one, so the set-up adds no
second way to change a setting. Whether a step was done or skipped makes no difference: a person may do it later.

The progress is one text in settings.db: OFFERED, the name of the present step, or ENDED. It begins as OFFERED when FIRST_USER
replaces the first password. A board without a progress is not new: it has been updated from a version without the set-up, or
its settings.db was damaged. So the set-up is not offered there, and can be opened on the page System.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from evenkeel_api.schema import Struct
from msgspec import Meta

KEY = "setup"
OFFERED = "offered"
ENDED = "ended"
NOT_OFFERED = "not-offered"
FIRST_USER = "admin"  # whose first password is on the console of a new board


@dataclass(frozen=True, slots=True)
class Step:
    """NAME: in the URL and in settings.db. URL: the page and the part of it that has the form."""

    name: str
    title: str
    url: str
    why: str


STEPS = (
    Step(
        "name", "Name", "/system#h-name", "Give the board a name by which you tell it from your other boards."
    ),
    Step(
        "time",
        "Time",
        "/system#h-time",
        "Choose the time zone. Enter time servers if the network names none that the board can reach.",
    ),
    Step("network", "Network", "/network", "Enter a fixed address if your network has no DHCP server."),
    Step("alerts", "Alerts", "/alerts", "Let the board report its problems to a webhook or by mail."),
    Step(
        "code",
        "Code at log-in",
        "/account#h-code",
        "Set up a code, so that a stolen password is not enough to log in.",
    ),
)
NAMES = [step.name for step in STEPS]


class SetUpStep(Struct, frozen=True):
    name: str
    title: str
    url: Annotated[str, Meta(description="address of the page")]
    present: Annotated[str, Meta(description="the present setting; empty if it is not known")]


class SetUpPage(Struct, frozen=True):
    """The answer of /setup.json."""

    state: Annotated[
        str,
        Meta(
            description="`new`: not begun; `open`: the step `step` is next; `ended`: finished, or not wanted;"
            " `not-offered`: the board is not new"
        ),
    ]
    step: Annotated[str, Meta(description="empty unless the state is open")]
    steps: list[SetUpStep]


def state(saved: str | None) -> tuple[str, str]:
    """State and step of the set-up whose progress is SAVED. An unknown step, of a newer panel, counts as the first."""
    if saved is None:
        return NOT_OFFERED, ""
    if saved == ENDED:
        return ENDED, ""
    if saved == OFFERED:
        return "new", ""
    return "open", saved if saved in NAMES else NAMES[0]


def following(name: str) -> str:
    """The name of the step after NAME; ENDED after the last one."""
    at = NAMES.index(name) + 1
    return NAMES[at] if at < len(NAMES) else ENDED
