# SPDX-License-Identifier: Apache-2.0
"""systemd over D-Bus: what state units are in, their weights, starting and stopping them."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dbus_fast import Message, MessageType, Variant

from .bus import Bus, CallError

NAME = "org.freedesktop.systemd1"
PATH = "/org/freedesktop/systemd1"
MANAGER = NAME + ".Manager"
PROPERTIES = "org.freedesktop.DBus.Properties"
NO_SUCH_UNIT = NAME + ".NoSuchUnit"
LIVE = frozenset(("active", "activating", "deactivating", "reloading", "refreshing", "maintenance"))
_JOBS = f"type='signal',sender='{NAME}',path='{PATH}',interface='{MANAGER}',member='JobRemoved'"
_OWNER = (
    "type='signal',sender='org.freedesktop.DBus',interface='org.freedesktop.DBus',"
    f"member='NameOwnerChanged',arg0='{NAME}'"
)


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit as systemd lists it."""

    load_state: str = ""
    active_state: str = "unknown"
    sub_state: str = ""

    @property
    def live(self) -> bool:
        """Whether it may have processes, and so a cgroup."""
        return self.active_state in LIVE

    @property
    def has_processes(self) -> bool:
        """Whether it runs: between two restarts a unit is live, and its cgroup has gone."""
        return self.live and not self.sub_state.startswith("auto-restart")

    @property
    def exists(self) -> bool:
        return self.load_state != "not-found"


UNKNOWN = Unit()


def object_path(unit: str) -> str:
    """The unit's D-Bus path: systemd's own escaping, so that one need not ask for it."""
    safe = "".join(
        chr(c) if (65 <= c <= 90 or 97 <= c <= 122 or (48 <= c <= 57 and i)) else f"_{c:02x}"
        for i, c in enumerate(unit.encode())
    )
    return f"{PATH}/unit/{safe}"


def _unit_rule(unit: str) -> str:
    return (
        f"type='signal',sender='{NAME}',path='{object_path(unit)}',interface='{PROPERTIES}',"
        "member='PropertiesChanged'"
    )


class Systemd:
    """Calls changed() whenever a watched unit, or systemd itself, may have changed."""

    def __init__(self, bus: Bus, timeout_s: float, changed: Callable[[], None]) -> None:
        self._bus = bus
        self._timeout_s = timeout_s
        self._changed = changed
        self._watched: set[str] = set()
        self._owner = ""  # unique name of the systemd that we have subscribed to
        self._waiting = 0
        self._results: dict[str, str] = {}
        self._result_came = asyncio.Event()
        bus.handle(self._signal)

    async def _manager(self, member: str, signature: str = "", body: Iterable[object] = ()) -> list[object]:
        return await self._bus.call(
            NAME, PATH, MANAGER, member, signature, list(body), timeout_s=self._timeout_s
        )

    async def _get(self, unit: str, interface: str, name: str) -> object:
        answer = await self._bus.call(
            NAME, object_path(unit), PROPERTIES, "Get", "ss", [interface, name], timeout_s=self._timeout_s
        )
        value = answer[0]
        return value.value if isinstance(value, Variant) else value

    async def watch_owner(self) -> None:
        """Have systemd's coming and going reported."""
        await self._bus.match(_OWNER)

    async def subscribe(self) -> None:
        """Ask systemd, once in its life, to send signals about units. Raises CallError."""
        if self._owner:
            return
        owner = str((await self._bus.ask_bus("GetNameOwner", "s", [NAME]))[0])
        await self._manager("Subscribe")
        self._owner = owner

    async def watch_units(self, units: Iterable[str]) -> None:
        """Have changes of exactly these UNITS reported."""
        wanted = set(units)
        for unit in self._watched ^ wanted:
            await self._bus.match(_unit_rule(unit), unit in wanted)
        self._watched = wanted

    def _signal(self, message: Message) -> bool:
        if message.message_type is not MessageType.SIGNAL:
            return False
        if message.member == "NameOwnerChanged" and message.sender == "org.freedesktop.DBus":
            if message.body[0] == NAME:
                # a new one knows nothing of our subscription
                self._owner = ""
                self._changed()
        elif message.sender != self._owner:
            # anybody may send us a signal; only systemd's count
            pass
        elif message.member == "PropertiesChanged":
            self._changed()
        elif message.member == "JobRemoved" and message.signature == "uoss" and self._waiting:
            self._results[message.body[1]] = message.body[3]
            self._result_came.set()
        return False

    async def list_units(self, units: Iterable[str]) -> dict[str, Unit]:
        """The state of each of UNITS, loaded or not, in one call. Raises CallError."""
        rows = (await self._manager("ListUnitsByNames", "as", [list(units)]))[0]
        if not isinstance(rows, list):
            raise CallError(NAME, "systemd answered ListUnitsByNames in an unknown way")
        return {row[0]: Unit(row[2], row[3], row[4]) for row in rows}

    async def control_group(self, unit: str) -> str:
        """The cgroup of UNIT below the cgroup root, "" if it has none. Raises CallError."""
        kind = unit.rpartition(".")[2].capitalize()
        return str(await self._get(unit, f"{NAME}.{kind}", "ControlGroup"))

    async def devices(self, unit: str) -> list[str]:
        """What UNIT's DeviceAllow= names. Raises CallError, also where that kind of unit has none."""
        kind = unit.rpartition(".")[2].capitalize()
        allowed = await self._get(unit, f"{NAME}.{kind}", "DeviceAllow")
        if not isinstance(allowed, list):
            raise CallError(NAME, "systemd answered DeviceAllow in an unknown way")
        return [entry[0] for entry in allowed]

    async def set_io_weight(self, unit: str, weight: int) -> None:
        """Set IOWeight= until the next boot, for a stopped unit too. Raises CallError.

        It makes a stopped unit's cgroup, with the list of the devices that may be opened there as they are
        just now, and the unit's start takes both as they stand.
        """
        properties = [["IOWeight", Variant("t", weight)]]
        await self._manager("SetUnitProperties", "sba(sv)", [unit, True, properties])

    async def condition_failed(self, unit: str) -> bool:
        """Whether the last start of UNIT was passed over because of a Condition...=. Raises CallError."""
        if await self._get(unit, NAME + ".Unit", "ConditionTimestampMonotonic") == 0:
            # systemd has unloaded the stopped unit, and with it the answer
            return False
        return await self._get(unit, NAME + ".Unit", "ConditionResult") is False

    async def run_job(self, member: str, unit: str, timeout_s: float) -> str:
        """StartUnit or StopUnit, and wait for the job: "done", "failed", "timeout", ...; "" if it still runs
        after TIMEOUT_S. Raises CallError."""
        self._waiting += 1
        try:
            if self._waiting == 1:
                # not for good: while a board boots there are hundreds of jobs
                await self._bus.match(_JOBS)
            deadline = asyncio.get_running_loop().time() + timeout_s
            job = str((await self._manager(member, "ss", [unit, "replace"]))[0])
            while job not in self._results:
                self._result_came.clear()
                left = deadline - asyncio.get_running_loop().time()
                try:
                    await asyncio.wait_for(self._result_came.wait(), max(left, 0))
                except TimeoutError:
                    return ""
            return self._results[job]
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._results.clear()
                await self._bus.match(_JOBS, wanted=False)
