# SPDX-License-Identifier: Apache-2.0
"""Prints docs/reference/dbus.md from the schema: `python3 -m evenkeel_agent.reference`.

`make docs` writes the page with it, and a test compares both. It is not installed on a board.
"""

import sys
from collections.abc import Iterable, Sequence

from evenkeel_api import errors, interface
from evenkeel_api.errors import NAME
from evenkeel_api.features import accounts
from evenkeel_api.features.apps import App
from evenkeel_api.features.board import Device, Health, Snapshot, Status
from evenkeel_api.interface import METHODS, PATH, SESSION, SESSIONS_CHANGED
from evenkeel_api.messages import Note
from evenkeel_api.roles import ROLES
from evenkeel_api.schema import Field, Struct, fields

INTRODUCTION = f"""\
<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Written by `make docs` from recipes/agent/src/evenkeel_api. Do not edit. -->
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

Two interfaces have the methods:

| interface | callers | who acts |
|---|---|---|
| `{NAME}` | root and the group `sudo` (`ekctl`) | the Unix user, with all roles |
| `{SESSION}` | the user `evenkeel-panel` | the user of a session or an API token, with its role |

A method of the second interface has two more arguments in front: `session` `s`, the secret, and `address` `s`, of the browser.
It needs at least the role in the table; a method without a role needs no session.

Then polkit decides, by the action of the method:

- Root is always allowed.
- The installed polkit rule allows every call of the user `evenkeel-panel` on `{SESSION}`.
  A rule of your own can read `session.user`, `session.role`, `session.address` and `session.method` with
  `action.lookup()`, and refuse more. Its file must sort before `50-evenkeel-agent.rules`.
- All other callers need the password of an administrator.
- If polkit does not answer, only root is served.

The signal `{SESSIONS_CHANGED}` of the second interface says that a session, user or token has changed or ended.
"""

ACCOUNTS: dict[str, type[Struct]] = {
    "Log-in": accounts.Login,
    "Identity of a session": accounts.Identity,
    "User": accounts.User,
    "Session": accounts.Session,
    "API token": accounts.Token,
    "Row of the audit log": accounts.Entry,
}

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


def _arguments(arguments: Iterable[Field]) -> str:
    return ", ".join(f"`{field.name}` `{field.signature}`" for field in arguments)


def _fields(struct: type[Struct]) -> str:
    rows = ((f"`{f.name}`", f"`{f.signature}`", f.unit, f.meaning) for f in fields(struct))
    return _table(("field", "type", "unit", "meaning"), rows)


def page() -> str:
    """The whole page."""
    actions = _table(
        ("polkit action", "allows to"),
        ((f"`{action}`", text[0].lower() + text[1:]) for action, text in interface.ACTIONS.items()),
    )
    methods = _table(
        ("method", "in", "out", "role", "polkit action", "effect", "errors"),
        (
            (
                f"`{name}`",
                _arguments(method.inputs),
                f"`{method.answer_name}` `{method.out_signature}`" if method.out_signature else "",
                f"{method.role or ''}{' (panel only)' if method.panel else ' (not the panel)' if method.local else ''}".strip(),
                f"`{method.action.rpartition('.')[2]}`",
                method.meaning,
                ", ".join(f"`{error.kind}`" for error in method.errors),
            )
            for name, method in METHODS.items()
        ),
    )
    roles = _table(("role", "may"), ((f"`{role}`", text) for role, text in ROLES.items()))
    found = _table(
        ("error", "meaning", "what to do"),
        ((f"`{error.kind}`", error.meaning, error.remedy) for error in errors.AgentError.__subclasses__()),
    )
    standard = _table(
        ("error", "from", "meaning", "what to do"),
        ((f"`{error.kind}`", error.source, error.meaning, error.remedy) for error in errors.STANDARD_ERRORS),
    )
    sections = [
        INTRODUCTION,
        actions,
        f"## Methods\n\nThe polkit actions begin with `org.evenkeel.agent.`.\n\n{methods}",
        EFFECT,
        f"## Status of the board\n\nThe answer of `GetStatus`.\n\n{_fields(Status)}",
        f"### Flash device\n\nAn entry of `devices`.\n\n{_fields(Device)}",
        f"### Message\n\nAn entry of `problems`, and a reason elsewhere.\n\n{_fields(Note)}",
        "## State of an app\n\nAn entry of `ListApps`, and the answer of `SetWeight` and `SetFixedShare`."
        f" The window is the last 3 s.\n\n{_fields(App)}",
        f"## Snapshot\n\nThe answer of `GetSnapshot`.\n\n{_fields(Snapshot)}",
        f"## Health of the board\n\nThe answer of `GetHealth`.\n\n{_fields(Health)}",
        f"## Roles\n\nA role may do what the roles above it may.\n\n{roles}",
        *(f"## {title}\n\n{_fields(struct)}" for title, struct in ACCOUNTS.items()),
        f"## Errors\n\nThe names begin with `{NAME}.Error.`. The body is `sa{{sv}}`: one sentence with what failed and why,"
        " then `code` and `parameters` of that [message](#message). A refused `SetWeight` or `SetFixedShare` has"
        f" changed nothing.\n\n{found}",
        f"### Standard errors\n\nThe names begin with `org.freedesktop.DBus.Error.`.\n\n{standard}",
    ]
    return "\n".join(sections)


if __name__ == "__main__":
    sys.stdout.write(page())
