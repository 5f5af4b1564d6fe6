# SPDX-License-Identifier: Apache-2.0
"""preseed, with a folder in place of the EFI system partition: what becomes of the file, and power cuts."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[3]
PROGRAM = TOP / "recipes/image/data/rootfs/usr/lib/evenkeel/preseed"
EKCTL = TOP / "recipes/agent/src/evenkeel_agent/ekctl.py"
UNIT = TOP / "recipes/image/data/rootfs/usr/lib/systemd/system/evenkeel-preseed.service"


class Board:
    """A new board below FOLDER, after preinit has found the file. Mounting does nothing, because the partition is a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.esp = folder / "run/evenkeel/esp"
        self.new = folder / "var/lib/evenkeel-preseed/new"
        for path in (self.esp, self.new.parent, folder / "bin"):
            path.mkdir(parents=True)
        self.new.touch()
        self.write("evenkeel.toml", "name = 'a'\n")
        for name in ("mount", "umount", "udevadm", "ekctl", "sleep"):
            self.program(name)

    def program(self, name: str, text: str = "") -> None:
        file = self.folder / "bin" / name
        file.write_text(f'#!/bin/sh\necho "{name} $*" >> {self.folder}/calls\n{text}\n')
        file.chmod(0o755)

    def write(self, name: str, text: str) -> None:
        """Write a file on the partition. The next boot copies it."""
        (self.esp / name).write_text(text)
        (self.folder / "run/evenkeel/preseed.toml").write_text(text)
        (self.folder / "run/evenkeel/preseed-device").write_text("/dev/mmcblk0p1\n")

    def run(self) -> int:
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        environment = {"PATH": path, "EK_PRESEED_ROOT": str(self.folder)}
        done = subprocess.run(
            [PROGRAM], env=environment, capture_output=True, text=True, timeout=20, check=False
        )
        return done.returncode

    def calls(self, name: str) -> list[str]:
        """The calls of the program NAME, with its arguments."""
        lines = (self.folder / "calls").read_text().splitlines()
        return [line for line in lines if line.startswith(f"{name} ")]

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.esp.iterdir()}

    def message(self) -> str:
        return (self.folder / "run/evenkeel/preseed-message").read_text()


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path)


def test_an_applied_file_is_removed(board: Board) -> None:
    assert board.run() == 0
    assert (board.files(), board.new.exists()) == ({}, False)
    assert board.message() == "evenkeel.toml was applied, and removed from the EFI system partition\n"
    assert not (board.folder / "run/evenkeel/preseed.toml").exists(), "it has a password hash"
    assert (board.folder / "calls").read_text().splitlines() == [
        "udevadm settle --timeout=30",
        f"ekctl preseed {board.folder}/run/evenkeel/preseed.toml",
        f"mount -t vfat -o nosuid,nodev,noexec /dev/mmcblk0p1 {board.esp}",
        f"umount {board.esp}",
    ]


def test_a_file_with_an_error_is_renamed_and_nothing_is_lost(board: Board) -> None:
    board.program("ekctl", "echo 'ekctl: evenkeel.toml has an error.' >&2; exit 3")
    for text in ("first", "second"):
        board.write("evenkeel.toml", text)
        assert board.run() == 0
        assert "evenkeel.toml" not in board.files()
        assert board.message().startswith("evenkeel.toml has an error. Correct evenkeel.toml.failed on the")
    assert board.files() == {"evenkeel.toml.failed": "second", "evenkeel.toml.failed.~1~": "first"}
    assert board.new.exists(), "the next boot applies the corrected file"
    assert (len(board.calls("ekctl")), board.calls("sleep")) == (2, []), "a repetition would not help"


@pytest.mark.parametrize("status", [1, 2, 127])
def test_after_another_failure_the_file_stays(board: Board, status: int) -> None:
    board.program("ekctl", f"echo 'ekctl: the agent does not answer' >&2; exit {status}")
    assert board.run() == 1, "systemd reports the failed unit"
    assert (list(board.files()), board.new.exists()) == (["evenkeel.toml"], True)
    assert "not applied completely: the agent does not answer. Restart the board" in board.message()
    assert len(board.calls("ekctl")) == 4
    assert board.calls("sleep") == ["sleep 5", "sleep 10", "sleep 20"]


