# SPDX-License-Identifier: Apache-2.0
"""The part of the history that is in RAM: the last two hours by seconds, and the minutes that are not in the database yet.

The panel requests it over a Unix socket. A request is one line of JSON,
{"after": SEQ, "seconds": [FROM, TO], "first": SEQ, "before": TIME} or {"after": 0, "totals": true}. The service answers with an
Answer in msgpack and closes the connection. The mode of the socket decides who may connect.
"""

import contextlib
import logging
import os
import socket
import threading
from collections import deque
from pathlib import Path

import msgspec

from .period import Sum, pack
from .tiers import LIVE_S, MINUTE, slot
from .totals import Totals

SOCKET = "/run/evenkeel-history/live"
# The number of saved minutes that stay in RAM. If a damaged database is replaced, they are saved again.
KEPT_MINUTES = 60
MAX_UNSAVED = 24 * 60  # the maximum of unsaved minutes in RAM; with 16 apps they need less than 5 MB
MAX_REQUEST = 4096  # bytes
CLIENT_S = 5.0  # timeout of each read from a client and write to it
_log = logging.getLogger(__name__)


class Request(msgspec.Struct):
    after: int  # the answer has the minutes with a higher number, and those that have no number yet
    # From, to (seconds since 1970). None: no data by seconds. The answer has no seconds either if they are not all that was
    # sampled in this span.
    seconds: tuple[int, int] | None = None
    # The lowest number of a saved minute that the seconds must make up for. None: there are no saved minutes in the span.
    first: int | None = None
    before: int | None = None  # the answer has only minutes that start before this time; None: all
    totals: bool = False  # whether the answer has the totals, and nothing else


class Answer(msgspec.Struct):
    minutes: list[tuple[int, bytes]]  # start, packed Period; the last minute may still be running
    seconds: list[tuple[int, bytes]]  # end, packed Period
    totals: bytes = b""  # as from totals.Totals.publish(); empty before the first sample


class _Minute:
    __slots__ = ("data", "logged", "seq", "start", "whole")

    def __init__(self, start: int, data: bytes = b"") -> None:
        self.start = start
        self.data = data  # empty while the minute is running
        self.logged = False  # whether it is in the log (minutes.py)
        self.seq: int | None = None  # number in the database; None before the first attempt to save it
        self.whole = True  # whether all its seconds are in RAM


