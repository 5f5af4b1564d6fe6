# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH112, PTH118, PTH120
"""Finds where the kernel shows the health of a UFS device (Documentation/ABI/testing/sysfs-driver-ufs)."""

import os.path

# JEDEC JESD220, device health descriptor. The codes of the values are those of an eMMC.
LIFE_A, LIFE_B, SPARE_BLOCKS = "life_time_estimation_a", "life_time_estimation_b", "eol_info"


def health(disk: str) -> str | None:
    """The folder with the values of the disk whose folder in /sys/block is DISK; None if it is no UFS device."""
    above = os.path.realpath(os.path.join(disk, "device"))
    while above != "/":
        above = os.path.dirname(above)
        if os.path.isdir(found := os.path.join(above, "health_descriptor")):
            return found
    return None
