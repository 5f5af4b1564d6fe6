# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH113, PTH202
"""Updates by RAUC, which checks and installs bundles and chooses slots. The agent only forwards orders to it.

RAUC refuses a bundle without a valid signature, for another kind of board, or older than this version
(`/usr/lib/rauc/system.conf`). Its D-Bus API: https://rauc.readthedocs.io/en/v1.13/reference.html#d-bus-api
"""

import asyncio
import os.path
import re
from typing import Any

from dbus_fast import Variant
from dbus_fast.unpack import unpack_variants
from evenkeel_api import errors
from evenkeel_api.features.update import Bundle, Choose, Inspect, Install, Slot, State, Update
from evenkeel_api.messages import Message
from evenkeel_api.method import Nothing

from . import __version__
from .bus import Bus, CallError
from .caller import Caller
from .settings import Settings

RAUC = "de.pengutronix.rauc"
INSTALLER = "de.pengutronix.rauc.Installer"
PROPERTIES = "org.freedesktop.DBus.Properties"
LOGIN = "org.freedesktop.login1"
# The panel stores an uploaded bundle here. Its other files are of no concern to RAUC, which makes root the owner of
# a file before it checks the signature.
UPLOADED = "/var/lib/evenkeel-panel/update/bundle.raucb"
# the certificates that may sign bundles (recipes/update); empty or missing if the image was built without any
KEYRING = "/usr/lib/rauc/keyring.pem"
# InspectBundle over HTTP makes several requests.
INSPECT_S = 60.0


def is_older(version: str, than: str) -> bool:
    """Whether VERSION is older than THAN. Compares as RAUC does: major, minor and patch; missing parts are 0."""
    return _core(version) < _core(than)


