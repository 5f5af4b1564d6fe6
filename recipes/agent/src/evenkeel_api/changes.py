# SPDX-License-Identifier: Apache-2.0
"""Which rows of the audit log are changes of the board, and what of such a row everybody who may log in sees. Pure."""

from .features import accounts
from .interface import METHODS

# methods with a row in the audit log that change nothing
HARMLESS = frozenset({"GetBackup", "OpenRecording", "OpenSupportBundle", "SendTestAlert"})
# By method: the method whose value it sets back. So an undo is listed as a change of this value, like any other.
UNDOES = {"UndoWeight": "SetWeight", "UndoFixedShare": "SetFixedShare"}
# By method: the argument that is shown as the new value. A viewer can read all of these values elsewhere. The source of a
# bundle is not among them, because a URL can contain a secret.
VALUES = {
    "SetWeight": "weight",
    "SetFixedShare": "percent",
    "ChooseSlot": "slot",
    "SetHostName": "hostname",
    "SetTimeZone": "zone",
    "SetTimeServers": "servers",
    "SetWearLimit": "percent",
}


def is_change(action: str) -> bool:
    """Whether the method ACTION changes the board. Log-ins, changes of users and HARMLESS methods do not."""
    method = METHODS.get(action)
    if method is None or action in HARMLESS:
        return False
    return method.changes and method.action not in accounts.ACTIONS


def shown(action: str, detail: str) -> tuple[str, str, str]:
    """The method, the app and the new value of the change ACTION, which has DETAIL in the audit log.

    The method is ACTION, or the one that ACTION undoes. App and value are empty if the change has none.
    """
    given = arguments(action, detail)
    changed = UNDOES.get(action, action)
    return changed, given.get("name", ""), given.get(VALUES.get(changed, ""), "")


def arguments(action: str, detail: str) -> dict[str, str]:
    """The arguments of the method ACTION in DETAIL: “name player, weight 300”. Only the last one may contain a comma."""
    method = METHODS[action]
    names = [one.name for one in method.inputs if one.name not in method.secret]
    found: dict[str, str] = {}
    rest = detail
    for number, each in enumerate(names):
        end = f", {names[number + 1]} " if number + 1 < len(names) else None
        text, _, _ = rest.partition(end) if end else (rest, "", "")
        if not text.startswith(f"{each} "):
            return found
        found[each] = text.removeprefix(f"{each} ")
        rest = rest[len(text) + 2 :]
    return found
