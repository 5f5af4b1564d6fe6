# SPDX-License-Identifier: Apache-2.0
"""Backup and restore of all settings of the board, as one JSON file."""

from typing import Annotated

import msgspec
from msgspec import Meta

from ..errors import InvalidArgument, NotLoggedIn, TooManyTries, WrongPassword
from ..messages import Note
from ..method import ANY, Method
from ..roles import ADMIN
from ..schema import Struct
from .accounts import Password, Time

BACKUP = "org.evenkeel.agent.backup"
ACTIONS = {BACKUP: "Save and restore all settings of the board"}

MAX_BYTES = 256 * 1024
Panel = Annotated[
    str,
    Meta(
        max_length=10_000,
        description="settings of the panel as text, which the agent only stores in the file",
    ),
]
Backup = Annotated[str, Meta(max_length=MAX_BYTES, description="the file, JSON text")]


class Restore(Struct, frozen=True):
    """What a backup contains, compared with the board."""

    board: Annotated[str, Meta(description="name of the board from which the backup is")]
    made_at: Annotated[Time, Meta(description="when the backup was made")]
    panel: Panel
    changes: Annotated[
        list[Note], Meta(description="one [message](#message) for each setting that differs on this board")
    ] = msgspec.field(default_factory=list)


class GetBackup(Struct, frozen=True):
    password: Annotated[Password, Meta(description="password of the user: the file is secret")]
    panel: Panel


class UseBackup(Struct, frozen=True):
    backup: Backup


METHODS = (
    Method(
        "GetBackup",
        BACKUP,
        ADMIN,
        "Returns all settings of the board as one file, with the password hashes of the users.",
        GetBackup,
        Annotated[str, Meta(description="the file, JSON text")],
        "backup",
        (NotLoggedIn, WrongPassword, TooManyTries, *ANY),
        changes=True,
        secret=("password", "panel"),
        panel=True,
    ),
    Method(
        "CheckBackup",
        BACKUP,
        ADMIN,
        "Checks a backup, and returns [what a restore would change](#backup). It changes nothing.",
        UseBackup,
        Restore,
        "restore",
        (InvalidArgument, *ANY),
        panel=True,
    ),
    Method(
        "RestoreBackup",
        BACKUP,
        ADMIN,
        "Checks a backup, then makes its settings those of the board: all of them, or none. Sessions of users that change"
        " end.",
        UseBackup,
        Restore,
        "restore",
        (InvalidArgument, *ANY),
        changes=True,
        secret=("backup",),
        panel=True,
    ),
)
