# SPDX-License-Identifier: Apache-2.0
"""systemd over D-Bus: reads the state of units, sets their weights, starts and stops them."""

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
# active states in which a unit may have processes and a cgroup
LIVE = frozenset(("active", "activating", "deactivating", "reloading", "refreshing", "maintenance"))
_JOBS = f"type='signal',sender='{NAME}',path='{PATH}',interface='{MANAGER}',member='JobRemoved'"
_OWNER = (
    "type='signal',sender='org.freedesktop.DBus',interface='org.freedesktop.DBus',"
    f"member='NameOwnerChanged',arg0='{NAME}'"
)


@dataclass(frozen=True, slots=True)
class Unit:
    """The state of a unit, as ListUnitsByNames returns it."""

    load_state: str = ""
    active_state: str = "unknown"
    sub_state: str = ""

    @property
    def live(self) -> bool:
        """Whether the unit may have processes and a cgroup."""
        return self.active_state in LIVE

    @property
    def has_processes(self) -> bool:
        """Whether the unit runs. A unit that waits for an automatic restart is live, but has no processes and no cgroup."""
        return self.live and not self.sub_state.startswith("auto-restart")

    @property
    def exists(self) -> bool:
        return self.load_state != "not-found"


UNKNOWN = Unit()


def object_path(unit: str) -> str:
    """The D-Bus object path of UNIT, computed with systemd's escaping rules. This saves a call to systemd per unit."""
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
    """A client of systemd. It calls CHANGED when a watched unit may have changed, and when systemd leaves or joins the bus."""

    def __init__(self, bus: Bus, timeout_s: float, changed: Callable[[], None]) -> None:
        self._bus = bus
        self._timeout_s = timeout_s
        self._changed = changed
        self._watched: set[str] = set()
        self._owner = ""  # unique bus name of the systemd that sends signals to the agent
        self._waiting = 0  # calls of run_job() that wait for a result
        self._results: dict[str, str] = {}  # by job
        self._result_arrived = asyncio.Event()
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
        """From now on, call CHANGED when systemd leaves or joins the bus."""
        await self._bus.subscribe(_OWNER)

    async def subscribe(self) -> None:
        """Ask systemd to send signals about units, once per systemd process. Raises CallError."""
        if self._owner:
            return
        owner = str((await self._bus.ask_bus("GetNameOwner", "s", [NAME]))[0])
        await self._manager("Subscribe")
        self._owner = owner

    async def watch_units(self, units: Iterable[str]) -> None:
        """From now on, call CHANGED for changes of UNITS and of no other unit."""
        wanted = set(units)
        for unit in self._watched ^ wanted:
            await self._bus.subscribe(_unit_rule(unit), unit in wanted)
        self._watched = wanted

    def _signal(self, message: Message) -> bool:
        if message.message_type is not MessageType.SIGNAL:
            return False
        if message.member == "NameOwnerChanged" and message.sender == "org.freedesktop.DBus":
            if message.body[0] == NAME:
                # a new systemd process does not have the agent's subscription
                self._owner = ""
                self._changed()
        elif message.sender != self._owner:
            # Any process may send such a signal. Only signals from systemd count.
            pass
        elif message.member == "PropertiesChanged":
            self._changed()
        elif message.member == "JobRemoved" and message.signature == "uoss" and self._waiting:
            self._results[message.body[1]] = message.body[3]
            self._result_arrived.set()
        return False

    async def list_units(self, units: Iterable[str]) -> dict[str, Unit]:
        """The state of each of UNITS, loaded or not, in one call. Raises CallError."""
        rows = (await self._manager("ListUnitsByNames", "as", [list(units)]))[0]
        if not isinstance(rows, list):
            raise CallError(NAME, "systemd answered ListUnitsByNames with an unknown type")
        return {row[0]: Unit(row[2], row[3], row[4]) for row in rows}

    async def control_group(self, unit: str) -> str:
        """The cgroup of UNIT as a path below the cgroup root; "" if it has none. Raises CallError."""
        kind = unit.rpartition(".")[2].capitalize()
        return str(await self._get(unit, f"{NAME}.{kind}", "ControlGroup"))

    async def slice_of(self, unit: str) -> str:
        """The slice of UNIT, also if it is stopped; "" for the root slice. Raises CallError."""
        kind = unit.rpartition(".")[2].capitalize()
        return str(await self._get(unit, f"{NAME}.{kind}", "Slice"))

    async def active_since(self, unit: str) -> float:
        """When UNIT became active, in seconds of the monotonic clock; 0 if it never did. Raises CallError."""
        found = await self._get(unit, NAME + ".Unit", "ActiveEnterTimestampMonotonic")
        return found / 1e6 if isinstance(found, int) else 0.0

    async def devices(self, unit: str) -> list[str]:
        """The devices in UNIT's DeviceAllow=. Raises CallError, also if this type of unit has no DeviceAllow=."""
        kind = unit.rpartition(".")[2].capitalize()
        allowed = await self._get(unit, f"{NAME}.{kind}", "DeviceAllow")
        if not isinstance(allowed, list):
            raise CallError(NAME, "systemd answered DeviceAllow with an unknown type")
        return [entry[0] for entry in allowed]

    async def set_io_weight(self, unit: str, weight: int) -> None:
        """Set IOWeight= of UNIT until the next boot, also if it is stopped. Raises CallError.

        For a stopped unit, systemd creates the cgroup at once, and a list of allowed devices from those that exist at
        this moment. The start of the unit uses this cgroup and this list without an update.
        """
        properties = [["IOWeight", Variant("t", weight)]]
        await self._manager("SetUnitProperties", "sba(sv)", [unit, True, properties])

    async def condition_failed(self, unit: str) -> bool:
        """Whether systemd skipped the last start of UNIT because of a Condition...=. Raises CallError."""
        if await self._get(unit, NAME + ".Unit", "ConditionTimestampMonotonic") == 0:
            # systemd has unloaded the stopped unit, so it no longer has the result of the condition
            return False
        return await self._get(unit, NAME + ".Unit", "ConditionResult") is False

    async def run_job(self, member: str, unit: str, timeout_s: float) -> str:
        """Call MEMBER, StartUnit or StopUnit, for UNIT, and wait for the job at most TIMEOUT_S.

        Returns the job's result ("done", "failed", "timeout", ...), or "" if it still runs. Raises CallError.
        """
        self._waiting += 1
        try:
            if self._waiting == 1:
                # Receive JobRemoved only while a caller waits: systemd sends it for hundreds of jobs during boot.
                await self._bus.subscribe(_JOBS)
            deadline = asyncio.get_running_loop().time() + timeout_s
            job = str((await self._manager(member, "ss", [unit, "replace"]))[0])
            while job not in self._results:
                self._result_arrived.clear()
                left = deadline - asyncio.get_running_loop().time()
                try:
                    await asyncio.wait_for(self._result_arrived.wait(), max(left, 0))
                except TimeoutError:
                    return ""
            return self._results[job]
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._results.clear()
                await self._bus.subscribe(_JOBS, on=False)
