# SPDX-License-Identifier: Apache-2.0
"""Asks polkit whether a caller may perform an action. Root always may. If polkit does not answer, only root may."""

import pwd

from dbus_fast import Variant
from evenkeel_api.errors import NotAuthorized

from .bus import Bus, CallError

NAME = "org.freedesktop.PolicyKit1"
INTERACTIVE = 1  # polkit's flag AllowUserInteraction
# how long the agent waits for polkit if polkit may ask a person for a password
INTERACTIVE_TIMEOUT_S = 120.0


async def authorize(
    bus: Bus, sender: str, action: str, details: dict[str, str], interactive: bool, timeout_s: float
) -> str:
    """The name of the Unix user of the connection SENDER. Raises NotAuthorized if this user may not perform ACTION.

    DETAILS has the values that a polkit rule can look up.

    SENDER is the unique name of the connection that sent the message. The bus itself writes it into the message, so a
    caller cannot forge it. The bus never reuses a unique name, so polkit checks the connection that gets the answer.
    """
    try:
        uid = (await bus.ask_bus("GetConnectionUnixUser", "s", [sender]))[0]
    except CallError as error:
        raise NotAuthorized("caller-left", reason=str(error)) from error
    if uid == 0:
        # Root could do the same without the agent. And root must be able to use the agent if polkit is broken.
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
