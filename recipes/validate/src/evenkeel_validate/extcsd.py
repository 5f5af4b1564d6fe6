# SPDX-License-Identifier: Apache-2.0
"""Decodes EXT_CSD, the 512 bytes in which an eMMC describes itself.

Source: JEDEC JESD84-B51, clause 7.4 (Extended CSD register). The number in brackets is the byte of the register there.
"""

from collections.abc import Callable
from dataclasses import dataclass

SIZE = 512
SPARE_BLOCKS = {1: "normal", 2: "warning: 80 % used", 3: "urgent: 90 % used"}
REVISIONS = {1: "4.1", 2: "4.2", 3: "4.3", 5: "4.41", 6: "4.5", 7: "5.0", 8: "5.1"}


@dataclass(frozen=True)
class Register:
    """A field of EXT_CSD: `size` bytes from `byte` on, the least significant first.

    `meaning` turns the number into text. It returns "" if the device leaves the field undefined.
    """

    name: str
    byte: int
    size: int
    title: str
    meaning: Callable[[int], str]

    @property
    def source(self) -> str:
        last = self.byte + self.size - 1
        return f"{self.name} [{self.byte}]" if self.size == 1 else f"{self.name} [{last}:{self.byte}]"


def life(value: int) -> str:
    """DEVICE_LIFE_TIME_EST, of an eMMC or a UFS device: 1 stands for 0 to 10 % used, 10 for 90 to 100 %, 11 for more."""
    if 1 <= value <= 10:
        return f"{10 * value - 10} to {10 * value} % used"
    return "more than 100 % used" if value == 11 else ""


def _flag(bit: int, yes: str = "yes", no: str = "no") -> Callable[[int], str]:
    return lambda value: yes if value >> bit & 1 else no


def _named(names: dict[int, str]) -> Callable[[int], str]:
    return lambda value: names.get(value, "")


def _kib(unit: int) -> Callable[[int], str]:
    return lambda value: f"{value * unit} KiB" if value else ""


def _timing(value: int) -> str:
    return {0: "backwards compatible", 1: "high speed", 2: "HS200", 3: "HS400"}.get(value & 0xF, "")


REGISTERS = (
    Register("EXT_CSD_REV", 192, 1, "eMMC version", _named(REVISIONS)),
    Register("FIRMWARE_VERSION", 254, 8, "firmware", lambda value: f"0x{value:016x}" if value else ""),
    Register(
        "SEC_COUNT", 212, 4, "size", lambda value: f"{value * 512 / 1e9:.1f} GB" if value else "below 2 GB"
    ),
    Register("DEVICE_LIFE_TIME_EST_TYP_A", 268, 1, "life time, type A", life),
    Register("DEVICE_LIFE_TIME_EST_TYP_B", 269, 1, "life time, type B", life),
    Register("PRE_EOL_INFO", 267, 1, "spare blocks", _named(SPARE_BLOCKS)),
    Register(
        "CACHE_SIZE", 249, 4, "volatile cache", lambda value: f"{value} KiB" if value else "none"
    ),
    Register("CACHE_CTRL", 33, 1, "cache is on", _flag(0)),
    Register("CMDQ_SUPPORT", 308, 1, "command queue", _flag(0, "supported", "not supported")),
    Register("CMDQ_DEPTH", 307, 1, "command queue depth", lambda value: str((value & 0x1F) + 1)),
    Register("CMDQ_MODE_EN", 15, 1, "command queue is on", _flag(0)),
    Register("HS_TIMING", 185, 1, "bus timing", _timing),
    Register("BKOPS_SUPPORT", 502, 1, "background operations", _flag(0, "supported", "not supported")),
    Register("BKOPS_EN", 163, 1, "background operations by themselves", _flag(1)),
    Register(
        "BKOPS_STATUS", 246, 1, "background operations due",
        lambda value: ("none", "not critical", "performance is impacted", "critical")[value & 3],
    ),
    Register("HC_ERASE_GRP_SIZE", 224, 1, "erase group", _kib(512)),
    Register("OPTIMAL_READ_SIZE", 266, 1, "best size of reads", _kib(4)),
    Register("OPTIMAL_WRITE_SIZE", 265, 1, "best size of writes", _kib(4)),
    Register(
        "OPTIMAL_TRIM_UNIT_SIZE", 264, 1, "best size of trims",
        lambda value: f"{4 << (value - 1)} KiB" if 0 < value < 22 else "",
    ),
    Register("WR_REL_SET", 167, 1, "reliable writes", lambda value: "yes" if value & 0x1F == 0x1F else "not on all partitions"),
)  # fmt: skip


def parse(text: str) -> bytes:
    """The register from the hexadecimal text of debugfs (mmcN/mmcN:RCA/ext_csd). Raises ValueError."""
    content = bytes.fromhex(text.strip())
    if len(content) != SIZE:
        raise ValueError(f"the register has {len(content)} bytes, not {SIZE}")
    return content


def value(content: bytes, register: Register) -> int:
    return int.from_bytes(content[register.byte : register.byte + register.size], "little")


def decode(content: bytes) -> list[tuple[Register, str]]:
    """Each field with its meaning; "" if the device leaves the field undefined."""
    return [(register, register.meaning(value(content, register))) for register in REGISTERS]
