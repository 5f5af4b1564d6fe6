# SPDX-License-Identifier: Apache-2.0
"""The fake agent as a process on a bus, for test_agent.py: `bus_agent.py ADDRESS`. It prints a line when it is ready."""

from __future__ import annotations

import asyncio
import sys

from dbus_fast import Message, MessageType, Variant
from dbus_fast.aio import MessageBus
from dbus_fast.unpack import unpack_variants
from evenkeel_agent import passwords
from evenkeel_api import interface, schema
from evenkeel_panel.agent import AgentRefused
from evenkeel_panel.fake_agent import FakeAgent

passwords.COST = {"time_cost": 1, "memory_cost": 8, "parallelism": 1}  # as in conftest.py


async def main() -> None:
    loop = asyncio.get_running_loop()
    agent = FakeAgent()
    bus = await MessageBus(bus_address=sys.argv[1]).connect()
    tasks: set[asyncio.Task[None]] = set()

    def report() -> None:
        bus.send(Message.new_signal(interface.PATH, interface.SESSION, interface.SESSIONS_CHANGED))

    async def serve(message: Message) -> None:
        method = interface.METHODS[str(message.member)]
        session, address, *values = unpack_variants(message.body)
        try:
            answer = await asyncio.to_thread(agent.call, method.name, session, address, *values)
        except AgentRefused as error:
            rest = {
                "code": Variant("s", error.note.code),
                "parameters": schema.loose(error.note.parameters, Variant),
            }
            refusal = Message(
                message_type=MessageType.ERROR,
                reply_serial=message.serial,
                destination=message.sender,
                error_name=f"{interface.NAME}.Error.{error.kind}",
                signature="sa{sv}",
                body=[str(error), rest],
            )
            bus.send(refusal)
            return
        body = [] if method.answer is None else [schema.pack(answer, method.answer, Variant)]
        bus.send(Message.new_method_return(message, method.out_signature, body))

    def receive(message: Message) -> bool:
        if message.message_type is not MessageType.METHOD_CALL or message.interface != interface.SESSION:
            return False
        task = loop.create_task(serve(message))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return True

    agent.on_sessions_changed(lambda: loop.call_soon_threadsafe(report))
    bus.add_message_handler(receive)
    await bus.request_name(interface.NAME)
    print("ready", flush=True)
    await bus.wait_for_disconnect()  # type: ignore[no-untyped-call]


asyncio.run(main())
