# SPDX-License-Identifier: Apache-2.0
"""The orders to ek-system. A value has the same rules as in the methods of the agent, evenkeel_api.features.system, and as in
a backup, recorder_config.
"""

from typing import Literal

import msgspec
from evenkeel_api.features.system import BoardName, Servers, Zone

from . import helper
from .recorder_config import Group, Name, Priority, Text
from .settings import Settings

HELPER_UNIT = "evenkeel-system.socket"
CALL_S = 8  # time that ek-system gives a service for its answer
_START_S = 6.0  # time that a slow board may need to start ek-system
_WRITE_S = 20.0  # time that it may need to write 64 files, with two flushes for each

End = Literal["restart", "power-off"]
Reset = Literal["keep", "all", "none"]


class _Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="order"):
    """An order. Its answer is {} or an error."""


class SaveName(_Order, frozen=True, tag="name"):
    """Save the host name of the board."""

    name: BoardName


class SaveZone(_Order, frozen=True, tag="zone"):
    """Save the time zone of the board."""

    zone: Zone


class UseServers(_Order, frozen=True, tag="servers"):
    """Give time servers to systemd-timesyncd, which forgets them when it ends."""

    servers: Servers


class EndSystem(_Order, frozen=True, tag="end"):
    """Restart the board, or switch it off."""

    how: End


class OrderReset(_Order, frozen=True, tag="reset"):
    """Order a factory reset for the next boot, which keeps the recordings or erases all. none: take the order back."""

    what: Reset


class SetRecorder(_Order, frozen=True, tag="recorder"):
    """Change the configuration of the recorder: two keys of recorder.conf, and the files of CHANNELS. None: remove the file."""

    group: Group
    priority: Priority
    channels: dict[Name, Text | None]


Order = SaveName | SaveZone | UseServers | EndSystem | OrderReset | SetRecorder


async def carry_out(order: Order, settings: Settings) -> None:
    """Give ORDER to ek-system. Raises AgentError."""
    request, path = msgspec.to_builtins(order), settings.system_socket
    limit_s = settings.call_timeout_s + _START_S + (_WRITE_S if isinstance(order, SetRecorder) else 0)
    await helper.order(path, request, limit_s, "system-unreachable", HELPER_UNIT)
