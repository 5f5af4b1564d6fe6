# SPDX-License-Identifier: Apache-2.0
"""Changes of the board, for charts of its history: what was changed and when, without who did it from where."""

from typing import Annotated

from msgspec import Meta

from ..method import ANY, Method
from ..roles import VIEWER
from ..schema import U64, Struct
from .accounts import LOGGED_IN, Time
from .board import READ

ACTIONS: dict[str, str] = {}
LISTED = 1000  # the maximum number of changes in an answer


class Change(Struct, frozen=True):
    """A change of the board that succeeded."""

    id: Annotated[U64, Meta(description="number of its row in the audit log")]
    at: Annotated[Time, Meta(description="when it took place")]
    action: Annotated[
        str, Meta(description="name of the method; of an undo: of the method whose value it sets back")
    ]
    app: Annotated[str, Meta(description="name of the app; empty if the change is not about an app")]
    before: Annotated[str, Meta(description="previous value; empty if it is not known, or if there is none")]
    value: Annotated[str, Meta(description="new value; empty if the change has none, or if it may be secret")]


# without the limit, a program could send a number that SQLite does not have
Moment = Annotated[U64, Meta(le=(1 << 63) - 1, extra={"unit": "Unix time, s"})]


class ListChanges(Struct, frozen=True):
    start: Annotated[Moment, Meta(description="only changes from this time on")]
    end: Annotated[Moment, Meta(description="only changes before this time")]


METHODS = (
    Method(
        "ListChanges",
        READ,
        VIEWER,
        f"Returns the [changes of the board](#change-of-the-board) in a span of time, newest first, at most {LISTED:,}. The"
        " agent keeps the newest 10,000 changes. Log-ins and changes of users are not among them.",
        ListChanges,
        list[Change],
        "changes",
        (*LOGGED_IN, *ANY),
    ),
)
