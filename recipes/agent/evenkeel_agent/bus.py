# SPDX-License-Identifier: Apache-2.0
"""A D-Bus connection with what the agent needs of it: calls that end, signals, the bus itself."""

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any

from dbus_fast import BusType, Message, MessageFlag, MessageType, NameFlag, RequestNameReply
from dbus_fast.aio import MessageBus

NO_REPLY = "org.freedesktop.DBus.Error.NoReply"
SYSTEM_BUS = "unix:path=/run/dbus/system_bus_socket"


class CallError(Exception):
    """A call was answered by an error, or not at all. Its text is a sentence without a full stop."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name  # D-Bus error name
        self.text = text


class Bus:
    """Made by connect(); every method belongs to that event loop."""

    def __init__(self, connection: MessageBus) -> None:
        self._connection = connection

    @classmethod
    async def connect(cls, address: str | None) -> "Bus":
        """Connect to ADDRESS, or to the system bus. Raises OSError with the address in it."""
        address = address or os.environ.get("DBUS_SYSTEM_BUS_ADDRESS") or SYSTEM_BUS
        try:
            return cls(await MessageBus(address, BusType.SYSTEM).connect())
        except Exception as error:  # the library raises whatever it meets, some of it bare Exception
            raise OSError(f"cannot connect to D-Bus at {address}: {error}") from error

    def close(self) -> None:
        self._connection.disconnect()

    async def closed(self) -> str:
        """Wait for the end of the connection; returns the reason."""
        wait: Callable[[], Any] = self._connection.wait_for_disconnect
        try:
            await wait()
        except Exception as error:
            return str(error) or type(error).__name__
        return "closed"

    async def call(
        self,
        destination: str,
        path: str,
        interface: str,
        member: str,
        signature: str = "",
        body: Sequence[Any] = (),
        *,
        timeout_s: float,
        interactive: bool = False,
    ) -> list[Any]:
        """Call a method and return what it answers; raises CallError, at the latest after TIMEOUT_S."""
        flags = MessageFlag.ALLOW_INTERACTIVE_AUTHORIZATION if interactive else MessageFlag.NONE
        message = Message(
            destination=destination,
            path=path,
            interface=interface,
            member=member,
            flags=flags,
            signature=signature,
            body=list(body),
        )
        try:
            reply = await asyncio.wait_for(self._connection.call(message), timeout_s)
        except TimeoutError:
            raise CallError(
                NO_REPLY, f"{destination} did not answer {member} within {timeout_s:g} s"
            ) from None
        except OSError as error:
            raise CallError(NO_REPLY, f"the connection to D-Bus failed: {error}") from error
        if reply is None:
            raise CallError(NO_REPLY, "the connection to D-Bus was lost")
        if reply.message_type is MessageType.ERROR:
            text = reply.body[0] if reply.body and isinstance(reply.body[0], str) else ""
            raise CallError(reply.error_name or NO_REPLY, (text or str(reply.error_name)).rstrip(". \n"))
        answer: list[Any] = reply.body
        return answer

    async def ask_bus(self, member: str, signature: str = "", body: Sequence[Any] = ()) -> list[Any]:
        """Call a method of the bus itself."""
        name = "org.freedesktop.DBus"
        return await self.call(name, "/org/freedesktop/DBus", name, member, signature, body, timeout_s=5)

    async def match(self, rule: str, wanted: bool = True) -> None:
        """Have signals that match RULE sent here, or not any more."""
        await self.ask_bus("AddMatch" if wanted else "RemoveMatch", "s", [rule])

    async def own(self, name: str) -> bool:
        """Take NAME; False if another connection has it."""
        reply = await self._connection.request_name(name, NameFlag.DO_NOT_QUEUE)
        return reply in (RequestNameReply.PRIMARY_OWNER, RequestNameReply.ALREADY_OWNER)

    def handle(self, handler: Callable[[Message], bool]) -> None:
        """Have HANDLER see each incoming message first; it returns whether nobody else should."""
        self._connection.add_message_handler(handler)

    def send(self, message: Message) -> None:
        """Send, without waiting: a peer that does not read is the bus's to deal with."""
        self._connection.send(message)
