# SPDX-License-Identifier: Apache-2.0
"""Backup and restore of the settings of the board, as one JSON file."""

from typing import Annotated

import msgspec
from msgspec import Meta

from ..errors import Conflict, InvalidArgument, NotLoggedIn, TooManyTries, WrongPassword
from ..messages import Note
from ..method import ANY, Method
from ..roles import ADMIN
from ..schema import Struct
from .accounts import Password, Time

BACKUP = "org.evenkeel.agent.backup"
ACTIONS = {BACKUP: "Save and restore the settings of the board"}

MAX_BYTES = 256 * 1024
Backup = Annotated[str, Meta(max_length=MAX_BYTES, description="the file, JSON text")]


class Restore(Struct, frozen=True):
    """What a backup contains, compared with the board."""

    board: Annotated[str, Meta(description="name of the board from which the backup is")]
    made_at: Annotated[Time, Meta(description="when the backup was made")]
    changes: Annotated[
        list[Note], Meta(description="one [message](#message) for each setting that differs on this board")
    ] = msgspec.field(default_factory=list)
    left_out: Annotated[
        list[Note],
        Meta(
            description="one [message](#message) for each part of the backup that is not restored, and what to do"
        ),
    ] = msgspec.field(default_factory=list)
    network: Annotated[
        list[Note],
        Meta(
            description="one [message](#message) for each interface whose settings differ, or that this board does not"
            " have. They change only if the argument `network` is true"
        ),
    ] = msgspec.field(default_factory=list)


class GetBackup(Struct, frozen=True):
    password: Annotated[Password, Meta(description="password of the user of the panel: the file is secret")]


class CheckBackup(Struct, frozen=True):
    backup: Backup


class RestoreBackup(Struct, frozen=True):
    backup: Backup
    network: Annotated[
        bool,
        Meta(
            description="also begin the change of the network settings, which the board undoes after 60 s unless"
            " `ConfirmNetwork` confirms it"
        ),
    ]


METHODS = (
    Method(
        "GetBackup",
        BACKUP,
        ADMIN,
        "Returns the settings of the board as one file, with the password hashes of the users. The session of a user of the"
        " panel also needs the password.",
        GetBackup,
        Annotated[str, Meta(description="the file, JSON text")],
        "backup",
        (NotLoggedIn, WrongPassword, TooManyTries, *ANY),
        changes=True,
        secret=("password",),
        no_token=True,
    ),
    Method(
        "CheckBackup",
        BACKUP,
        ADMIN,
        "Checks a backup, and returns [what a restore would change](#backup). It changes nothing.",
        CheckBackup,
        Restore,
        "restore",
        (InvalidArgument, *ANY),
        no_token=True,
    ),
    Method(
        "RestoreBackup",
        BACKUP,
        ADMIN,
        "Checks a backup, then makes its settings those of the board: all of them, or none. Sessions of users that change"
        " end. The network settings change only on demand, and not after a power cut.",
        RestoreBackup,
        Restore,
        "restore",
        (InvalidArgument, Conflict, *ANY),
        changes=True,
        secret=("backup",),
        no_token=True,
    ),
)
