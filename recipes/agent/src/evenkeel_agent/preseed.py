# SPDX-License-Identifier: Apache-2.0
"""Serves the feature `preseed`: applies the file with which the owner of a new board sets it up before the first boot.

/usr/lib/evenkeel/preseed finds the file on the EFI system partition, passes it on with ekctl, and removes it. It does so only
on a new board.

Guarantees:

- A file with an error changes nothing. The values have the checks that those of the panel and of ekctl have.
- Once the owner has changed the first-boot password, a file changes nothing. Otherwise a file whose first attempt failed would
  undo what the owner has set since.
- A power cut at any moment is harmless: the next boot passes the file on again, and a repetition gives the same result. The
  network settings come first, because the board drops them after a restart unless they are confirmed. The password comes
  last: a board that has it has the rest, too.
"""

import asyncio
import logging
import time
import tomllib
from typing import Annotated, Literal

import msgspec
from evenkeel_api import errors
from evenkeel_api.features.network import Address, Gateway, Name, Servers, SetNetwork
from evenkeel_api.features.preseed import ApplyPreseed
from evenkeel_api.features.system import BoardName, SetHostName
from evenkeel_api.messages import Message
from evenkeel_api.method import Nothing
from msgspec import Meta

from .accounts import Accounts
from .backup import HASH
from .caller import Caller
from .network import Network
from .network_config import BadConfig, checked, interface_name
from .system import SystemSettings

CONFIRM_S = 20.0  # systemd-networkd must have read the network settings after this time
PRESENT_S = 20.0  # a driver has found its network interface after this time
POLL_S = 0.5  # between two attempts to confirm the settings, or to find the interface
REASON = 300  # characters of a reason: it may quote the file, and has to fit on a screen
NOBODY = Caller("", None, "bus")
_log = logging.getLogger(__name__)


class NetworkPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of one network interface. INTERFACE: "" for the only one of the board."""

    mode: Literal["dhcp", "fixed"]
    interface: Name = ""
    address: Address = ""
    gateway: Gateway = ""
    dns: Servers = msgspec.field(default_factory=list)


class Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A preseed file. Each part may be missing. PASSWORD_HASH: of the user admin, argon2id."""

    name: BoardName | None = None
    password_hash: Annotated[str, Meta(pattern=HASH)] | None = None
    network: NetworkPart | None = None


def parse(text: str) -> Content:
    """The content of the file TEXT. Raises InvalidArgument with the reason."""
    try:
        # An editor of Windows may have put a byte order mark in front.
        found = msgspec.convert(tomllib.loads(text.removeprefix("\N{BYTE ORDER MARK}")), Content)
    except msgspec.ValidationError as error:
        place = str(error).rpartition("`$.")[2].rstrip("`")
        codes = {"name": "preseed-name", "password_hash": "preseed-hash"}
        reason = Message(codes[place]) if place in codes else str(error)[:REASON]
        raise errors.InvalidArgument("preseed-invalid", reason=reason) from error
    except (RecursionError, ValueError) as error:  # of tomllib
        raise errors.InvalidArgument("preseed-invalid", reason=str(error)[:REASON]) from error
    if found == Content():
        raise errors.InvalidArgument("preseed-invalid", reason=Message("preseed-empty"))
    if (found.name or "").lower() == "localhost":
        raise errors.InvalidArgument("preseed-invalid", reason=Message("name-localhost"))
    if part := found.network:
        try:
            if part.interface:
                interface_name(part.interface)
            checked(part.mode, part.address, part.gateway, part.dns)
        except BadConfig as error:
            raise errors.InvalidArgument("preseed-invalid", reason=error.message) from error
    return found


class Preseeder:
    """The handler of the feature `preseed`."""

    def __init__(self, accounts: Accounts, system: SystemSettings, network: Network) -> None:
        self._accounts = accounts
        self._system = system
        self._network = network
        self._applying = asyncio.Lock()
        self.problems: list[Message] = []  # of the last file, until the agent ends

    async def apply_preseed(self, request: ApplyPreseed, _: Caller) -> None:
        """Apply the file. After InvalidArgument and Conflict, nothing has changed. After another AgentError, call it again.

        Conflict: the board is not new.
        """
        async with self._applying:
            try:
                await self._apply(request.preseed)
            except errors.InvalidArgument as error:
                self._report("preseed-refused", error)
                raise
            except errors.Conflict:
                self.problems = []
                raise
            except errors.AgentError as error:
                self._report("preseed-unfinished", error)
                raise
            self.problems = []

    def _report(self, code: str, error: errors.AgentError) -> None:
        self.problems = [Message(code, reason=error.message)]
        _log.warning("%s", self.problems[0])

    async def _apply(self, text: str) -> None:
        try:
            wanted = parse(text)
        except errors.InvalidArgument:
            self._accounts.is_preset(None)  # on a board that is not new, nobody has to correct the file
            raise
        if self._accounts.is_preset(wanted.password_hash):
            return
        if wanted.network:
            await self._set_network(wanted.network)
        if wanted.name is not None:
            await self._system.set_host_name(SetHostName(wanted.name), NOBODY)
        if wanted.password_hash is not None:
            await self._accounts.preset(wanted.password_hash)

    async def _set_network(self, part: NetworkPart) -> None:
        """Set the network, and confirm it. Nobody needs to: a user who can write the file can also reach the boot medium."""
        name = await self._interface(part.interface)
        try:
            request = SetNetwork(name, part.mode, part.address, part.gateway, part.dns)
            await self._network.set_network(request, NOBODY)
        except errors.InvalidArgument as error:
            raise errors.InvalidArgument("preseed-invalid", reason=error.message) from error
        except errors.Conflict as error:
            if error.message.code != "network-same":
                raise errors.Failed(error.message.code, **error.message.parameters) from error
            return
        end = time.monotonic() + CONFIRM_S
        while True:
            await asyncio.sleep(POLL_S)
            try:
                await self._network.confirm_network(Nothing(), NOBODY)
                return
            except errors.Conflict as error:
                if error.message.code != "network-too-early" or time.monotonic() > end:
                    raise errors.Failed(error.message.code, **error.message.parameters) from error

    async def _interface(self, wanted: str) -> str:
        """The name of the network interface WANTED. "": the only one of the board. Waits for it. Raises AgentError."""
        end = time.monotonic() + PRESENT_S
        while True:
            names = await self._network.present()
            if wanted in names:
                return wanted
            if not wanted and len(names) == 1:
                return names[0]
            if (names and not wanted) or time.monotonic() > end:
                break
            await asyncio.sleep(POLL_S)
        if not names:
            reason = Message("preseed-no-interface")
        elif wanted:
            reason = Message("network-no-interface", name=wanted, names=names)
        else:
            reason = Message("preseed-interface", names=names)
        raise errors.InvalidArgument("preseed-invalid", reason=reason)
