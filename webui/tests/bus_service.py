# SPDX-License-Identifier: Apache-2.0
"""A small org.evenkeel.Agent1.Session for test_agent.py: `bus_service.py ADDRESS`. It prints a line when it is ready."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from dbus_fast import Message, MessageType, Variant
from dbus_fast.aio import MessageBus

NAME = "org.evenkeel.Agent1"
SESSION = NAME + ".Session"

PLAYER = {
    "name": Variant("s", "player"),
    "title": Variant("s", "Player"),
    "unit": Variant("s", "evenkeel-player.service"),
    "weight": Variant("u", 100),
    "active_state": Variant("s", "active"),
    "applied": Variant("b", True),
    "read_bps": Variant("d", 5e6),
    "share": Variant("d", 1.0),
    "p99_us": Variant("d", 1234.5),
    "fixed_share": Variant("u", 10),
    "fixed_share_applied": Variant("b", False),
    "fixed_share_problem": Variant(
        "aa{sv}", [{"code": Variant("s", "from-the-future"), "text": Variant("s", "the reason")}]
    ),
    "fixed_share_used": Variant("d", 0.5),
    "fixed_share_late": Variant("d", 0.25),
    "fixed_share_behind": Variant("b", True),
    "stats": Variant("s", ""),
    "from_the_future": Variant("as", ["ignored"]),
}
STATUS = {
    "version": Variant("s", "0.1.0"),
    "kernel": Variant("s", "6.12"),
    "slot": Variant("s", "B"),
    "scheduler": Variant("s", "evenkeel"),
    "devices": Variant("aa{sv}", []),
    "health": Variant("s", "degraded"),
    "problems": Variant("aa{sv}", [{"code": Variant("s", "no-flash"), "text": Variant("s", "one")}]),
    "demo": Variant("b", False),
    "uptime_s": Variant("t", 7),
}


bus: MessageBus
tasks: set[asyncio.Task[None]] = set()


async def answer_later(message: Message) -> None:
    """Answer late, like the agent while polkit is slow. A caller that has disconnected meanwhile is refused."""
    await asyncio.sleep(1)
    owned = await bus.call(
        Message(
            destination="org.freedesktop.DBus", path="/org/freedesktop/DBus", interface="org.freedesktop.DBus",
            member="NameHasOwner", signature="s", body=[message.sender],
        )
    )  # fmt: skip
    if owned and owned.body[0]:
        PLAYER["weight"] = Variant("u", message.body[3])
        await bus.send(Message.new_method_return(message, "a{sv}", [PLAYER]))


def refusal(message: Message, kind: str, code: str, parameters: dict[str, Variant]) -> Message:
    return Message(
        message_type=MessageType.ERROR,
        reply_serial=message.serial,
        destination=message.sender,
        error_name=f"{NAME}.Error.{kind}",
        signature="sa{sv}",
        body=["The text.", {"code": Variant("s", code), "parameters": Variant("a{sv}", parameters)}],
    )


def answer(message: Message) -> Message | bool | None:
    if message.interface != SESSION or message.message_type != MessageType.METHOD_CALL:
        return None
    if message.member == "GetStatus":
        return Message.new_method_return(message, "a{sv}", [STATUS])
    if message.member == "ListApps":
        return Message.new_method_return(message, "aa{sv}", [[PLAYER]])
    if message.member == "SetWeight":
        session, _, name, weight = message.body
        if session == "":
            return refusal(message, "NotLoggedIn", "not-logged-in", {})
        if name == "later":
            tasks.add(asyncio.get_running_loop().create_task(answer_later(message)))
            return True
        changed: dict[str, Any] = {**PLAYER, "weight": Variant("u", weight)}
        if name == "garbled":
            changed["weight"] = Variant("s", "heavy")
        elif name != "player":
            return refusal(message, "UnknownApp", "unknown-app", {"app": Variant("s", name)})
        return Message.new_method_return(message, "a{sv}", [changed])
    if message.member == "LogOut":
        bus.send(Message.new_signal("/org/evenkeel/Agent1", SESSION, "SessionsChanged"))
        return Message.new_method_return(message)
    if message.member == "SetFixedShare":
        _, _, name, percent = message.body
        if name != "player":
            return refusal(message, "UnknownApp", "unknown-app", {"app": Variant("s", name)})
        return Message.new_method_return(message, "a{sv}", [{**PLAYER, "fixed_share": Variant("u", percent)}])
    if message.member == "OpenRecording":
        incident = message.body[4]
        if incident == "none":
            return Message.new_method_return(message, "h", [0])
        reading, writing = os.pipe()
        os.write(writing, b"a file")
        os.close(writing)
        sent = bus.send(Message.new_method_return(message, "h", [0], [reading]))
        sent.add_done_callback(lambda _: os.close(reading))
        return True
    return True  # StartApp, StopApp and others: accepted, but never answered


async def main() -> None:
    global bus  # a global variable, because answer() gets only the message
    bus = await MessageBus(bus_address=sys.argv[1], negotiate_unix_fd=True).connect()
    bus.add_message_handler(answer)
    await bus.request_name(NAME)
    print("ready", flush=True)
    await bus.wait_for_disconnect()  # type: ignore[no-untyped-call]


asyncio.run(main())