def _core(version: str) -> tuple[int, ...]:
    found = re.match(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?", version)
    return tuple(int(part or 0) for part in found.groups()) if found else (0, 0, 0)


class Updates:
    """Serves the methods of evenkeel_api.features.update. `problems` has what GetStatus reports about updates."""

    def __init__(self, settings: Settings, bus: Bus) -> None:
        self._bus = bus
        self._timeout_s = settings.call_timeout_s
        self._first_s = settings.first_update_check_s
        self._keyring = settings.path(KEYRING)
        self._slots: tuple[list[Any], str] = (
            [],
            "",
        )  # as RAUC last told: status of all slots, name of the primary one
        self.problems: list[Message] = []

    async def watch(self) -> None:
        """After each start of the agent, ask RAUC once whether the board fell back to the previous slot."""
        await asyncio.sleep(self._first_s)
        await self._read()
        await asyncio.Event().wait()  # the agent ends when one of its tasks ends

    # the methods

    async def get_update(self, _: Nothing, __: Caller) -> Update:
        return await self._read()

    async def inspect_bundle(self, request: Inspect, caller: Caller) -> Bundle:
        self._check("bundle-refused", request.source, caller)
        found = (
            await self._order("bundle-refused", "InspectBundle", "sa{sv}", [request.source, {}], INSPECT_S)
        )[0]
        update = found.get("update", {})
        version = str(update.get("version", ""))
        return Bundle(
            version=version,
            compatible=str(update.get("compatible", "")),
            description=str(update.get("description", "")),
            older=is_older(version, __version__),
        )

    async def install_bundle(self, request: Install, caller: Caller) -> None:
        self._check("not-installed", request.source, caller)
        args = {"ignore-version-limit": Variant("b", request.allow_older)}
        await self._order("not-installed", "InstallBundle", "sa{sv}", [request.source, args])
        self.problems = []

    async def choose_slot(self, request: Choose, _: Caller) -> Update:
        before = await self._read()
        _refuse_while(before, "slot-not-chosen")
        slot = next((slot for slot in before.slots if slot.name == request.slot), None)
        if slot is None:
            reason = before.problem[0].text if before.problem else Message("no-slot", slot=request.slot)
            raise errors.Failed("slot-not-chosen", reason=reason)
        if not slot.good and not slot.running:
            raise errors.Conflict("slot-not-chosen", reason=Message("slot-bad", slot=request.slot))
        which = "booted" if slot.running else "other"
        await self._order("slot-not-chosen", "Mark", "ss", ["active", which])
        return await self._read()

    async def restart(self, _: Nothing, __: Caller) -> None:
        state = await self._read()
        _refuse_while(state, "not-restarted")
        try:
            await self._bus.call(
                LOGIN,
                "/org/freedesktop/login1",
                LOGIN + ".Manager",
                "Reboot",
                "b",
                [False],
                timeout_s=self._timeout_s,
            )
        except CallError as error:
            raise errors.Failed("not-restarted", reason=str(error)) from error

    # internal

    def _check(self, code: str, source: str, caller: Caller) -> None:
        """Raises AgentError if no bundle can be accepted, or if the panel or a token names a file other than UPLOADED."""
        if caller.via != "bus" and source.startswith("/") and source != UPLOADED:
            raise errors.InvalidArgument("bundle-path", path=UPLOADED)
        if not os.path.isfile(self._keyring) or not os.path.getsize(self._keyring):
            raise errors.Conflict(code, reason=Message("no-keyring"))

    async def _rauc(
        self, interface: str, member: str, signature: str, body: list[Any], timeout_s: float = 0.0
    ) -> list[Any]:
        answer = await self._bus.call(
            RAUC, "/", interface, member, signature, body, timeout_s=timeout_s or self._timeout_s
        )
        return list(unpack_variants(answer))

    async def _order(
        self, code: str, member: str, signature: str, body: list[Any], timeout_s: float = 0.0
    ) -> list[Any]:
        """Call a method of RAUC. Raises AgentError with the message CODE if RAUC refuses."""
        try:
            return await self._rauc(INSTALLER, member, signature, body, timeout_s)
        except CallError as error:
            if _is_busy(error):
                raise errors.Conflict(code, reason=Message("update-busy")) from error
            raise errors.Failed(code, reason=error.text) from error

    async def _read(self) -> Update:
        try:
            properties = (await self._rauc(PROPERTIES, "GetAll", "s", [INSTALLER]))[0]
            # While RAUC installs or inspects a bundle, it refuses to tell the state of the slots.
            if properties.get("Operation") == "idle":
                try:
                    slots = (await self._rauc(INSTALLER, "GetSlotStatus", "", []))[0]
                    primary = (await self._rauc(INSTALLER, "GetPrimary", "", []))[0]
                    self._slots = slots, str(primary)
                except CallError as error:
                    if not _is_busy(error):
                        raise
        except CallError as error:
            problem = Message("update-unavailable", reason=str(error))
            return Update(state="unavailable", version=__version__, problem=[problem.note()])
        update = _update(properties, *self._slots)
        self.problems = [
            Message(note.code, **note.parameters) for note in update.problem if update.state == "rolled-back"
        ]
        return update


def _is_busy(error: CallError) -> bool:
    return error.text.lower().startswith("already processing")


def _refuse_while(update: Update, code: str) -> None:
    if update.state == "installing":
        raise errors.Conflict(code, reason=Message("update-busy"))


def _slot(status: dict[str, Any], chosen: bool) -> Slot:
    return Slot(
        name=str(status.get("bootname", "")),
        running=status.get("state") == "booted",
        next=chosen,
        good=status.get("boot-status") == "good",
        version=str(status.get("bundle.version", "")),
        installed_at=str(status.get("installed.timestamp", "")),
    )


def _update(properties: dict[str, Any], statuses: list[Any], primary: str) -> Update:
    """The state of updates, from RAUC's properties, the status of its slots and the name of its primary slot."""
    slots = sorted((_slot(status, name == primary) for name, status in statuses), key=lambda slot: slot.name)
    other = next((slot for slot in slots if not slot.running), None)
    whole = any(status.get("state") != "booted" and status.get("status") == "ok" for _, status in statuses)
    percent, step, _ = properties.get("Progress") or (0, "", 0)
    error = str(properties.get("LastError") or "")
    problem: list[Message] = []
    state: State = "idle"
    if properties.get("Operation") == "installing":
        state = "installing"
    elif error:
        state, problem = "failed", [Message("update-failed", reason=error)]
    elif other and other.next:
        state = "installed"
    elif other and whole and not other.good:
        # RAUC has written this slot completely, and the boot loader has used up its tries.
        state = "rolled-back"
        running = next((slot.name for slot in slots if slot.running), "")
        problem = [Message("update-rolled-back", slot=other.name, version=other.version, running=running)]
    installing = state == "installing"
    return Update(
        state=state,
        version=__version__,
        progress=max(0, min(100, int(percent))) if installing else 0,
        step=str(step) if installing else "",
        problem=[message.note() for message in problem],
        slots=slots,
    )
