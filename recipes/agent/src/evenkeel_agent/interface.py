# SPDX-License-Identifier: Apache-2.0
"""org.evenkeel.Agent1 as data: methods, polkit actions, fields of the answers, and errors.

This is the only place for these facts. The service and its introspection, ekctl, the tests and
docs/reference/dbus.md (written by reference.py) take them from here. Meanings and remedies are one line of
Markdown; links are relative to docs/reference/.
"""

from dataclasses import dataclass
from typing import ClassVar

NAME = "org.evenkeel.Agent1"
PATH = "/org/evenkeel/Agent1"

READ = "org.evenkeel.agent.read"
SET_WEIGHT = "org.evenkeel.agent.set-weight"
SET_FIXED_SHARE = "org.evenkeel.agent.set-fixed-share"
CONTROL_APP = "org.evenkeel.agent.control-app"

# polkit action -> its description in data/org.evenkeel.agent.policy
ACTIONS = {
    READ: "See the state of the board and its apps",
    SET_WEIGHT: "Set the I/O weight of an app",
    SET_FIXED_SHARE: "Set the fixed share of an app",
    CONTROL_APP: "Start or stop an app",
}


class AgentError(Exception):
    """A call was refused. The message is one sentence without a full stop: what failed and why."""

    kind: ClassVar[str] = "Failed"
    meaning: ClassVar[str] = ""
    remedy: ClassVar[str] = ""

    @property
    def name(self) -> str:
        """The D-Bus error name."""
        return f"{NAME}.Error.{self.kind}"


class UnknownApp(AgentError):
    kind = "UnknownApp"
    meaning = "No app of this name is in `/etc/evenkeel/apps.d`, or its file is bad."
    remedy = "`ekctl apps` lists the apps, `ekctl status` the bad files."


class InvalidWeight(AgentError):
    kind = "InvalidWeight"
    meaning = "The weight is not a whole number from 1 to 10000, or not of D-Bus type `u`."
    remedy = "Correct the value."


class InvalidFixedShare(AgentError):
    kind = "InvalidFixedShare"
    meaning = (
        "The fixed share is not a whole number from 0 to 100, or not of D-Bus type `u`; or all apps together"
        " would have more than 100 %."
    )
    remedy = "Correct the value. The message says how much is left, and which apps have the rest."


class NotAuthorized(AgentError):
    kind = "NotAuthorized"
    meaning = "polkit does not allow the action to this caller, or polkit did not answer."
    remedy = "Call as root, or add a polkit rule for `org.evenkeel.agent.*`."


class UnitNotFound(AgentError):
    kind = "UnitNotFound"
    meaning = "The app's unit is not installed."
    remedy = "Install the unit, or correct `unit` in the app's file."


class Failed(AgentError):
    kind = "Failed"
    meaning = (
        "The value could not be saved, systemd did not do what was asked, a condition of the unit is not met,"
        " or the agent has a bug."
    )
    remedy = "Read the message, then `journalctl -u evenkeeld` and the unit's own log."


@dataclass(frozen=True, slots=True)
class StandardError:
    """An error org.freedesktop.DBus.Error.`kind` that a caller may get; `source` is the agent, the bus or the client."""

    kind: str
    source: str
    meaning: str
    remedy: str


STANDARD_ERRORS = (
    StandardError("UnknownMethod", "agent", "The interface has no such method.", "See [methods](#methods)."),
    StandardError(
        "InvalidArgs", "agent", "The arguments have other D-Bus types.", "See [methods](#methods)."
    ),
    StandardError(
        "LimitsExceeded", "agent", "The agent is serving 64 calls.", "Wait for answers, then try again."
    ),
    StandardError(
        "AccessDenied", "bus", "The bus policy does not let this user call the agent.", "Call as root."
    ),
    StandardError("ServiceUnknown", "bus", "The agent does not run.", "`systemctl status evenkeeld`"),
    StandardError("NameHasNoOwner", "bus", "The agent does not run.", "`systemctl status evenkeeld`"),
    StandardError("Spawn.*", "bus", "systemd could not start the agent.", "`systemctl status evenkeeld`"),
    StandardError("NoReply", "bus, client", "The agent did not answer in time.", "`journalctl -u evenkeeld`"),
)


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    signature: str


@dataclass(frozen=True, slots=True)
class Method:
    """The polkit action that the caller needs, arguments and results, and the errors of the interface's own."""

    action: str
    meaning: str
    inputs: tuple[Argument, ...] = ()
    outputs: tuple[Argument, ...] = ()
    errors: tuple[type[AgentError], ...] = ()

    @property
    def in_signature(self) -> str:
        return "".join(argument.signature for argument in self.inputs)

    @property
    def out_signature(self) -> str:
        return "".join(argument.signature for argument in self.outputs)


_NAME = Argument("name", "s")
_APP = Argument("app", "a{sv}")
_ANY = (NotAuthorized, Failed)

