# SPDX-License-Identifier: Apache-2.0
"""The page pool: which directories keep their place in the page cache, and what this costs the other files."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ..errors import Conflict, InvalidArgument, UnknownApp
from ..messages import Note
from ..method import ANY, Method
from ..roles import ADMIN, VIEWER
from ..schema import U64, Struct
from .board import READ

SET_DIRECTORIES = "org.evenkeel.agent.set-priority-directories"
ACTIONS = {SET_DIRECTORIES: "Choose the directories whose files keep their place in the cache"}

PoolState = Literal["on", "idle", "off"]
DirectoryState = Literal[
    "protected", "shared", "absent", "not-a-directory", "overlay", "no-device", "too-many", "failed", "off"
]
Directory = Annotated[
    str, Meta(max_length=4096, description="absolute path of the directory, without `.`, `..` or `//`")
]
Bytes = {"unit": "bytes"}
HitRatio = Annotated[
    float,
    Meta(description="-1 if there were no accesses", extra={"unit": "%"}),
]


class PriorityDirectory(Struct, frozen=True):
    """A directory that an app names."""

    app: Annotated[str, Meta(description="name of the app")]
    path: Annotated[str, Meta(description="path of the directory")]
    state: Annotated[
        DirectoryState,
        Meta(
            description="`protected`: its files are protected; `shared`: another entry names the same directory;"
            " `absent`: it does not exist, and is protected as soon as it appears; `not-a-directory`;"
            " `overlay`: it lies on overlayfs; `no-device`: its file system has no device, such as tmpfs;"
            " `too-many`: the module protects 256 directories at most; `failed`: see `reason`;"
            " `off`: the page pool is off"
        ),
    ]
    reason: Annotated[str, Meta(description="why it failed; else empty")] = ""


class HeldDirectory(Struct, frozen=True):
    """A directory that a program holds, such as a validation. It is a priority directory until the program ends."""

    path: Annotated[str, Meta(description="path of the directory")]
    state: Annotated[DirectoryState, Meta(description="as of a [priority directory](#priority-directory)")]
    reason: Annotated[str, Meta(description="why it failed; else empty")] = ""


class CacheMinute(Struct, frozen=True):
    """The page cache in one minute."""

    ago_min: Annotated[
        int, Meta(ge=0, description="how long ago the minute ended", extra={"dbus": "u", "unit": "min"})
    ]
    target_bytes: Annotated[U64, Meta(description="S_target at its end", extra=Bytes)]
    size_bytes: Annotated[U64, Meta(description="size of the protected pool at its end", extra=Bytes)]
    protected_ratio: Annotated[HitRatio, Meta(description="hit ratio of the priority files; -1: no accesses")]
    normal_ratio: Annotated[HitRatio, Meta(description="hit ratio of all other files; -1: no accesses")]


class Cache(Struct, frozen=True):
    """The two pools of the page cache."""

    state: Annotated[
        PoolState,
        Meta(
            description="`on`: at least one directory is protected; `idle`: none is; `off`: the module cannot be used,"
            " and `problem` has the reason"
        ),
    ]
    target_bytes: Annotated[
        U64, Meta(description="S_target: the size that the protected pool should have", extra=Bytes)
    ] = 0
    size_bytes: Annotated[U64, Meta(description="present size of the protected pool", extra=Bytes)] = 0
    limit_bytes: Annotated[
        U64, Meta(description="the largest S_target, which depends on the free memory", extra=Bytes)
    ] = 0
    memory_bytes: Annotated[U64, Meta(description="memory of the board", extra=Bytes)] = 0
    protected_ratio: Annotated[
        HitRatio, Meta(description="hit ratio of the priority files in the last 15 s; -1: no accesses")
    ] = -1.0
    normal_ratio: Annotated[
        HitRatio, Meta(description="hit ratio of all other files in the last 15 s; -1: no accesses")
    ] = -1.0
    normal_target: Annotated[
        float,
        Meta(description="hit ratio that the other files should have", extra={"unit": "%"}),
    ] = 0.0
    cost_bytes: Annotated[
        U64,
        Meta(description="memory that the other files cannot get, because it is protected", extra=Bytes),
    ] = 0
    normal_lack: Annotated[
        float,
        Meta(
            description="how far the hit ratio of the other files is below `normal_target`, over the last 10 min;"
            " -1: no accesses",
            extra={"unit": "percentage points"},
        ),
    ] = -1.0
    minutes: Annotated[
        list[CacheMinute],
        Meta(description="the last [minutes](#minute-of-the-cache), at most 10, newest first"),
    ] = msgspec.field(default_factory=list)
    directories: Annotated[
        list[PriorityDirectory],
        Meta(description="the [priority directories](#priority-directory), sorted by app"),
    ] = msgspec.field(default_factory=list)
    held: Annotated[
        list[HeldDirectory],
        Meta(description="the [directories that programs hold](#held-directory); they belong to no app"),
    ] = msgspec.field(default_factory=list)
    problem: Annotated[
        list[Note], Meta(description="what does not work, and why, as [messages](#message)")
    ] = msgspec.field(default_factory=list)


class DirectoryOfApp(Struct, frozen=True):
    name: Annotated[str, Meta(description="name of the app")]
    directory: Directory


METHODS = (
    Method(
        "GetCache",
        READ,
        VIEWER,
        "Returns the [pools of the page cache](#page-cache), their hit ratios, and the priority directories of all apps.",
        answer=Cache,
        answer_name="cache",
    ),
    Method(
        "AddPriorityDirectory",
        SET_DIRECTORIES,
        ADMIN,
        "Makes a directory a priority directory of an app, and saves this. A directory that does not exist is kept, and"
        " protected as soon as it appears.",
        DirectoryOfApp,
        Cache,
        "cache",
        (UnknownApp, InvalidArgument, Conflict, *ANY),
        changes=True,
    ),
    Method(
        "RemovePriorityDirectory",
        SET_DIRECTORIES,
        ADMIN,
        "Ends the protection of a priority directory of an app, and saves this. Its files stay in the cache until"
        " other files need the memory.",
        DirectoryOfApp,
        Cache,
        "cache",
        (UnknownApp, Conflict, *ANY),
        changes=True,
    ),
)
