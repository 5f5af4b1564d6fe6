# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH110
"""Regulated performance of the apps: what is kept, and seeing that io.evenkeel.perf has it.

systemd knows nothing of that file, and the kernel takes a write only from who has CAP_SYS_ADMIN, which the
agent has not. So the agent gives an order to a program that does nothing but write that file (ek-regulate,
started by its socket for each connection), and reads back what came of it.
"""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from . import performance
from .files import read_line, why
from .health import SCHEDULER, Device, flash_devices
from .performance import OFF
from .settings import Settings
from .store import Store

PERF_FILE = "io.evenkeel.perf"
_log = logging.getLogger(__name__)

# what an errno of the kernel means for an order; any other is told as it is
_WHY = {
    errno.ENOSPC: "all regulated groups together would have more than 100 % of it",
    errno.EPERM: "the kernel does not allow it (CAP_SYS_ADMIN)",
    errno.EOPNOTSUPP: f"{SCHEDULER} does not serve it any more",
    errno.ERANGE: "the kernel takes no such percent",
}


@dataclass(frozen=True, slots=True)
class Order:
    """PERCENT of the device NUMBER ("MAJ:MIN") for the cgroup PATH below the cgroup root."""

    path: str
    number: str
    percent: int


async def give(socket_path: str, orders: Sequence[Order], timeout_s: float) -> list[str]:
    """Have ORDERS carried out, one after the other; for each why it was not, or ""."""
    results: list[str] = []
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
                    results.append(_WHY.get(number) or os.strerror(number) if number else "")
    except TimeoutError:
        failed = f"ek-regulate did not answer within {timeout_s:g} s"
    except OSError as error:
        failed = f"ek-regulate cannot be asked at {socket_path}: {why(error)}"
    else:
        return results
    return results + [failed] * (len(orders) - len(results))


def read_perf(directory: str | None) -> str | None:
    """The content of the cgroup's io.evenkeel.perf; None without a cgroup, or if it has no such file."""
    if directory is None or not os.path.exists(f"{directory}/{PERF_FILE}"):
        return None
    return read_line(f"{directory}/{PERF_FILE}")


class Regulation:
    """Made by the agent, belongs to its event loop. Who saves holds `changing`, and enforce() takes it.

    What is kept is in force on every flash device, off included: what somebody wrote by hand for a listed
    app goes. An app without a cgroup is left alone.
    """

    def __init__(self, settings: Settings) -> None:
        """Blocks: reads what is kept."""
        self._settings = settings
        self._kept = Store(
            settings.state_dir, "performance", performance.problem, "no app has regulated performance"
        )
        self._devices: list[Device] = []  # the flash devices, as they were at the last look
        self._unapplied: dict[str, str] = {}  # by app: why what is kept is not in force
        self.changing = asyncio.Lock()

    @property
    def problem(self) -> str:
        return self._kept.problem

    def get(self, name: str) -> int:
        """The percent that NAME is to have; OFF: by weight."""
        return self._kept.get(name) or OFF

    def save(self, name: str, percent: int) -> None:
        """Keep PERCENT for NAME. Blocks for two flushes; on StoreError nothing has changed."""
        self._kept.save(name, None if percent == OFF else percent)

    def applied(self, name: str, content: str | None) -> bool:
        """Whether CONTENT, as of read_perf(), is what is kept; without a file OFF is."""
        percent = self.get(name)
        if content is None:
            return percent == OFF
        return performance.in_force(content, [device.number for device in self._devices], percent)

    @property
    def hindered(self) -> bool:
        """Whether something that is kept could not be put in force."""
        return bool(self._unapplied)

    def forget(self, listed: Container[str]) -> None:
        """What hindered apps that are not LISTED any more does not matter."""
        self._unapplied = {name: said for name, said in self._unapplied.items() if name in listed}

    def obstacle(self, name: str) -> str:
        """Why the performance of NAME could not be put in force when that was last tried, "" if it could."""
        return self._unapplied.get(name, "")

    async def enforce(self, cgroups: Mapping[str, str | None]) -> None:
        """Put in force what is kept for the apps of CGROUPS (directory by app); obstacle() tells what hinders."""
        async with self.changing:
            await self._enforce(cgroups)

    async def _enforce(self, cgroups: Mapping[str, str | None]) -> None:
        self._devices, contents = await asyncio.to_thread(self._look, cgroups)
        served = [device for device in self._devices if device.scheduler == SCHEDULER]
        orders: list[tuple[str, Device, Order]] = []
        for name, content in contents.items():
            percent = self.get(name)
            for device in served:
                if content is not None and not performance.in_force(content, [device.number], percent):
                    path = str(cgroups[name]).removeprefix(self._settings.cgroup_dir)
                    orders.append((name, device, Order(path, device.number, percent)))
        failed: dict[str, str] = {}
        if orders:
            # who gives some back first, or there might not be enough for who gets more
            orders.sort(key=lambda order: order[2].percent)
            results = await give(
                self._settings.regulate_socket,
                [order for _, _, order in orders],
                self._settings.call_timeout_s,
            )
            for (name, device, _), result in zip(orders, results, strict=True):
                if result:
                    failed.setdefault(name, f"{device.name}: {result}")
            _, contents = await asyncio.to_thread(self._look, cgroups)
        for name, directory in cgroups.items():
            content = contents[name]
            if directory is None or self.applied(name, content):
                self._unapplied.pop(name, None)
                continue
            reason = failed.get(name) or self._hindrance(content)
            percent = self.get(name)
            told = (
                f"performance {percent} % of {name} is not in force"
                if percent
                else f"regulated performance of {name} is still in force"
            )
            if self._unapplied.get(name) != f"{told}: {reason}":
                _log.warning("%s: %s", told, reason)
            self._unapplied[name] = f"{told}: {reason}"

    def _hindrance(self, content: str | None) -> str:
        """What is in the way, apart from orders that failed."""
        others = [device for device in self._devices if device.scheduler != SCHEDULER]
        if others:
            named = ", ".join(f"{device.name} has {device.scheduler}" for device in others)
            return f"only the scheduler {SCHEDULER} can do it, and {named}"
        if not self._devices:
            return "no flash device was found"
        if content is None:
            return f"its cgroup has no {PERF_FILE}: this {SCHEDULER} cannot do it, or is not loaded"
        return f"its {PERF_FILE} is {content!r:.60}"

    def _look(self, cgroups: Mapping[str, str | None]) -> tuple[list[Device], dict[str, str | None]]:
        devices = flash_devices(self._settings.path("/sys/block"))
        return devices, {name: read_perf(directory) for name, directory in cgroups.items()}
