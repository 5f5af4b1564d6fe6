# SPDX-License-Identifier: Apache-2.0
"""Serves GetJournal. The agent may not read the journal: ek-journal reads it.

systemd starts ek-journal at the first connection, as a user that can read the journal and change nothing.
"""

import asyncio
import json
import socket
import time
from collections.abc import Mapping
from typing import Any, get_args

from evenkeel_api import errors
from evenkeel_api.features.system import Journal, Line, Priority, ReadJournal
from evenkeel_api.messages import Message
from evenkeel_common.files import why
from evenkeel_common.packets import Truncated

from . import helper
from .caller import Caller
from .settings import Settings

SOCKET_UNIT = "evenkeel-journal.socket"
HELPER_UNIT = "evenkeel-journal.service"
# Time that GetJournal waits for ek-journal: less than the panel waits. ek-journal gives up earlier, but systemd may have to
# start it, which takes seconds on a slow board.
ANSWER_S = 13.0
PRIORITIES: tuple[Priority, ...] = get_args(Priority)


class JournalReader:
    """The handler of GetJournal."""

    def __init__(self, settings: Settings) -> None:
        self._path = settings.journal_socket

    async def get_journal(self, request: ReadJournal, _: Caller) -> Journal:
        for field in ("start", "end"):
            _check_time(field, getattr(request, field))
        if request.start and request.end and request.start > request.end:
            raise errors.InvalidArgument("bad-range", start=request.start, end=request.end)
        order = {name: getattr(request, name) for name in request.__struct_fields__}
        order["limit"] += 1  # one more line shows whether there are older ones
        try:
            async with asyncio.timeout(ANSWER_S):
                found = await self._ask(order)
        except TimeoutError:
            problem = Message("journal-slow", seconds=ANSWER_S)
        except (Truncated, ConnectionError):
            problem = Message("journal-ended", unit=HELPER_UNIT)
        except OSError as error:
            reason = why(error)
            problem = Message("journal-unreachable", path=self._path, reason=reason, unit=SOCKET_UNIT)
        except ValueError as error:
            problem = Message("journal-unreadable", reason=str(error))
        else:
            lines = [line(row) for row in found if isinstance(row, dict)]
            return Journal(lines=lines[-request.limit :], more=len(lines) > request.limit)
        raise errors.Failed("journal-not-read", reason=problem)

    async def _ask(self, order: Mapping[str, Any]) -> list[Any]:
        """The rows that ek-journal sends. Raises OSError, Truncated or ValueError."""
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC) as connection:
            connection.setblocking(False)
            await loop.sock_connect(connection, self._path)
            await loop.sock_sendall(connection, json.dumps(order).encode())
            content = await helper.receive(connection)
        found = json.loads(content)
        if not isinstance(found, list):
            raise ValueError("the answer is not a list")
        return found


def _check_time(field: str, text: str) -> None:
    """Raises InvalidArgument if TEXT, which has the form of a time, is none: 2026-02-30T00:00:00Z."""
    try:
        if text:
            time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")
    except ValueError as error:
        raise errors.InvalidArgument("bad-moment", field=field, value=text) from error


def line(row: Mapping[str, Any]) -> Line:
    """A line from what ek-journal sends. A value that is missing or not valid becomes "", 0 or the priority info."""
    level = _number(row.get("priority", "6"))
    return Line(
        at=_number(row.get("at_us")) / 1e6,
        priority=PRIORITIES[level] if level < len(PRIORITIES) else "info",
        unit=_text(row.get("unit")),
        program=_text(row.get("program")),
        pid=_number(row.get("pid")),
        text=_text(row.get("text")),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int:
    digits = value if isinstance(value, str) else str(value)
    return int(digits) if digits.isdecimal() and digits.isascii() and len(digits) < 19 else 0
