# SPDX-License-Identifier: Apache-2.0
"""Prints docs/reference/dbus.md from interface.py: `python3 -m evenkeel_agent.reference`.

`make docs` writes the page with it, and a test compares both. It is not installed on a board.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence

from . import interface
from .interface import METHODS, NAME, PATH, Argument, Field

INTRODUCTION = f"""\
<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Written by `make docs` from recipes/agent/src/evenkeel_agent/interface.py. Do not edit. -->
# D-Bus reference

The methods, fields and errors of the agent on the system bus. The panel and `ekctl` reach the agent only by this
interface. `ekctl --json` prints the same fields as JSON.
Which process does what is in [architecture](../explanation/architecture.md).

| | |
|---|---|
| bus | the system bus |
| name, interface | `{NAME}` |
| object | `{PATH}` |

D-Bus types: `s` text, `b` true or false, `u` 32-bit and `t` 64-bit unsigned number, `d` floating-point number,
`a…` list of …, `a{{sv}}` fields by name.

## Who may call

The bus lets only root, the user `evenkeel-panel` and the group `sudo` call the agent.
Then polkit decides, by the action of the method:

- Root is always allowed.
- A polkit rule allows the panel.
- All other callers need the password of an administrator.
- If polkit does not answer, only root is served.
"""

EFFECT = """\
## When a value takes effect

`SetWeight` and `SetFixedShare` first save the value in `/var/lib/evenkeel-agent`, then apply it.
They succeed once the value is saved.
Look at `applied`, `fixed_share_applied` and `fixed_share_problem` in the answer to see whether it is in force.

Weight:

- The agent passes it to systemd as `IOWeight=` until the next boot, also for a stopped unit.
  It does so for all apps at its own start.
- A stopped unit whose `DeviceAllow=` names devices gets its weight as soon as it runs
  ([reason](../explanation/architecture.md#at-boot)).

Fixed share:

- It applies to every flash device, and to the unit's own cgroup. Cgroups below it are served by weight.
- While it is in force, the app's weight has no effect.
- It takes effect some tenths of a second after the unit has started, and again when a device gets evenkeel back.
- All apps together can have 100 %. The error names the apps that have the rest.
- With another scheduler it is saved but not in force.

The agent checks both every 30 s. It replaces what another program has written to `io.weight` or
`io.evenkeel.fixed` of a listed app.
"""


def _row(cells: Sequence[str]) -> str:
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join([_row(head), "|---" * len(head) + "|\n", *map(_row, rows)])


def _arguments(arguments: Iterable[Argument]) -> str:
    return ", ".join(f"`{a.name}` `{a.signature}`" for a in arguments)


def _fields(fields: Mapping[str, Field]) -> str:
    rows = ((f"`{name}`", f"`{f.signature}`", f.unit, f.meaning) for name, f in fields.items())
    return _table(("field", "type", "unit", "meaning"), rows)


def page() -> str:
    """The whole page."""
    actions = _table(
        ("polkit action", "allows to"),
        ((f"`{action}`", text[0].lower() + text[1:]) for action, text in interface.ACTIONS.items()),
    )
    methods = _table(
        ("method", "in", "out", "polkit action", "effect", "errors"),
        (
            (
                f"`{name}`",
                _arguments(method.inputs),
                _arguments(method.outputs),
                f"`{method.action.rpartition('.')[2]}`",
                method.meaning,
                ", ".join(f"`{error.kind}`" for error in method.errors),
            )
            for name, method in METHODS.items()
        ),
    )
    errors = _table(
        ("error", "meaning", "what to do"),
        ((f"`{error.kind}`", error.meaning, error.remedy) for error in interface.AgentError.__subclasses__()),
    )
    standard = _table(
        ("error", "from", "meaning", "what to do"),
        (
            (f"`{error.kind}`", error.source, error.meaning, error.remedy)
            for error in interface.STANDARD_ERRORS
        ),
    )
    sections = [
        INTRODUCTION,
        actions,
        f"## Methods\n\nThe polkit actions begin with `org.evenkeel.agent.`.\n\n{methods}",
        EFFECT,
        f"## Status of the board\n\nThe answer of `GetStatus`.\n\n{_fields(interface.STATUS)}",
        f"### Flash device\n\nAn entry of `devices`.\n\n{_fields(interface.DEVICE)}",
        "## State of an app\n\nAn entry of `ListApps`, and the answer of `SetWeight` and `SetFixedShare`."
        f" The window is the last 3 s.\n\n{_fields(interface.APP)}",
        f"## Errors\n\nThe names begin with `{NAME}.Error.`. The message is one sentence: what failed and why. A refused"
        f" `SetWeight` or `SetFixedShare` has changed nothing.\n\n{errors}",
        f"### Standard errors\n\nThe names begin with `org.freedesktop.DBus.Error.`.\n\n{standard}",
    ]
    return "\n".join(sections)


if __name__ == "__main__":
    sys.stdout.write(page())
