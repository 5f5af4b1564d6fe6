# SPDX-License-Identifier: Apache-2.0
"""ek-journal: reads the journal for the agent, and cannot change it. It runs as a user of its own.

Only the agent may connect to evenkeel-journal.socket. The first packet of a connection is the request, as JSON; the helper
reads no other one. The answer is a JSON array in the packets of evenkeel_common.packets: a row for each line. The helper
checks the request itself: it passes a unit, a priority and times to libsystemd (journal_library.py), and no path. If the
request is "bundle", the answer is a support bundle (support_bundle.py).

Each connection has a process of its own, so that a slow or faulty one does not affect others. It is a fork: to start the
program takes much longer than to answer. The first process ends when no connection came for IDLE_S.

Memory of a connection: at most MAX_LINES lines of MAX_TEXT characters.
"""

import calendar
import json
import os
import re
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from evenkeel_common.packets import CONTENT_BYTES, End, data, end

from .journal_library import Field, Journal, library

JOURNALCTL = "/usr/bin/journalctl"
PRIORITIES = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
# A name without one of these ends is the name of a service.
UNIT_ENDS = (
    *(
        ".service",
        ".socket",
        ".target",
        ".device",
        ".mount",
        ".automount",
        ".swap",
        ".timer",
        ".path",
        ".slice",
    ),
    ".scope",
)
COREDUMP = "fc2e22bc6ee647b6b90729ab34a250b1"  # MESSAGE_ID of the line that reports a core dump
MAX_LINES = 501  # the agent asks for one line more than its caller
MAX_TEXT = 2000
MAX_BYTES = 4 * (MAX_TEXT + 1)  # of a field: enough to see that it has more than MAX_TEXT characters
MAX_REQUEST = 4096
# A search may read the whole journal. The agent waits longer, because the start of this program may take seconds.
SEARCH_S = 9.0
# A receiver that takes nothing for this long has gone.
STALL_S = 10.0
CONNECTIONS = 4  # at the same time; a further one is closed after GRACE_S
GRACE_S = 1.0  # time that a process may take to end after its answer
# A connection is closed after this time. A support bundle takes as long as its download.
CONNECTION_S = 600
IDLE_S = 300.0
# A support bundle takes seconds of the processor, which the apps get first. A page has the usual priority, because a user
# waits for it.
BUNDLE_NICE = 10
_UNIT = re.compile(r"[A-Za-z0-9:_.\\@][A-Za-z0-9:_.\\@-]{0,254}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


class BadRequest(Exception):
    """The request is not valid. The agent sends no such request."""


class Search(NamedTuple):
    """A valid request. REQUIRED: for Journal.require(). Times are in microseconds since 1970; None: no limit."""

    required: list[list[list[str]]]
    since_us: int | None
    until_us: int | None
    limit: int

    @classmethod
    def of(cls, request: dict[str, Any]) -> "Search":
        """Raises BadRequest, LookupError or TypeError."""
        unit, priority, limit = request["unit"], request["priority"], request["limit"]
        if priority not in PRIORITIES:
            raise BadRequest("the priority is unknown")
        if type(limit) is not int or not 1 <= limit <= MAX_LINES:
            raise BadRequest("the limit is not valid")
        required = [[[f"PRIORITY={level}" for level in range(PRIORITIES.index(priority) + 1)]]]
        if unit == "kernel":
            required.append([["_TRANSPORT=kernel"]])
        elif unit:
            required.append(of_unit(_checked(_UNIT, unit)))
        since, until = (_seconds(request[key]) * 10**6 if request[key] else None for key in ("start", "end"))
        return cls(required, since, until, limit)


def of_unit(unit: str) -> list[list[str]]:
    """The lines of UNIT, as `journalctl --unit` chooses them: its own, and those of systemd and root about it."""
    if not unit.endswith(UNIT_ENDS):
        unit += ".service"
    found = [
        [f"_SYSTEMD_UNIT={unit}"],
        [f"MESSAGE_ID={COREDUMP}", "_UID=0", f"COREDUMP_UNIT={unit}"],
        ["_PID=1", f"UNIT={unit}"],
        ["_UID=0", f"OBJECT_SYSTEMD_UNIT={unit}"],
    ]
    return [*found, [f"_SYSTEMD_SLICE={unit}"]] if unit.endswith(".slice") else found


def _checked(pattern: re.Pattern[str], value: Any) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise BadRequest(f"{value!r:.60} is not valid")
    return value


def _seconds(value: Any) -> int:
    try:
        return calendar.timegm(time.strptime(_checked(_TIME, value), "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError as error:
        raise BadRequest(f"{value!r:.60} is not a time") from error


def row(at_us: int, field: Field) -> dict[str, Any]:
    """The part of a line of the journal that the agent needs."""
    return {
        "at_us": at_us,
        "priority": _text(field(b"PRIORITY")) or "6",
        # a message of systemd about a unit has the unit in UNIT
        "unit": _text(field(b"UNIT") or field(b"_SYSTEMD_UNIT")),
        "program": _text(field(b"SYSLOG_IDENTIFIER") or field(b"_COMM")),
        "pid": _text(field(b"_PID")),
        "text": _text(field(b"MESSAGE")),
    }


def _text(value: bytes) -> str:
    text = value.decode("utf-8", "replace")
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


Opener = Callable[[], Journal]


def open_journal() -> Journal:
    return Journal(MAX_BYTES)


def find(search: Search, opened: Opener) -> list[dict[str, Any]]:
    """The rows of SEARCH, oldest first. Raises OSError."""
    rows: list[dict[str, Any]] = []
    with opened() as journal:
        for alternatives in search.required:
            journal.require(alternatives)
        for at_us, field in journal.newest_first(search.until_us):
            if search.since_us is not None and at_us < search.since_us:
                break
            rows.append(row(at_us, field))
            if len(rows) == search.limit:
                break
    rows.reverse()
    return rows


def read(search: Search, opened: Opener, limit_s: float = SEARCH_S) -> list[dict[str, Any]]:
    """The rows of SEARCH, oldest first. Raises OSError with the reason, or TimeoutError after LIMIT_S.

    A thread does the work, because nothing can interrupt libsystemd. After a timeout, it ends with the process.
    """
    rows: list[dict[str, Any]] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            rows.extend(find(search, opened))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        raise TimeoutError(
            f"the search took more than {limit_s:g} s; choose a unit, a shorter time or fewer lines"
        )
    if failed:
        raise failed[0]
    return rows


def serve(connection: socket.socket, opened: Opener = open_journal, journalctl: str = JOURNALCTL) -> None:
    """Answer the request on CONNECTION. A support bundle uses JOURNALCTL."""
    connection.settimeout(STALL_S)
    packet = connection.recv(MAX_REQUEST)
    if packet == b'"bundle"':
        from . import support_bundle  # it takes longer to load than the rest of this program

        os.nice(BUNDLE_NICE)
        support_bundle.serve(connection, journalctl)
        return
    try:
        content = json.dumps(read(Search.of(json.loads(packet)), opened)).encode()
    except (ValueError, LookupError, TypeError, BadRequest) as error:
        connection.sendall(end(End(2, f"the request is not valid: {error}")))
        return
    except OSError as error:
        connection.sendall(end(End(2, error.strerror or str(error))))
        return
    for at in range(0, len(content), CONTENT_BYTES):
        connection.sendall(data(content[at : at + CONTENT_BYTES]))
    connection.sendall(end(End(0)))


def listen(listener: socket.socket, opened: Opener = open_journal, idle_s: float = IDLE_S) -> None:
    """Serve connections. Returns when no connection is open and no new one has come for IDLE_S."""
    children: set[int] = set()
    while True:
        ready, _, _ = select.select([listener], [], [], idle_s)
        children = _running(children)
        if ready:
            connection, _ = listener.accept()
            with connection:
                until = time.monotonic() + GRACE_S
                while len(children) >= CONNECTIONS and time.monotonic() < until:
                    time.sleep(0.02)
                    children = _running(children)
                if len(children) < CONNECTIONS:
                    try:
                        children.add(_serve_in_child(listener, connection, opened))
                    except OSError as error:
                        print(f"<4>ek-journal: a connection gets no process: {error}", file=sys.stderr)
        elif not children:
            return


def _running(children: set[int]) -> set[int]:
    """Those of CHILDREN that have not ended."""
    return {pid for pid in children if os.waitpid(pid, os.WNOHANG)[0] == 0}


def _serve_in_child(listener: socket.socket, connection: socket.socket, opened: Opener) -> int:
    """Answer the request on CONNECTION in a new process. Returns its number."""
    if pid := os.fork():
        return pid
    try:
        signal.alarm(CONNECTION_S)  # ends the process
        listener.close()
        serve(connection, opened)
    except OSError as error:
        # the agent has closed the connection
        print(f"<6>ek-journal: {error}", file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(0)


def main() -> int:
    with suppress(OSError):  # Without the library, each answer has the reason.
        library()  # The process of each connection inherits it.
    with socket.socket(fileno=3) as listener:
        listen(listener)
    return 0


if __name__ == "__main__":
    sys.exit(main())
