# SPDX-License-Identifier: Apache-2.0
"""Prints docs/reference/dbus.md from the schema: `python3 -m evenkeel_agent.reference`.

`make docs` writes the page with this module. A test checks that the page is up to date. A board does not have it.
"""

import sys
from collections.abc import Iterable, Sequence

from evenkeel_api import errors, interface
from evenkeel_api.errors import NAME
from evenkeel_api.features import accounts, cache, changes, validation
from evenkeel_api.features.alerts import Alerts
from evenkeel_api.features.apps import App
from evenkeel_api.features.backup import Restore
from evenkeel_api.features.board import Device, Health, Snapshot, Status
from evenkeel_api.features.certificate import Certificate
from evenkeel_api.features.network import Interface, Network, NetworkSettings, Trial
from evenkeel_api.features.recorder import Channel, Incident, Loss, Recorder
from evenkeel_api.features.system import Journal, Line, System
from evenkeel_api.features.update import Bundle, Slot, Update
from evenkeel_api.interface import METHODS, PATH, SESSION, SESSIONS_CHANGED
from evenkeel_api.messages import Note
from evenkeel_api.method import Method
from evenkeel_api.roles import ROLES
from evenkeel_api.schema import Field, Struct, fields

INTRODUCTION = f"""\
<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Written by `make docs` from recipes/agent/src/evenkeel_api. Do not edit. -->
# D-Bus reference

This page lists the methods, fields and errors of the agent on the system bus. The panel and `ekctl` reach the agent
only through this interface. `ekctl --json` prints the same fields as JSON.
For the tasks of each process, see [architecture](../explanation/architecture.md).

| | |
|---|---|
| bus | the system bus |
| name, interface | `{NAME}` |
| object | `{PATH}` |

D-Bus types: `s` text, `b` true or false, `u` 32-bit and `t` 64-bit unsigned number, `d` floating-point number,
`a…` list of …, `a{{sv}}` fields by name, `h` an open file.

## Who may call

The methods are in two interfaces. Most methods are in both:

| interface | callers | for whom the agent acts |
|---|---|---|
| `{NAME}` | root and the group `sudo` (`ekctl`) | the Unix user, with all roles |
| `{SESSION}` | the user `evenkeel-panel` | the user of a session or an API token, with its role |

A method of the second interface has two more arguments in front. `session` (`s`) is the secret of the session or token,
and `address` (`s`) is the address of the browser. The session or token needs at least the role in the table of methods.
A method without a role needs no session.

Then polkit decides, by the action of the method:

- Root is always allowed.
- The installed polkit rule allows every call of the user `evenkeel-panel` on `{SESSION}`.
  A rule of your own can read `session.user`, `session.role`, `session.address` and `session.method` with
  `action.lookup()`, and refuse more. Its file must sort before `50-evenkeel-agent.rules`.
  If a call changes nothing, polkit's consent is valid for 60 s, or until polkit reports that its rules have changed.
- All other callers need the password of an administrator.
- If polkit does not answer, only root is served.

The agent sends the signal `{SESSIONS_CHANGED}` of the second interface when a session, user or token has changed or ended.
It also sends it when it starts, because the process before may have ended without sending it.
"""

ACCOUNTS: dict[str, type[Struct]] = {
    "Log-in": accounts.Login,
    "Identity of a session": accounts.Identity,
    "User": accounts.User,
    "Session": accounts.Session,
    "API token": accounts.Token,
    "Row of the audit log": accounts.Entry,
    "Change of the board": changes.Change,
}

DOWNLOAD = """\
### Download of a recording

`OpenRecording`, `OpenSupportBundle` and `OpenValidation` return a socket (`SOCK_SEQPACKET`). Each packet
begins with one byte, which says what follows:

| byte | content |
|---|---|
| `D` | 1 to 32768 bytes of the file |
| `E` | the end, as a JSON array of status and text. 0: complete; 1: complete, but records are damaged; 2: failed |

If the socket ends without `E`, the file is truncated.
"""

