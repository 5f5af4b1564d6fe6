# SPDX-License-Identifier: Apache-2.0
"""ek-journal: reads the journal for the agent, and cannot change it. It runs as a user of its own.

Only the agent may connect to evenkeel-journal.socket. The first packet of a connection is the request, as JSON; the helper
reads no other one. The answer is a JSON array in the packets of evenkeel_common.packets: a row for each line. The helper
checks the request itself: it passes a unit, a priority and times to journalctl, and no other option or path. If the
request is "bundle", the answer is a support bundle (support_bundle.py).

Each connection has a process of its own, so that a slow or faulty one does not affect others. It is a fork: to start the
program takes much longer than to answer. The first process ends when no connection came for IDLE_S.

Memory of a connection: at most MAX_LINES lines of MAX_TEXT characters, and one line of journalctl, which it cuts at
MAX_LINE bytes.
"""

import calendar
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from evenkeel_common.packets import CONTENT_BYTES, End, data, end

from .time_limit import time_limit

JOURNALCTL = "/usr/bin/journalctl"
PRIORITIES = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
FIELDS = "MESSAGE,PRIORITY,_SYSTEMD_UNIT,UNIT,SYSLOG_IDENTIFIER,_COMM,_PID"
MAX_LINES = 501  # the agent asks for one line more than its caller
MAX_TEXT = 2000
MAX_LINE = (
    256 * 1024
)  # longer than all fields of a line: without --all, journalctl omits a field of more than 4096 bytes
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
_UNIT = re.compile(r"[A-Za-z0-9:_.\\@][A-Za-z0-9:_.\\@-]{0,254}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


class BadRequest(Exception):
    """The request is not valid. The agent sends no such request."""


def command(request: dict[str, Any], journalctl: str = JOURNALCTL) -> list[str]:
    """The command that prints the lines, oldest first. Raises BadRequest."""
    unit, priority, limit = request["unit"], request["priority"], request["limit"]
    if priority not in PRIORITIES:
        raise BadRequest("the priority is unknown")
    if type(limit) is not int or not 1 <= limit <= MAX_LINES:
        raise BadRequest("the limit is not valid")
    options = [f"--lines={limit}", f"--priority={priority}"]
    for option, key in (("since", "start"), ("until", "end")):
        if request[key]:
            options.append(f"--{option}=@{_seconds(request[key])}")
    if unit == "kernel":
        options.append("_TRANSPORT=kernel")
    elif unit:
        options.append(f"--unit={_checked(_UNIT, unit)}")
    fixed = ["--quiet", "--no-pager", "--system", "--output=json", f"--output-fields={FIELDS}"]
    return [journalctl, *fixed, *options]


def _checked(pattern: re.Pattern[str], value: Any) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise BadRequest(f"{value!r:.60} is not valid")
    return value


def _seconds(value: Any) -> int:
    try:
        return calendar.timegm(time.strptime(_checked(_TIME, value), "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError as error:
        raise BadRequest(f"{value!r:.60} is not a time") from error


def row(content: bytes) -> dict[str, Any] | None:
    """The part of a line of journalctl that the agent needs; None if the line is not valid."""
    try:
        found = json.loads(content.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    value = found.get
    return {
        "at_us": _text(value("__REALTIME_TIMESTAMP")),
        "priority": _text(value("PRIORITY")) or "6",
        # a message of systemd about a unit has the unit in UNIT
        "unit": _text(value("UNIT")) or _text(value("_SYSTEMD_UNIT")),
        "program": _text(value("SYSLOG_IDENTIFIER")) or _text(value("_COMM")),
        "pid": _text(value("_PID")),
        "text": _text(value("MESSAGE")),
    }


def _text(value: Any) -> str:
    """A field as text. journalctl prints a field that is not UTF-8 as numbers of bytes, and two values as a list."""
    if isinstance(value, str) and len(value) <= MAX_TEXT:
        return value
    if isinstance(value, list) and value and all(type(byte) is int and 0 <= byte < 256 for byte in value):
        value = bytes(value).decode("utf-8", "replace")
    elif isinstance(value, list) and value:
        return _text(value[0])
    if value is None:
        return ""
    text = str(value)
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def read(arguments: Sequence[str], limit_s: float = SEARCH_S) -> list[dict[str, Any]]:
    """The rows of ARGUMENTS. Raises OSError with the reason, or TimeoutError after LIMIT_S."""
    rows: list[dict[str, Any]] = []
    with (
        subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process,
        time_limit(process, limit_s) as late,
    ):
        assert process.stdout
        assert process.stderr
        tail = bytearray()
        # Its messages must be read, or journalctl would wait.
        reader = threading.Thread(target=_drain, args=(process.stderr, tail), daemon=True)
        reader.start()
        try:
            while content := process.stdout.readline(MAX_LINE):
                found = row(content)
                if found and len(rows) < MAX_LINES:
                    rows.append(found)
        finally:
            process.wait()
            reader.join()
    if late.is_set():
        raise TimeoutError(
            f"the search took more than {limit_s:g} s; choose a unit, a shorter time or fewer lines"
        )
    if process.returncode:
        text = bytes(tail).decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise OSError(text or f"journalctl ended with status {process.returncode}")
    return rows


def _drain(stream: Any, tail: bytearray) -> None:
    while chunk := stream.read1(4096):
        tail += chunk
        del tail[:-2000]


def serve(connection: socket.socket, journalctl: str = JOURNALCTL) -> None:
    """Answer the request on CONNECTION."""
    connection.settimeout(STALL_S)
    packet = connection.recv(MAX_REQUEST)
    if packet == b'"bundle"':
        from . import support_bundle  # it takes longer to load than the rest of this program

        support_bundle.serve(connection, journalctl)
        return
    try:
        content = json.dumps(read(command(json.loads(packet), journalctl))).encode()
    except (ValueError, LookupError, TypeError, BadRequest) as error:
        connection.sendall(end(End(2, f"the request is not valid: {error}")))
        return
    except OSError as error:
        connection.sendall(end(End(2, error.strerror or str(error))))
        return
    for at in range(0, len(content), CONTENT_BYTES):
        connection.sendall(data(content[at : at + CONTENT_BYTES]))
    connection.sendall(end(End(0)))


def listen(listener: socket.socket, journalctl: str = JOURNALCTL, idle_s: float = IDLE_S) -> None:
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
                        children.add(_serve_in_child(listener, connection, journalctl))
                    except OSError as error:
                        print(f"<4>ek-journal: a connection gets no process: {error}", file=sys.stderr)
        elif not children:
            return


def _running(children: set[int]) -> set[int]:
    """Those of CHILDREN that have not ended."""
    return {pid for pid in children if os.waitpid(pid, os.WNOHANG)[0] == 0}


def _serve_in_child(listener: socket.socket, connection: socket.socket, journalctl: str) -> int:
    """Answer the request on CONNECTION in a new process. Returns its number."""
    if pid := os.fork():
        return pid
    try:
        signal.alarm(CONNECTION_S)  # ends the process
        listener.close()
        serve(connection, journalctl)
    except OSError as error:
        # the agent has closed the connection
        print(f"<6>ek-journal: {error}", file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(0)


def main() -> int:
    with socket.socket(fileno=3) as listener:
        listen(listener)
    return 0


if __name__ == "__main__":
    sys.exit(main())
