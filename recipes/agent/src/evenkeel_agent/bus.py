# SPDX-License-Identifier: Apache-2.0
"""A D-Bus connection: calls with a timeout, signals, and calls to the bus itself."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Any

from dbus_fast import BusType, Message, MessageFlag, MessageType, NameFlag, RequestNameReply
from dbus_fast.aio import MessageBus

NO_REPLY = "org.freedesktop.DBus.Error.NoReply"
SYSTEM_BUS = "unix:path=/run/dbus/system_bus_socket"


class CallError(Exception):
    """A call got an error reply or no reply. The text is a sentence without a full stop."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name  # D-Bus error name
        self.text = text


class Bus:
    """A connection to a bus, made by connect(). All methods must be called from the same event loop as connect()."""

    def __init__(self, connection: MessageBus, *, files: bool = False) -> None:
        self._connection = connection
        connection.add_message_handler(_close_all_but_replies if files else _close_files)

    @classmethod
    async def connect(cls, address: str | None, *, files: bool = False) -> "Bus":
        """Connect to ADDRESS, or to the system bus. Raises OSError, whose text contains the address.

        FILES: whether open() may be called.
        """
        address = address or os.environ.get("DBUS_SYSTEM_BUS_ADDRESS") or SYSTEM_BUS
        try:
            return cls(
                await MessageBus(address, BusType.SYSTEM, negotiate_unix_fd=True).connect(), files=files
            )
        except Exception as error:  # the library raises exceptions of many types, even Exception itself
            raise OSError(f"cannot connect to D-Bus at {address}: {error}") from error

    def close(self) -> None:
        self._connection.disconnect()

    async def closed(self) -> str:
        """Wait until the connection ends, and return the reason."""
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
        """Call a method and return the body of its reply. Raises CallError on an error, or if TIMEOUT_S passes."""
        reply = await self._reply(
            destination, path, interface, member, signature, body, timeout_s, interactive=interactive
        )
        answer: list[Any] = reply.body
        return answer

    async def open(
        self,
        destination: str,
        path: str,
        interface: str,
        member: str,
        signature: str = "",
        body: Sequence[Any] = (),
        *,
        timeout_s: float,
    ) -> int:
        """Call a method whose reply has a descriptor, and return it. Raises CallError. The caller closes it."""
        reply = await self._reply(destination, path, interface, member, signature, body, timeout_s)
        if len(reply.unix_fds) != 1:
            _close(reply)
            raise CallError(NO_REPLY, f"the reply of {member} has no file")
        return reply.unix_fds[0]

    async def _reply(
        self,
        destination: str,
        path: str,
        interface: str,
        member: str,
        signature: str,
        body: Sequence[Any],
        timeout_s: float,
        *,
        interactive: bool = False,
    ) -> Message:
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
        return reply

    async def ask_bus(self, member: str, signature: str = "", body: Sequence[Any] = ()) -> list[Any]:
        """Call a method of the bus daemon itself. Raises CallError."""
        name = "org.freedesktop.DBus"
        return await self.call(name, "/org/freedesktop/DBus", name, member, signature, body, timeout_s=5)

    async def subscribe(self, rule: str, on: bool = True) -> None:
        """Start to receive the signals that match RULE, or stop if ON is false."""
        await self.ask_bus("AddMatch" if on else "RemoveMatch", "s", [rule])

    async def own(self, name: str) -> bool:
        """Request the bus name NAME. Returns False if another connection owns it."""
        reply = await self._connection.request_name(name, NameFlag.DO_NOT_QUEUE)
        return reply in (RequestNameReply.PRIMARY_OWNER, RequestNameReply.ALREADY_OWNER)

    def handle(self, handler: Callable[[Message], bool]) -> None:
        """Call HANDLER for each incoming message. If it returns True, no other handler sees the message."""
        self._connection.add_message_handler(handler)

    def send(self, message: Message) -> None:
        """Send without waiting. If the receiver does not read, the bus buffers the message, up to its limit.

        Descriptors in MESSAGE belong to this function, which closes them when they are sent.
        """
        sent = self._connection.send(message)
        if message.unix_fds:
            sent.add_done_callback(lambda done: (done.exception(), _close_files(message)))


class Reports:
    """Signals that the bus sends from the first time on that somebody needs them. RULES: match rules."""

    def __init__(self, bus: Bus, *rules: str) -> None:
        self._bus = bus
        self._rules = rules
        self._subscribing = asyncio.Lock()
        self._subscribed = False

    async def sent(self) -> bool:
        """Whether the bus sends them. If it does not yet, this asks for them."""
        async with self._subscribing:
            if not self._subscribed:
                try:
                    for rule in self._rules:
                        await self._bus.subscribe(rule)
                except CallError:
                    return False
                self._subscribed = True
            return True


def _close_files(message: Message) -> bool:
    """Close the descriptors in MESSAGE. The agent expects none, but any program may send a signal that has some."""
    _close(message)
    return False


def _close_all_but_replies(message: Message) -> bool:
    if message.message_type is not MessageType.METHOD_RETURN:
        _close(message)
    return False


def _close(message: Message) -> None:
    for descriptor in message.unix_fds:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    message.unix_fds = []
