# SPDX-License-Identifier: Apache-2.0
"""The board: its slot, kernel, flash devices and problems."""

from typing import Annotated

import msgspec
from msgspec import Meta

from ..messages import Note
from ..method import Method
from ..roles import VIEWER
from ..schema import U64, Struct
from .apps import App
from .wear import WearLimit

READ = "org.evenkeel.agent.read"
ACTIONS = {READ: "See the state of the board and its apps"}


class Device(Struct, frozen=True):
    """A flash device."""

    name: Annotated[str, Meta(description="name in `/sys/block`")]
    scheduler: Annotated[str, Meta(description="active I/O scheduler of the device")]
    model: Annotated[str, Meta(description="model as the device reports it; may be empty")]
    size_bytes: Annotated[U64, Meta(description="capacity", extra={"unit": "bytes"})]


class Health(Struct, frozen=True):
    """The part of the board's state that a client may read without a log-in."""

    version: Annotated[str, Meta(description="version of the agent")]
    kernel: Annotated[str, Meta(description="release of the running kernel, or `unknown`")]
    slot: Annotated[str, Meta(description="slot from which the board booted: `A`, `B` or `unknown`")]
    scheduler: Annotated[
        str,
        Meta(
            description="`evenkeel` if it serves every flash device; otherwise the scheduler of the first device that"
            " it does not serve; `none` without a flash device"
        ),
    ]
    health: Annotated[str, Meta(description="`ok`, or `degraded` if there is a problem")]


class Status(Struct, frozen=True):
    """The state of the board."""

    version: Annotated[str, Meta(description="version of the agent")]
    kernel: Annotated[str, Meta(description="release of the running kernel, or `unknown`")]
    slot: Annotated[str, Meta(description="slot from which the board booted: `A`, `B` or `unknown`")]
    scheduler: Annotated[
        str,
        Meta(
            description="`evenkeel` if it serves every flash device; otherwise the scheduler of the first device that"
            " it does not serve; `none` without a flash device"
        ),
    ]
    health: Annotated[str, Meta(description="`ok`, or `degraded` if `problems` has an entry")]
    demo: Annotated[
        bool, Meta(description="whether the demo apps may start (system credential `evenkeel.demo`)")
    ]
    uptime_s: Annotated[U64, Meta(description="time since boot", extra={"unit": "s"})]
    devices: Annotated[
        list[Device], Meta(description="the [flash devices](#flash-device), sorted by name")
    ] = msgspec.field(default_factory=list)
    problems: Annotated[
        list[Note],
        Meta(
            description="one [message](#message) per problem ([what to do](error-codes.md#problems-in-ekctl-status))"
        ),
    ] = msgspec.field(default_factory=list)
    wear_limit: WearLimit = 0


class Snapshot(Struct, frozen=True):
    """The board and its apps at one moment. All callers within a second get the same snapshot."""

    sequence: Annotated[U64, Meta(description="number of the snapshot since the agent started, from 1")]
    status: Annotated[Status, Meta(description="the [state of the board](#status-of-the-board)")]
    apps: Annotated[list[App], Meta(description="the [state of all apps](#state-of-an-app), sorted by name")]


METHODS = (
    Method(
        "GetHealth",
        READ,
        None,
        "Returns the [health of the board](#health-of-the-board), also without a session.",
        answer=Health,
        answer_name="health",
    ),
    Method(
        "GetStatus",
        READ,
        VIEWER,
        "Returns the [state of the board](#status-of-the-board).",
        answer=Status,
        answer_name="status",
    ),
    Method(
        "GetSnapshot",
        READ,
        VIEWER,
        "Returns the [snapshot](#snapshot) of the board and its apps, which is at most one second old.",
        answer=Snapshot,
        answer_name="snapshot",
    ),
)
