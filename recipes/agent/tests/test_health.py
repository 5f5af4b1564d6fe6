# SPDX-License-Identifier: Apache-2.0
"""Which devices count as flash, and the problems of the board."""

import os
from pathlib import Path

import pytest
from evenkeel_agent.health import active_scheduler, flash_devices, inspect, slot
from evenkeel_agent.settings import Settings


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("none mq-deadline [evenkeel]", "evenkeel"),
        ("[none] mq-deadline", "none"),
        ("none", "none"),
        ("", "none"),
    ],
)
def test_the_active_scheduler_is_in_brackets(line: str, name: str) -> None:
    assert active_scheduler(line) == name


@pytest.mark.parametrize(
    ("cmdline", "name"),
    [
        ("quiet rauc.slot=A rw", "A"),
        ("rauc.slot=B", "B"),
        ("rauc.slot=C", "unknown"),
        ("xrauc.slot=A", "unknown"),
        ("", "unknown"),
    ],
)
def test_the_slot_comes_from_the_kernel_command_line(cmdline: str, name: str) -> None:
    assert slot(cmdline) == name


def device(root: Path, name: str, rotational: str = "1", size: str = "8", scheduler: str = "[none]") -> None:
    base = root / "sys/block" / name
    (base / "queue").mkdir(parents=True)
    (base / "size").write_text(size + "\n")
    (base / "queue/rotational").write_text(rotational + "\n")
    (base / "queue/scheduler").write_text(scheduler + "\n")


def test_flash_devices(tmp_path: Path) -> None:
    for name in ("mmcblk0", "nvme0n1", "vda", "nullb0"):
        device(tmp_path, name)
    device(tmp_path, "sda", rotational="0")
    device(tmp_path, "sdb", rotational="1")
    device(tmp_path, "vdb", size="0")
    device(tmp_path, "nvme1n1", scheduler="none")
    for name in ("loop0", "ram0", "zram0", "dm-0", "md0", "sr0", "nbd0", "mmcblk0boot0", "mmcblk0boot1"):
        device(tmp_path, name, rotational="0")
    device(tmp_path, "nvme1c1n1")
    (tmp_path / "sys/block/nvme1c1n1/hidden").write_text("1\n")
    assert [d.name for d in flash_devices(str(tmp_path / "sys/block"))] == [
        "mmcblk0",
        "nullb0",
        "nvme0n1",
        "sda",
        "vda",
    ]


def test_one_device_without_evenkeel_is_a_problem(tmp_path: Path) -> None:
    device(tmp_path, "vda", scheduler="none [evenkeel]")
    board = inspect(Settings(root=str(tmp_path)))
    assert (board.scheduler, board.problems) == ("evenkeel", [])
    device(tmp_path, "vdb", scheduler="none [mq-deadline] evenkeel")
    board = inspect(Settings(root=str(tmp_path)))
    assert board.scheduler == "mq-deadline"
    assert [str(problem) for problem in board.problems] == [
        "evenkeel is not active on vdb: its scheduler is mq-deadline;"
        " restart the board on the page System, or run 'echo evenkeel > /sys/block/vdb/queue/scheduler'"
    ]


def test_a_board_without_any_files(tmp_path: Path) -> None:
    board = inspect(Settings(root=str(tmp_path)))
    assert (board.kernel, board.slot, board.uptime_s, board.demo) == ("unknown", "unknown", 0, False)
    assert board.scheduler == "none"
    assert list(map(str, board.problems)) == [
        "no flash device was found; check that the kernel has its driver"
    ]


def test_data_in_memory_is_a_problem(tmp_path: Path) -> None:
    device(tmp_path, "vda", scheduler="[evenkeel]")
    marker = tmp_path / "run/evenkeel/data-degraded"
    marker.parent.mkdir(parents=True)
    marker.touch()
    problem = "the data partition is not in use: changes are lost at the next boot"
    assert list(map(str, inspect(Settings(root=str(tmp_path))).problems)) == [problem]
    marker.write_text("fsck failed\nmore\n")
    assert "(fsck failed)" in str(inspect(Settings(root=str(tmp_path))).problems[0])


def test_changes_that_a_start_removed_are_a_problem(tmp_path: Path) -> None:
    device(tmp_path, "vda", scheduler="[evenkeel]")
    removed = tmp_path / "run/evenkeel/etc-removed"
    removed.parent.mkdir(parents=True)
    removed.touch()
    assert inspect(Settings(root=str(tmp_path))).problems == []
    removed.write_text("".join(f"/etc/{number}\n" for number in range(7)))
    (problem,) = map(str, inspect(Settings(root=str(tmp_path))).problems)
    assert "(7: /etc/0, /etc/1, /etc/2, /etc/3, /etc/4);" in problem
    (tmp_path / "run/evenkeel/etc-problems").write_text(
        "ek-etc: /etc/evenkeel/keep.d/x, line 2 is ignored: y\n"
    )
    assert "line 2 is ignored: y; correct" in str(inspect(Settings(root=str(tmp_path))).problems[1])
    (tmp_path / "run/evenkeel/etc-problems").unlink()
    removed.write_bytes(b"/etc/\xff\n")
    assert len(inspect(Settings(root=str(tmp_path))).problems) == 1


def test_little_free_space_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device(tmp_path, "vda", scheduler="[evenkeel]")
    settings = Settings(root=str(tmp_path))
    found = os.statvfs(tmp_path)
    asked = []

    def statvfs(path: str) -> os.statvfs_result:
        asked.append(path)
        # blocks that only root may use do not count
        return os.statvfs_result((4096, 4096, found.f_blocks, 100_000, blocks, *found[5:]))

    monkeypatch.setattr(os, "statvfs", statvfs)
    blocks = 4000
    assert inspect(settings).problems == []
    blocks = 1000
    assert list(map(str, inspect(settings).problems)) == [
        "the data partition is nearly full (4 MB are free), so the board may fail to save changes and the history"
    ]
    assert asked == [settings.state_dir] * 2


def test_a_credential_switches_the_demo_on(tmp_path: Path) -> None:
    (tmp_path / "evenkeel.demo").touch()
    assert inspect(Settings(root=str(tmp_path), credentials=str(tmp_path))).demo
