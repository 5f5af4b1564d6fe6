# SPDX-License-Identifier: Apache-2.0
"""What the panel asks of the agent, and how over D-Bus.

`Agent` is the interface that the pages use; `BusAgent` speaks it to
org.evenkeel.Agent1 on the system bus. Every call ends within `TIMEOUT_S`, or
`DEED_TIMEOUT_S` where it changes something, plus the time to connect, with a
value or with an `AgentError`; nothing else leaves this module.
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

TIMEOUT_S = 2.0  # a person looks at a page that waits for this
# who pressed a button waits longer: a busy board takes seconds to ask polkit, to sync a file, and to stop an app.
# The page waits for 20 s (apps/page.html).
DEED_TIMEOUT_S = 8.0
DEEDS = {"SetWeight", "SetPerformance", "StartApp", "StopApp"}


class AgentError(Exception):
    """An answer of the agent that is not the one asked for; str() is a sentence for a person."""


class AgentUnreachable(AgentError):
    """No answer: the agent is not running, hangs, or the bus is gone.

    `asked`: the question went out, so the deed may have been done all the same.
    """

    def __init__(self, message: str, *, asked: bool = False) -> None:
        super().__init__(message)
        self.asked = asked


class AgentRefused(AgentError):
    """The agent answered no. `kind` is the last part of the D-Bus error name."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class App:
    """One app as ListApps gives it. A missing key takes the default, an unknown one is ignored."""

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
    performance: int = 0  # percent of each flash device, 0: by weight
    performance_applied: bool = True  # what is set is in force, 0 too
    performance_problem: str = ""  # why it could not be put in force, a sentence without its full stop
    performance_used: float = -1.0  # 0..1 of it over the window, -1: no regulated I/O
    performance_late: float = -1.0  # 0..1 of its requests, -1: none
    performance_behind: bool = False  # the scheduler does not keep up
    stats: str = ""  # the app's own counters, JSON text
    window_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Status:
    """The board as GetStatus gives it."""

    version: str = ""
    kernel: str = ""
    slot: str = "unknown"
    scheduler: str = ""
    health: str = "degraded"
    problems: tuple[str, ...] = ()
    demo: bool = False
    uptime_s: int = 0


def app_from(fields: Mapping[str, Any]) -> App:
    """An App of a{sv} with the variants opened; raises ValueError or TypeError when a value has no sense."""
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
        performance=int(fields.get("performance", 0)),
        performance_applied=bool(fields.get("performance_applied", True)),
        performance_problem=str(fields.get("performance_problem", "")),
        performance_used=float(fields.get("performance_used", -1.0)),
        performance_late=float(fields.get("performance_late", -1.0)),
        performance_behind=bool(fields.get("performance_behind", False)),
        stats=str(fields.get("stats", "")),
        window_s=float(fields.get("window_s", 0.0)),
    )


def status_from(fields: Mapping[str, Any]) -> Status:
    """A Status of a{sv} with the variants opened."""
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
    """The verbs that the panel uses; each raises AgentError."""

    def status(self) -> Status: ...

    def list_apps(self) -> Sequence[App]: ...

    def set_weight(self, name: str, weight: int) -> App: ...

    def set_performance(self, name: str, percent: int) -> App: ...

    def start_app(self, name: str) -> None: ...

    def stop_app(self, name: str) -> None: ...


# What the bus itself says when nobody owns the name, in words that help.
_BUS_ERRORS = {
    "org.freedesktop.DBus.Error.ServiceUnknown": "it is not running",
    "org.freedesktop.DBus.Error.NameHasNoOwner": "it is not running",
    "org.freedesktop.DBus.Error.NoReply": "it went away before it answered",
    "org.freedesktop.DBus.Error.AccessDenied": "the message bus does not let the panel talk to it",
}
_NOT_DELIVERED = _BUS_ERRORS.keys() - {"org.freedesktop.DBus.Error.NoReply"}


