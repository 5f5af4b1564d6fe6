# SPDX-License-Identifier: Apache-2.0
"""The apps: their weights, fixed shares, states and rates."""

from typing import Annotated

import msgspec
from msgspec import Meta

from ..errors import (
    Conflict,
    InvalidArgument,
    InvalidFixedShare,
    InvalidWeight,
    UnitNotFound,
    UnitOutsideSlice,
    UnknownApp,
)
from ..messages import Note
from ..method import ANY, Method
from ..roles import ADMIN, OPERATOR, VIEWER
from ..schema import Struct

READ = "org.evenkeel.agent.read"
SET_WEIGHT = "org.evenkeel.agent.set-weight"
SET_FIXED_SHARE = "org.evenkeel.agent.set-fixed-share"
CONTROL_APP = "org.evenkeel.agent.control-app"
MANAGE_APPS = "org.evenkeel.agent.manage-apps"
ACTIONS = {
    SET_WEIGHT: "Set the I/O weight of an app",
    SET_FIXED_SHARE: "Set the fixed share of an app",
    CONTROL_APP: "Start or stop an app",
    MANAGE_APPS: "Add or remove an app",
}

WEIGHT_MIN, WEIGHT_MAX, WEIGHT_DEFAULT = 1, 10_000, 100  # as in cgroup v2's io.weight
FIXED_SHARE_OFF = 0  # no fixed share: the weight decides
FIXED_SHARE_MIN, FIXED_SHARE_MAX = 1, 100  # percent, as in io.evenkeel.fixed

Weight = Annotated[int, Meta(ge=WEIGHT_MIN, le=WEIGHT_MAX, extra={"dbus": "u"})]
FixedShare = Annotated[int, Meta(ge=FIXED_SHARE_OFF, le=FIXED_SHARE_MAX, extra={"dbus": "u", "unit": "%"})]
Rate = Annotated[float, Meta(extra={"unit": "bytes/s"})]
Part = Annotated[float, Meta(extra={"unit": "0 to 1"})]


class App(Struct, frozen=True):
    """The state of an app. The window is the last 3 s, in the first answer after a pause up to 8 s."""

    name: Annotated[
        str,
        Meta(
            description="name of the app: the name of its file in `/etc/evenkeel/apps.d` or, if it was added by `AddApp`,"
            " in `/var/lib/evenkeel-apps`, without `.toml`"
        ),
    ]
    title: Annotated[str, Meta(description="`title` in the file")] = ""
    description: Annotated[str, Meta(description="`description` in the file; may be empty")] = ""
    unit: Annotated[str, Meta(description="systemd unit of the app")] = ""
    weight: Annotated[Weight, Meta(description="saved weight, or the one in the file if none was saved")] = (
        WEIGHT_DEFAULT
    )
    active_state: Annotated[
        str, Meta(description="active state of the unit; `unknown` if systemd does not answer")
    ] = "unknown"
    sub_state: Annotated[
        str, Meta(description="sub-state of the unit; `not-found` if the unit is not installed")
    ] = ""
    applied: Annotated[
        bool, Meta(description="whether the weight is in force: `io.weight` of the unit's cgroup has it")
    ] = False
    read_bps: Annotated[Rate, Meta(description="read rate over the window")] = 0.0
    write_bps: Annotated[Rate, Meta(description="write rate over the window")] = 0.0
    share: Annotated[Part, Meta(description="the app's part of the bytes of all apps over the window")] = 0.0
    p99_us: Annotated[
        float,
        Meta(
            description="99th percentile of the latency of reads and writes over the window, from tag to completion;"
            " upper bound of its [bucket](scheduler.md#histograms); -1 without I/O",
            extra={"unit": "µs"},
        ),
    ] = -1.0
    fixed_share: Annotated[
        FixedShare, Meta(description="saved fixed share of each flash device; 0: none, the weight decides")
    ] = FIXED_SHARE_OFF
    fixed_share_applied: Annotated[
        bool,
        Meta(
            description="whether `fixed_share` is in force: `io.evenkeel.fixed` of the unit's cgroup has it for every"
            " flash device. Without a cgroup it is true only for 0."
        ),
    ] = True
    fixed_share_problem: Annotated[
        list[Note],
        Meta(
            description="one [message](#message) with the reason why the fixed share could not be applied; empty if it"
            " could, or if the agent has not tried yet"
        ),
    ] = msgspec.field(default_factory=list)
    fixed_share_used: Annotated[
        Part,
        Meta(
            description="the used part of the fixed share over the window, on the device where it is largest;"
            " -1 without I/O with a fixed share"
        ),
    ] = -1.0
    fixed_share_late: Annotated[
        Part,
        Meta(
            description="the part of the requests with a fixed share that were late, on the same device; -1 without"
            " such requests"
        ),
    ] = -1.0
    fixed_share_behind: Annotated[
        bool,
        Meta(
            description="whether the scheduler fails to deliver the fixed share: requests take over 5 % longer than"
            " their ideal time, and over a tenth of them are late"
        ),
    ] = False
    stats: Annotated[
        str,
        Meta(description="the app's own counters: the JSON object in its `stats` file; empty without one"),
    ] = ""
    window_s: Annotated[
        float, Meta(description="length of the window; 0 before the second sample", extra={"unit": "s"})
    ] = 0.0
    added: Annotated[
        bool, Meta(description="whether the app was added by `AddApp`, so that `RemoveApp` can remove it")
    ] = False


