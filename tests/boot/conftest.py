# SPDX-License-Identifier: Apache-2.0
"""Boards that all tests of one file share: one that boots by UEFI firmware, and one that boots from an eMMC."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import sample
from boards import Board, power_on


def pytest_report_header() -> str:
    return sample.header()


@pytest.fixture(scope="module")
def board(request: pytest.FixtureRequest) -> Iterator[Board]:
    """A board that OVMF and GRUB boot from a virtio disk.

    Its folder in build/ has the name of the test file, because several test files may run at the same time. In
    test_system.py it really starts; for the other files it is a copy of a board that has started.
    """
    name = request.path.stem.replace("test_", "boot-")
    yield from power_on(name, cold=name == "boot-system")


@pytest.fixture(scope="module")
def emmc_board() -> Iterator[Board]:
    """A board that boots from an emulated eMMC. QEMU loads the kernel itself."""
    yield from power_on("boot-emmc", emmc=True)
