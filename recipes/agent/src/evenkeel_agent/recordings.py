# SPDX-License-Identifier: Apache-2.0
"""Serves the feature `recorder`: the state of the recorder, and the download of recordings.

The agent may not read recordings. ek-recordings reads them: systemd starts one process of it for each connection, as a
user that can read recordings and change nothing. For a download, the agent sends the request, and passes the connection
to the panel. The file then goes from ek-recordings to the panel, so a restart of the agent does not disturb it.

A list of the recordings costs reads of flash: of each channel, the heads of all segments and the newest segment. So the
agent makes a list only while somebody asks for the state, and spends at most LISTING_PART of the time on it.
"""

import asyncio
import json
import os
import socket
import time
from calendar import timegm
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, get_args

from evenkeel_api import errors
from evenkeel_api.features.recorder import (
    Channel,
    ChannelState,
    Download,
    Incident,
    Loss,
    Reason,
    Recorder,
    State,
)
from evenkeel_api.messages import Message
from evenkeel_api.method import Nothing
from evenkeel_common.files import why
from evenkeel_common.packets import PACKET_BYTES, End, Truncated, parse

from . import recorder
from .caller import Caller
from .settings import Settings
from .systemd import UNKNOWN, Unit

DIRECTORY = "/recorder"
SOCKET_UNIT = "evenkeel-recordings.socket"
HELPER_UNITS = "evenkeel-recordings@*"  # a pattern for journalctl: each connection has a unit
REASONS: tuple[Reason, ...] = get_args(Reason)
# A list is made again after this time, or later if making it took long.
LISTING_S = 60.0
LISTING_PART = 0.05
# the longest time that a list may take, on a board with a slow, busy flash
LISTING_TIMEOUT_S = 120.0
# time that GetRecorder waits for the first list: less than the panel waits for the answer
PATIENCE_S = 1.0
# Time that OpenRecording waits for the first packet, which may be an error: less than the panel waits. A range of a large
# recording may take longer to find. Then the panel waits for the packet.
FIRST_PACKET_S = 5.0


