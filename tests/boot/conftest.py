# SPDX-License-Identifier: Apache-2.0
"""Boards that live as long as a file of tests: one booted by firmware, and one with an eMMC."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from boards import Board, power_on


@pytest.fixture(scope="module")
def board() -> Iterator[Board]:
    """Booted by OVMF and GRUB from a virtio disk."""
    yield from power_on("boot")


@pytest.fixture(scope="module")
def emmc_board() -> Iterator[Board]:
    """Booted from an emulated eMMC, the kernel handed over by QEMU."""
    yield from power_on("boot-emmc", emmc=True)