class AppName(Struct, frozen=True):
    name: Annotated[str, Meta(description="name of the app")]


class SetWeight(AppName, frozen=True):
    weight: Annotated[Weight, Meta(description="the new weight", extra={"error": InvalidWeight.kind})]


class SetFixedShare(AppName, frozen=True):
    percent: Annotated[
        FixedShare,
        Meta(description="the new fixed share; 0 ends it", extra={"error": InvalidFixedShare.kind}),
    ]


class UndoWeight(SetWeight, frozen=True):
    present: Annotated[
        Weight, Meta(description="the weight that is undone; if another one is set, nothing changes")
    ]


class UndoFixedShare(SetFixedShare, frozen=True):
    present: Annotated[
        FixedShare, Meta(description="the fixed share that is undone; if another one is set, nothing changes")
    ]


class AddApp(AppName, frozen=True):
    title: Annotated[str, Meta(description="name that the panel shows, 1 to 40 characters")]
    description: Annotated[str, Meta(description="one line of explanation; may be empty")]
    unit: Annotated[
        str,
        Meta(
            description="systemd unit of the app (`.service`, `.scope` or `.slice`), below `evenkeel-apps.slice`"
        ),
    ]
    weight: Annotated[Weight, Meta(description="its weight", extra={"error": InvalidWeight.kind})]


METHODS = (
    Method(
        "ListApps",
        READ,
        VIEWER,
        "Returns the [state of all apps](#state-of-an-app), sorted by name.",
        answer=list[App],
        answer_name="apps",
    ),
    Method(
        "SetWeight",
        SET_WEIGHT,
        OPERATOR,
        "Saves the weight of an app, 1 to 10000, and applies it. Returns the app's new state.",
        SetWeight,
        App,
        "app",
        (UnknownApp, InvalidWeight, UnitOutsideSlice, *ANY),
        changes=True,
    ),
    Method(
        "SetFixedShare",
        SET_FIXED_SHARE,
        OPERATOR,
        "Saves the fixed share of an app in percent, 1 to 100, and applies it; 0 ends it. Returns the app's new state.",
        SetFixedShare,
        App,
        "app",
        (UnknownApp, InvalidFixedShare, UnitOutsideSlice, *ANY),
        changes=True,
    ),
    Method(
        "UndoWeight",
        SET_WEIGHT,
        OPERATOR,
        "Like `SetWeight`, if the saved weight still is `present`: an undo does not replace what somebody else has set.",
        UndoWeight,
        App,
        "app",
        (UnknownApp, InvalidWeight, UnitOutsideSlice, Conflict, *ANY),
        changes=True,
        panel=True,
    ),
    Method(
        "UndoFixedShare",
        SET_FIXED_SHARE,
        OPERATOR,
        "Like `SetFixedShare`, if the saved fixed share still is `present`.",
        UndoFixedShare,
        App,
        "app",
        (UnknownApp, InvalidFixedShare, UnitOutsideSlice, Conflict, *ANY),
        changes=True,
        panel=True,
    ),
    Method(
        "StartApp",
        CONTROL_APP,
        OPERATOR,
        "Starts the app's unit and waits for it, at most 20 s.",
        AppName,
        errors=(UnknownApp, UnitNotFound, UnitOutsideSlice, *ANY),
        changes=True,
    ),
    Method(
        "StopApp",
        CONTROL_APP,
        OPERATOR,
        "Stops the app's unit and waits for it, at most 20 s.",
        AppName,
        errors=(UnknownApp, UnitNotFound, UnitOutsideSlice, *ANY),
        changes=True,
    ),
    Method(
        "ListFreeUnits",
        MANAGE_APPS,
        ADMIN,
        "Returns the units that run in the slice of the apps and belong to no app.",
        answer=list[str],
        answer_name="units",
    ),
    Method(
        "AddApp",
        MANAGE_APPS,
        ADMIN,
        "Lists a unit as an app, and applies its weight. Returns the app's state.",
        AddApp,
        App,
        "app",
        (InvalidArgument, InvalidWeight, Conflict, UnitNotFound, UnitOutsideSlice, *ANY),
        changes=True,
    ),
    Method(
        "RemoveApp",
        MANAGE_APPS,
        ADMIN,
        "Removes an app that `AddApp` has added, with its saved weight, fixed share and priority directories. Its unit keeps"
        " running.",
        AppName,
        errors=(UnknownApp, Conflict, *ANY),
        changes=True,
    ),
)
