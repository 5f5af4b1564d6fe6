# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH118
"""Alerts: which problems are reported, to whom, and what became of each message.

The agent has no network. It sends each message as an order to ek-alert (alert_sender.py), which a socket unit starts.

Guarantees: a problem that lasts HOLD_S is reported once, and its end is reported once. A receiver that cannot be
reached gets the lines later, at most MAX_LINES; older lines are only counted. A receiver gets at most one message
per GAP_S. The settings survive a restart; what was reported does not, so the agent reports present problems again.
If one of two receivers cannot be reached, the other one gets a line about it.
"""

import asyncio
import json
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from evenkeel_api import errors, schema
from evenkeel_api.features.alerts import Alerts as State
from evenkeel_api.features.alerts import SetAlerts
from evenkeel_api.features.board import Snapshot
from evenkeel_api.messages import Message, Note
from evenkeel_api.method import Nothing
from evenkeel_common.files import read_small, replace, why

from .caller import Caller
from .settings import Settings

FILE_LIMIT = 64 * 1024
CHECK_S = 5.0  # time between two looks at the problems
HOLD_S = 60.0  # a problem is reported after it has lasted so long, and its end as well
GAP_S = 60.0  # shortest time between two messages to a receiver
RETRY_MAX_S = 3600.0  # longest time between two attempts
ANSWER_S = 60.0  # time that ek-alert may take
TEST_S = 5.0  # time that SendTestAlert waits; the panel waits longer
MAX_LINES = 100
MAX_LENGTH = 500  # characters of a problem's text. An order must fit into alert_sender.LIMIT.
NOT_SENT = "alert-not-sent"  # a report about one receiver goes only to the other one
OFF = SetAlerts("", "", "", "", 587, "starttls", "", "")
# What makes two problems the same, although figures in their texts differ: the code, and the parameters in IDENTITY.
Key = tuple[str, ...]
IDENTITY = ("app", "device", "file", "path", "slot", "unit")
# code of a message about several channels → the code for one channel
OF_ONE_CHANNEL = {"channels-failed": "channel-failed", "channels-degraded": "channel-degraded"}
# a problem that can become another one → that one. The first one is not solved then.
BECOMES = {"panel-certificate-expiring": "panel-certificate-expired", "wear-limit": "wear-used-up"}
_log = logging.getLogger(__name__)


def texts_of(notes: Iterable[Note]) -> dict[Key, str]:
    """The problems in NOTES, with their texts.

    A message about several channels is a problem for each channel. Otherwise, a further channel that fails would end the
    problem of the first one.
    """
    found: dict[Key, str] = {}
    for note in notes:
        code = OF_ONE_CHANNEL.get(note.code, note.code)
        if code in OF_ONE_CHANNEL.values():
            for name in note.parameters["channels"]:
                text = str(Message(code, **{**note.parameters, "channels": [name]}))
                found[(code, f"channel={name}")] = _line(text)
        else:
            found[_key(code, note.parameters)] = _line(note.text)
    return found


def _key(code: str, parameters: Mapping[str, Any]) -> Key:
    identity = (f"{name}={parameters[name]}" for name in IDENTITY if name in parameters)
    inner = parameters.get("problem")  # "rename-failed" has another problem
    return code, *identity, *(_key(inner["code"], inner["parameters"]) if isinstance(inner, Mapping) else ())


def _line(text: str) -> str:
    return schema.clean(text)[:MAX_LENGTH]


def check(request: SetAlerts) -> None:
    """Raises InvalidArgument if fields of REQUEST do not fit together."""
    if request.mail_to and not request.smtp_server:
        raise errors.InvalidArgument("alerts-no-server")
    if request.smtp_user and request.smtp_security == "none":
        raise errors.InvalidArgument("alerts-plain-password")


class Tracker:
    """Decides which problems have begun or ended. A state counts if it has lasted HOLD_S."""

    def __init__(self) -> None:
        self.reported: dict[Key, str] = {}
        self._since: dict[
            Key, float
        ] = {}  # since when the presence of a problem differs from what was reported

    def update(self, now_s: float, present: Mapping[Key, str]) -> list[str]:
        """The lines to report. PRESENT: the texts of the present problems."""
        lines = []
        for key in sorted(present.keys() | self.reported.keys()):
            if (key in present) == (key in self.reported):
                self._since.pop(key, None)
            elif now_s - self._since.setdefault(key, now_s) >= HOLD_S:
                del self._since[key]
                if key in present:
                    self.reported[key] = present[key]
                    lines.append(f"Problem: {present[key]}.")
                else:
                    text = self.reported.pop(key)
                    if (BECOMES.get(key[0], ""), *key[1:]) in present:
                        continue
                    # What comes after the last semicolon says what to do. A solved problem needs nothing.
                    lines.append(f"Solved: {text.rpartition('; ')[0] or text}.")
        for key in self._since.keys() - present.keys() - self.reported.keys():
            del self._since[key]
        return lines


@dataclass
class Outbox:
    """The lines that a receiver has not got yet. Times are monotonic."""

    lines: list[str] = field(default_factory=list)
    dropped: int = 0
    failures: int = 0
    due_s: float = 0.0  # when the next attempt may begin

    def add(self, lines: list[str]) -> None:
        self.lines += lines
        extra = max(len(self.lines) - MAX_LINES, 0)
        self.dropped += extra
        del self.lines[:extra]

    def waiting(self, now_s: float) -> list[str]:
        """The lines to send now; none before the next attempt is due."""
        if not self.lines or now_s < self.due_s:
            return []
        return [*([f"{self.dropped} older messages were dropped."] if self.dropped else []), *self.lines]

    def done(self, now_s: float, count: int, *, sent: bool) -> None:
        """An attempt with the first COUNT lines has ended."""
        if sent:
            del self.lines[:count]
            self.dropped = self.failures = 0
            self.due_s = now_s + GAP_S
        else:
            self.failures += 1
            self.due_s = now_s + min(GAP_S * 2 ** (self.failures - 1), RETRY_MAX_S)


class Alerts:
    """Serves the methods of evenkeel_api.features.alerts."""

    def __init__(self, settings: Settings, board: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Read the saved settings. Blocks. BOARD: the name that the messages have."""
        self._path = os.path.join(settings.state_dir, "alerts.json")
        self._socket = settings.alert_socket
        self._board = board
        self._clock = clock
        self._tracker: Tracker
        self._failures: dict[str, Tracker]  # by receiver: whether it can be reached
        self._outboxes: dict[str, Outbox]  # by receiver: "webhook", "mail"
        self._sending = asyncio.Lock()
        self._saving = asyncio.Lock()
        self._tests: set[asyncio.Task[None]] = set()
        self._failed: dict[str, Message]  # by receiver: why the last attempt failed
        self._at: int  # when the last attempt ended; 0: never
        self._load_problem: Message | None = None
        self._set = OFF
        try:
            self._set = msgspec.json.decode(read_small(self._path, FILE_LIMIT), type=SetAlerts)
        except FileNotFoundError:
            pass
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            reason = why(error) if isinstance(error, OSError) else str(error)
            self._load_problem = Message("alerts-unreadable", path=self._path, reason=reason)
        self._begin()

    def _begin(self) -> None:
        """Start with the receivers of the settings: nothing was reported, and nothing has failed."""
        self._failed, self._at, self._tracker = {}, 0, Tracker()
        self._failures = {name: Tracker() for name in self._receivers}
        self._outboxes = {name: Outbox() for name in self._receivers}

    def rename(self, board: str) -> None:
        """From now on, the messages have the name BOARD."""
        self._board = board

    @property
    def problems(self) -> list[Message]:
        return [*([self._load_problem] if self._load_problem else []), *self._failed.values()]

    @property
    def _receivers(self) -> list[str]:
        found = {"webhook": self._set.webhook, "mail": self._set.mail_to}
        return [name for name, value in found.items() if value]

    async def watch(self, snapshot: Callable[[Nothing, Caller], Awaitable[Snapshot]]) -> None:
        """Report problems for as long as the agent runs."""
        nobody = Caller("", None, "bus")
        while True:
            await asyncio.sleep(CHECK_S)
            if self._receivers:
                status = (await snapshot(Nothing(), nobody)).status
                await self.check(status.problems)

    async def check(self, problems: list[Note]) -> None:
        """Look at the present PROBLEMS, and send what is due."""
        now_s = self._clock()
        lines = self._tracker.update(now_s, texts_of(note for note in problems if note.code != NOT_SENT))
        for outbox in self._outboxes.values():
            outbox.add(lines)
        for name, tracker in self._failures.items():
            failed = texts_of([self._failed[name].note()] if name in self._failed else [])
            lines = tracker.update(now_s, failed)
            for other, outbox in self._outboxes.items():
                if other != name:
                    outbox.add(lines)
        await self._send()

    async def _send(self) -> None:
        async with self._sending:
            outboxes, now_s = self._outboxes, self._clock()
            for name, outbox in outboxes.items():
                if lines := outbox.waiting(now_s):
                    count = len(outbox.lines)
                    reason = await self._deliver(name, lines)
                    if self._outboxes is not outboxes:
                        return  # the settings were changed meanwhile
                    outbox.done(self._clock(), count, sent=not reason)
                    self._note(name, reason)

    def _note(self, name: str, reason: str) -> None:
        self._at = int(time.time())
        self._failed.pop(name, None)
        if reason:
            self._failed[name] = Message(NOT_SENT, receiver=name, reason=reason)
            _log.warning("%s", self._failed[name])

    async def _deliver(self, receiver: str, lines: list[str]) -> str:
        """Send LINES to RECEIVER. Returns the reason of a failure, or ""."""
        chosen, text = self._set, "\n".join(lines)
        order: dict[str, Any] = {"subject": f"Evenkeel board {self._board}", "text": text + "\n"}
        if receiver == "webhook":
            order["webhook"] = chosen.webhook
            order["document"] = {"board": self._board, "lines": lines, "text": f"{self._board}: {text}"}
        else:
            order["mail"] = {
                "to": chosen.mail_to,
                "from": chosen.mail_from,
                "server": chosen.smtp_server,
                "port": chosen.smtp_port,
                "security": chosen.smtp_security,
                "user": chosen.smtp_user,
                "password": chosen.smtp_password,
            }
        try:
            async with asyncio.timeout(ANSWER_S):
                reader, writer = await asyncio.open_unix_connection(self._socket)
                try:
                    writer.write(json.dumps(order).encode())
                    writer.write_eof()
                    answer = json.loads(await reader.read())
                finally:
                    writer.close()
            return str(answer[receiver])
        except TimeoutError:
            return "ek-alert did not answer in time"
        except OSError as error:
            return f"ek-alert cannot be reached: {why(error)}"
        except (ValueError, KeyError, TypeError):
            return "ek-alert ended without an answer"

    # the methods

    async def get_alerts(self, _: Nothing, __: Caller) -> State:
        return self._state()

    def _state(self) -> State:
        found = self._set
        return State(
            webhook=found.webhook,
            mail_to=found.mail_to,
            mail_from=found.mail_from,
            smtp_server=found.smtp_server,
            smtp_port=found.smtp_port,
            smtp_security=found.smtp_security,
            smtp_user=found.smtp_user,
            password_set=bool(found.smtp_password),
            state="off"
            if not self._receivers
            else "failed"
            if self._failed
            else "sent"
            if self._at
            else "ready",
            at=self._at,
            testing=bool(self._tests),
            problem=[message.note() for message in self._failed.values()],
        )

    async def set_alerts(self, request: SetAlerts, _: Caller) -> State:
        """Save the settings. On an AgentError nothing has changed."""
        old = self._set
        if not request.smtp_password and request.smtp_user:
            same = (old.smtp_server, old.smtp_user) == (request.smtp_server, request.smtp_user)
            request = msgspec.structs.replace(request, smtp_password=old.smtp_password if same else "")
        elif not request.smtp_user:
            request = msgspec.structs.replace(request, smtp_password="")
        check(request)
        await self.restore(request)
        return self._state()

    @property
    def saved(self) -> SetAlerts:
        return self._set

    async def restore(self, request: SetAlerts) -> None:
        """Save REQUEST, also an empty password. On an AgentError nothing has changed."""
        async with self._saving:
            try:
                await asyncio.to_thread(replace, self._path, msgspec.json.encode(request))
            except OSError as error:
                raise errors.Failed("alerts-not-saved", path=self._path, reason=why(error)) from error
            self._set, self._load_problem = request, None
            self._begin()

    async def send_test_alert(self, _: Nothing, __: Caller) -> State:
        if not self._receivers:
            raise errors.Conflict("alerts-off")
        if self._tests:
            raise errors.Conflict("alert-test-runs")
        task = asyncio.get_running_loop().create_task(self._test())
        self._tests.add(task)
        task.add_done_callback(self._tests.discard)
        await asyncio.wait({task}, timeout=TEST_S)
        return self._state()

    async def _test(self) -> None:
        async with self._sending:
            chosen = self._set
            for name in self._receivers:
                reason = await self._deliver(name, ["This is a test. The board can send alerts."])
                if self._set is not chosen:
                    return  # the settings were changed meanwhile
                self._note(name, reason)
