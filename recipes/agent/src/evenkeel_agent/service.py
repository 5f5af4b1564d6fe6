# SPDX-License-Identifier: Apache-2.0
"""org.evenkeel.Agent1 on the bus: checks each call and its caller, then answers or refuses in one sentence.

Messages are dispatched here because the library's own services do not tell a method who its caller is.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from dbus_fast import Message, MessageFlag, MessageType, Variant

from . import __version__, fixed_share, interface, polkit, weight
from .agent import Agent
from .bus import Bus
from .interface import (
    APP,
    DEVICE,
    METHODS,
    STATUS,
    AgentError,
    Field,
    InvalidFixedShare,
    InvalidWeight,
    NotAuthorized,
)

ERROR = "org.freedesktop.DBus.Error."
# The bus allows 128 pending calls per connection. No permitted caller needs that many.
MAX_CALLS = 64
_log = logging.getLogger(__name__)


def clean(value: object) -> object:
    """VALUE as valid UTF-8 without NUL: D-Bus carries nothing else, and file names may hold any bytes."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode().replace("\0", "")
    if isinstance(value, list):
        return [clean(entry) for entry in value]
    return value


def variants(values: Mapping[str, object], fields: Mapping[str, Field]) -> dict[str, Variant]:
    """VALUES as a{sv}. Their keys must be those of FIELDS."""
    return {key: Variant(field.signature, clean(values[key])) for key, field in fields.items()}


class Service:
    """Serves AGENT on BUS as soon as it is constructed. Calls arrive once the agent owns its bus name."""

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
        if len(self._calls) >= MAX_CALLS:
            text = f"The agent is serving {MAX_CALLS} calls, which is its limit; wait for answers, then try again."
            self._answer(message, Message.new_error(message, ERROR + "LimitsExceeded", text))
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
            reply = Message.new_method_return(message, METHODS[str(message.member)].out_signature, body)
        except AgentError as error:
            reply = Message.new_error(message, error.name, str(clean(f"{error}.")))
        except BadCall as error:
            reply = Message.new_error(message, ERROR + error.kind, str(error))
        except Exception as error:
            # A bug must not end the service: the caller gets an error, and the log gets the stack trace.
            _log.exception("%s failed", message.member)
            text = f"The agent has a bug ({type(error).__name__}); run 'journalctl -u evenkeeld' for details."
            reply = Message.new_error(message, interface.Failed("").name, text)
        self._answer(message, reply)

    async def _call(self, message: Message) -> list[Any]:
        member, sender = message.member or "", message.sender or ""
        method = METHODS.get(member)
        if method is None:
            raise BadCall("UnknownMethod", f"{interface.NAME} has no method {member}.")
        interactive = bool(message.flags & MessageFlag.ALLOW_INTERACTIVE_AUTHORIZATION)
        if refused := await polkit.refusal(self._bus, sender, method.action, interactive, self._timeout_s):
            raise NotAuthorized(refused)
        if message.signature != method.in_signature:
            if len(message.body) == 2 and isinstance(message.body[0], str):
                mismatch = f"of D-Bus type u, not {message.signature[1:]}"
                if member == "SetWeight":
                    raise InvalidWeight(f"weight must be {weight.RULE}, {mismatch}")
                if member == "SetFixedShare":
                    raise InvalidFixedShare(f"fixed share must be {fixed_share.RULE}, or 0, {mismatch}")
            raise BadCall(
                "InvalidArgs", f"{member} takes ({method.in_signature}), not ({message.signature})."
            )
        if member == "GetStatus":
            return [await self._status()]
        if member == "ListApps":
            return [[variants(state.fields(), APP) for state in await self._agent.list_apps()]]
        name = message.body[0]
        if member == "SetWeight":
            state = await self._agent.set_weight(name, message.body[1])
            _log.info("weight of %s set to %d by %s", name, state.weight, sender)
            return [variants(state.fields(), APP)]
        if member == "SetFixedShare":
            state = await self._agent.set_fixed_share(name, message.body[1])
            _log.info("fixed share of %s set to %d %% by %s", name, state.fixed_share, sender)
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
    """A call that does not match the interface. It is answered with the standard D-Bus error KIND."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind
