# SPDX-License-Identifier: Apache-2.0
"""The wear of the flash: from which used part of a device's life the board reports a problem."""

from typing import Annotated

from msgspec import Meta

from ..errors import InvalidArgument
from ..method import ANY, Method
from ..roles import ADMIN
from ..schema import Struct

WEAR = "org.evenkeel.agent.set-wear-limit"
ACTIONS = {WEAR: "Set the used part of a flash device's life from which the board warns"}
DEFAULT = 80  # until an administrator sets another limit

WearLimit = Annotated[
    int,
    Meta(
        ge=0,
        le=100,
        description="used part of the life of a flash device from which `wear-limit` is a problem; 0: no limit",
        extra={"dbus": "u", "unit": "%"},
    ),
]


class SetWearLimit(Struct, frozen=True):
    percent: WearLimit


METHODS = (
    Method(
        "SetWearLimit",
        WEAR,
        ADMIN,
        "Saves the wear limit. [`GetStatus`](#status-of-the-board) returns it. It survives a restart and an update.",
        SetWearLimit,
        errors=(InvalidArgument, *ANY),
        changes=True,
    ),
)
