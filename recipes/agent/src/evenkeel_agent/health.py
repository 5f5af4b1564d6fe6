# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH110, PTH123, PTH208
"""The state of the board, apart from the apps: its slot, its flash devices, and their problems."""

import os
from dataclasses import dataclass

from evenkeel_api.features.board import Device as DeviceState
from evenkeel_api.messages import Message
from evenkeel_common.files import read_line

from .settings import Settings

SCHEDULER = "evenkeel"
# A device whose name begins with one of these is flash, or a virtual device that stands for flash in a VM or test.
# Its queue/rotational does not matter.
FLASH = ("mmcblk", "nvme", "vd", "nullb")
# A device whose name begins with one of these has no flash of its own, or needs no I/O scheduler.
OTHER = ("loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd", "mtdblock")


# With less free space on the data partition, there is a problem: the databases of agent and history need some MB to grow.
LOW_BYTES = 16_000_000
# how many of the changes that a start removed from /etc are named
NAMED = 5


@dataclass(frozen=True, slots=True)
class Device:
    """A flash device. NUMBER is "MAJ:MIN". SCHEDULER is the name of the active I/O scheduler."""

    name: str
    number: str
    scheduler: str
    model: str
    size_bytes: int

    def state(self) -> DeviceState:
        return DeviceState(
            name=self.name, scheduler=self.scheduler, model=self.model, size_bytes=self.size_bytes
        )


@dataclass(frozen=True, slots=True)
class Board:
    kernel: str
    slot: str  # "A", "B" or "unknown"
    uptime_s: int
    demo: bool
    devices: list[Device]
    problems: list[Message]

    @property
    def scheduler(self) -> str:
        """evenkeel if it serves all flash devices, else the scheduler of the first device that it does not serve."""
        others = [device.scheduler for device in self.devices if device.scheduler != SCHEDULER]
        return others[0] if others else SCHEDULER if self.devices else "none"


def active_scheduler(line: str) -> str:
    """The active scheduler in the text of queue/scheduler, for example "none mq-deadline [evenkeel]"."""
    _, _, rest = line.partition("[")
    return rest.partition("]")[0] or line.strip() or "none"


def slot(cmdline: str) -> str:
    """The slot that the boot loader chose: the value of rauc.slot= in the kernel command line CMDLINE, or "unknown"."""
    for word in cmdline.split():
        if word in ("rauc.slot=A", "rauc.slot=B"):
            return word[-1]
    return "unknown"


def _is_flash(name: str, queue: str) -> bool:
    if name.startswith(OTHER) or (name.startswith("mmcblk") and "boot" in name):
        return False
    return name.startswith(FLASH) or read_line(f"{queue}/rotational") == "0"


def flash_devices(sys_block: str) -> list[Device]:
    """The flash devices that have a medium, sorted by name."""
    try:
        names = sorted(os.listdir(sys_block))
    except OSError:
        return []
    devices = []
    for name in names:
        base = f"{sys_block}/{name}"
        sectors = read_line(f"{base}/size")
        scheduler = read_line(f"{base}/queue/scheduler")
        # The text "none" without brackets means that the device has no request queue, for example the head of an
        # NVMe multipath device. Such a device can have no I/O scheduler.
        if scheduler == "none" or read_line(f"{base}/hidden") == "1":
            continue
        if not sectors.isdigit() or int(sectors) == 0:
            continue
        if _is_flash(name, f"{base}/queue"):
            model = read_line(f"{base}/device/model") or read_line(f"{base}/device/name")
            number = read_line(f"{base}/dev")
            devices.append(Device(name, number, active_scheduler(scheduler), model, int(sectors) * 512))
    return devices


def _lines(path: str) -> list[str]:
    """The lines of a file; none if it cannot be read."""
    try:
        with open(path, errors="replace") as file:
            return file.read(64 << 10).splitlines()
    except OSError:
        return []


def _free_bytes(folder: str) -> int | None:
    """How much the agent may still write to the file system of FOLDER; None if this is not known."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def inspect(settings: Settings) -> Board:
    """Read the state of the board. Blocks for a few dozen small reads."""
    devices = flash_devices(settings.path("/sys/block"))
    problems = [
        Message("scheduler-inactive", device=device.name, scheduler=device.scheduler)
        for device in devices
        if device.scheduler != SCHEDULER
    ]
    if not devices:
        problems.append(Message("no-flash"))
    marker = settings.path("/run/evenkeel/data-degraded")
    if os.path.exists(marker):
        reason = read_line(marker).partition("\n")[0]
        problems.append(Message("data-degraded", reason=f" ({reason})" if reason else ""))
    removed = settings.path("/run/evenkeel/etc-removed")
    paths = _lines(removed)
    if paths:
        problems.append(Message("etc-removed", count=len(paths), paths=", ".join(paths[:NAMED])))
    wrong = _lines(settings.path("/run/evenkeel/etc-problems"))
    if wrong:
        problems.append(Message("etc-problems", reason=wrong[-1][:200]))
    free = _free_bytes(settings.state_dir)
    if free is not None and free < LOW_BYTES:
        problems.append(Message("data-full", free=free // 1_000_000))
    uptime = read_line(settings.path("/proc/uptime")).partition(".")[0]
    return Board(
        kernel=read_line(settings.path("/proc/sys/kernel/osrelease")) or "unknown",
        slot=slot(read_line(settings.path("/proc/cmdline"))),
        uptime_s=int(uptime) if uptime.isdigit() else 0,
        demo=os.path.exists(f"{settings.credentials_dir}/evenkeel.demo"),
        devices=devices,
        problems=problems,
    )
