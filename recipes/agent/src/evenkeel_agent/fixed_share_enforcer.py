# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH110
"""Applies the saved fixed shares of the apps, and checks that io.evenkeel.fixed has them.

systemd has no property for this file, and the kernel requires CAP_SYS_ADMIN to write it. The agent has no
capability. So it sends orders to ek-fixed-share, a program that writes this file and nothing else. Then the agent
reads the file to check it. A socket unit starts one process of ek-fixed-share per connection.
"""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from evenkeel_api.messages import Message
from evenkeel_common.files import read_line, why

from . import fixed_share
from .fixed_share import OFF
from .health import SCHEDULER, Device, flash_devices
from .settings import Settings
from .store import Store

FIXED_FILE = "io.evenkeel.fixed"
_log = logging.getLogger(__name__)

# errno of a failed order -> the code of the message that explains it. For other values, strerror() explains them.
_REASONS = {
    errno.ENOSPC: "fixed-share-full",
    errno.EPERM: "fixed-share-capability",
    errno.EOPNOTSUPP: "fixed-share-not-served",
    errno.ERANGE: "fixed-share-range",
}


@dataclass(frozen=True, slots=True)
class Order:
    """Give a cgroup PERCENT of the device NUMBER ("MAJ:MIN"). PATH is relative to the cgroup of the apps' slice."""

    path: str
    number: str
    percent: int


async def send_orders(socket_path: str, orders: Sequence[Order], timeout_s: float) -> list[Message | None]:
    """Send ORDERS to ek-fixed-share, one at a time. Returns for each order the reason of a failure, or None."""
    results: list[Message | None] = []
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC) as connection:
                connection.setblocking(False)
                await loop.sock_connect(connection, socket_path)
                for order in orders:
                    text = f"{order.number} {order.percent} {order.path}"
                    await loop.sock_sendall(connection, text.encode("utf-8", "surrogateescape"))
                    answer = await loop.sock_recv(connection, 64)
                    if not answer.isdigit():
                        raise ConnectionError(errno.ECONNRESET, "it ended without an answer")
                    number = int(answer)
                    results.append(_reason_of(number) if number else None)
    except TimeoutError:
        failed = Message("helper-slow", seconds=timeout_s)
    except OSError as error:
        failed = Message("helper-unreachable", path=socket_path, reason=why(error))
    else:
        return results
    return results + [failed] * (len(orders) - len(results))


def _reason_of(number: int) -> Message:
    return Message(_REASONS[number]) if number in _REASONS else Message("external", text=os.strerror(number))


def read_fixed(directory: str | None) -> str | None:
    """The content of io.evenkeel.fixed in the cgroup DIRECTORY; None if there is no cgroup or no such file."""
    if directory is None or not os.path.exists(f"{directory}/{FIXED_FILE}"):
        return None
    return read_line(f"{directory}/{FIXED_FILE}")


