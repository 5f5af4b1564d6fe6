# SPDX-License-Identifier: Apache-2.0
"""Updates of the board: slots, the installation of a signed bundle, the slot for the next boot, restart and factory reset."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ..errors import Conflict, InvalidArgument, NotLoggedIn, TooManyTries, WrongPassword
from ..messages import Note
from ..method import ANY, Method
from ..roles import ADMIN, VIEWER
from ..schema import U64, Struct
from .board import READ

UPDATE = "org.evenkeel.agent.update"
ACTIONS = {UPDATE: "Update and restart the board"}

State = Literal[
    "unavailable",
    "idle",
    "installing",
    "unconfirmed",
    "installed",
    "failed",
    "rolled-back",
    "interrupted",
]


class Slot(Struct, frozen=True):
    """A slot: a partition with a complete system."""

    name: Annotated[str, Meta(description="`A` or `B`")]
    running: Annotated[bool, Meta(description="whether the board booted from it")]
    next: Annotated[bool, Meta(description="whether the board boots from it next time")]
    good: Annotated[
        bool,
        Meta(
            description="for the slot that runs: whether it is confirmed; for the other one: whether the board may boot"
            " from it, because it is complete and has starts left"
        ),
    ]
    version: Annotated[
        str, Meta(description="version of its bundle; empty if it has the contents of the first image")
    ]
    installed_at: Annotated[
        str, Meta(description="when its bundle was installed, in UTC (ISO 8601); empty if never")
    ]


class Update(Struct, frozen=True):
    """The state of the board's updates."""

    state: Annotated[
        State,
        Meta(
            description="`idle`; `installing`; `unconfirmed`: the slot that runs is not confirmed yet; `installed`: the"
            " other slot starts at the next boot; `failed`: the last installation failed; `rolled-back`: the other slot"
            " was not confirmed in three starts, so the board runs the previous one; `interrupted`: an installation"
            " ended before it was complete; `unavailable`: the update service or the boot state cannot be read"
        ),
    ]
    version: Annotated[str, Meta(description="version that runs")]
    progress: Annotated[U64, Meta(description="progress of the installation", extra={"unit": "%"})] = 0
    step: Annotated[str, Meta(description="what the installation does now; empty if none runs")] = ""
    problem: Annotated[
        list[Note], Meta(description="one [message](#message) if there is a problem, else empty")
    ] = msgspec.field(default_factory=list)
    slots: Annotated[list[Slot], Meta(description="both [slots](#slot-of-the-board)")] = msgspec.field(
        default_factory=list
    )


class Bundle(Struct, frozen=True):
    """What a bundle contains. Its signature was checked."""

    version: Annotated[str, Meta(description="version that it installs")]
    compatible: Annotated[str, Meta(description="kind of board for which it was made")]
    description: Annotated[str, Meta(description="description by its maker; may be empty")]
    older: Annotated[bool, Meta(description="whether it is older than the version that runs")]


Source = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=1000,
        pattern=r"^(/|https?://)[^\x00-\x20\x7f]+$(?!\n)",
        description="absolute path or `http://` or `https://` URL of a bundle. The panel may only name the file that was"
        " uploaded, or a URL",
    ),
]


class Inspect(Struct, frozen=True):
    source: Source


class Install(Struct, frozen=True):
    source: Source
    allow_older: Annotated[
        bool, Meta(description="whether to install a bundle that is older than the version that runs")
    ]


class Choose(Struct, frozen=True):
    slot: Annotated[Literal["A", "B"], Meta(description="`A` or `B`")]


class Reset(Struct, frozen=True):
    keep_recordings: Annotated[
        bool, Meta(description="whether the partition of the recordings stays as it is")
    ]
    password: Annotated[
        str, Meta(description="the present password of the user; empty for root on the board")
    ]


METHODS = (
    Method(
        "GetUpdate",
        READ,
        VIEWER,
        "Returns the [state of the board's updates](#state-of-updates).",
        answer=Update,
        answer_name="update",
    ),
    Method(
        "InspectBundle",
        UPDATE,
        ADMIN,
        "Checks the signature of a bundle, and returns [what it contains](#bundle).",
        request=Inspect,
        answer=Bundle,
        answer_name="bundle",
        errors=(InvalidArgument, Conflict, *ANY),
    ),
    Method(
        "InstallBundle",
        UPDATE,
        ADMIN,
        "Begins to install a bundle into the slot that does not run. `GetUpdate` reports the progress.",
        request=Install,
        errors=(InvalidArgument, Conflict, *ANY),
        changes=True,
    ),
    Method(
        "ChooseSlot",
        UPDATE,
        ADMIN,
        "Chooses the slot from which the board boots next time.",
        request=Choose,
        answer=Update,
        answer_name="update",
        errors=(InvalidArgument, Conflict, *ANY),
        changes=True,
    ),
    Method("Restart", UPDATE, ADMIN, "Restarts the board.", errors=(Conflict, *ANY), changes=True),
    Method(
        "FactoryReset",
        UPDATE,
        ADMIN,
        "Restarts the board, and makes its data partition empty: all settings, users, certificates, histories and data of apps"
        " are lost. The slots stay as they are. The session of a user of the panel also needs the password.",
        request=Reset,
        errors=(Conflict, NotLoggedIn, WrongPassword, TooManyTries, *ANY),
        changes=True,
        secret=("password",),
        no_token=True,
    ),
)
