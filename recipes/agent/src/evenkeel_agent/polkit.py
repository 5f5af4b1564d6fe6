# SPDX-License-Identifier: Apache-2.0
"""Asks polkit whether a caller may perform an action. Root always may. If polkit does not answer, only root may.

A page of the panel calls several methods, and a question to polkit takes longer than most of them. So a yes to a call that
changes nothing is kept for KEEP_S, unless polkit reports a change of its rules or ends. Each change asks again.
"""

import asyncio
import pwd
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

from dbus_fast import Message, MessageType, Variant
from evenkeel_api.errors import NotAuthorized

from .bus import Bus, CallError, Reports

NAME = "org.freedesktop.PolicyKit1"
PATH = "/org/freedesktop/PolicyKit1/Authority"
AUTHORITY = NAME + ".Authority"
INTERACTIVE = 1  # polkit's flag AllowUserInteraction
# how long the agent waits for polkit if polkit may ask a person for a password
INTERACTIVE_TIMEOUT_S = 120.0
# A rule may depend on the time of day. So a caller may read for up to this time after a rule begins to refuse it.
KEEP_S = 60.0
MOST = 256  # the maximum number of users, and of answers, that are kept
_CHANGED = f"type='signal',sender='{NAME}',path='{PATH}',interface='{AUTHORITY}',member='Changed'"
_OWNER = (
    "type='signal',sender='org.freedesktop.DBus',interface='org.freedesktop.DBus',"
    f"member='NameOwnerChanged',arg0='{NAME}'"
)
Key = TypeVar("Key")
Value = TypeVar("Value")
# sender, action, and the details by name
Question = tuple[str, str, tuple[tuple[str, str], ...]]


class Polkit:
    """The questions to polkit on BUS. An answer may take TIMEOUT_S."""

    def __init__(self, bus: Bus, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._bus = bus
        self._timeout_s = timeout_s
        self._clock = clock
        # The bus never gives a unique name to a second connection, so the user of a name stays the same.
        self._users: OrderedDict[str, int] = OrderedDict()  # by unique name of a connection
        self._allowed: OrderedDict[Question, float] = OrderedDict()  # by question: when the answer expires
        self._changes = 0  # number of reports that answers may have changed
        self._reports = Reports(bus, _CHANGED, _OWNER)
        self._asking = (
            asyncio.Lock()
        )  # a call must not overtake an earlier one whose question is not answered yet
        bus.handle(self._signal)

    async def authorize(
        self, sender: str, action: str, details: dict[str, str], *, interactive: bool, keep: bool
    ) -> str:
        """The name of the Unix user of the connection SENDER. Raises NotAuthorized if this user may not perform ACTION.

        DETAILS has the values that a polkit rule can look up. KEEP: whether an answer of the last KEEP_S suffices.

        SENDER is the unique name of the connection that sent the message. The bus itself writes it into the message, so a
        caller cannot forge it. The bus never reuses a unique name, so polkit checks the connection that gets the answer.
        """
        uid = await self._user(sender)
        if uid == 0:
            # Root could do the same without the agent. And root must be able to use the agent if polkit is broken.
            return "root"
        question = (sender, action, tuple(sorted(details.items())))
        if not (keep and self._clock() < self._allowed.get(question, 0.0)):
            keep = keep and await self._reports.sent()
            changes = self._changes
            await self._ask(uid, question, interactive)
            if keep and changes == self._changes:
                _put(self._allowed, question, self._clock() + KEEP_S)
        return user_name(uid)

    async def _user(self, sender: str) -> int:
        async with self._asking:
            uid = self._users.get(sender)
            if uid is None:
                try:
                    uid = int((await self._bus.ask_bus("GetConnectionUnixUser", "s", [sender]))[0])
                except CallError as error:
                    raise NotAuthorized("caller-left", reason=str(error)) from error
                _put(self._users, sender, uid)
            return uid

    async def _ask(self, uid: int, question: Question, interactive: bool) -> None:
        """Raises NotAuthorized unless polkit says yes to QUESTION of the user UID."""
        sender, action, details = question
        subject = ["system-bus-name", {"name": Variant("s", sender)}]
        try:
            answer = await self._bus.call(
                NAME,
                PATH,
                AUTHORITY,
                "CheckAuthorization",
                "(sa{sv})sa{ss}us",
                [subject, action, dict(details), INTERACTIVE if interactive else 0, ""],
                timeout_s=INTERACTIVE_TIMEOUT_S if interactive else self._timeout_s,
            )
        except CallError as error:
            raise NotAuthorized("polkit-silent", user=uid, action=action, reason=str(error)) from error
        if answer[0][0] is not True:
            raise NotAuthorized("polkit-no", user=uid, action=action)

    def _signal(self, message: Message) -> bool:
        # The sender is not checked. A false signal does no harm: the agent only asks polkit again.
        if message.message_type is MessageType.SIGNAL and (
            (message.member == "Changed" and message.interface == AUTHORITY)
            or (message.member == "NameOwnerChanged" and message.body[:1] == [NAME])
        ):
            self._changes += 1
            self._allowed.clear()
        return False


def _put(kept: OrderedDict[Key, Value], key: Key, value: Value) -> None:
    """Keep VALUE. The oldest of more than MOST values is dropped."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > MOST:
        kept.popitem(last=False)


def user_name(uid: int) -> str:
    """The name of the Unix user UID, or the number if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
