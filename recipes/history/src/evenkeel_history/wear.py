# SPDX-License-Identifier: Apache-2.0
"""How worn the flash devices are, as far as they tell: EXT_CSD of eMMC, and what was written since the boot."""

from pathlib import Path

import msgspec
from evenkeel_common.files import read_line

SECTOR = 512
HEALTH = {1: "normal", 2: "warning", 3: "urgent"}  # PRE_EOL_INFO, JEDEC JESD84-B51, 7.4.43


class Wear(msgspec.Struct, frozen=True):
    """One device at one moment. None: the device does not tell."""

    device: str
    life_a: int | None = None  # percent of the life time used, upper end of the step that the device reports
    life_b: int | None = None
    pre_eol: str | None = None  # of the spare blocks: normal, warning (80 % used) or urgent (90 % used)
    written_bytes: int = 0  # since the boot, by all programs

    def json(self) -> bytes:
        return msgspec.json.encode(self)

    @property
    def state(self) -> tuple[object, ...]:
        """What the device reports about itself, which seldom changes."""
        return self.device, self.life_a, self.life_b, self.pre_eol


def _number(text: str) -> int:
    """A register as the kernel prints it, in hexadecimal; 0 if there is none."""
    try:
        return int(text, 16)
    except ValueError:
        return 0


def _life(text: str) -> int | None:
    """DEVICE_LIFE_TIME_EST: 1 means 0 to 10 %, 10 means 90 to 100 %, 11 means more than 100 %. 0: not told."""
    return min(_number(text), 11) * 10 or None


def wear(sys_block: Path, device: str) -> Wear:
    base = sys_block / device
    lives = read_line(str(base / "device/life_time")).split()
    counters = read_line(str(base / "stat")).split()
    return Wear(
        device,
        _life(lives[0]) if lives else None,
        _life(lives[1]) if len(lives) > 1 else None,
        HEALTH.get(_number(read_line(str(base / "device/pre_eol_info")))),
        int(counters[6]) * SECTOR if len(counters) > 6 and counters[6].isdigit() else 0,
    )
