# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH118
"""The wear of flash devices: what an eMMC or a UFS device reports about itself, and the bytes written since boot."""

import os.path

import msgspec

from . import ufs
from .files import read_line

SECTOR = 512
HEALTH = {1: "normal", 2: "warning", 3: "urgent"}  # PRE_EOL_INFO, JEDEC JESD84-B51, 7.4.43


class Wear(msgspec.Struct, frozen=True):
    """The wear of one device at one moment. None: the device does not report the value."""

    device: str
    # used part of the life time of memory of type A, in percent: upper end of the range that the device reports
    life_a: int | None = None
    life_b: int | None = None  # the same for memory of type B
    pre_eol: str | None = None  # state of the spare blocks: normal, warning (80 % used) or urgent (90 % used)
    written_bytes: int = 0  # bytes that all programs together have written since boot

    def json(self) -> bytes:
        return msgspec.json.encode(self)

    @property
    def state(self) -> tuple[object, ...]:
        """The values that the device reports about itself. They seldom change."""
        return self.device, self.life_a, self.life_b, self.pre_eol

    @property
    def life_used(self) -> int | None:
        """The used part of the life in percent: of the two types of memory, the larger value. None: not reported."""
        return max((life for life in (self.life_a, self.life_b) if life is not None), default=None)


def _number(text: str) -> int:
    """A register as the kernel prints it, in hexadecimal; 0 if there is none."""
    try:
        return int(text, 16)
    except ValueError:
        return 0


def _life(text: str) -> int | None:
    """DEVICE_LIFE_TIME_EST of an eMMC, or its like of a UFS device, in percent: the upper end of its range.

    None if the device does not report it. The register is 1 for 0 to 10 %, 10 for 90 to 100 %, 11 for more than 100 %
    (gives 110), and 0 if it is not defined.
    """
    return min(_number(text), 11) * 10 or None


def wear(sys_block: str, device: str) -> Wear:
    """What DEVICE, a name in the folder SYS_BLOCK, reports. Blocks for a few small reads."""
    base = os.path.join(sys_block, device)
    if folder := ufs.health(base):
        lives = [read_line(os.path.join(folder, name)) for name in (ufs.LIFE_A, ufs.LIFE_B)]
        spare = read_line(os.path.join(folder, ufs.SPARE_BLOCKS))
    else:
        lives = read_line(f"{base}/device/life_time").split()
        spare = read_line(f"{base}/device/pre_eol_info")
    counters = read_line(f"{base}/stat").split()
    return Wear(
        device,
        _life(lives[0]) if lives else None,
        _life(lives[1]) if len(lives) > 1 else None,
        HEALTH.get(_number(spare)),
        int(counters[6]) * SECTOR if len(counters) > 6 and counters[6].isdigit() else 0,
    )
