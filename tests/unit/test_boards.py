# SPDX-License-Identifier: Apache-2.0
"""tests/boards.py: if a wait for QEMU times out, the test fails, and the message says where the log is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boards
import pytest


class Hung:
    """A fake for both the machine and its QEMU process: it neither answers nor ends."""

    returncode = None

    def __init__(self, run: Path, _: Path | None = None) -> None:
        self.qemu_log = run / "qemu.log"

    def start(self, _options: Any) -> Hung:
        return self

    def connect(self, _name: str) -> None:
        raise ConnectionRefusedError

    def state(self) -> dict[str, Any]:
        return {}

    def poll(self) -> None:
        return None

    def kill(self) -> None:
        pass


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> boards.Board:
    monkeypatch.setattr(boards, "QEMU_SECONDS", 0)
    monkeypatch.setattr(boards, "Machine", Hung)
    return boards.Board(tmp_path, credentials=(), emmc=False)


def test_a_qemu_without_a_console_fails_the_test(board: boards.Board, tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="did not open the serial console") as failed:
        board.power_on()
    assert str(tmp_path / "qemu.log") in str(failed.value)


def test_a_qemu_that_does_not_end_fails_the_test(board: boards.Board, tmp_path: Path) -> None:
    board.qemu = Hung(tmp_path)  # type: ignore[assignment]
    with pytest.raises(pytest.fail.Exception, match="did not end") as failed:
        board.power_cut()
    assert str(tmp_path / "qemu.log") in str(failed.value)
