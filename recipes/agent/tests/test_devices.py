# SPDX-License-Identifier: Apache-2.0
"""What a unit may open and the board has not got yet."""

from pathlib import Path

import pytest
from evenkeel_agent.devices import missing
from evenkeel_agent.settings import Settings

DEVICES = """Character devices:
  1 mem
  4 /dev/vc/0
116 alsa
226 drm

Block devices:
  7 loop
179 mmc
"""


@pytest.fixture
def board(tmp_path: Path) -> Settings:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/devices").write_text(DEVICES)
    (tmp_path / "dev/disk").mkdir(parents=True)
    (tmp_path / "dev/mmcblk0").touch()
    (tmp_path / "dev/disk/stick").symlink_to("../sda")
    return Settings(root=str(tmp_path))


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("/dev/mmcblk0", True),
        ("/dev/sda", False),
        ("/dev/disk/stick", False),
        ("char-alsa", True),
        ("char-ttyUSB", False),
        ("block-mmc", True),
        ("block-alsa", False),
        ("block-sd", False),
        ("char-*", True),
        ("block-m*", True),
        # ProtectClock= adds it to every unit
        ("char-rtc", True),
        # systemd knows no such kind, and ignores it
        ("usb-thing", True),
    ],
)
def test_what_is_missing(board: Settings, name: str, there: bool) -> None:
    assert missing([name], board) == ([] if there else [name])


def test_without_proc_groups_count_as_there(tmp_path: Path) -> None:
    assert missing(["char-alsa", "/dev/sda"], Settings(root=str(tmp_path))) == ["/dev/sda"]