class BusAgent:
    """The agent over D-Bus.

    One daemon thread runs an asyncio loop with one connection, which is made
    at the first call and again after it was lost, so a restarted agent or bus
    needs no restart of the panel. Calls are plain messages: no introspection,
    which would cost a round trip and an XML parser. They do not ask the bus
    to start the agent: starting it is systemd's business.

    A connection on which a call was not answered is not used again, but ends
    with the last of its calls: the agent asks polkit about who called, and would
    refuse what somebody who has left asked for.
    """

    def __init__(
        self,
        address: str | None = None,
        timeout_s: float = TIMEOUT_S,
        deed_timeout_s: float = DEED_TIMEOUT_S,
    ) -> None:
        self._address = address  # None: the system bus
        self._timeout_s = timeout_s
        self._deed_timeout_s = deed_timeout_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._start = threading.Lock()
        # these are touched by the loop's thread only
        self._bus: MessageBus | None = None
        self._under_way: dict[MessageBus, int] = {}  # calls
        self._connecting = asyncio.Lock()
        self._end: asyncio.Task[None] | None = None

    def status(self) -> Status:
        return self._parsed(status_from, self._call("GetStatus"))

    def list_apps(self) -> Sequence[App]:
        answer = self._call("ListApps")
        if not isinstance(answer, list):
            raise AgentUnreachable("The agent's list of apps cannot be read.")
        return [self._parsed(app_from, fields) for fields in answer]

    def set_weight(self, name: str, weight: int) -> App:
        return self._parsed(app_from, self._call("SetWeight", "su", [name, weight]))

    def set_performance(self, name: str, percent: int) -> App:
        return self._parsed(app_from, self._call("SetPerformance", "su", [name, percent]))

    def start_app(self, name: str) -> None:
        self._call("StartApp", "s", [name])

    def stop_app(self, name: str) -> None:
        self._call("StopApp", "s", [name])

    @staticmethod
    def _parsed(parse: Callable[[Any], T], answer: Any) -> T:
        try:
            return parse(answer)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise AgentUnreachable(f"The agent's answer cannot be read: {error}.", asked=True) from error

    def _call(self, member: str, signature: str = "", body: list[Any] | None = None) -> Any:
        loop = self._running_loop()
        future = asyncio.run_coroutine_threadsafe(self._ask(member, signature, body or []), loop)
        try:
            # _ask has its own limits; this one is for a loop that is stuck itself
            return future.result(self._limit(member) + 2 * self._timeout_s + 1)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise AgentUnreachable("The agent does not answer.", asked=True) from None

    def _limit(self, member: str) -> float:
        return self._deed_timeout_s if member in DEEDS else self._timeout_s

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
                self._end = asyncio.create_task(_closed(bus))
            return self._bus

    def _leave(self, bus: MessageBus) -> None:
        """The next call makes a new connection."""
        if self._bus is bus:
            self._bus = None

    def _ended(self, bus: MessageBus) -> None:
        """A call of this connection."""
        self._under_way[bus] -= 1
        if not self._under_way[bus]:
            del self._under_way[bus]
            if bus is not self._bus:
                bus.disconnect()

    async def _ask(self, member: str, signature: str, body: list[Any]) -> Any:
        from dbus_fast import Message, MessageFlag, MessageType, unpack_variants

        try:
            bus = await self._connected()
        except Exception as error:  # whatever a broken bus makes of it, the page has to stay up
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
        self._under_way[bus] = self._under_way.get(bus, 0) + 1
        try:
            reply = await asyncio.wait_for(bus.call(message), limit_s)
        except TimeoutError:
            # a connection that died silently looks the same
            self._leave(bus)
            raise AgentUnreachable(f"The agent did not answer within {limit_s:g} s.", asked=True) from None
        except Exception as error:
            log.debug("%s failed", member, exc_info=True)
            self._leave(bus)
            raise AgentUnreachable(f"The agent cannot be asked: {_reason(error)}.", asked=True) from error
        finally:
            self._ended(bus)
        if reply is None:
            raise AgentUnreachable("The agent gave no answer.")
        if reply.message_type == MessageType.ERROR:
            text = str(reply.body[0]) if reply.body else ""
            error_name = reply.error_name or ""
            if error_name.startswith(ERROR_PREFIX):
                kind = error_name.removeprefix(ERROR_PREFIX)
                raise AgentRefused(kind, text or f"The agent refused: {kind}.")
            reason = _BUS_ERRORS.get(error_name, text or error_name)
            raise AgentUnreachable(
                f"The agent does not answer: {reason}.", asked=error_name not in _NOT_DELIVERED
            )
        return unpack_variants(reply.body[0]) if reply.body else None


async def _closed(bus: MessageBus) -> None:
    """Takes the error that ends a connection; the next call finds it gone and makes a new one."""
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
