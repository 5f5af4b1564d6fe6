# SPDX-License-Identifier: Apache-2.0
"""The agent as the panel sees it, and its D-Bus client.

`Agent` is the interface that the pages use. `BusAgent` implements it with org.evenkeel.Agent1 on
the system bus. Guarantee: every call returns a value or raises an `AgentError`, and nothing else.
It ends within `TIMEOUT_S`, or `CHANGE_TIMEOUT_S` if it changes something, plus the time to connect.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dbus_fast.aio import MessageBus

T = TypeVar("T")

log = logging.getLogger(__name__)

NAME = "org.evenkeel.Agent1"
PATH = "/org/evenkeel/Agent1"
INTERFACE = "org.evenkeel.Agent1"
ERROR_PREFIX = "org.evenkeel.Agent1.Error."

TIMEOUT_S = 2.0  # a page waits for these calls while a person looks at it
# Changes may take longer: a busy board needs seconds to ask polkit, to sync a file or to stop an app.
# Must be shorter than the 20 s that the page waits for a form (apps/page.html).
CHANGE_TIMEOUT_S = 8.0
CHANGES = {"SetWeight", "SetFixedShare", "StartApp", "StopApp"}


class AgentError(Exception):
    """A call to the agent failed; str() is a sentence for the user."""


class AgentUnreachable(AgentError):
    """No usable answer: the agent is not running or hangs, or the bus is gone.

    `sent`: the call was sent, so the agent may have made the change.
    """

    def __init__(self, message: str, *, sent: bool = False) -> None:
        super().__init__(message)
        self.sent = sent


class AgentRefused(AgentError):
    """The agent refused the call. `kind` is the last part of the D-Bus error name."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class App:
    """One app of ListApps. A missing key takes the default; an unknown key is ignored."""

    name: str
    title: str = ""
    description: str = ""
    unit: str = ""
    weight: int = 100  # 1..10000
    active_state: str = "unknown"  # systemd's ActiveState
    sub_state: str = ""  # systemd's SubState
    applied: bool = False  # the weight is in force in the cgroup
    read_bps: float = 0.0  # bytes/s over the window
    write_bps: float = 0.0  # bytes/s over the window
    share: float = 0.0  # 0..1 of the bytes of all listed apps
    p99_us: float = -1.0  # -1: no I/O in the window
    fixed_share: int = 0  # percent of each flash device; 0: none, the weight decides
    fixed_share_applied: bool = True  # `fixed_share` is in force, 0 included
    fixed_share_problem: str = ""  # why it is not in force: a sentence without its full stop
    fixed_share_used: float = -1.0  # used part of the fixed share over the window, 0..1; -1: no such I/O
    fixed_share_late: float = -1.0  # late part of the requests with a fixed share, 0..1; -1: none
    fixed_share_behind: bool = False  # the scheduler cannot deliver the fixed share
    stats: str = ""  # counters that the app reports about itself, JSON text
    window_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Status:
    """The answer of GetStatus."""

    version: str = ""
    kernel: str = ""
    slot: str = "unknown"
    scheduler: str = ""
    health: str = "degraded"
    problems: tuple[str, ...] = ()
    demo: bool = False
    uptime_s: int = 0


def app_from(fields: Mapping[str, Any]) -> App:
    """An App from unpacked a{sv}; raises ValueError or TypeError if a value has the wrong type."""
    name = str(fields["name"]) if "name" in fields else ""
    if not name:
        raise ValueError("an app without a name")
    return App(
        name=name,
        title=str(fields.get("title", "")) or name,
        description=str(fields.get("description", "")),
        unit=str(fields.get("unit", "")),
        weight=int(fields.get("weight", 100)),
        active_state=str(fields.get("active_state", "unknown")),
        sub_state=str(fields.get("sub_state", "")),
        applied=bool(fields.get("applied", False)),
        read_bps=float(fields.get("read_bps", 0.0)),
        write_bps=float(fields.get("write_bps", 0.0)),
        share=float(fields.get("share", 0.0)),
        p99_us=float(fields.get("p99_us", -1.0)),
        fixed_share=int(fields.get("fixed_share", 0)),
        fixed_share_applied=bool(fields.get("fixed_share_applied", True)),
        fixed_share_problem=str(fields.get("fixed_share_problem", "")),
        fixed_share_used=float(fields.get("fixed_share_used", -1.0)),
        fixed_share_late=float(fields.get("fixed_share_late", -1.0)),
        fixed_share_behind=bool(fields.get("fixed_share_behind", False)),
        stats=str(fields.get("stats", "")),
        window_s=float(fields.get("window_s", 0.0)),
    )


def status_from(fields: Mapping[str, Any]) -> Status:
    """A Status from unpacked a{sv}."""
    return Status(
        version=str(fields.get("version", "")),
        kernel=str(fields.get("kernel", "")),
        slot=str(fields.get("slot", "unknown")),
        scheduler=str(fields.get("scheduler", "")),
        health=str(fields.get("health", "degraded")),
        problems=tuple(str(problem) for problem in fields.get("problems", ())),
        demo=bool(fields.get("demo", False)),
        uptime_s=int(fields.get("uptime_s", 0)),
    )


class Agent(Protocol):
    """The methods that the panel uses; each may raise AgentError."""

    def status(self) -> Status: ...

    def list_apps(self) -> Sequence[App]: ...

    def set_weight(self, name: str, weight: int) -> App: ...

    def set_fixed_share(self, name: str, percent: int) -> App: ...

    def start_app(self, name: str) -> None: ...

    def stop_app(self, name: str) -> None: ...


