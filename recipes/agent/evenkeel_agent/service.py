# SPDX-License-Identifier: Apache-2.0
"""org.evenkeel.Agent1 on the bus: takes calls apart, asks polkit, answers or refuses in one sentence.

Messages are dispatched by hand because the library's own services do not tell a method who calls it.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from dbus_fast import Message, MessageFlag, MessageType, Variant

from . import __version__, interface, performance, polkit, weight
from .agent import Agent
from .bus import Bus
from .interface import (
    APP,
    DEVICE,
    METHODS,
    STATUS,
    AgentError,
    InvalidPerformance,
    InvalidWeight,
    NotAuthorized,
)

ERROR = "org.freedesktop.DBus.Error."
# D-Bus lets one connection have 128 calls under way; nobody who is served needs as many
CALLS = 64
_log = logging.getLogger(__name__)


def clean(value: object) -> object:
    """VALUE without what D-Bus cannot carry: file names may hold bytes that are no UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode().replace("\0", "")
    if isinstance(value, list):
        return [clean(entry) for entry in value]
    return value


def variants(values: Mapping[str, object], types: Mapping[str, str]) -> dict[str, Variant]:
    """VALUES as a{sv}; they have exactly the keys of TYPES."""
    return {key: Variant(types[key], clean(values[key])) for key in types}


class Service:
    """Answers for AGENT on BUS from the moment it is made; calls arrive once the name is taken."""

    def __init__(self, bus: Bus, agent: Agent, timeout_s: float) -> None:
        self._bus = bus
        self._agent = agent
        self._timeout_s = timeout_s
        self._calls: set[asyncio.Task[None]] = set()
        bus.handle(self._receive)

    def _receive(self, message: Message) -> bool:
        if message.message_type is not MessageType.METHOD_CALL or message.path != interface.PATH:
            return False
        if message.interface == "org.freedesktop.DBus.Introspectable" and message.member == "Introspect":
            self._answer(message, Message.new_method_return(message, "s", [interface.introspection()]))
            return True
        if message.interface not in (None, interface.NAME):
            return False
        if len(self._calls) >= CALLS:
            refusal = Message.new_error(
                message, ERROR + "LimitsExceeded", "The agent has too many calls under way."
            )
            self._answer(message, refusal)
            return True
        task = asyncio.get_running_loop().create_task(self._serve(message))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return True

    def _answer(self, message: Message, reply: Message) -> None:
        if not message.flags & MessageFlag.NO_REPLY_EXPECTED:
            self._bus.send(reply)

    async def _serve(self, message: Message) -> None:
        try:
            body = await self._call(message)
            signature = "".join(kind for _, kind in METHODS[str(message.member)].gives)
            reply = Message.new_method_return(message, signature, body)
        except AgentError as error:
            reply = Message.new_error(message, error.name, str(clean(f"{error}.")))
        except BadCall as error:
            reply = Message.new_error(message, ERROR + error.kind, str(error))
        except Exception as error:
            # the caller is told, the log has the rest, and the next call is served
            _log.exception("%s failed", message.member)
            text = f"The agent failed: {type(error).__name__}; its log says where."
            reply = Message.new_error(message, interface.Failed("").name, text)
        self._answer(message, reply)

    async def _call(self, message: Message) -> list[Any]:
        member, sender = message.member or "", message.sender or ""
        method = METHODS.get(member)
        if method is None:
            raise BadCall("UnknownMethod", f"{interface.NAME} has no method {member}.")
        interactive = bool(message.flags & MessageFlag.ALLOW_INTERACTIVE_AUTHORIZATION)
        if no := await polkit.refusal(self._bus, sender, method.action, interactive, self._timeout_s):
            raise NotAuthorized(no)
        if message.signature != method.signature:
            if len(message.body) == 2 and isinstance(message.body[0], str):
                given = f"as D-Bus type u, not {message.signature[1:]}"
                if member == "SetWeight":
                    raise InvalidWeight(f"weight must be {weight.RULE}, {given}")
                if member == "SetPerformance":
                    raise InvalidPerformance(f"performance must be {performance.RULE}, or 0, {given}")
            raise BadCall("InvalidArgs", f"{member} takes ({method.signature}), not ({message.signature}).")
        if member == "GetStatus":
            return [await self._status()]
        if member == "ListApps":
            return [[variants(state.fields(), APP) for state in await self._agent.list_apps()]]
        name = message.body[0]
        if member == "SetWeight":
            state = await self._agent.set_weight(name, message.body[1])
            _log.info("weight of %s set to %d by %s", name, state.weight, sender)
            return [variants(state.fields(), APP)]
        if member == "SetPerformance":
            state = await self._agent.set_performance(name, message.body[1])
            _log.info("performance of %s set to %d %% by %s", name, state.performance, sender)
            return [variants(state.fields(), APP)]
        await (self._agent.start_app(name) if member == "StartApp" else self._agent.stop_app(name))
        _log.info("%s %s by %s", member, name, sender)
        return []

    async def _status(self) -> dict[str, Variant]:
        board, problems = await self._agent.status()
        devices = [
            variants(
                {"name": d.name, "scheduler": d.scheduler, "model": d.model, "size_bytes": d.size_bytes},
                DEVICE,
            )
            for d in board.devices
        ]
        status = {
            "version": __version__,
            "kernel": board.kernel,
            "slot": board.slot,
            "scheduler": board.scheduler,
            "devices": devices,
            "health": "degraded" if problems else "ok",
            "problems": problems,
            "demo": board.demo,
            "uptime_s": board.uptime_s,
        }
        return variants(status, STATUS)


class BadCall(Exception):
    """A call that the interface does not have, as the standard D-Bus error KIND."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind
