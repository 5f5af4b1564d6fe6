# SPDX-License-Identifier: Apache-2.0
"""Serves org.evenkeel.Agent1 on the bus: checks each call and its caller, calls the handler and sends the answer.

This module dispatches messages itself. The D-Bus library could do so, but does not tell a method who its caller is.
"""

import asyncio
import logging
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from dbus_fast import Message as BusMessage
from dbus_fast import MessageFlag, MessageType, Variant
from dbus_fast.unpack import unpack_variants
from evenkeel_api import errors, interface, schema
from evenkeel_api.errors import AgentError
from evenkeel_api.messages import Message
from evenkeel_api.method import Method
from evenkeel_api.roles import ADMIN

from .accounts import Accounts
from .bus import Bus
from .caller import Caller
from .polkit import Polkit

ERROR = "org.freedesktop.DBus.Error."
# The maximum number of calls that are served at once. The bus allows 128 pending calls per connection. No permitted
# caller needs so many calls at once.
MAX_CALLS = 64
_log = logging.getLogger(__name__)
Handler = Callable[[Any, Caller], Awaitable[Any]]


def handlers(features: Sequence[object]) -> dict[str, Handler]:
    """The function that serves each method, by the method's name. Raises LookupError unless exactly one feature has it."""
    found: dict[str, Handler] = {}
    for name, method in interface.METHODS.items():
        served = [
            getattr(feature, method.handler) for feature in features if hasattr(feature, method.handler)
        ]
        if len(served) != 1:
            raise LookupError(f"{len(served)} features have {method.handler}(), which serves {name}")
        found[name] = served[0]
    return found


class Service:
    """Serves the methods of FEATURES and ACCOUNTS on BUS. The constructor suffices: there is no start method.

    Calls arrive as soon as the agent owns its bus name.
    """

    def __init__(self, bus: Bus, features: Sequence[object], accounts: Accounts, timeout_s: float) -> None:
        self._bus = bus
        self._accounts = accounts
        self._handlers = handlers([*features, accounts])
        self._polkit = Polkit(bus, timeout_s)
        self._calls: set[asyncio.Task[None]] = set()
        accounts.changed = self._sessions_changed
        bus.handle(self._receive)

    def _sessions_changed(self) -> None:
        """Send a signal, so that the panel asks again whom a session belongs to. It caches the answer for some seconds."""
        self._bus.send(BusMessage.new_signal(interface.PATH, interface.SESSION, interface.SESSIONS_CHANGED))

    def _receive(self, message: BusMessage) -> bool:
        if message.message_type is not MessageType.METHOD_CALL or message.path != interface.PATH:
            return False
        if message.interface == "org.freedesktop.DBus.Introspectable" and message.member == "Introspect":
            self._answer(message, BusMessage.new_method_return(message, "s", [interface.introspection()]))
            return True
        if message.interface not in (None, interface.NAME, interface.SESSION):
            return False
        if len(self._calls) >= MAX_CALLS:
            text = f"The agent is serving {MAX_CALLS} calls, which is its limit; wait for answers, then try again."
            self._answer(message, BusMessage.new_error(message, ERROR + "LimitsExceeded", text))
            return True
        task = asyncio.get_running_loop().create_task(self._serve(message))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return True

    def _answer(self, message: BusMessage, reply: BusMessage) -> None:
        if not message.flags & MessageFlag.NO_REPLY_EXPECTED:
            self._bus.send(reply)
        else:
            for descriptor in reply.unix_fds:
                os.close(descriptor)

    async def _serve(self, message: BusMessage) -> None:
        try:
            method = interface.METHODS.get(message.member or "")
            if method is None or method not in interface.served(message.interface or interface.NAME):
                name = message.interface or interface.NAME
                raise BadCall("UnknownMethod", f"{name} has no method {message.member}.")
            answer = await self._call(method, message)
            reply = _reply(message, method, answer)
        except AgentError as error:
            reply = _error(message, error.name, error.message)
        except BadCall as error:
            reply = BusMessage.new_error(message, ERROR + error.kind, str(error))
        except Exception as error:
            # A bug must not end the service: the caller gets an error, and the log gets the stack trace.
            _log.exception("%s failed", message.member)
            bug = errors.Failed("agent-bug", type=type(error).__name__)
            reply = _error(message, bug.name, bug.message)
        self._answer(message, reply)

    async def _call(self, method: Method, message: BusMessage) -> Any:
        body, signature = message.body, message.signature
        if message.interface == interface.SESSION:
            own = interface.SESSION_SIGNATURE
            if not signature.startswith(own):
                raise BadCall(
                    "InvalidArgs", f"{method.name} takes ({own}{method.in_signature}), not ({signature})."
                )
            secret, address, *body = body
            signature = signature.removeprefix(own)
        else:
            secret, address = None, ""
        caller, request = Caller("", None, "bus" if secret is None else "panel", address), None
        try:
            caller = await self._authorize(method, message, secret, address)
            request = _request(method, signature, body)
            answer = await self._handlers[method.name](request, caller)
        except AgentError as error:
            if method.changes and caller.user:
                await self._accounts.audit(caller, method.name, _detail(method, request), error.kind)
            elif isinstance(error, errors.NotAuthorized | errors.NotLoggedIn):
                if secret is None:
                    _log.warning("%s was refused: %s", method.name, error)
                else:
                    await self._accounts.audit_refusal(error, method, secret, address)
            raise
        if method.changes:
            await self._accounts.audit(caller, method.name, _detail(method, request))
            _log.info("%s by %s (%s): %s", method.name, caller.user, caller.via, _detail(method, request))
        return answer

    async def _authorize(
        self, method: Method, message: BusMessage, secret: str | None, address: str
    ) -> Caller:
        """The caller, after polkit has allowed the call. Raises AgentError.

        polkit checks the Unix user that sent the message; root needs no check. For a call by the panel, polkit also gets
        the name and role of the user who is logged in to the panel.
        """
        details: dict[str, str] = {}
        caller = None
        if secret is not None:
            caller = self._accounts.caller(method, secret, address)
            details = {
                "session.user": caller.user,
                "session.role": caller.role or "",
                "session.address": schema.clean(address),
                "session.method": method.name,
            }
        interactive = bool(message.flags & MessageFlag.ALLOW_INTERACTIVE_AUTHORIZATION)
        user = await self._polkit.authorize(
            message.sender or "",
            method.action,
            details,
            interactive=interactive,
            keep=secret is not None and not method.changes,
        )
        return caller or Caller(user, ADMIN, "bus")


def _detail(method: Method, request: Any) -> str:
    """The arguments of a call as one line of text for a log, without secrets."""
    if request is None:
        return ""
    shown = (field for field in method.inputs if field.name not in method.secret)
    text = ", ".join(f"{field.name} {getattr(request, field.name)}" for field in shown)
    text = re.sub(r"(https?://)[^/?#@]*@", r"\1***@", text)  # the URL of a bundle may have a password
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def _reply(message: BusMessage, method: Method, answer: Any) -> BusMessage:
    if method.out_signature == "h":
        # the body has the index of the descriptor
        return BusMessage.new_method_return(message, "h", [0], [answer])
    body = [] if method.answer is None else [schema.pack(answer, method.answer, Variant)]
    return BusMessage.new_method_return(message, method.out_signature, body)


def _error(message: BusMessage, name: str, text: Message) -> BusMessage:
    """An error reply. Its body has the sentence, then code and parameters, so that the caller can show its own text."""
    note = text.note()
    rest = {
        "code": Variant("s", note.code),
        "parameters": schema.loose(note.parameters, Variant),
    }
    return BusMessage(
        message_type=MessageType.ERROR,
        reply_serial=message.serial,
        destination=message.sender,
        error_name=name,
        signature="sa{sv}",
        body=[schema.clean(f"{note.text}."), rest],
    )


def _request(method: Method, signature: str, body: Sequence[Any]) -> Any:
    """The arguments BODY as the method's request struct. Raises AgentError or BadCall."""
    if signature != method.in_signature:
        for field, value in zip(method.inputs, body, strict=False):
            # If the schema names an error for bad values of this field, a value of the wrong type gets that error.
            if field.error and len(body) == len(method.inputs) and type(value) in (int, float, str, bool):
                code = {"InvalidWeight": "weight-type", "InvalidFixedShare": "fixed-share-type"}[field.error]
                raise _kind(field.error)(code, type=signature[1:])
        raise BadCall("InvalidArgs", f"{method.name} takes ({method.in_signature}), not ({signature}).")
    values = dict(zip(method.request.__struct_fields__, unpack_variants(list(body)), strict=True))
    try:
        return schema.convert(values, method.request)
    except msgspec.ValidationError as error:
        for field in method.inputs:
            if field.error and f"$.{field.name}" in str(error):
                # Pass the bad value on: the handler refuses it with a more precise message.
                return method.request(**values)
        raise errors.InvalidArgument("invalid-argument", method=method.name, reason=str(error)) from error


def _kind(name: str) -> type[AgentError]:
    return next(error for error in AgentError.__subclasses__() if error.kind == name)


class BadCall(Exception):
    """A call that does not match the interface. It is answered with the standard D-Bus error KIND."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind
