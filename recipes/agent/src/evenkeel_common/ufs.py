# SPDX-License-Identifier: Apache-2.0
"""Finds where the kernel shows the health of a UFS device (Documentation/ABI/testing/sysfs-driver-ufs)."""

from pathlib import Path

# JEDEC JESD220, device health descriptor. The codes of the values are those of an eMMC.
LIFE_A, LIFE_B, SPARE_BLOCKS = "life_time_estimation_a", "life_time_estimation_b", "eol_info"


def health(disk: Path) -> Path | None:
    """The folder with the values of the disk whose folder in /sys/block is DISK; None if it is no UFS device."""
    above = ((disk / "device").resolve()).parents
    return next((found for p in above if (found := p / "health_descriptor").is_dir()), None)
