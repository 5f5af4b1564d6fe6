# SPDX-License-Identifier: Apache-2.0
"""org.evenkeel.Agent1 as a table: methods, who may call them, what the answers hold, and the errors."""

from dataclasses import dataclass

NAME = "org.evenkeel.Agent1"
PATH = "/org/evenkeel/Agent1"
READ = "org.evenkeel.agent.read"
SET_WEIGHT = "org.evenkeel.agent.set-weight"
SET_PERFORMANCE = "org.evenkeel.agent.set-performance"
CONTROL_APP = "org.evenkeel.agent.control-app"


@dataclass(frozen=True, slots=True)
class Method:
    """Arguments in and out as (name, D-Bus type), and the polkit action that a caller needs."""

    action: str
    takes: tuple[tuple[str, str], ...] = ()
    gives: tuple[tuple[str, str], ...] = ()

    @property
    def signature(self) -> str:
        return "".join(kind for _, kind in self.takes)


METHODS = {
    "GetStatus": Method(READ, gives=(("status", "a{sv}"),)),
    "ListApps": Method(READ, gives=(("apps", "aa{sv}"),)),
    "SetWeight": Method(SET_WEIGHT, (("name", "s"), ("weight", "u")), (("app", "a{sv}"),)),
    "SetPerformance": Method(SET_PERFORMANCE, (("name", "s"), ("percent", "u")), (("app", "a{sv}"),)),
    "StartApp": Method(CONTROL_APP, (("name", "s"),)),
    "StopApp": Method(CONTROL_APP, (("name", "s"),)),
}

STATUS = {
    "version": "s",
    "kernel": "s",
    "slot": "s",
    "scheduler": "s",
    "devices": "aa{sv}",
    "health": "s",
    "problems": "as",
    "demo": "b",
    "uptime_s": "t",
}

DEVICE = {"name": "s", "scheduler": "s", "model": "s", "size_bytes": "t"}

APP = {
    "name": "s",
    "title": "s",
    "description": "s",
    "unit": "s",
    "weight": "u",
    "active_state": "s",
    "sub_state": "s",
    "applied": "b",
    "read_bps": "d",
    "write_bps": "d",
    "share": "d",
    "p99_us": "d",
    "performance": "u",
    "performance_applied": "b",
    "performance_problem": "s",
    "performance_used": "d",
    "performance_late": "d",
    "performance_behind": "b",
    "stats": "s",
    "window_s": "d",
}


class AgentError(Exception):
    """Refuses a call; the message is one sentence that names what and why."""

    kind = "Failed"

    @property
    def name(self) -> str:
        return f"{NAME}.Error.{self.kind}"


class Failed(AgentError):
    kind = "Failed"


class UnknownApp(AgentError):
    kind = "UnknownApp"


class InvalidWeight(AgentError):
    kind = "InvalidWeight"


class InvalidPerformance(AgentError):
    kind = "InvalidPerformance"


class NotAuthorized(AgentError):
    kind = "NotAuthorized"


class UnitNotFound(AgentError):
    kind = "UnitNotFound"


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
        for direction, arguments in (("in", method.takes), ("out", method.gives)):
            lines += [f'   <arg name="{n}" type="{t}" direction="{direction}"/>' for n, t in arguments]
        lines.append("  </method>")
    return "\n".join([*lines, " </interface>", "</node>", ""])
