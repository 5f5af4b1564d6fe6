# SPDX-License-Identifier: Apache-2.0
"""What a device says about itself: EXT_CSD of an eMMC, health of a UFS device, SMART of an SSD, and the kernel's view.

It changes nothing.

A fact that cannot be read stays in the list, with the reason.
"""

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenkeel_agent.health import active_scheduler
from evenkeel_common import ufs
from evenkeel_common.files import read_line, why

from . import extcsd

# A program that reads SMART waits for the device. A device that hangs must not stop the validation.
SMART_S = 20.0
Run = Callable[[list[str]], tuple[int, str]]


@dataclass(frozen=True)
class Fact:
    """`value` is "" if the fact is missing; `reason` then says why."""

    title: str
    value: str
    source: str
    reason: str = ""

    def as_json(self) -> dict[str, str]:
        return {"title": self.title, "value": self.value, "source": self.source, "reason": self.reason}


def run_program(arguments: list[str]) -> tuple[int, str]:
    """(status, standard output) of a program. Raises OSError if it cannot run or takes more than SMART_S."""
    try:
        done = subprocess.run(
            arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SMART_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{arguments[0]} took more than {SMART_S:g} s") from error
    return done.returncode, done.stdout


def kind(disk: str) -> str:
    """The kind of the disk NAME: mmc, nvme, scsi (SATA, UFS, USB) or other."""
    prefixes = {"mmcblk": "mmc", "nvme": "nvme", "sd": "scsi"}
    return next((found for prefix, found in prefixes.items() if disk.startswith(prefix)), "other")


def identity(sys: Path, disk: str) -> str:
    """A text that is the same at each validation of one device; "" if the device has no number of its own."""
    base = sys / "block" / disk
    names = ("device/cid", "wwid", "device/wwid", "device/serial", "serial")
    return next(filter(None, (read_line(str(base / name)) for name in names)), "")


# kind of the disk -> attribute with its firmware revision; SATA and UFS: the revision of SCSI's INQUIRY
FIRMWARE = {"mmc": "fwrev", "nvme": "firmware_rev"}


def gather(sys: Path, disk: str, run: Run = run_program) -> list[Fact]:
    """All facts of the disk NAME."""
    base = sys / "block" / disk
    found = [
        _attribute("model", base / "device/name" if kind(disk) == "mmc" else base / "device/model"),
        _attribute("manufacturer", base / "device/manfid" if kind(disk) == "mmc" else base / "device/vendor"),
        _attribute("firmware revision", base / "device" / FIRMWARE.get(kind(disk), "rev")),
        _attribute("write cache, as the kernel sees it", base / "queue/write_cache"),
        _attribute("queue depth of the kernel", base / "queue/nr_requests"),
        _attribute("largest request, KiB", base / "queue/max_sectors_kb"),
        _attribute("largest discard, bytes", base / "queue/discard_max_bytes"),
    ]  # fmt: skip
    scheduler = active_scheduler(read_line(str(base / "queue/scheduler")))
    found.append(Fact("scheduler", scheduler, str(base / "queue/scheduler")))
    match kind(disk):
        case "mmc":
            found += _ext_csd(sys, disk)
        case "nvme" | "scsi":
            folder = ufs.health(str(base))
            found += _ufs(Path(folder)) if folder else _smart(disk, run)
        case _:
            found.append(Fact("health", "", "", f"{disk} is neither eMMC, SD, SATA, UFS nor NVMe"))
    return found


def _attribute(title: str, path: Path) -> Fact:
    text = read_line(str(path))
    return Fact(title, text, str(path), "" if text else "the kernel does not report it")


def _ext_csd(sys: Path, disk: str) -> list[Fact]:
    card = (sys / "block" / disk / "device").resolve().name  # "mmc0:0001"
    path = sys / "kernel/debug" / card.partition(":")[0] / card / "ext_csd"
    try:
        content = extcsd.parse(path.read_text())
    except OSError as error:
        reason = f"{path}: {why(error)}; mount debugfs and run ek-validate as root. An SD card has no such register"
        return _attributes(sys / "block" / disk / "device", reason)
    except ValueError as error:
        return _attributes(sys / "block" / disk / "device", f"{path}: {error}")
    return [
        Fact(r.title, text, r.source, "" if text else "the device leaves the register undefined")
        for r, text in extcsd.decode(content)
    ]


# register -> (attribute of the kernel, which word of it), for boards without debugfs
ATTRIBUTES = {
    "DEVICE_LIFE_TIME_EST_TYP_A": ("life_time", 0),
    "DEVICE_LIFE_TIME_EST_TYP_B": ("life_time", 1),
    "PRE_EOL_INFO": ("pre_eol_info", 0),
    "EXT_CSD_REV": ("rev", 0),
    "CMDQ_MODE_EN": ("cmdq_en", 0),
}


def _attributes(device: Path, reason: str) -> list[Fact]:
    """The registers that the kernel shows in the folder DEVICE; the others are missing because of REASON."""
    found = []
    for register in extcsd.REGISTERS:
        name, index = ATTRIBUTES.get(register.name, ("", 0))
        words = read_line(str(device / name)).split() if name else []
        try:
            text = register.meaning(int(words[index], 16))
        except (LookupError, ValueError):
            text = ""
        found.append(Fact(register.title, text, register.source, "" if text else reason))
    return found


# title -> value of a UFS device, and what its codes mean
UFS = {
    "life time, type A": (ufs.LIFE_A, extcsd.life),
    "life time, type B": (ufs.LIFE_B, extcsd.life),
    "spare blocks": (ufs.SPARE_BLOCKS, lambda value: extcsd.SPARE_BLOCKS.get(value, "")),
}


def _ufs(folder: Path) -> list[Fact]:
    found = []
    for title, (name, meaning) in UFS.items():
        path = folder / name
        text = read_line(str(path))
        try:
            value, reason = meaning(int(text, 16)), "the device leaves the value undefined"
        except ValueError:
            # The kernel asks the device at each read, and a device in a low-power state may not answer.
            value, reason = (
                "",
                "the device did not answer" if path.exists() else "the kernel does not report it",
            )
        found.append(Fact(title, value, str(path), "" if value else reason))
    return found


# title -> path in the JSON of smartctl, for NVMe and for ATA
SMART: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "health": (("smart_status", "passed"),),
    "life time used, %": (("nvme_smart_health_information_log", "percentage_used"),),
    "spare blocks left, %": (("nvme_smart_health_information_log", "available_spare"),),
    "media errors": (("nvme_smart_health_information_log", "media_errors"),),
    "temperature, °C": (("temperature", "current"),),
    "power-on hours": (("power_on_time", "hours"),),
    "firmware": (("firmware_version",),),
}


def _smart(disk: str, run: Run) -> list[Fact]:
    """Facts of `smartctl --json`, which reads ATA, SCSI and NVMe."""
    source = f"smartctl --json --all /dev/{disk}"
    try:
        status, text = run(source.split())
    except OSError as error:
        reason = f"smartctl: {why(error)}; install smartmontools"
        return [Fact(title, "", source, reason) for title in SMART]
    try:
        content = json.loads(text)
    except ValueError:
        reason = f"smartctl ended with status {status} and printed no JSON"
        return [Fact(title, "", source, reason) for title in SMART]
    return [_smart_fact(title, content, paths, source) for title, paths in SMART.items()]


def _smart_fact(title: str, content: Any, paths: tuple[tuple[str, ...], ...], source: str) -> Fact:
    for path in paths:
        found = content
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        if found is not None:
            text = {True: "passed", False: "FAILED"}[found] if isinstance(found, bool) else str(found)
            return Fact(title, text, source)
    return Fact(title, "", source, "the device does not report it")