class Live:
    """The part of the history that is in RAM. Thread-safe.

    TOTALS gets each minute when it ends. It is published then, and when a reader asks.
    """

    def __init__(self, totals: Totals | None = None) -> None:
        self._lock = threading.Lock()
        self._totals = totals or Totals()
        # end, packed Period, and the minute that has this second
        self._seconds: deque[tuple[int, bytes, _Minute]] = deque(maxlen=LIVE_S)
        self._recent: deque[_Minute] = deque()  # complete minutes: first the saved, then the unsaved ones
        self._saved = 0  # number of saved minutes in _recent
        self._current = Sum()  # the I/O of the minute that is running
        self._running: _Minute | None = None
        self.lost = 0  # number of minutes that were dropped because they could not be saved for too long

    def add(self, at: int, step: Sum) -> None:
        """Add STEP, the I/O of the second that ended at AT (seconds since 1970)."""
        data = pack(step.period())
        with self._lock:
            if self._running is not None and slot(at, MINUTE) != self._running.start:
                self._close()
            if self._running is None:
                self._running = _Minute(slot(at, MINUTE))
            self._current.add(step)
            if len(self._seconds) == self._seconds.maxlen:
                self._seconds[0][2].whole = False
            self._seconds.append((at, data, self._running))

    def close_minute(self) -> None:
        """End the current minute now, because the service stops."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._running is not None and self._current.ms:
            self._running.data = pack(self._current.period())
            self._recent.append(self._running)
            if len(self._recent) - self._saved > MAX_UNSAVED:
                del self._recent[self._saved]
                self.lost += 1
            self._totals.add(self._current)
            self._totals.publish(Sum())
        self._current, self._running = Sum(), None

    def unsaved(self, last: int) -> list[tuple[int, int, bytes]]:
        """The complete minutes that are not saved, as (number, start, packed Period), numbered from LAST + 1.

        A minute gets its number before it is saved. A reader that has read the database up to some number asks for the
        minutes after this number. So it gets each minute exactly once, even if the minute is being saved meanwhile.
        """
        with self._lock:
            minutes = list(self._recent)[self._saved :]
            for seq, minute in enumerate(minutes, last + 1):
                minute.seq = seq
            return [(minute.seq or 0, minute.start, minute.data) for minute in minutes]

    def unlogged(self) -> list[tuple[int, bytes]]:
        """The complete minutes that are neither saved nor in the log, as (start, packed Period)."""
        with self._lock:
            return [
                (minute.start, minute.data)
                for minute in list(self._recent)[self._saved :]
                if not minute.logged
            ]

    def logged(self, count: int) -> None:
        """Mark the first COUNT minutes of unlogged() as logged."""
        with self._lock:
            unlogged = [minute for minute in list(self._recent)[self._saved :] if not minute.logged]
            for minute in unlogged[:count]:
                minute.logged = True

    def restore(self, minutes: list[tuple[int, bytes]]) -> None:
        """Add MINUTES of the log, which an earlier process has sampled, before all unsaved ones."""
        with self._lock:
            for index, (start, data) in enumerate(minutes, self._saved):
                minute = _Minute(start, data)
                minute.logged, minute.whole = True, False
                self._recent.insert(index, minute)

    def saved(self, count: int) -> None:
        """Mark the first COUNT unsaved minutes as saved, because they are in the database now."""
        with self._lock:
            self._saved += count
            while self._saved > KEPT_MINUTES:
                self._recent.popleft()
                self._saved -= 1

    def replaced(self) -> None:
        """Mark all minutes in RAM as unsaved, because the database was replaced by an empty one.

        The log has none of those that had been saved: its next record overwrites them.
        """
        with self._lock:
            for index, minute in enumerate(self._recent):
                minute.seq = None
                minute.logged = minute.logged and index >= self._saved
            self._saved = 0

    @property
    def waiting(self) -> int:
        with self._lock:
            return len(self._recent) - self._saved

    def answer(self, request: Request) -> Answer:
        with self._lock:
            if request.totals:
                return Answer([], [], self._totals.publish(self._current) if self._seconds else b"")
            running = [self._running] if self._running and self._current.ms else []
            minutes = [
                minute
                for minute in (*self._recent, *running)
                if (minute.seq is None or minute.seq > request.after)
                and (request.before is None or minute.start < request.before)
            ]
            # Packing the minute that is running takes most of the time of an answer.
            rows = [(minute.start, minute.data or pack(self._current.period())) for minute in minutes]
            return Answer(rows, self._by_second(request, minutes))

    def _by_second(self, request: Request, minutes: list[_Minute]) -> list[tuple[int, bytes]]:
        """The seconds of the span of REQUEST; none if they lack a second that the minutes of the span have.

        These are saved minutes, and those of MINUTES. A saved minute has all its seconds in RAM if its number is not below
        that of the oldest whole minute: numbers rise in the order of sampling, also if the clock jumps.
        """
        if request.seconds is None:
            return []
        start, end = request.seconds
        if request.first is not None:
            whole = next((minute for _, _, minute in self._seconds if minute.whole), None)
            if whole is None or whole.seq is None or whole.seq > request.first:
                return []
        if any(not minute.whole and slot(start, MINUTE) <= minute.start < end for minute in minutes):
            return []
        return [(at, data) for at, data, _ in self._seconds if start <= at < end]


class Server:
    """Answers requests on the socket PATH until close(), one at a time, because an answer takes milliseconds."""

    def __init__(self, path: Path, live: Live) -> None:
        self._path, self._live = path, live
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._socket.bind(str(path))
        path.chmod(0o660)
        self._socket.listen(16)
        threading.Thread(target=self._serve, name="live", daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client:
                client.settimeout(CLIENT_S)
                try:
                    line = b""
                    while not line.endswith(b"\n") and len(line) <= MAX_REQUEST:
                        if not (part := client.recv(MAX_REQUEST)):
                            break
                        line += part
                    request = msgspec.json.decode(line, type=Request)
                    client.sendall(msgspec.msgpack.encode(self._live.answer(request)))
                except (OSError, msgspec.DecodeError) as error:
                    _log.debug("a reader of the live history was not answered: %s", error)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)  # noqa: PTH108


def ask(path: Path, request: Request, timeout_s: float) -> Answer:
    """Send REQUEST to the service at the socket PATH. Raises OSError, also if the answer is incomplete."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as link:
        link.settimeout(timeout_s)
        link.connect(str(path))
        link.sendall(msgspec.json.encode(request) + b"\n")
        parts = []
        while part := link.recv(1 << 18):
            parts.append(part)
    try:
        return msgspec.msgpack.decode(b"".join(parts), type=Answer)
    except msgspec.DecodeError as error:
        raise OSError(f"the answer cannot be read: {error}") from error
