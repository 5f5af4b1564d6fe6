# SPDX-License-Identifier: Apache-2.0
"""Asks polkit whether a caller may do an action. Root always may. If polkit does not answer, nobody else may."""

import pwd

from dbus_fast import Variant
from evenkeel_api.errors import NotAuthorized

from .bus import Bus, CallError

NAME = "org.freedesktop.PolicyKit1"
INTERACTIVE = 1
# polkit may be waiting for a person to type a password
INTERACTIVE_TIMEOUT_S = 120.0


async def authorize(
    bus: Bus, sender: str, action: str, details: dict[str, str], interactive: bool, timeout_s: float
) -> str:
    """The name of the Unix user of the connection SENDER. Raises NotAuthorized if it may not do ACTION.

    DETAILS: what a polkit rule can look up.

    SENDER is the unique name of the connection that sent the message; the bus guarantees it. The bus never
    reuses a unique name, so the checked caller and the served caller are the same.
    """
    try:
        uid = (await bus.ask_bus("GetConnectionUnixUser", "s", [sender]))[0]
    except CallError as error:
        raise NotAuthorized("caller-left", reason=str(error)) from error
    if uid == 0:
        # Root can do all of this without the agent, and must be able to if polkit is broken.
        return "root"
    subject = ["system-bus-name", {"name": Variant("s", sender)}]
    try:
        answer = await bus.call(
            NAME,
            "/org/freedesktop/PolicyKit1/Authority",
            NAME + ".Authority",
            "CheckAuthorization",
            "(sa{sv})sa{ss}us",
            [subject, action, details, INTERACTIVE if interactive else 0, ""],
            timeout_s=INTERACTIVE_TIMEOUT_S if interactive else timeout_s,
        )
    except CallError as error:
        raise NotAuthorized("polkit-silent", user=uid, action=action, reason=str(error)) from error
    if answer[0][0] is not True:
        raise NotAuthorized("polkit-no", user=uid, action=action)
    return user_name(uid)


def user_name(uid: int) -> str:
    """The name of the Unix user UID, or the number if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
