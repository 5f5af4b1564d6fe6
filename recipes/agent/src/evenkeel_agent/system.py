# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH113, PTH118
"""Serves the feature `system`: the name of the board and its clock.

ek-system has systemd-hostnamed and systemd-timedated save name and time zone in /etc, which outlives an update. It also gives
time servers to systemd-timesyncd, which forgets them when it ends. The agent itself may call none of these methods.

Guarantee: the saved time servers are in use whenever systemd-timesyncd runs. The agent saves them, and gives them to the
service when one of the two starts. If this fails, the agent tries again each RETRY_S, and the board has a problem.
"""

import asyncio
import json
import logging
import os
import re
import time
from collections.abc import Callable
from typing import Any

from dbus_fast import Message as BusMessage
from dbus_fast import MessageType
from dbus_fast.unpack import unpack_variants
from evenkeel_api import errors
from evenkeel_api.features.system import (
    MAX_SERVERS,
    SERVER,
    ZONE,
    Clock,
    SetHostName,
    SetTimeServers,
    SetTimeZone,
    System,
)
from evenkeel_api.messages import Message
from evenkeel_api.method import Nothing
from evenkeel_common.files import host_name, read_small, replace, why

from . import system_orders
from .bus import Bus, CallError
from .caller import Caller
from .settings import Settings
from .system_orders import Order, SaveName, SaveZone, UseServers

TIMEDATE = "org.freedesktop.timedate1"
TIMESYNC = "org.freedesktop.timesync1"
TIMESYNC_MANAGER = TIMESYNC + ".Manager"
PROPERTIES = "org.freedesktop.DBus.Properties"
ZONES = "/usr/share/zoneinfo"
FILE_LIMIT = 64 * 1024
RETRY_S = 60.0
# Time that a page waits for systemd-timedated, which systemd starts: less than the panel waits.
PATIENCE_S = 5.0
_OWNER = (
    "type='signal',sender='org.freedesktop.DBus',interface='org.freedesktop.DBus',"
    f"member='NameOwnerChanged',arg0='{TIMESYNC}'"
)
_log = logging.getLogger(__name__)


