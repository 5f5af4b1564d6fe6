# SPDX-License-Identifier: Apache-2.0
"""Settings of a new board from a file that its owner has written before the first boot."""

from typing import Annotated

from msgspec import Meta

from ..errors import Conflict, InvalidArgument
from ..method import ANY, Method
from ..roles import ADMIN
from ..schema import Struct

PRESEED = "org.evenkeel.agent.preseed"
ACTIONS = {PRESEED: "Apply a preseed file"}
MAX_BYTES = 16 * 1024


class ApplyPreseed(Struct, frozen=True):
    preseed: Annotated[
        str,
        Meta(
            max_length=MAX_BYTES,
            description="the [preseed file](interfaces.md#the-preseed-file-evenkeeltoml), TOML text",
        ),
    ]


METHODS = (
    Method(
        "ApplyPreseed",
        PRESEED,
        ADMIN,
        "Applies a preseed file: name of the board, network settings of an interface, password of the user `admin`. A file with"
        " an error changes nothing. A repetition gives the same result. `Conflict`: the first-boot password was changed, so"
        " nothing is applied.",
        ApplyPreseed,
        errors=(InvalidArgument, Conflict, *ANY),
        changes=True,
        secret=("preseed",),
        local=True,
    ),
)