class FixedShareEnforcer:
    """Saves fixed shares and applies them. Belongs to the agent's event loop.

    A saved value applies to every flash device. OFF is applied, too: it removes a value that another program wrote for
    a listed app. Apps without a cgroup are skipped. A caller of save() must hold `changing`; enforce() acquires it.
    """

    def __init__(self, settings: Settings) -> None:
        """Read the saved values. Blocks."""
        self._settings = settings
        self._saved = Store(settings.state_dir, "fixed-share", fixed_share.problem)
        self._devices: list[Device] = []  # the flash devices at the last check
        self._problems: dict[str, Message] = {}  # by app: why the saved value is not in force
        self.changing = asyncio.Lock()

    @property
    def problem(self) -> Message | None:
        """Why the saved values could not be read; None if they could."""
        return self._saved.problem

    def get(self, name: str) -> int:
        """The saved percentage of the app NAME; OFF if none is saved."""
        return self._saved.get(name) or OFF

    def save(self, name: str, percent: int) -> None:
        """Save PERCENT for the app NAME. Blocks for two flushes. On StoreError nothing has changed."""
        self._saved.save(name, None if percent == OFF else percent)

    def all(self) -> dict[str, int]:
        """All saved percentages by app."""
        return self._saved.all()

    def save_all(self, percentages: dict[str, int]) -> None:
        """Save PERCENTAGES in place of all saved ones. Blocks for two flushes. On StoreError nothing has changed."""
        self._saved.save_all(percentages)

    def applied(self, name: str, content: str | None) -> bool:
        """Whether CONTENT, from read_fixed(), has the saved value. If CONTENT is None, only OFF counts as applied."""
        percent = self.get(name)
        if content is None:
            return percent == OFF
        return fixed_share.in_force(content, [device.number for device in self._devices], percent)

    @property
    def has_problems(self) -> bool:
        """Whether a saved value could not be applied."""
        return bool(self._problems)

    def keep_problems(self, listed: Container[str]) -> None:
        """Drop the problems of apps that are not in LISTED."""
        self._problems = {name: text for name, text in self._problems.items() if name in listed}

    def problem_of(self, name: str) -> Message | None:
        """Why the last attempt to apply the fixed share of NAME failed; None if it succeeded."""
        return self._problems.get(name)

    async def enforce(self, cgroups: Mapping[str, str | None]) -> None:
        """Apply the saved values of the apps in CGROUPS (directory by app). See problem_of() for failures."""
        async with self.changing:
            await self._enforce(cgroups)

    async def _enforce(self, cgroups: Mapping[str, str | None]) -> None:
        self._devices, contents = await asyncio.to_thread(self._read, cgroups)
        served = [device for device in self._devices if device.scheduler == SCHEDULER]
        orders: list[tuple[str, Device, Order]] = []
        for name, content in contents.items():
            percent = self.get(name)
            for device in served:
                if content is not None and not fixed_share.in_force(content, [device.number], percent):
                    path = str(cgroups[name]).removeprefix(self._settings.apps_cgroup)
                    orders.append((name, device, Order(path, device.number, percent)))
        failed: dict[str, Message] = {}
        if orders:
            # Lower percentages first. Reducing one group's percentage may free what another group's increase needs.
            orders.sort(key=lambda order: order[2].percent)
            results = await send_orders(
                self._settings.fixed_share_socket,
                [order for _, _, order in orders],
                self._settings.call_timeout_s,
            )
            for (name, device, _), result in zip(orders, results, strict=True):
                if result:
                    failed.setdefault(name, Message("fixed-share-on", device=device.name, reason=result))
            _, contents = await asyncio.to_thread(self._read, cgroups)
        for name, directory in cgroups.items():
            content = contents[name]
            if directory is None or self.applied(name, content):
                self._problems.pop(name, None)
                continue
            percent = self.get(name)
            reason = failed.get(name) or self._reason(content)
            message = (
                Message("fixed-share-not-in-force", app=name, percent=percent, reason=reason)
                if percent
                else Message("fixed-share-still-in-force", app=name, reason=reason)
            )
            if self._problems.get(name) != message:
                _log.warning("%s", message)
            self._problems[name] = message

    def _reason(self, content: str | None) -> Message:
        """Why a saved value is not in force although no order failed."""
        others = [device for device in self._devices if device.scheduler != SCHEDULER]
        if others:
            names = [Message("fixed-share-scheduler", device=d.name, scheduler=d.scheduler) for d in others]
            return Message("fixed-share-schedulers", devices=names)
        if not self._devices:
            return Message("fixed-share-no-flash")
        if content is None:
            return Message("fixed-share-no-file", file=FIXED_FILE)
        return Message("fixed-share-file-is", file=FIXED_FILE, content=content)

    def _read(self, cgroups: Mapping[str, str | None]) -> tuple[list[Device], dict[str, str | None]]:
        devices = flash_devices(self._settings.path("/sys/block"))
        return devices, {name: read_fixed(directory) for name, directory in cgroups.items()}
