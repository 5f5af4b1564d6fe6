# SPDX-License-Identifier: Apache-2.0
"""Asks polkit whether a caller may do an action. Root always may. If polkit does not answer, nobody else may."""

from dbus_fast import Variant

from .bus import Bus, CallError

NAME = "org.freedesktop.PolicyKit1"
INTERACTIVE = 1
# polkit may be waiting for a person to type a password
INTERACTIVE_TIMEOUT_S = 120.0


async def refusal(bus: Bus, sender: str, action: str, interactive: bool, timeout_s: float) -> str | None:
    """Why the connection SENDER may not do ACTION, or None if it may.

    SENDER is the unique name of the connection that sent the message; the bus guarantees it. The bus never
    reuses a unique name, so the checked caller and the served caller are the same.
    """
    try:
        uid = (await bus.ask_bus("GetConnectionUnixUser", "s", [sender]))[0]
    except CallError as error:
        return f"the caller has left the bus, so its user cannot be checked: {error}"
    if uid == 0:
        # Root can do all of this without the agent, and must be able to if polkit is broken.
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
        return f"user {uid} is not authorized for {action}: polkit did not decide: {error}"
    if answer[0][0] is True:
        return None
    return f"user {uid} is not authorized for {action}"
