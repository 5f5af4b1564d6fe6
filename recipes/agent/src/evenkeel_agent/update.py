# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH113, PTH202
"""Updates by RAUC, which checks and installs bundles and chooses slots. The agent only forwards orders to it.

RAUC refuses a bundle without a valid signature, for another kind of board, or older than this version
(`/usr/lib/rauc/system.conf`). Its D-Bus API: https://rauc.readthedocs.io/en/v1.13/reference.html#d-bus-api

Restart, PowerOff and FactoryReset are here, because the agent refuses them during an installation.
"""

import asyncio
import os
import os.path
import re
from dataclasses import dataclass, field
from typing import Any

from dbus_fast import Message as BusMessage
from dbus_fast import MessageType, Variant
from dbus_fast.unpack import unpack_variants
from evenkeel_api import errors
from evenkeel_api.features.update import Bundle, Choose, Inspect, Install, Reset, Slot, State, Update
from evenkeel_api.messages import Message
from evenkeel_api.method import Nothing
from evenkeel_common.files import read_line

from . import __version__, system_orders
from .accounts import Accounts
from .bus import Bus, CallError, Reports
from .caller import Caller
from .settings import Settings
from .system_orders import EndSystem, Order, OrderReset

RAUC = "de.pengutronix.rauc"
INSTALLER = "de.pengutronix.rauc.Installer"
PROPERTIES = "org.freedesktop.DBus.Properties"
# RAUC changes what a slot contains in an operation only, and reports the begin and the end of each. A RAUC that has ended may
# have left an operation unfinished.
_OPERATIONS = f"type='signal',sender='{RAUC}',path='/',interface='{PROPERTIES}',member='PropertiesChanged'"
_OWNER = (
    "type='signal',sender='org.freedesktop.DBus',interface='org.freedesktop.DBus',"
    f"member='NameOwnerChanged',arg0='{RAUC}'"
)
# orders a factory reset for the next boot for ek-system: writes the variable RESET of grubenv
RESET_UNIT = "evenkeel-factory-reset@{}.service"
# The panel stores an uploaded bundle here. Its other files are of no concern to RAUC, which makes root the owner of
# a file before it checks the signature.
UPLOADED = "/var/lib/evenkeel-panel/update/bundle.raucb"
# the certificates that may sign bundles (recipes/update); empty or missing if the image was built without any
KEYRING = "/usr/lib/rauc/keyring.pem"
# grubenv, which GRUB, RAUC and slot-good write. Its partition is mounted on access.
GRUBENV = "/bootstate/grubenv"
GRUBENV_BYTES = 1024  # GRUB reads and writes exactly so many
HEALTH_BYTES = 16384
# what slot-good keeps of the health checks: of this start; and of the last start that ended the trial of a slot
HEALTH = "/run/evenkeel/health"
TRIAL = "/var/lib/evenkeel-health/"
# what preinit keeps of a factory reset at this start; empty if it succeeded
RESET_ERRORS = "/run/evenkeel/factory-reset"
TRIES = "3"  # starts without confirmation after which grub.cfg takes the other slot
# Time that InspectBundle waits for RAUC: less than the panel waits (agent.py). A server may be slow or silent, and RAUC does
# nothing else until it has its answer. So the agent remembers that RAUC is still waiting, for at most RAUC_WAITS_S.
INSPECT_S = 45.0
RAUC_WAITS_S = 3600.0
# a word of the kernel's command line: grub.cfg passes on the order of a factory reset. Boards that were flashed with an
# older version have an older grub.cfg, which an update does not replace.
RESET_WORD = "evenkeel.reset="
# time in which a factory reset must be ordered, and the time between two looks
RESET_S = 15.0
RESET_POLL_S = 0.2
# time between two questions whether the running slot is confirmed
CONFIRM_S = 20.0


def is_older(version: str, than: str) -> bool:
    """Whether VERSION is older than THAN: compares major, minor and patch; missing parts are 0."""
    return _core(version) < _core(than)


def _core(version: str) -> tuple[int, ...]:
    found = re.match(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?", version)
    return tuple(int(part or 0) for part in found.groups()) if found else (0, 0, 0)


@dataclass(frozen=True, slots=True)
class BootState:
    """What grub.cfg will do: the contents of grubenv, with the defaults of grub.cfg."""

    order: tuple[str, ...] = ("A", "B")
    ok: dict[str, str] = field(default_factory=dict)
    tries: dict[str, str] = field(default_factory=dict)
    reset: str = ""  # keep or all: a factory reset is ordered

    @classmethod
    def parse(cls, text: str) -> "BootState":
        values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and line[:1] != "#")
        return cls(
            tuple(values.get("ORDER", "A B").split()),
            {slot: values.get(f"{slot}_OK", "1") for slot in "AB"},
            {slot: values.get(f"{slot}_TRY", "0") for slot in "AB"},
            values.get("RESET", ""),
        )

    def bootable(self, slot: str) -> bool:
        return self.ok.get(slot, "1") == "1" and self.tries.get(slot, "0") != TRIES

    @property
    def next(self) -> str:
        """The slot that grub.cfg chooses at the next boot; "" if it gives both slots new tries."""
        return next((slot for slot in self.order if self.bootable(slot)), "")

    def confirmed(self, slot: str) -> bool:
        return self.ok.get(slot, "1") == "1" and self.tries.get(slot, "0") == "0"

    def given_up(self, slot: str) -> bool:
        """Whether the slot was complete, but none of its starts was confirmed."""
        return self.ok.get(slot, "1") == "1" and self.tries.get(slot, "0") == TRIES