class SystemSettings:
    """The handlers of the feature `system`, except for the journal. Each new name is passed to RENAMED."""

    def __init__(self, settings: Settings, bus: Bus, renamed: Callable[[str], None]) -> None:
        """Read the saved time servers. Blocks."""
        self._settings = settings
        self._bus = bus
        self._renamed = renamed
        self._path = os.path.join(settings.state_dir, "time.json")
        self._changing = asyncio.Lock()
        self._wake = asyncio.Event()
        self._servers: list[str] = []
        self._load_problem: Message | None = None
        self._apply_problem: Message | None = None
        try:
            self._servers = _parse(read_small(self._path, FILE_LIMIT))
        except FileNotFoundError:
            pass
        except (OSError, ValueError, RecursionError) as error:
            reason = why(error) if isinstance(error, OSError) else str(error)
            self._load_problem = Message("time-servers-unreadable", path=self._path, reason=reason)

    @property
    def problems(self) -> list[Message]:
        return [problem for problem in (self._load_problem, self._apply_problem) if problem]

    async def watch(self) -> None:
        """Keep the saved time servers in use for as long as the agent runs."""
        self._bus.handle(self._signal)
        await self._bus.subscribe(_OWNER)
        while True:
            self._wake.clear()
            async with self._changing:
                if self._servers or self._apply_problem:
                    await self._apply()
            try:
                await asyncio.wait_for(self._wake.wait(), RETRY_S if self._apply_problem else None)
            except TimeoutError:
                continue

    def _signal(self, message: BusMessage) -> bool:
        if (
            message.message_type is MessageType.SIGNAL
            and message.member == "NameOwnerChanged"
            and message.sender == "org.freedesktop.DBus"
            and message.body[0] == TIMESYNC
        ):
            self._wake.set()
        return False

    # the methods

    async def get_system(self, _: Nothing, __: Caller) -> System:
        found: dict[str, Any] = {}
        problems = self.problems
        try:
            found = await self._properties(TIMEDATE, "/org/freedesktop/timedate1", TIMEDATE)
        except CallError as error:
            problems.append(Message("time-service-silent", reason=error.text))
        server, runs = await self._server()
        at = int(time.time())
        time.tzset()  # the zone may have changed
        return System(
            name=await asyncio.to_thread(self._name),
            at=at,
            zone=str(found.get("Timezone", "")),
            offset_s=time.localtime(at).tm_gmtoff,
            clock=clock(found, runs),
            server=server,
            servers=list(self._servers),
            problem=[message.note() for message in problems],
        )

    async def list_time_zones(self, _: Nothing, __: Caller) -> list[str]:
        return await asyncio.to_thread(zones, self._settings.path(ZONES))

    async def set_host_name(self, request: SetHostName, caller: Caller) -> System:
        if request.hostname.lower() == "localhost":
            raise errors.InvalidArgument("name-localhost")
        await self._order("name-not-set", SaveName(request.hostname))
        self._renamed(request.hostname)
        return await self.get_system(Nothing(), caller)

    async def set_time_zone(self, request: SetTimeZone, caller: Caller) -> System:
        if request.zone not in await asyncio.to_thread(zones, self._settings.path(ZONES)):
            raise errors.InvalidArgument("unknown-time-zone", zone=request.zone)
        await self._order("time-zone-not-set", SaveZone(request.zone))
        return await self.get_system(Nothing(), caller)

    async def set_time_servers(self, request: SetTimeServers, caller: Caller) -> System:
        """Save the servers, then apply them. On an AgentError nothing has changed."""
        async with self._changing:
            content = json.dumps({"servers": request.servers}).encode()
            try:
                await asyncio.to_thread(replace, self._path, content + b"\n")
            except OSError as error:
                raise errors.Failed("time-servers-not-saved", path=self._path, reason=why(error)) from error
            self._servers, self._load_problem = list(request.servers), None
            await self._apply()
            if self._apply_problem:
                self._wake.set()  # watch() tries again
        return await self.get_system(Nothing(), caller)

    # internal

    def _name(self) -> str:
        return host_name(self._settings.path("/etc/hostname"))

    async def _properties(self, name: str, path: str, interface: str) -> dict[str, Any]:
        limit_s = min(PATIENCE_S, self._settings.call_timeout_s)
        answer = await self._bus.call(name, path, PROPERTIES, "GetAll", "s", [interface], timeout_s=limit_s)
        found: dict[str, Any] = unpack_variants(answer)[0]
        return found

    async def _order(self, code: str, order: Order) -> None:
        try:
            await system_orders.carry_out(order, self._settings)
        except errors.AgentError as error:
            raise errors.Failed(code, reason=error.message) from error

    async def _runs(self) -> bool:
        """Whether systemd-timesyncd runs. A call to its name would start it."""
        try:
            return bool((await self._bus.ask_bus("NameHasOwner", "s", [TIMESYNC]))[0])
        except CallError:
            return False

    async def _server(self) -> tuple[str, bool]:
        """The time server in use, and whether systemd-timesyncd runs."""
        if not await self._runs():
            return "", False
        try:
            found = await self._properties(TIMESYNC, "/org/freedesktop/timesync1", TIMESYNC_MANAGER)
        except CallError:
            return "", True
        return str(found.get("ServerName", "")), True

    async def _apply(self) -> None:
        """Give the servers to systemd-timesyncd if it runs. The caller holds _changing."""
        problem = None
        try:
            if await self._runs():
                await system_orders.carry_out(UseServers(self._servers), self._settings)
        except errors.AgentError as error:
            problem = Message("time-servers-not-in-use", reason=error.message)
            _log.warning("%s", problem)
        finally:
            self._apply_problem = problem


def _parse(content: bytes) -> list[str]:
    found = json.loads(content.decode("utf-8"))
    servers = found.get("servers") if isinstance(found, dict) else None
    if not isinstance(servers, list) or len(servers) > MAX_SERVERS:
        raise ValueError("it has no list of servers")
    if not all(isinstance(server, str) and re.fullmatch(SERVER, server) for server in servers):
        raise ValueError("a server is not a host name or address")
    return servers


def clock(found: dict[str, Any], runs: bool) -> Clock:
    """The state of the clock. FOUND: properties of systemd-timedated. RUNS: whether systemd-timesyncd runs."""
    if not found:
        return "unknown"
    if found.get("NTPSynchronized") is True:
        return "synchronised"
    if found.get("CanNTP") is not True:
        return "missing"
    return "waiting" if runs or found.get("NTP") is True else "off"


def zones(folder: str) -> list[str]:
    """The time zones in FOLDER, sorted; [] without data of time zones. zone.tab has one of them a line, in column 3."""
    try:
        lines = read_small(os.path.join(folder, "zone.tab"), 1 << 20).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    names = {line.split("\t")[2] for line in lines if line[:1] != "#" and line.count("\t") >= 2}
    wanted = sorted(name for name in {*names, "UTC"} if re.fullmatch(ZONE, name))
    return [name for name in wanted if os.path.isfile(os.path.join(folder, name))]