class Recordings:
    """The handlers of the feature `recorder`. UNITS and STARTED_AT ask systemd; see Agent."""

    def __init__(
        self,
        settings: Settings,
        units: Callable[[], Awaitable[Mapping[str, Unit]]],
        started_at: Callable[[str], Awaitable[float]],
    ) -> None:
        self._settings = settings
        self._units = units
        self._started_at = started_at
        self._started = (0, 0.0)  # process id of the recorder, and when it started
        self._listing: dict[str, Any] = {}
        self._listed_at = 0.0
        self._listing_problem: Message | None = None
        self._listing_expires_s = 0.0  # monotonic time
        self._listing_task: asyncio.Task[None] | None = None

    # the methods

    async def get_recorder(self, _: Nothing, __: Caller) -> Recorder:
        units = await self._units()
        state = state_of(units)
        if state not in ("not-installed", "unknown"):
            await self._list()
        statistics, problems, partition = await asyncio.to_thread(self._read, units)
        if state == "running" and any(problem.code == "recorder-silent" for problem in problems):
            state = "silent"
        problem = self._listing_problem
        return Recorder(
            state=state,
            started_at=await self._start_of(statistics) if state in ("running", "silent") else 0.0,
            configuration=_text(statistics.get("configuration")),
            problems=[message.note() for message in problems],
            channels=channels(statistics, self._listing),
            incidents=incidents(self._listing),
            partition_bytes=partition[0],
            free_bytes=partition[1],
            listed_at=self._listed_at,
            listing_problem=[problem.note()] if problem else [],
        )

    async def open_recording(self, request: Download, _: Caller) -> int:
        """Returns the descriptor of a connection, from which the caller reads the packets of the file."""
        if request.format != "mcap" and len(request.channels) > 1:
            raise errors.InvalidArgument("one-channel-csv")
        if request.start and request.end and request.start > request.end:
            raise errors.InvalidArgument("bad-range", start=request.start, end=request.end)
        order = {name: getattr(request, name) for name in request.__struct_fields__}
        connection = await self._connect(order)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(FIRST_PACKET_S):
                    await _readable(connection)
            with suppress(BlockingIOError):
                first = parse(connection.recv(PACKET_BYTES, socket.MSG_PEEK))
                if isinstance(first, End) and first.status == 2:
                    raise errors.Failed("not-downloaded", reason=first.text)
            # Nobody can send a second request on this connection.
            connection.shutdown(socket.SHUT_WR)
        except (Truncated, OSError) as error:
            # systemd closes a connection beyond MaxConnections= at once. A helper that fails looks the same.
            connection.close()
            ended = Message("recordings-ended", unit=HELPER_UNITS)
            raise errors.Conflict("not-downloaded", reason=ended) from error
        except BaseException:
            connection.close()
            raise
        return connection.detach()

    # internal

    async def _connect(self, order: object) -> socket.socket:
        path = self._settings.recordings_socket
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        loop = asyncio.get_running_loop()
        try:
            connection.setblocking(False)
            async with asyncio.timeout(self._settings.call_timeout_s):
                await loop.sock_connect(connection, path)
                await loop.sock_sendall(connection, json.dumps(order).encode())
        except (OSError, TimeoutError) as error:
            connection.close()
            reason = (
                why(error) if isinstance(error, OSError) and error.strerror else "it did not answer in time"
            )
            if isinstance(error, BrokenPipeError | ConnectionResetError):
                ended = Message("recordings-ended", unit=HELPER_UNITS)
                raise errors.Conflict("not-downloaded", reason=ended) from error
            problem = Message("recordings-unreachable", path=path, reason=reason, unit=SOCKET_UNIT)
            raise errors.Failed("not-downloaded", reason=problem) from error
        return connection

    def _read(self, units: Mapping[str, Unit]) -> tuple[dict[str, object], list[Message], tuple[int, int]]:
        settings = self._settings
        statistics = recorder.read_statistics(settings.path(recorder.STATISTICS))
        partition = (0, 0)
        if units.get(recorder.PARTITION, UNKNOWN).active_state == "active":
            with suppress(OSError):
                disk = os.statvfs(settings.path(DIRECTORY))
                partition = disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
        return statistics, recorder.inspect(settings, units), partition

    async def _start_of(self, statistics: Mapping[str, object]) -> float:
        """When the recorder started. systemd is asked once for each process."""
        pid = _number(statistics.get("pid"))
        if not pid or pid != self._started[0]:
            self._started = pid, await self._started_at(recorder.SERVICE)
        return self._started[1]

    async def _list(self) -> None:
        """Begin to read the recordings if the list is old. Waits a moment for it; an old list is better than a late one."""
        if self._listing_task is None and time.monotonic() >= self._listing_expires_s:
            self._listing_task = asyncio.create_task(self._make_list())
        if self._listing_task is not None:
            await asyncio.wait({self._listing_task}, timeout=PATIENCE_S if not self._listed_at else 0)

    async def _make_list(self) -> None:
        began_s = time.monotonic()
        problem = None
        try:
            async with asyncio.timeout(LISTING_TIMEOUT_S):
                self._listing = await self._receive_list()
            self._listed_at = time.time()
        except TimeoutError:
            problem = Message("recordings-silent", seconds=LISTING_TIMEOUT_S)
        except errors.AgentError as error:
            reason = error.message.parameters["reason"]
            # Downloads have taken all connections. The next list is soon.
            problem = None if isinstance(error, errors.Conflict) else reason
        except (Truncated, ConnectionError):
            problem = Message("recordings-ended", unit=HELPER_UNITS)
        except (OSError, ValueError) as error:
            problem = Message("recordings-unreadable", reason=str(error))
        finally:
            now_s = time.monotonic()
            self._listing_problem = problem
            self._listing_expires_s = now_s + max(LISTING_S, (now_s - began_s) / LISTING_PART)
            self._listing_task = None

    async def _receive_list(self) -> dict[str, Any]:
        loop, content = asyncio.get_running_loop(), bytearray()
        with await self._connect("list") as connection:
            while not isinstance(part := parse(await loop.sock_recv(connection, PACKET_BYTES)), End):
                content += part
        if part.status:
            raise OSError(part.text)
        found = json.loads(content)
        if not isinstance(found, dict):
            raise ValueError("the list is not valid")
        return found