class Updates:
    """Serves the methods of evenkeel_api.features.update. `problems` has what GetStatus reports about updates."""

    def __init__(self, settings: Settings, bus: Bus, accounts: Accounts) -> None:
        self._settings = settings
        self._bus = bus
        self._timeout_s = settings.call_timeout_s
        self._first_s = settings.first_update_check_s
        self._cmdline = settings.path("/proc/cmdline")
        self._accounts = accounts
        self._keyring = settings.path(KEYRING)
        self._grubenv = settings.path(GRUBENV)
        self._health = settings.path(HEALTH)
        self._trial = settings.path(TRIAL)
        self._reset = settings.path(RESET_ERRORS)
        self._statuses: list[Any] = []  # of all slots, as RAUC last reported them
        self._changes = 0  # number of reports after which the slots may contain something else
        self._asked_at = -1  # this number when RAUC was last asked about the slots
        self._reports = Reports(bus, _OPERATIONS, _OWNER)
        bus.handle(self._signal)
        self._inspection: asyncio.Task[list[Any]] | None = None
        self.problems: list[Message] = []

    async def watch(self) -> None:
        """After the agent has started, look at the slots until the running one is confirmed. Then problems are known."""
        await asyncio.sleep(self._first_s)
        while (await self._read()).state in ("unconfirmed", "unavailable"):
            await asyncio.sleep(CONFIRM_S)
        await asyncio.Event().wait()  # the agent ends when one of its tasks ends

    # the methods

    async def get_update(self, _: Nothing, __: Caller) -> Update:
        return await self._read()

    async def inspect_bundle(self, request: Inspect, caller: Caller) -> Bundle:
        code = "bundle-refused"
        self._check(code, request.source, caller)
        work = self._rauc(INSTALLER, "InspectBundle", "sa{sv}", [request.source, {}], RAUC_WAITS_S)
        self._inspection = asyncio.create_task(work)
        await asyncio.wait({self._inspection}, timeout=INSPECT_S)
        if not self._inspection.done():
            raise errors.Failed(code, reason=Message("server-slow", seconds=INSPECT_S))
        try:
            found = self._inspection.result()[0]
        except CallError as error:
            raise _refusal(code, error) from error
        update = found.get("update", {})
        version = str(update.get("version", ""))
        return Bundle(
            version=version,
            compatible=str(update.get("compatible", "")),
            description=str(update.get("description", "")),
            older=is_older(version, __version__),
        )

    async def install_bundle(self, request: Install, caller: Caller) -> None:
        code = "not-installed"
        self._check(code, request.source, caller)
        before = await self._read()
        _refuse_while(before, code)
        if before.state == "unconfirmed":
            # RAUC would overwrite the only slot that is known to work.
            raise errors.Conflict(code, reason=Message("not-confirmed"))
        args = {"ignore-version-limit": Variant("b", request.allow_older)}
        await self._order(code, "InstallBundle", "sa{sv}", [request.source, args])

    async def choose_slot(self, request: Choose, _: Caller) -> Update:
        code = "slot-not-chosen"
        self._refuse_during_inspection(code)
        before = await self._read()
        _refuse_while(before, code)
        slot = next((slot for slot in before.slots if slot.name == request.slot), None)
        if slot is None:
            reason = before.problem[0].text if before.problem else Message("no-slot", slot=request.slot)
            raise errors.Failed(code, reason=reason)
        if not slot.good:
            # RAUC marks the slot that it activates as confirmed.
            reason = Message("not-confirmed" if slot.running else "slot-bad", slot=request.slot)
            raise errors.Conflict(code, reason=reason)
        which = "booted" if slot.running else "other"
        await self._order(code, "Mark", "ss", ["active", which])
        return await self._read()

    async def restart(self, _: Nothing, __: Caller) -> None:
        await self._end("not-restarted", "restart")

    async def power_off(self, _: Nothing, __: Caller) -> None:
        await self._end("not-switched-off", "power-off")

    async def factory_reset(self, request: Reset, caller: Caller) -> None:
        """Order the reset, then restart the board. If the board does not restart, the order is taken back."""
        code = "not-reset"
        if caller.via != "bus":
            await self._accounts.check_password(caller, request.password)
        update = await self._read()
        _refuse_while(update, code)
        if RESET_WORD not in read_line(self._cmdline):
            raise errors.Conflict(code, reason=Message("reset-unknown"))
        if any(slot.next and not slot.running for slot in update.slots):
            # Another version may not know the order, and would leave it to a later one.
            raise errors.Conflict(code, reason=Message("reset-other-slot"))
        what: system_orders.Reset = "keep" if request.keep_recordings else "all"
        try:
            await self._order_reset(code, what)
            await self._end(code, "restart")
        except errors.AgentError:
            await self._withdraw_reset()
            raise

    # internal

    async def _withdraw_reset(self) -> None:
        """Take the order back. Raises AgentError if it may remain."""
        code = "reset-remains"
        try:
            await self._order_reset(code, "none")
        except errors.AgentError as error:
            raise errors.Failed(code, reason=error.message) from error

    async def _order_reset(self, code: str, what: system_orders.Reset) -> None:
        """Order WHAT, or take the order back (none), and wait until this is in grubenv. Raises AgentError."""
        wanted = "" if what == "none" else what
        await self._carry_out(code, OrderReset(what))
        try:
            for _ in range(int(RESET_S / RESET_POLL_S)):
                if BootState.parse(await asyncio.to_thread(_start_of, self._grubenv)).reset == wanted:
                    return
                await asyncio.sleep(RESET_POLL_S)
        except OSError as error:
            raise errors.Failed(code, reason=str(error)) from error
        raise errors.Failed(code, reason=Message("reset-not-ordered", unit=RESET_UNIT.format(what)))

    async def _carry_out(self, code: str, order: Order) -> None:
        try:
            await system_orders.carry_out(order, self._settings)
        except errors.AgentError as error:
            raise errors.Failed(code, reason=error.message) from error

    async def _end(self, code: str, how: system_orders.End) -> None:
        """Restart the board or switch it off, unless an installation runs: the other slot would be incomplete."""
        _refuse_while(await self._read(), code)
        await self._carry_out(code, EndSystem(how))

    def _check(self, code: str, source: str, caller: Caller) -> None:
        """Raises AgentError if no bundle can be accepted, or if the panel or a token names a file other than UPLOADED."""
        if caller.via != "bus" and source.startswith("/") and source != UPLOADED:
            raise errors.InvalidArgument("bundle-path", path=UPLOADED)
        if not os.path.isfile(self._keyring) or not os.path.getsize(self._keyring):
            raise errors.Conflict(code, reason=Message("no-keyring"))
        self._refuse_during_inspection(code)

    def _refuse_during_inspection(self, code: str) -> None:
        if self._inspection and not self._inspection.done():
            raise errors.Conflict(code, reason=Message("inspection-runs"))

    async def _rauc(
        self, interface: str, member: str, signature: str, body: list[Any], timeout_s: float = 0.0
    ) -> list[Any]:
        answer = await self._bus.call(
            RAUC, "/", interface, member, signature, body, timeout_s=timeout_s or self._timeout_s
        )
        return list(unpack_variants(answer))

    async def _order(self, code: str, member: str, signature: str, body: list[Any]) -> list[Any]:
        """Call a method of RAUC. Raises AgentError with the message CODE if RAUC refuses."""
        try:
            return await self._rauc(INSTALLER, member, signature, body)
        except CallError as error:
            raise _refusal(code, error) from error

    async def _read(self) -> Update:
        properties: dict[str, Any] = {}
        try:
            # While RAUC installs or inspects a bundle, it does not tell the state of the slots.
            if not self._inspection or self._inspection.done():
                properties = (await self._rauc(PROPERTIES, "GetAll", "s", [INSTALLER]))[0]
                if properties.get("Operation") == "idle":
                    await self._read_slots()
                else:
                    self._changes += 1
        except CallError as error:
            problem = Message("update-unavailable", reason=str(error))
            return Update(state="unavailable", version=__version__, problem=[problem.note()])
        try:
            boot = BootState.parse(await asyncio.to_thread(_start_of, self._grubenv))
        except OSError as error:
            problem = Message("boot-state-unreadable", path=GRUBENV, reason=os.strerror(error.errno or 0))
            return Update(state="unavailable", version=__version__, problem=[problem.note()])
        return await asyncio.to_thread(self._described, properties, boot)

    async def _read_slots(self) -> None:
        """Ask RAUC about the slots, unless nothing can have changed: to answer, RAUC starts programs. Raises CallError."""
        watched = await self._reports.sent()
        changes = self._changes
        if changes == self._asked_at:
            return
        try:
            self._statuses = (await self._rauc(INSTALLER, "GetSlotStatus", "", []))[0]
        except CallError as error:
            if not _is_busy(error):
                raise
            return
        if watched:
            self._asked_at = changes

    def _signal(self, message: BusMessage) -> bool:
        # The sender is not checked. A false signal does no harm: the agent only asks RAUC again.
        if message.message_type is MessageType.SIGNAL and (
            (message.member == "PropertiesChanged" and message.body[:1] == [INSTALLER])
            or (message.member == "NameOwnerChanged" and message.body[:1] == [RAUC])
        ):
            self._changes += 1
        return False

    def _described(self, properties: dict[str, Any], boot: BootState) -> Update:
        slots = sorted((_slot(status, boot) for _, status in self._statuses), key=lambda slot: slot.name)
        # why a slot is not confirmed, by its name
        reasons = {
            slot.name: failed_checks(self._health)
            if slot.running
            else failed_checks(f"{self._trial}/{slot.name}", slot.version)
            for slot in slots
        }
        update, self.problems = _update(properties, self._statuses, boot, slots, reasons)
        if reason := read_line(self._reset):
            self.problems.append(Message("reset-failed", reason=reason))
        return update