def test_a_failure_that_passes_is_not_left_to_the_next_boot(board: Board) -> None:
    """Until then, the owner may have set up the board by hand."""
    board.program("ekctl", f"grep -q sleep {board.folder}/calls || {{ echo 'ekctl: busy.'; exit 1; }}")
    assert board.run() == 0
    assert (board.files(), board.new.exists()) == ({}, False)
    assert board.calls("sleep") == ["sleep 5"]


def test_a_board_that_has_its_owner_ignores_the_file(board: Board) -> None:
    board.program("ekctl", "echo 'ekctl: evenkeel.toml is ignored' >&2; exit 4")
    assert board.run() == 0
    assert (list(board.files()), board.new.exists()) == (["evenkeel.toml"], False)
    assert not (board.folder / "run/evenkeel/preseed.toml").exists()
    assert board.message() == "evenkeel.toml is ignored\n"
    assert board.calls("sleep") + board.calls("mount") == []


def test_a_long_reason_leaves_room_for_what_to_do(board: Board) -> None:
    """Console and screen show at most 4096 bytes, and nothing of a longer message."""
    board.program("ekctl", 'echo Traceback >&2; echo "ValueError: $(seq -s x 3000)" >&2; exit 1')
    assert board.run() == 1
    message = board.message()
    assert "completely: ValueError: 1x2x" in message
    assert message.endswith(". Restart the board, which tries again\n")
    assert len(message) < 600
    assert "Traceback" not in message


def test_a_reason_may_have_several_lines(board: Board) -> None:
    """It may quote a key of the file."""
    board.program("ekctl", "printf 'ekctl: unknown field `\\n`; nothing of it was applied\\n' >&2; exit 3")
    assert board.run() == 0
    assert board.message().startswith("unknown field `\n`; nothing of it was applied. Correct evenkeel.toml")


def test_systemd_waits_for_all_attempts() -> None:
    """udevadm, ekctl and the pauses take so long at most."""
    (attempt,) = re.findall(r"^INSPECT_S = (\d+)\.0$", EKCTL.read_text(), re.MULTILINE)
    (minutes,) = re.findall(r"^TimeoutStartSec=(\d+)min$", UNIT.read_text(), re.MULTILINE)
    assert int(minutes) * 60 > 30 + 4 * int(attempt) + 5 + 10 + 20


@pytest.mark.parametrize("broken", ["mount", "umount", "rm"])
def test_a_partition_that_cannot_be_written_is_reported(board: Board, broken: str) -> None:
    """The file is applied once only: somebody may have changed the password since."""
    board.program(broken, 'case $* in *preseed*) exec /bin/rm "$@" ;; esac; exit 1')
    assert board.run() == 0
    assert not board.new.exists()
    assert "cannot be removed from the EFI system partition. Delete it" in board.message()


def test_an_error_and_a_partition_that_cannot_be_written(board: Board) -> None:
    board.program("ekctl", "exit 3")
    board.program("mount", "exit 1")
    assert board.run() == 0
    assert (list(board.files()), board.new.exists()) == (["evenkeel.toml"], True)
    assert "Correct evenkeel.toml on" in board.message()


@pytest.mark.parametrize("step", ["udevadm", "ekctl", "mount", "umount", "sync"])
def test_after_a_power_cut_the_next_boot_completes_the_work(board: Board, step: str) -> None:
    """preinit passes a file on while the board is new. Without a file, it ends this."""
    board.program(step, "kill -9 $PPID")
    assert board.run() == -9
    assert board.new.exists() or not board.files()
    board.program(step)
    if board.new.exists() and board.files():
        board.write("evenkeel.toml", "name = 'a'\n")
        assert board.run() == 0
    assert board.files() == {}


def test_the_unit_comes_before_certificate_and_console() -> None:
    text = UNIT.read_text()
    assert "Before=evenkeel-firstboot.service evenkeel-first-password.service\n" in text
    assert "After=evenkeeld.service" in text
    assert "[Install]" not in text, "only preinit starts it"
