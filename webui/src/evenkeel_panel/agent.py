# SPDX-License-Identifier: Apache-2.0
"""The agent as the panel sees it, and its D-Bus client.

`Agent` is the interface that the pages use. `BusAgent` implements it with org.evenkeel.Agent1.Session on
the system bus. Each call carries the secret of a session, because the agent decides what the user may do.

Guarantees:

- Every call returns a value or raises an `AgentError`, and raises nothing else. It ends within `TIMEOUT_S`, or
  `SLOW_TIMEOUT_S` if it is in `SLOW`, plus the time to connect.
- While the agent hangs, a call that changes nothing ends within ASK_S + SILENT_S. After that time, no call is sent: each
  fails at once, until the agent answers again. So a hang occupies each thread of the panel once, and not at each request.
- The panel misses no signal SESSIONS_CHANGED while its connection for signals lasts. The connection lasts as long as the bus.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import threading
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from evenkeel_api import errors as api_errors
from evenkeel_api import interface, schema
from evenkeel_api.errors import NAME
from evenkeel_api.interface import METHODS
from evenkeel_api.messages import Note

from . import texts

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from dbus_fast import Message
    from dbus_fast.aio import MessageBus

# HTTP status of each error of the agent
HTTP = {error.kind: error.http for error in api_errors.AgentError.__subclasses__()}

log = logging.getLogger(__name__)
ERROR_PREFIX = NAME + ".Error."

# The timeout of a call. A busy board needs seconds to ask polkit, to sync a file, or to start a helper. A person prefers
# to wait rather than to read that the agent did not answer. The agent waits for others for 10 s, and then says for whom. The
# page waits for the answer to a form for 20 s (apps/page.html).
TIMEOUT_S = 15.0
# InspectBundle may read from a server: the agent waits for 45 s. RestoreBackup gives orders to several services. A new
# certificate is tried out. The calls about validations may start ek-validation alongside a validation, which keeps the board
# busy: the agent waits for 40 s at most. nginx waits for 60 s.
SLOW = frozenset(name for name in METHODS if name.endswith(("Validation", "Validations"))) | {
    "InspectBundle",
    "RestoreBackup",
    "InstallCertificate",
    "MakeCertificate",
}
SLOW_TIMEOUT_S = 50.0
# If a call has no answer after ASK_S, the panel pings the agent. The agent answers a ping at once, whatever its calls wait
# for. Without an answer after SILENT_S, it hangs or does not get the processor. Its watchdog restarts it after a minute.
ASK_S = 1.0
SILENT_S = 5.0
ASK_AGAIN_S = 30.0  # the time after which the panel sends another ping, on a new connection


class AgentError(Exception):
    """A call to the agent failed. `note` is the message; str() is the sentence that the user sees."""

    http = 503
    # Whether it is about the session or the role of the user, not about what the user entered. agent_error() shows it.
    about_user = False

    def __init__(self, note: Note) -> None:
        super().__init__(texts.refusal(note))
        self.note = note


class AgentUnreachable(AgentError):
    """The agent gave no usable answer: it is not running or hangs, or the bus cannot be reached.

    `sent`: whether the call was sent. If so, the agent may have made the change.
    """

    def __init__(self, code: str, *, sent: bool = False, **parameters: object) -> None:
        super().__init__(Note(code, dict(parameters)))
        self.sent = sent


class AgentRefused(AgentError):
    """The agent refused the call. `kind` is the last part of the D-Bus error name."""

    def __init__(self, kind: str, note: Note) -> None:
        super().__init__(note)
        self.kind = kind
        self.http = HTTP.get(kind, 503)
        self.about_user = kind in ("NotLoggedIn", "PasswordMustChange", "NotAuthorized")


class Agent(Protocol):
    """The agent's methods, called on behalf of the user of a session."""

    def call(self, method: str, session: str, address: str, *values: Any) -> Any:
        """Call a METHOD of evenkeel_api.interface. Returns its answer as a struct. Raises AgentError.

        An answer of type FD is a descriptor, which the caller must close.
        """

    def on_sessions_changed(self, callback: Callable[[], None]) -> None:
        """From now on, call CALLBACK when a session, user or token has changed or ended."""


