# SPDX-License-Identifier: Apache-2.0
"""May this caller do that? Root always; others if polkit says so. Without an answer: no."""

from dbus_fast import Variant

from .bus import Bus, CallError

NAME = "org.freedesktop.PolicyKit1"
INTERACTIVE = 1
# a person may be typing a password
INTERACTIVE_TIMEOUT_S = 120.0


async def refusal(bus: Bus, sender: str, action: str, interactive: bool, timeout_s: float) -> str | None:
    """Why the connection SENDER may not do ACTION, or None if it may.

    The bus vouches for SENDER: it is the unique name of the connection that the message came by, and unique
    names are not used twice, so there is no window between the check and the deed.
    """
    try:
        uid = (await bus.ask_bus("GetConnectionUnixUser", "s", [sender]))[0]
    except CallError as error:
        return f"the caller is not known to D-Bus any more: {error}"
    if uid == 0:
        # root may do without us all that we could forbid, and must be able to when polkit is broken
        return None
    subject = ["system-bus-name", {"name": Variant("s", sender)}]
    try:
        answer = await bus.call(
            NAME,
            "/org/freedesktop/PolicyKit1/Authority",
            NAME + ".Authority",
            "CheckAuthorization",
            "(sa{sv})sa{ss}us",
            [subject, action, {}, INTERACTIVE if interactive else 0, ""],
            timeout_s=INTERACTIVE_TIMEOUT_S if interactive else timeout_s,
        )
    except CallError as error:
        return f"user {uid} is not authorized for {action}: polkit cannot be asked: {error}"
    if answer[0][0] is True:
        return None
    return f"user {uid} is not authorized for {action}"
