# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH119
"""Serves the feature `network`: the state of the interfaces, and changes that are undone unless somebody confirms them.

The agent may not change the network. systemd-networkd reports the state over D-Bus, and ek-network changes the settings.
ek-network also keeps the deadline of a change, so the deadline holds if the agent is killed.
"""

import asyncio
import json
import os.path
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any

import msgspec
from evenkeel_api import errors
from evenkeel_api.features.network import (
    Interface,
    Link,
    NetworkSettings,
    SetNetwork,
    Trial,
)
from evenkeel_api.features.network import Network as State
from evenkeel_api.messages import Message
from evenkeel_api.method import Nothing
from evenkeel_common.files import host_name

from . import helper
from .bus import Bus, CallError
from .caller import Caller
from .network_config import BadConfig, checked, file_name, interface_name
from .settings import Settings

NETWORKD = "org.freedesktop.network1"
NETWORKD_UNIT = "systemd-networkd"
HELPER_UNIT = "evenkeel-network"
DEFAULT_FILE = "60-wired.network"  # of conf/systemd/network: DHCP
# OperationalState of networkd → what the panel calls it
LINKS: dict[str, Link] = {
    "routable": "connected",
    "degraded": "no-address",
    "degraded-carrier": "no-address",
    "carrier": "no-address",
    "enslaved": "connected",
    "no-carrier": "no-cable",
    "dormant": "no-cable",
    "off": "off",
    "missing": "off",
}