async def _readable(connection: socket.socket) -> None:
    """Wait until CONNECTION has a packet or has ended."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(connection, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connection)


def state_of(units: Mapping[str, Unit]) -> State:
    """The state of the recorder by that of its unit."""
    unit = units.get(recorder.SERVICE)
    if unit is None:
        return "unknown"
    if not unit.exists:
        return "not-installed"
    if unit.sub_state.startswith("auto-restart"):
        return "restarting"
    states: dict[str, State] = {
        "active": "running",
        "reloading": "running",
        "activating": "starting",
        "failed": "failed",
    }
    return states.get(unit.active_state, "stopped")


def channels(statistics: Mapping[str, object], listing: Mapping[str, Any]) -> list[Channel]:
    """The channels in the statistics, then those of which only a recording exists; sorted by name."""
    rows = {str(row.get("name")): row for row in _rows(listing.get("channels"))}
    denied = {str(name) for name in listing.get("denied") or ()}
    found = statistics.get("channels")
    configured = found if isinstance(found, dict) else {}
    names = sorted({*configured, *rows, *(denied & configured.keys())})
    return [_channel(name, configured.get(name), rows.get(name), name not in denied) for name in names]


def _channel(name: str, values: Any, row: Mapping[str, Any] | None, readable: bool) -> Channel:
    """VALUES: its statistics. ROW: what `ek-recorder ls` reports. Either may be missing or lack fields."""
    known = values if isinstance(values, dict) else {}
    listed = row or {}
    states: dict[object, ChannelState] = {"recording": "recording", "preparing": "preparing"}
    state = "not-configured" if values is None else states.get(_text(known.get("state")), "failed")

    def number(key: str) -> int:
        return _number(known.get(key))

    lost = known.get("lost")
    losses = [
        Loss(reason=reason, records=_number(lost.get(reason)))
        for reason in REASONS
        if isinstance(lost, dict) and _number(lost.get(reason))
    ]
    segment = number("segment_bytes")
    age = known.get("synced_ms_ago")
    return Channel(
        name=name,
        state=state,
        reason=_text(known.get("reason")),
        connected=known.get("writer") not in (0, None),
        window_s=number("window_ns") / 1e9,
        record_bytes=number("record_size"),
        records=number("records"),
        payload_bytes=number("bytes"),
        written_bytes=number("medium_bytes"),
        lost=losses,
        late=number("late"),
        errors=number("errors"),
        backlog_bytes=number("backlog"),
        buffer_bytes=number("buffer"),
        used_bytes=number("segments") * segment if segment else _number(listed.get("bytes")),
        wanted_bytes=number("segments_wanted") * segment,
        flushed_s=_number(age) / 1000 if isinstance(age, int) else -1.0,
        write_p99_us=number("write_p99_us"),
        write_max_us=number("write_max_us"),
        record_p99_us=number("record_p99_us"),
        record_max_us=number("record_max_us"),
        readable=readable,
        oldest_at=_moment(listed.get("first")),
        newest_at=_moment(listed.get("last")),
    )


def incidents(listing: Mapping[str, Any]) -> list[Incident]:
    """The kept incidents, sorted by channel and name."""
    found = [
        Incident(
            name=_text(row.get("name")),
            channel=_text(row.get("channel")),
            used_bytes=_number(row.get("bytes")),
            oldest_at=_moment(row.get("first")),
            newest_at=_moment(row.get("last")),
        )
        for row in _rows(listing.get("incidents"))
    ]
    return sorted(found, key=lambda incident: (incident.channel, incident.name))


def _rows(value: object) -> list[dict[str, Any]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _number(value: object) -> int:
    """A counter; 0 if it is missing or not valid."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else 0


def _text(value: object) -> str:
    return value[:1000] if isinstance(value, str) else ""


def _moment(value: object) -> float:
    """An RFC 3339 time of ek-recorder, such as 2026-11-25T10:00:00.000000000Z, in seconds since 1970; 0 if not valid."""
    try:
        base, _, fraction = str(value).removesuffix("Z").partition(".")
        seconds = time.strptime(base, "%Y-%m-%dT%H:%M:%S")
        return timegm(seconds) + float(f"0.{fraction or 0}")
    except ValueError:
        return 0.0