def _start_of(path: str) -> str:
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read(GRUBENV_BYTES).decode(errors="replace")


def failed_checks(path: str, version: str = "") -> list[tuple[str, str]]:
    """Name and reason of each failed check in a file of slot-good, at most five.

    None if the file cannot be read, or if it is about another VERSION: a later version may have failed earlier in its start.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            lines = file.read(HEALTH_BYTES).splitlines()
    except OSError:
        return []
    if version and lines[:1] != [f"version {version}"]:
        return []
    # failed FOLDER NAME REASON; what fails in wanted.d does not keep a slot from being confirmed
    rows = [line.split(maxsplit=3) for line in lines]
    return [(r[2], r[3]) for r in rows if len(r) == 4 and r[0] == "failed" and r[1] != "wanted"][:5]


def _refusal(code: str, error: CallError) -> errors.AgentError:
    if _is_busy(error):
        return errors.Conflict(code, reason=Message("update-busy"))
    return errors.Failed(code, reason=error.text)


def _is_busy(error: CallError) -> bool:
    return error.text.lower().startswith("already processing")


def _refuse_while(update: Update, code: str) -> None:
    if update.state == "installing":
        raise errors.Conflict(code, reason=Message("update-busy"))


def _slot(status: dict[str, Any], boot: BootState) -> Slot:
    name, running = str(status.get("bootname", "")), status.get("state") == "booted"
    return Slot(
        name=name,
        running=running,
        next=name == boot.next,
        good=boot.confirmed(name) if running else boot.bootable(name),
        version=str(status.get("bundle.version", "")),
        installed_at=str(status.get("installed.timestamp", "")),
    )


def _update(
    properties: dict[str, Any],
    statuses: list[Any],
    boot: BootState,
    slots: list[Slot],
    reasons: dict[str, list[tuple[str, str]]],
) -> tuple[Update, list[Message]]:
    """The state of updates from RAUC's properties and slots and from grubenv, and the problems of the board.

    `reasons` has the failed health checks of each slot.
    """

    def why(slot: Slot) -> list[Message]:
        return [
            Message("slot-unhealthy", slot=slot.name, check=check, reason=reason)
            for check, reason in reasons[slot.name]
        ]

    running = next((slot for slot in slots if slot.running), None)
    other = next((slot for slot in slots if not slot.running), None)
    percent, step, _ = properties.get("Progress") or (0, "", 0)
    error = str(properties.get("LastError") or "")
    installing = properties.get("Operation") == "installing"
    problems: list[Message] = []
    if other and boot.given_up(other.name):
        name = running.name if running else ""
        problems.append(
            Message("update-rolled-back", slot=other.name, version=other.version or "?", running=name)
        )
        problems += why(other)
    pending = any(s.get("state") != "booted" and s.get("status") == "pending" for _, s in statuses)
    if pending and not installing and not error:
        problems.append(Message("update-interrupted"))
    notes = [*([Message("update-failed", reason=error)] if error and not installing else []), *problems]
    state: State = "idle"
    if installing:
        state = "installing"
    elif running and not running.good:
        state, notes = "unconfirmed", [Message("slot-unconfirmed", slot=running.name), *why(running), *notes]
    elif other and other.next:
        state = "installed"
    elif error:
        state = "failed"
    elif problems:
        state = "rolled-back" if problems[0].code == "update-rolled-back" else "interrupted"
    update = Update(
        state=state,
        version=__version__,
        progress=max(0, min(100, int(percent))) if installing else 0,
        step=str(step) if installing else "",
        problem=[message.note() for message in notes],
        slots=slots,
    )
    return update, problems
