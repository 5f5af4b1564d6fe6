# SPDX-License-Identifier: Apache-2.0
"""Which questions reach polkit, and for how long an answer is kept."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest
from dbus_fast import Message
from evenkeel_agent.bus import Bus, CallError
from evenkeel_agent.polkit import AUTHORITY, KEEP_S, MOST, NAME, PATH, Polkit
from evenkeel_api.errors import NotAuthorized

READ = "org.evenkeel.agent.read"
WHO = {"session.user": "ben", "session.role": "viewer"}


class FakeBus:
    """A bus with a polkit. `asked` has the questions, `users` the connections whose user was asked for."""

    def __init__(self, uid: int = 2) -> None:
        self.uid = uid
        self.now = 1000.0
        self.yes = True
        self.silent = False
        self.reports = True  # whether the bus accepts subscriptions
        self.asked: list[dict[str, str]] = []
        self.users: list[str] = []
        self.answers: list[asyncio.Event] = []  # when the bus answers the next questions for a user
        self.before_answer: Callable[[], None] = lambda: None
        self._handler: Callable[[Message], bool] = lambda _: False

    def handle(self, handler: Callable[[Message], bool]) -> None:
        self._handler = handler

    async def ask_bus(self, member: str, _: str, body: list[str]) -> list[Any]:
        assert member == "GetConnectionUnixUser"
        self.users.append(body[0])
        if self.answers:
            await self.answers.pop(0).wait()
        return [self.uid]

    async def subscribe(self, _: str) -> None:
        if not self.reports:
            raise CallError("x", "refused")

    async def call(self, *arguments: Any, timeout_s: float) -> list[Any]:
        assert timeout_s == 7
        if self.silent:
            raise CallError("x", "silent")
        self.asked.append(arguments[5][2])
        self.before_answer()
        return [[self.yes, False, {}]]

    def report(self, member: str, interface: str, body: list[str]) -> None:
        self._handler(Message.new_signal(PATH, interface, member, "s" * len(body), body))


def on_bus(
    test: Callable[[FakeBus, Polkit], Coroutine[Any, Any, None]],
) -> Callable[[], None]:
    """Turn TEST, which expects a bus and a Polkit, into a test for pytest."""

    def run() -> None:
        bus = FakeBus()
        asyncio.run(test(bus, Polkit(cast("Bus", bus), 7, lambda: bus.now)))

    run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
    return run


async def ask(
    polkit: Polkit, sender: str = ":1.5", details: dict[str, str] = WHO, *, keep: bool = True
) -> str:
    return await polkit.authorize(sender, READ, details, interactive=False, keep=keep)


@on_bus
async def test_a_yes_is_kept_for_the_same_question_only(bus: FakeBus, polkit: Polkit) -> None:
    for _ in range(3):
        await ask(polkit)
    assert bus.asked == [WHO]
    assert bus.users == [":1.5"]
    for change in ({"session.user": "eve"}, {"session.role": "admin"}):
        await ask(polkit, details=WHO | change)
        assert bus.asked[-1] == WHO | change
    await ask(polkit, ":1.6")
    assert len(bus.asked) == 4
    bus.now += KEEP_S
    await ask(polkit)
    assert len(bus.asked) == 5


@on_bus
async def test_a_call_does_not_overtake_an_earlier_one(bus: FakeBus, polkit: Polkit) -> None:
    """Otherwise it could be that the first of two weights of an app stays."""
    bus.answers = [asyncio.Event(), asyncio.Event()]
    first, second = bus.answers
    order: list[int] = []

    async def call(number: int) -> None:
        await ask(polkit)
        order.append(number)

    calls = [asyncio.create_task(call(1)), asyncio.create_task(call(2))]
    await asyncio.sleep(0)
    first.set()
    await asyncio.sleep(0)
    calls.append(asyncio.create_task(call(3)))
    for _ in range(10):
        await asyncio.sleep(0)
    second.set()
    await asyncio.gather(*calls)
    assert order == [1, 2, 3]


@on_bus
async def test_a_change_and_a_no_are_never_kept(bus: FakeBus, polkit: Polkit) -> None:
    for _ in range(2):
        await ask(polkit, keep=False)
    assert len(bus.asked) == 2
    bus.yes = False
    for _ in range(2):
        with pytest.raises(NotAuthorized):
            await ask(polkit)
    assert len(bus.asked) == 4


@on_bus
async def test_a_report_of_polkit_ends_what_was_kept(bus: FakeBus, polkit: Polkit) -> None:
    await ask(polkit)
    bus.yes = False
    bus.report("Changed", AUTHORITY, [])
    with pytest.raises(NotAuthorized):
        await ask(polkit)
    bus.yes = True
    await ask(polkit)
    bus.silent = True
    await ask(polkit)
    bus.report("NameOwnerChanged", "org.freedesktop.DBus", ["org.example", ":1.2", ""])
    await ask(polkit)
    bus.report("NameOwnerChanged", "org.freedesktop.DBus", [NAME, ":1.2", ""])
    with pytest.raises(NotAuthorized):
        await ask(polkit)


@on_bus
async def test_an_answer_from_before_a_report_is_not_kept(bus: FakeBus, polkit: Polkit) -> None:
    bus.before_answer = lambda: bus.report("Changed", AUTHORITY, [])
    await ask(polkit)
    await ask(polkit)
    assert len(bus.asked) == 2


@on_bus
async def test_without_reports_each_call_asks(bus: FakeBus, polkit: Polkit) -> None:
    bus.reports = False
    await ask(polkit)
    await ask(polkit)
    assert len(bus.asked) == 2


@on_bus
async def test_root_needs_no_answer(bus: FakeBus, polkit: Polkit) -> None:
    bus.uid, bus.silent = 0, True
    assert await ask(polkit, keep=False) == "root"


@on_bus
async def test_the_memory_is_bounded(bus: FakeBus, polkit: Polkit) -> None:
    for number in range(2 * MOST):
        await ask(polkit, f":1.{number}")
    await ask(polkit, f":1.{2 * MOST - 1}")
    assert len(bus.asked) == len(bus.users) == 2 * MOST
    await ask(polkit, ":1.0")
    assert len(bus.asked) == len(bus.users) == 2 * MOST + 1
