# SPDX-License-Identifier: Apache-2.0
"""Serves the feature `preseed`: applies the file with which the owner of a new board sets it up before the first boot.

/usr/lib/evenkeel/preseed finds the file on the EFI system partition, passes it on with ekctl, and removes it. It does so only
on a new board.

Guarantees:

- A file with an error changes nothing. The values have the checks that those of the panel and of ekctl have.
- A power cut at any moment is harmless: the next boot passes the file on again, and a repetition gives the same result. The
  network settings come first, because the board drops them after a restart unless they are confirmed.
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
from .network_config import BadConfig, checked
from .system import SystemSettings

CONFIRM_S = 20.0  # systemd-networkd must have read the network settings after this time
POLL_S = 0.5  # between two attempts to confirm them
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
    except tomllib.TOMLDecodeError as error:
        raise errors.InvalidArgument("preseed-invalid", reason=str(error)) from error
    except msgspec.ValidationError as error:
        place = str(error).rpartition("`$.")[2].rstrip("`")
        codes = {"name": "preseed-name", "password_hash": "preseed-hash"}
        reason = Message(codes[place]) if place in codes else str(error)
        raise errors.InvalidArgument("preseed-invalid", reason=reason) from error
    if (found.name or "").lower() == "localhost":
        raise errors.InvalidArgument("preseed-invalid", reason=Message("name-localhost"))
    if part := found.network:
        try:
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
        """Apply the file. After InvalidArgument nothing has changed. After another AgentError, call it again."""
        async with self._applying:
            try:
                await self._apply(request.preseed)
            except errors.InvalidArgument as error:
                self._report("preseed-refused", error)
                raise
            except errors.AgentError as error:
                self._report("preseed-unfinished", error)
                raise
            self.problems = []

    def _report(self, code: str, error: errors.AgentError) -> None:
        self.problems = [Message(code, reason=error.message)]
        _log.warning("%s", self.problems[0])

    async def _apply(self, text: str) -> None:
        wanted = parse(text)
        if wanted.network:
            await self._set_network(wanted.network)
        if wanted.name is not None:
            await self._system.set_host_name(SetHostName(wanted.name), NOBODY)
        if wanted.password_hash is not None:
            await self._accounts.preset(wanted.password_hash)

    async def _set_network(self, part: NetworkPart) -> None:
        """Set the network, and confirm it: whoever has written the file can also reach the boot medium."""
        name = part.interface or await self._only_interface()
        try:
            request = SetNetwork(name, part.mode, part.address, part.gateway, part.dns)
            await self._network.set_network(request, NOBODY)
        except errors.InvalidArgument as error:
            raise errors.InvalidArgument("preseed-invalid", reason=error.message) from error
        except errors.Conflict as error:
            if error.message.code != "network-same":
                raise
            return
        end = time.monotonic() + CONFIRM_S
        while True:
            await asyncio.sleep(POLL_S)
            try:
                await self._network.confirm_network(Nothing(), NOBODY)
                return
            except errors.Conflict as error:
                if error.message.code != "network-too-early" or time.monotonic() > end:
                    raise

    async def _only_interface(self) -> str:
        """The name of the only network interface. Raises InvalidArgument if the board has several, or none."""
        names = await self._network.present()
        if len(names) != 1:
            reason = Message("preseed-interface", names=names or ["none"])
            raise errors.InvalidArgument("preseed-invalid", reason=reason)
        return names[0]