EFFECT = """\
## When a value takes effect

`SetWeight`, `SetFixedShare`, `UndoWeight` and `UndoFixedShare` first save the value in `/var/lib/evenkeel-agent`,
then apply it. They succeed once the value is saved.
In the answer, `applied`, `fixed_share_applied` and `fixed_share_problem` say whether the value is in force.

Weight:

- The agent passes the weight to systemd as `IOWeight=` until the next boot, also for a stopped unit.
  When the agent starts, it does so for all apps.
- A stopped unit whose `DeviceAllow=` names devices gets its weight as soon as it runs
  ([reason](../explanation/architecture.md#at-boot)).

Fixed share:

- A fixed share applies to every flash device. It is set on the unit's own cgroup, whose child cgroups share it by weight.
- While a fixed share is in force, the app's weight has no effect.
- It takes effect some tenths of a second after the unit has started. If a device changes to another scheduler and
  back to evenkeel, the agent applies it again.
- The fixed shares of all apps together can be at most 100 %. If a new value exceeds this, the error says which apps
  have which fixed share.
- If a device has another scheduler, the agent saves the fixed share, but it is not in force.

The agent checks both values every 30 s. It corrects `io.weight` and `io.evenkeel.fixed` of a listed app if another
program has changed them.
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


def _limits(method: Method) -> str:
    """Who may not call METHOD, whatever the role."""
    if method.panel:
        return " (panel only)"
    return " (not the panel)" if method.local else " (no API token)" if method.no_token else ""


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
                f"{method.role or ''}{_limits(method)}".strip(),
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
        "## State of an app\n\nAn entry of `ListApps`, and the answer of the methods that set or undo a value."
        f" The window is the last 3 s, in the first answer after a pause up to 8 s.\n\n{_fields(App)}",
        f"## Snapshot\n\nThe answer of `GetSnapshot`.\n\n{_fields(Snapshot)}",
        f"## Health of the board\n\nThe answer of `GetHealth`.\n\n{_fields(Health)}",
        f"## State of updates\n\nThe answer of `GetUpdate`.\n\n{_fields(Update)}",
        f"### Slot of the board\n\nAn entry of `slots`.\n\n{_fields(Slot)}",
        f"### Bundle\n\nThe answer of `InspectBundle`.\n\n{_fields(Bundle)}",
        f"## Alerts\n\nThe answer of `GetAlerts`, `SetAlerts` and `SendTestAlert`.\n\n{_fields(Alerts)}",
        "## Network\n\nThe answer of `GetNetwork`, `SetNetwork`, `ConfirmNetwork` and `RevertNetwork`."
        f"\n\n{_fields(Network)}",
        f"### Network interface\n\nAn entry of `interfaces`.\n\n{_fields(Interface)}",
        f"### Network settings\n\nThe settings of an interface.\n\n{_fields(NetworkSettings)}",
        f"### Change of the network\n\nAn entry of `trial`.\n\n{_fields(Trial)}",
        f"## System\n\nThe answer of `GetSystem`, `SetHostName`, `SetTimeZone` and `SetTimeServers`.\n\n{_fields(System)}",
        "## Certificate\n\nThe answer of `GetCertificate`, `InstallCertificate` and `MakeCertificate`."
        f"\n\n{_fields(Certificate)}",
        f"## Journal\n\nThe answer of `GetJournal`.\n\n{_fields(Journal)}",
        f"### Line of the journal\n\nAn entry of `lines`.\n\n{_fields(Line)}",
        f"## Backup\n\nThe answer of `CheckBackup` and `RestoreBackup`.\n\n{_fields(Restore)}",
        f"## Recorder\n\nThe answer of `GetRecorder`.\n\n{_fields(Recorder)}",
        f"### Channel\n\nAn entry of `channels`.\n\n{_fields(Channel)}",
        f"### Loss of records\n\nAn entry of `lost`.\n\n{_fields(Loss)}",
        f"### Incident\n\nAn entry of `incidents`.\n\n{_fields(Incident)}",
        DOWNLOAD,
        "## Validation\n\nThe answer of `GetValidation`, `StartValidation` and `CancelValidation`."
        f"\n\n{_fields(validation.Validation)}",
        f"### Plan of a validation\n\nThe answer of `PlanValidation`.\n\n{_fields(validation.ValidationPlan)}",
        f"### Validation in the list\n\nAn entry of `ListValidations`.\n\n{_fields(validation.ValidationRow)}",
        f"### Report of a validation\n\nThe answer of `ShowValidation`.\n\n{_fields(validation.ValidationReport)}",
        f"### Promise\n\nAn entry of `promises`.\n\n{_fields(validation.Promise)}",
        f"### Measured figure\n\nAn entry of `figures`.\n\n{_fields(validation.Measured)}",
        f"### Note on a case\n\nAn entry of `notes`.\n\n{_fields(validation.CaseNote)}",
        f"### Left-out case\n\nAn entry of `left_out`.\n\n{_fields(validation.LeftOut)}",
        "### Comparison of validations\n\nThe answer of `CompareValidations`."
        f"\n\n{_fields(validation.ValidationComparison)}",
        f"### Changed figure\n\nAn entry of `changed`.\n\n{_fields(validation.Changed)}",
        "## Page cache\n\nThe answer of `GetCache`, `AddPriorityDirectory` and `RemovePriorityDirectory`."
        f"\n\n{_fields(cache.Cache)}",
        f"### Priority directory\n\nAn entry of `directories`.\n\n{_fields(cache.PriorityDirectory)}",
        f"### Held directory\n\nAn entry of `held`.\n\n{_fields(cache.HeldDirectory)}",
        f"### Minute of the cache\n\nAn entry of `minutes`.\n\n{_fields(cache.CacheMinute)}",
        f"## Roles\n\nEach role includes the roles above it in the table.\n\n{roles}",
        *(f"## {title}\n\n{_fields(struct)}" for title, struct in ACCOUNTS.items()),
        f"## Errors\n\nThe names begin with `{NAME}.Error.`. The body of an error is `sa{{sv}}`: one sentence that says what"
        " failed and why, then `code` and `parameters` of this [message](#message). After an error of a"
        f" method that sets or undoes a weight or fixed share, nothing has changed.\n\n{found}",
        f"### Standard errors\n\nThe names begin with `org.freedesktop.DBus.Error.`.\n\n{standard}",
    ]
    return "\n".join(sections)


if __name__ == "__main__":
    sys.stdout.write(page())