# Errors of the bus daemon itself, in words that a user understands.
_BUS_ERRORS = {
    "org.freedesktop.DBus.Error.ServiceUnknown": "it is not running",
    "org.freedesktop.DBus.Error.NameHasNoOwner": "it is not running",
    "org.freedesktop.DBus.Error.NoReply": "it stopped before it answered",
    "org.freedesktop.DBus.Error.AccessDenied": "the message bus does not allow the panel to call it",
}
_NOT_DELIVERED = _BUS_ERRORS.keys() - {"org.freedesktop.DBus.Error.NoReply"}


class BusAgent:
    """The agent over D-Bus.

    One daemon thread runs an asyncio loop with one connection. The first call makes the connection;
    a call after its loss makes a new one. So a restart of the agent or the bus needs no restart of
    the panel.

    Calls are plain messages without introspection, which would cost a round trip and an XML parser.
    They never start the agent: systemd does that.

    If a call gets no answer, new calls use a new connection. The old connection stays open until its
    last call ends: the agent asks polkit about the caller and refuses a caller that has disconnected.
    """

    def __init__(
        self,
        address: str | None = None,
        timeout_s: float = TIMEOUT_S,
        change_timeout_s: float = CHANGE_TIMEOUT_S,
    ) -> None:
        self._address = address  # None: the system bus
        self._timeout_s = timeout_s
        self._change_timeout_s = change_timeout_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._start = threading.Lock()
        # only the loop's thread uses the following
        self._bus: MessageBus | None = None
        self._in_flight: dict[MessageBus, int] = {}  # number of calls by connection
        self._connecting = asyncio.Lock()
        self._watcher: asyncio.Task[None] | None = None

    def status(self) -> Status:
        return self._parsed(status_from, self._call("GetStatus"))

    def list_apps(self) -> Sequence[App]:
        answer = self._call("ListApps")
        if not isinstance(answer, list):
            raise AgentUnreachable("The agent's list of apps cannot be read.")
        return [self._parsed(app_from, fields) for fields in answer]

    def set_weight(self, name: str, weight: int) -> App:
        return self._parsed(app_from, self._call("SetWeight", "su", [name, weight]))

    def set_fixed_share(self, name: str, percent: int) -> App:
        return self._parsed(app_from, self._call("SetFixedShare", "su", [name, percent]))

    def start_app(self, name: str) -> None:
        self._call("StartApp", "s", [name])

    def stop_app(self, name: str) -> None:
        self._call("StopApp", "s", [name])

    @staticmethod
    def _parsed(parse: Callable[[Any], T], answer: Any) -> T:
        try:
            return parse(answer)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise AgentUnreachable(f"The agent's answer cannot be read: {error}.", sent=True) from error

    def _call(self, member: str, signature: str = "", body: list[Any] | None = None) -> Any:
        loop = self._running_loop()
        future = asyncio.run_coroutine_threadsafe(self._send(member, signature, body or []), loop)
        try:
            # _send has its own limits; this one covers a loop that hangs
            return future.result(self._limit(member) + 2 * self._timeout_s + 1)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise AgentUnreachable("The agent does not answer.", sent=True) from None

    def _limit(self, member: str) -> float:
        return self._change_timeout_s if member in CHANGES else self._timeout_s

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._start:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="agent-bus", daemon=True).start()
            return self._loop

    async def _connected(self) -> MessageBus:
        from dbus_fast import BusType
        from dbus_fast.aio import MessageBus

        async with self._connecting:
            if self._bus is None or not self._bus.connected:
                bus = MessageBus(bus_address=self._address, bus_type=BusType.SYSTEM)
                self._bus = await asyncio.wait_for(bus.connect(), self._timeout_s)
                self._watcher = asyncio.create_task(_until_closed(bus))
            return self._bus

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
        from dbus_fast import Message, MessageFlag, MessageType, unpack_variants

        try:
            bus = await self._connected()
        except Exception as error:  # dbus-fast raises many types; none may end the page
            log.debug("no connection to the bus", exc_info=True)
            raise AgentUnreachable(f"The message bus cannot be reached: {_reason(error)}.") from error
        message = Message(
            destination=NAME,
            path=PATH,
            interface=INTERFACE,
            member=member,
            signature=signature,
            body=body,
            flags=MessageFlag.NO_AUTOSTART,
        )
        limit_s = self._limit(member)
        self._in_flight[bus] = self._in_flight.get(bus, 0) + 1
        try:
            reply = await asyncio.wait_for(bus.call(message), limit_s)
        except TimeoutError:
            # This also happens if the connection was lost without notice.
            self._abandon(bus)
            raise AgentUnreachable(f"The agent did not answer within {limit_s:g} s.", sent=True) from None
        except Exception as error:
            log.debug("%s failed", member, exc_info=True)
            self._abandon(bus)
            raise AgentUnreachable(f"The call to the agent failed: {_reason(error)}.", sent=True) from error
        finally:
            self._call_ended(bus)
        if reply is None:
            raise AgentUnreachable("The agent sent no answer.")
        if reply.message_type == MessageType.ERROR:
            text = str(reply.body[0]) if reply.body else ""
            error_name = reply.error_name or ""
            if error_name.startswith(ERROR_PREFIX):
                kind = error_name.removeprefix(ERROR_PREFIX)
                raise AgentRefused(kind, text or f"The agent refused: {kind}.")
            reason = _BUS_ERRORS.get(error_name, text or error_name)
            raise AgentUnreachable(
                f"The agent does not answer: {reason}.", sent=error_name not in _NOT_DELIVERED
            )
        return unpack_variants(reply.body[0]) if reply.body else None


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