# errors of the bus daemon itself → code of the message for the user
_BUS_ERRORS = {
    "org.freedesktop.DBus.Error.ServiceUnknown": "agent-not-running",
    "org.freedesktop.DBus.Error.NameHasNoOwner": "agent-not-running",
    "org.freedesktop.DBus.Error.NoReply": "agent-stopped",
    "org.freedesktop.DBus.Error.AccessDenied": "agent-not-allowed",
}
# errors after which the agent has certainly not received the call
_NOT_DELIVERED = _BUS_ERRORS.keys() - {"org.freedesktop.DBus.Error.NoReply"}


class BusAgent:
    """The agent over D-Bus.

    One daemon thread runs an asyncio loop with two connections: one for signals, one for calls. The first call makes
    them. If a connection is lost, the next call makes a new one. So a restart of the agent or the bus needs no restart of
    the panel.

    Calls are plain messages without introspection, which would cost a round trip and an XML parser. A call
    never starts the agent, because systemd does that.

    If a call gets no answer, new calls use a new connection, because the bus limits the calls of a connection that wait for
    an answer. The old connection stays open until its last call ends: the agent asks polkit about the caller and refuses a
    caller that has disconnected. The connection for signals is not replaced, so a call without an answer says nothing
    about missed signals.
    """

    def __init__(
        self,
        address: str | None = None,
        timeout_s: float = TIMEOUT_S,
        slow_timeout_s: float = SLOW_TIMEOUT_S,
    ) -> None:
        self._address = address  # None: the system bus
        self._timeout_s = timeout_s
        self._slow_timeout_s = slow_timeout_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._start = threading.Lock()
        self._sessions_changed: Callable[[], None] = lambda: None
        # only the thread of the loop uses the attributes below
        self._signals: MessageBus | None = None
        self._bus: MessageBus | None = None
        self._in_flight: dict[MessageBus, int] = {}  # number of calls by connection
        self._connecting = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._asking: asyncio.Task[None] | None = None
        self._silent = asyncio.Event()  # set while the agent does not answer a ping

    def call(self, method: str, session: str, address: str, *values: Any) -> Any:
        found = METHODS[method]
        signature = interface.SESSION_SIGNATURE + found.in_signature
        # The bus ends the connection, which all users share, after a text that is not clean.
        answer = self._call(method, signature, schema.cleaned([session, address, *values]))
        if found.answer is None or found.out_signature == "h":
            return answer
        try:
            return schema.convert(answer, found.answer)
        except msgspec.ValidationError as error:
            raise AgentUnreachable("agent-unreadable", sent=True, reason=str(error)) from error

    def on_sessions_changed(self, callback: Callable[[], None]) -> None:
        self._sessions_changed = callback

    def _call(self, member: str, signature: str = "", body: list[Any] | None = None) -> Any:
        loop = self._running_loop()
        future = asyncio.run_coroutine_threadsafe(self._send(member, signature, body or []), loop)
        try:
            # _send() has its own timeouts. This one is for the case that the loop itself hangs.
            return future.result(self._limit(member) + 2 * self._timeout_s + 1)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise AgentUnreachable("agent-silent", sent=True) from None

    def _limit(self, member: str) -> float:
        return self._slow_timeout_s if member in SLOW else self._timeout_s

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._start:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="agent-bus", daemon=True).start()
            return self._loop

    async def _connected(self) -> MessageBus:
        """The connection for calls. The connection for signals exists, too."""
        async with self._connecting:
            if self._signals is None or not self._signals.connected:
                bus = await self._connect(self._timeout_s)
                bus.add_message_handler(self._received)
                await asyncio.wait_for(bus.call(_subscription()), self._timeout_s)
                self._signals = bus
                self._start_task(_until_closed(bus))
                self._sessions_changed()  # while there was no connection, signals may have been missed
            if self._bus is None or not self._bus.connected:
                self._bus = await self._connect(self._timeout_s)
                self._start_task(_until_closed(self._bus))
            return self._bus

    async def _connect(self, limit_s: float) -> MessageBus:
        from dbus_fast import BusType
        from dbus_fast.aio import MessageBus

        bus = MessageBus(bus_address=self._address, bus_type=BusType.SYSTEM)
        return await asyncio.wait_for(bus.connect(), limit_s)

    def _start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)  # the loop itself keeps only a weak reference
        task.add_done_callback(self._tasks.discard)
        return task

    def _received(self, message: Message) -> None:
        # The sender is not checked. A false signal does no harm: the panel only asks the agent again about sessions.
        if message.member == interface.SESSIONS_CHANGED and message.interface == interface.SESSION:
            self._sessions_changed()

    def _abandon(self, bus: MessageBus) -> None:
        """Let the next call make a new connection."""
        if self._bus is bus:
            self._bus = None

    def _call_ended(self, bus: MessageBus) -> None:
        """Close an abandoned connection when its last call ends."""
        self._in_flight[bus] -= 1
        if not self._in_flight[bus]:
            del self._in_flight[bus]
            if bus is not self._bus:
                bus.disconnect()

    async def _send(self, member: str, signature: str, body: list[Any]) -> Any:
        from dbus_fast import Message, MessageFlag

        method = METHODS.get(member)
        opens = method is not None and method.out_signature == "h"
        if self._silent.is_set():
            raise AgentUnreachable("agent-silent")
        try:
            bus = await (self._own_connection() if opens else self._connected())
        except Exception as error:  # dbus-fast raises exceptions of many types
            log.debug("no connection to the bus", exc_info=True)
            raise AgentUnreachable("bus-unreachable", reason=_reason(error)) from error
        message = Message(
            destination=NAME,
            path=interface.PATH,
            interface=interface.SESSION,
            member=member,
            signature=signature,
            body=body,
            flags=MessageFlag.NO_AUTOSTART,
        )
        limit_s = self._limit(member)
        self._in_flight[bus] = self._in_flight.get(bus, 0) + 1
        # A person prefers to wait for a change, rather than to read that it may have been made.
        patient = method is not None and method.changes
        try:
            reply = await self._reply(bus, message, limit_s, patient=patient)
        except TimeoutError:
            # This also happens if the connection was lost without notice.
            self._abandon(bus)
            if self._silent.is_set() and not patient:
                raise AgentUnreachable("agent-silent", sent=True) from None
            raise AgentUnreachable("agent-slow", sent=True, seconds=limit_s) from None
        except Exception as error:
            log.debug("%s failed", member, exc_info=True)
            self._abandon(bus)
            raise AgentUnreachable("agent-failed", sent=True, reason=_reason(error)) from error
        finally:
            self._call_ended(bus)
        return _answer(reply, opens)

    async def _reply(
        self, bus: MessageBus, message: Message, limit_s: float, *, patient: bool
    ) -> Message | None:
        """The reply to MESSAGE. Raises TimeoutError after LIMIT_S or, unless PATIENT, as soon as the agent is silent."""
        call = asyncio.ensure_future(bus.call(message))
        ends: set[asyncio.Future[Any]] = {call}
        try:
            await asyncio.wait(ends, timeout=min(ASK_S, limit_s))
            if not call.done():
                if self._asking is None or self._asking.done():
                    self._asking = self._start_task(self._ask())
                if not patient:
                    ends.add(asyncio.ensure_future(self._silent.wait()))
                left_s = max(0.0, limit_s - ASK_S)
                await asyncio.wait(ends, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            if not call.done():
                raise TimeoutError
            return call.result()
        finally:
            for each in ends:
                each.cancel()

    async def _ask(self) -> None:
        """Ping the agent, on a connection of its own. Until the agent answers, or the bus says why it cannot, it is silent."""
        limit_s = SILENT_S
        while True:
            bus: MessageBus | None = None
            try:
                async with asyncio.timeout(limit_s):
                    bus = await self._connect(limit_s)
                    await bus.call(_ping())
                break
            except TimeoutError:
                if not self._silent.is_set():
                    log.warning("the agent does not answer: pages show its last state until it does")
                self._silent.set()
                limit_s = ASK_AGAIN_S
            except Exception:  # the bus has ended: the next call says so
                log.debug("no answer to a ping", exc_info=True)
                break
            finally:
                if bus:
                    bus.disconnect()
        self._silent.clear()

    async def _own_connection(self) -> MessageBus:
        """A connection for one call whose answer has a descriptor. It ends with the call.

        Each user may send signals with descriptors to such a connection, so no other one accepts descriptors.
        """
        from dbus_fast import BusType
        from dbus_fast.aio import MessageBus

        bus = MessageBus(bus_address=self._address, bus_type=BusType.SYSTEM, negotiate_unix_fd=True)
        bus.add_message_handler(_close_files)
        return await asyncio.wait_for(bus.connect(), self._timeout_s)


def _answer(reply: Message | None, opens: bool) -> Any:
    """The value in REPLY; a descriptor if OPENS. Raises AgentError."""
    from dbus_fast import MessageType, unpack_variants

    if reply is None:
        raise AgentUnreachable("agent-silent")
    if reply.message_type == MessageType.ERROR:
        text = str(reply.body[0]) if reply.body else ""
        name = reply.error_name or ""
        if name.startswith(ERROR_PREFIX):
            rest = unpack_variants(reply.body[1]) if len(reply.body) > 1 else {}
            note = Note(str(rest.get("code", "")), rest.get("parameters", {}), text.rstrip("."))
            raise AgentRefused(name.removeprefix(ERROR_PREFIX), note)
        sent = name not in _NOT_DELIVERED
        if name in _BUS_ERRORS:
            raise AgentUnreachable(_BUS_ERRORS[name], sent=sent)
        raise AgentUnreachable("agent-error", sent=sent, reason=text or name)
    if opens:
        # The agent sends exactly one.
        if len(reply.unix_fds) != 1:
            raise AgentUnreachable("agent-unreadable", sent=True, reason="the descriptor is missing")
        return reply.unix_fds[0]
    return unpack_variants(reply.body[0]) if reply.body else None


def _close_files(message: Message) -> bool:
    """Close the descriptors in MESSAGE, unless it is an answer."""
    from dbus_fast import MessageType

    if message.message_type is not MessageType.METHOD_RETURN:
        for descriptor in message.unix_fds:
            os.close(descriptor)
    return False


def _ping() -> Message:
    from dbus_fast import Message, MessageFlag

    return Message(
        destination=NAME,
        path=interface.PATH,
        interface="org.freedesktop.DBus.Peer",
        member="Ping",
        flags=MessageFlag.NO_AUTOSTART,
    )


def _subscription() -> Message:
    from dbus_fast import Message

    name = "org.freedesktop.DBus"
    rule = f"type='signal',interface='{interface.SESSION}',member='{interface.SESSIONS_CHANGED}'"
    return Message(
        destination=name,
        path="/org/freedesktop/DBus",
        interface=name,
        member="AddMatch",
        signature="s",
        body=[rule],
    )


async def _until_closed(bus: MessageBus) -> None:
    """Log the error that ends a connection. The next call makes a new one."""
    try:
        await bus.wait_for_disconnect()  # type: ignore[no-untyped-call,unused-ignore]
    except Exception as error:
        log.info("the connection to the bus ended: %s", _reason(error))


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, EOFError):
        return "the connection to the message bus ended"
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return text[:1].lower() + text[1:]