METHODS = {
    "GetStatus": Method(
        READ,
        "Returns the [state of the board](#status-of-the-board).",
        outputs=(Argument("status", "a{sv}"),),
        errors=_ANY,
    ),
    "ListApps": Method(
        READ,
        "Returns the [state of all apps](#state-of-an-app), sorted by name.",
        outputs=(Argument("apps", "aa{sv}"),),
        errors=_ANY,
    ),
    "SetWeight": Method(
        SET_WEIGHT,
        "Saves the weight of an app, 1 to 10000, and applies it. Returns the app's new state.",
        (_NAME, Argument("weight", "u")),
        (_APP,),
        (UnknownApp, InvalidWeight, *_ANY),
    ),
    "SetFixedShare": Method(
        SET_FIXED_SHARE,
        "Saves the fixed share of an app in percent, 1 to 100, and applies it; 0 ends it. Returns the app's new state.",
        (_NAME, Argument("percent", "u")),
        (_APP,),
        (UnknownApp, InvalidFixedShare, *_ANY),
    ),
    "StartApp": Method(
        CONTROL_APP,
        "Starts the app's unit and waits for it, at most 20 s.",
        (_NAME,),
        errors=(UnknownApp, UnitNotFound, *_ANY),
    ),
    "StopApp": Method(
        CONTROL_APP,
        "Stops the app's unit and waits for it, at most 20 s.",
        (_NAME,),
        errors=(UnknownApp, UnitNotFound, *_ANY),
    ),
}


@dataclass(frozen=True, slots=True)
class Field:
    """An entry of an a{sv}: D-Bus type of the value, its meaning, and its unit if it has one."""

    signature: str
    meaning: str
    unit: str = ""


STATUS = {
    "version": Field("s", "version of the agent"),
    "kernel": Field("s", "release of the running kernel, or `unknown`"),
    "slot": Field("s", "slot from which the board booted: `A`, `B` or `unknown`"),
    "scheduler": Field(
        "s",
        "`evenkeel` if it serves every flash device; otherwise the scheduler of the first device that it does not"
        " serve; `none` without a flash device",
    ),
    "devices": Field("aa{sv}", "the [flash devices](#flash-device), sorted by name"),
    "health": Field("s", "`ok`, or `degraded` if `problems` has an entry"),
    "problems": Field(
        "as", "one sentence per problem ([what to do](error-codes.md#problems-in-ekctl-status))"
    ),
    "demo": Field("b", "whether the demo apps may start (system credential `evenkeel.demo`)"),
    "uptime_s": Field("t", "time since boot", "s"),
}

DEVICE = {
    "name": Field("s", "name in `/sys/block`"),
    "scheduler": Field("s", "its scheduler"),
    "model": Field("s", "model as the device reports it; may be empty"),
    "size_bytes": Field("t", "capacity", "bytes"),
}

APP = {
    "name": Field("s", "name of the app: that of its file in `/etc/evenkeel/apps.d` without `.toml`"),
    "title": Field("s", "`title` in the file"),
    "description": Field("s", "`description` in the file; may be empty"),
    "unit": Field("s", "systemd unit of the app"),
    "weight": Field("u", "saved weight, or the one in the file if none was saved"),
    "active_state": Field("s", "active state of the unit; `unknown` if systemd does not answer"),
    "sub_state": Field("s", "sub-state of the unit; `not-found` if the unit is not installed"),
    "applied": Field("b", "whether the weight is in force: `io.weight` of the unit's cgroup has it"),
    "read_bps": Field("d", "read rate over the window", "bytes/s"),
    "write_bps": Field("d", "write rate over the window", "bytes/s"),
    "share": Field("d", "the app's part of the bytes of all apps over the window", "0 to 1"),
    "p99_us": Field(
        "d",
        "99th percentile of the latency of reads and writes over the window, from tag to completion; upper bound of"
        " its [bucket](scheduler.md#histograms); -1 without I/O",
        "µs",
    ),
    "fixed_share": Field("u", "saved fixed share of each flash device; 0: none, the weight decides", "%"),
    "fixed_share_applied": Field(
        "b",
        "whether `fixed_share` is in force: `io.evenkeel.fixed` of the unit's cgroup has it for every flash device."
        " Without a cgroup it is true only for 0.",
    ),
    "fixed_share_problem": Field(
        "s", "why the fixed share could not be applied; empty if there is no reason"
    ),
    "fixed_share_used": Field(
        "d",
        "the used part of the fixed share over the window, on the device where it is largest; -1 without such I/O",
        "0 to 1",
    ),
    "fixed_share_late": Field(
        "d",
        "the late part of the requests with the fixed share, on the same device; -1 without such I/O",
        "0 to 1",
    ),
    "fixed_share_behind": Field(
        "b",
        "whether the scheduler cannot deliver the fixed share: requests take over 5 % longer than they should, and"
        " over a tenth of them are late",
    ),
    "stats": Field("s", "the app's own counters: the JSON object in its `stats` file; empty without one"),
    "window_s": Field("d", "length of the window; 0 before the second sample", "s"),
}


def introspection() -> str:
    """The answer to org.freedesktop.DBus.Introspectable.Introspect."""
    lines = [
        '<!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"',
        ' "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">',
        "<node>",
        f' <interface name="{NAME}">',
    ]
    for member, method in METHODS.items():
        lines.append(f'  <method name="{member}">')
        for direction, arguments in (("in", method.inputs), ("out", method.outputs)):
            lines += [
                f'   <arg name="{a.name}" type="{a.signature}" direction="{direction}"/>' for a in arguments
            ]
        lines.append("  </method>")
    return "\n".join([*lines, " </interface>", "</node>", ""])