class Network:
    """The handlers of the feature `network`."""

    def __init__(self, settings: Settings, bus: Bus | None) -> None:
        self._settings = settings
        self._bus = bus
        self._changing = asyncio.Lock()

    # the methods

    async def get_network(self, _: Nothing, __: Caller) -> State:
        return await self._state(await self._try_order({"order": "state"}))

    async def set_network(self, request: SetNetwork, _: Caller) -> State:
        """Begin a change. On an AgentError nothing has changed."""
        try:
            interface_name(request.interface)
            config = checked(request.mode, request.address, request.gateway, request.dns)
        except BadConfig as error:
            raise errors.InvalidArgument(error.message.code, **error.message.parameters) from error
        async with self._changing:
            present = await self._known_state()
            found = {one.name: one for one in present.interfaces}
            if request.interface not in found:
                names = sorted(found) or ["none"]
                raise errors.InvalidArgument("network-no-interface", name=request.interface, names=names)
            same = NetworkSettings(config.mode, config.address, config.gateway, list(config.dns))  # type: ignore[arg-type]
            if not present.trial and found[request.interface].settings == same:
                raise errors.Conflict("network-same", interface=request.interface)
            order = {
                "order": "set",
                "interface": request.interface,
                "mode": config.mode,
                "address": config.address,
                "gateway": config.gateway,
                "dns": list(config.dns),
            }
            return await self._state(await self._order(order))

    async def confirm_network(self, _: Nothing, __: Caller) -> State:
        async with self._changing:
            return await self._state(await self._order({"order": "confirm"}))

    async def revert_network(self, _: Nothing, __: Caller) -> State:
        async with self._changing:
            return await self._state(await self._order({"order": "revert"}))

    # for backups

    async def saved(self) -> dict[str, NetworkSettings]:
        """The confirmed settings, by interface. An interface without an entry has those of the image. Raises AgentError."""
        answer = await self._order({"order": "state"})
        return {name: settings_of(found) for name, found in sorted(answer["saved"].items())}

    async def restore(self, wanted: Mapping[str, NetworkSettings]) -> bool:
        """Begin the change that makes WANTED the settings of the present interfaces. On an AgentError nothing has changed.

        As after SetNetwork, the board undoes the change unless somebody confirms it. Returns False if nothing has to change.
        """
        async with self._changing:
            changed = changes(await self.saved(), wanted, await self.present())
            if changed:
                listed = {name: found and msgspec.to_builtins(found) for name, found in changed.items()}
                await self._order({"order": "restore", "changes": listed})
            return bool(changed)

    async def check_idle(self) -> None:
        """Raises AgentError if a change waits for its confirmation, or if the state of the network is not known."""
        if waiting := (await self._known_state()).trial:
            names = [one.interface for one in waiting]
            raise errors.Conflict("network-trial-runs", interface=names, seconds=waiting[0].left_s)

    async def present(self) -> list[str]:
        """The names of the board's interfaces. Raises AgentError."""
        return [one.name for one in (await self._known_state()).interfaces]

    # internal

    async def _known_state(self) -> State:
        """The network. Raises AgentError if a part of it is not known."""
        state = await self._state(await self._order({"order": "state"}))
        for note in state.problem:
            if note.code == "networkd-silent":
                raise errors.Failed(note.code, **note.parameters)
        return state

    async def _state(self, saved: Mapping[str, Any]) -> State:
        """The network, with what ek-network reports as SAVED. A part that is missing is a problem in the answer."""
        problems = [Message(saved["error"], **saved["parameters"])] if "error" in saved else []
        if damaged := saved.get("damaged"):
            problems.append(Message("network-settings-damaged", path=str(damaged)))
        described: Mapping[str, Any] = {}
        try:
            described = json.loads(await self._describe())
        except (CallError, ValueError) as error:
            problems.append(Message("networkd-silent", reason=str(error), unit=NETWORKD_UNIT))
        waiting = saved.get("trial")
        settings = {name: settings_of(found) for name, found in saved.get("settings", {}).items()}
        return State(
            host=f"{(await asyncio.to_thread(self._name)).partition('.')[0]}.local",
            interfaces=interfaces(described, settings),
            trial=[
                Trial(name, settings.get(name, NetworkSettings()), waiting["left_s"])
                for name in waiting["interfaces"]
            ]
            if waiting
            else [],
            last=saved.get("last", "none"),
            problem=[message.note() for message in problems],
        )

    def _name(self) -> str:
        return host_name(self._settings.path("/etc/hostname"))

    async def _describe(self) -> str:
        """The state of networkd as JSON. Raises CallError."""
        assert self._bus
        answer = await self._bus.call(
            NETWORKD,
            "/org/freedesktop/network1",
            f"{NETWORKD}.Manager",
            "Describe",
            timeout_s=self._settings.call_timeout_s,
        )
        return str(answer[0])

    async def _try_order(self, order: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            return await self._order(order)
        except errors.AgentError as error:
            return {"error": error.message.code, "parameters": error.message.parameters}

    async def _order(self, order: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer of ek-network to ORDER. Raises AgentError."""
        path, timeout_s = self._settings.network_socket, self._settings.call_timeout_s
        return await helper.order(path, order, timeout_s, "network-unreachable", HELPER_UNIT)


def changes(
    old: Mapping[str, NetworkSettings], new: Mapping[str, NetworkSettings], present: Iterable[str]
) -> dict[str, NetworkSettings | None]:
    """What makes NEW of the settings OLD, by interface. None: the interface gets the settings of the image again.

    An interface that is not PRESENT does not change: on another board, its name may belong to another network.
    """
    return {name: new.get(name) for name in sorted(present) if new.get(name) != old.get(name)}


def settings_of(found: Mapping[str, Any]) -> NetworkSettings:
    return NetworkSettings(found["mode"], found["address"], found["gateway"], list(found["dns"]))


def interfaces(described: Mapping[str, Any], settings: Mapping[str, NetworkSettings]) -> list[Interface]:
    """The wired and wireless interfaces that networkd DESCRIBED. A field that is missing or not valid is left out.

    SETTINGS: by interface, what ek-network has set. Bridges, tunnels and the like have a "Kind". They belong to apps.
    """
    found = []
    for row in _rows(described.get("Interfaces")):
        name = row.get("Name")
        if row.get("Type") not in ("ether", "wlan") or row.get("Kind") or not isinstance(name, str):
            continue
        found.append(
            Interface(
                name=name,
                link=_link(row),
                mac=_mac(row.get("HardwareAddress")),
                addresses=_unique(_prefixed(entry) for entry in _rows(row.get("Addresses"))),
                gateways=_unique(_text_of(entry.get("Gateway")) for entry in _rows(row.get("Routes"))),
                dns=_unique(_text_of(entry.get("Address")) for entry in _rows(row.get("DNS"))),
                settings=_in_force(name, str(row.get("NetworkFile") or ""), settings),
            )
        )
    return sorted(found, key=lambda interface: interface.name)


def _in_force(name: str, file: str, settings: Mapping[str, NetworkSettings]) -> NetworkSettings:
    base = os.path.basename(file)
    if base == file_name(name) and name in settings:
        return settings[name]
    return NetworkSettings("dhcp" if base in ("", DEFAULT_FILE) else "other")


def _link(row: Mapping[str, Any]) -> Link:
    # AdministrativeState is named SetupState before systemd 255.
    setup = row.get("AdministrativeState") or row.get("SetupState")
    state = LINKS.get(str(row.get("OperationalState")), "off")
    if state in ("off", "no-cable"):
        return state
    if setup == "failed":
        return "failed"
    return "not-managed" if setup == "unmanaged" else state


def _rows(value: object) -> list[dict[str, Any]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _unique(texts: Any) -> list[str]:
    return list(dict.fromkeys(text for text in texts if text))


def _text_of(value: object) -> str:
    """An address that networkd reports as a list of bytes; "" if it is missing."""
    try:
        return str(ip_address(bytes(value))) if isinstance(value, list) else ""
    except (ValueError, TypeError):
        return ""


def _prefixed(entry: Mapping[str, Any]) -> str:
    address, length = _text_of(entry.get("Address")), entry.get("PrefixLength")
    return f"{address}/{length}" if address and isinstance(length, int) else ""


def _mac(value: object) -> str:
    """A hardware address, which networkd reports as a list of bytes or as text."""
    if isinstance(value, str):
        return value[:64]
    if isinstance(value, Sequence) and all(isinstance(byte, int) and 0 <= byte < 256 for byte in value):
        return ":".join(f"{byte:02x}" for byte in value)
    return ""
