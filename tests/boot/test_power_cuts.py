# SPDX-License-Identifier: Apache-2.0
"""Power cuts during an update and a factory reset, on a disk that loses what was not flushed: the board starts by itself.

The update, or the reset, runs once to its end, and QEMU logs what the board writes. From this log come the disks of power cuts
at any moment (power_cuts.py), and a board starts from each. So the cuts need no luck to hit the short steps.
"""

from __future__ import annotations

import http.server
import json
import os
import random
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from boards import CONSOLE, Board
from bundles import Factory
from power_cuts import Replay
from ranges import Server
from sample import DEEP, SEED, sample
from vm import MEDIUM_BYTES, TOP, WRITES

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = TOP / "build/test-boot-power-cuts"
VERSION = (TOP / "VERSION").read_text().strip()
NEWER = "99.0.0"
# a file of the new version that makes the board write much
FILLER = "/usr/share/filler"
# QEMU's address of this machine, as the board sees it
HOST = "10.0.2.2"
# cuts in each part of an operation
CUTS = 25 if DEEP else 1
CONFIRM_SECONDS = 400


@dataclass(frozen=True)
class Cut:
    part: str
    moment: int
    outcomes: frozenset[str]  # "old", "new"


def answer(board: Board, command: str) -> str:
    """The line that COMMAND prints. The board may write its address to the console at the same time."""
    return next(line for line in board.run(command).splitlines() if not line.startswith("evenkeel: "))


def wait_until_confirmed(board: Board) -> None:
    end = time.monotonic() + CONFIRM_SECONDS
    while (state := answer(board, "systemctl show -P ActiveState evenkeel-slot-good.service")) in (
        "inactive",
        "activating",
    ):
        assert time.monotonic() < end, board.run("systemctl list-jobs --no-pager")
        time.sleep(2)
    assert state == "active", board.run("journalctl -b --no-pager -o cat -u evenkeel-slot-good.service")


def version(board: Board) -> str:
    lines = board.run("cat /etc/os-release").splitlines()
    (found,) = [line.partition("=")[2] for line in lines if line.startswith("IMAGE_VERSION=")]
    return found


class Operation(ABC):
    """What the power cuts interrupt. It has three steps; run() notes the position in the log before and after each."""

    # the three steps. Cuts are drawn in each, and around the writes to the state of the boot loader
    steps: ClassVar[tuple[str, str, str]]

    @abstractmethod
    def run(self, board: Board, log: Path, server: str) -> list[int]:
        """Run it on the board. SERVER has the bundle. Returns the four positions in the log."""

    @abstractmethod
    def outcome(self, board: Board) -> str:
        """Whether a board has the state before the operation ("old") or after it ("new"). Nothing else may be."""


class Update(Operation):
    steps = ("installation", "restart", "first start")

    def run(self, board: Board, log: Path, server: str) -> list[int]:
        positions = [log.stat().st_size]
        board.run(f"ekctl install {server}/keys-{NEWER}.raucb", 900)
        positions.append(log.stat().st_size)
        board.run("(sleep 1; systemctl reboot) > /dev/null 2>&1 &")
        board.wait_for_boot()
        assert version(board) == NEWER
        positions.append(log.stat().st_size)
        wait_until_confirmed(board)
        return [*positions, log.stat().st_size]

    def outcome(self, board: Board) -> str:
        assert answer(board, "cat /etc/hostname") == "press-7"
        assert "keeper" in board.run("ekctl users")
        return {VERSION: "old", NEWER: "new"}[version(board)]


class FactoryReset(Operation):
    steps = ("order", "reset", "first start")

    def run(self, board: Board, log: Path, server: str) -> list[int]:
        positions = [log.stat().st_size]
        board.run("/usr/lib/evenkeel/factory-reset order all")
        positions.append(log.stat().st_size)
        board.run("(sleep 1; systemctl reboot) > /dev/null 2>&1 &")
        board.wait_for_boot()
        assert answer(board, "cat /etc/hostname") != "press-7"
        positions.append(log.stat().st_size)
        wait_until_confirmed(board)
        return [*positions, log.stat().st_size]

    def outcome(self, board: Board) -> str:
        assert "RESET" not in board.run("grub-editenv /bootstate/grubenv list")
        assert version(board) == VERSION
        name, users = answer(board, "cat /etc/hostname"), board.run("ekctl users")
        recorded = board.try_run("ls /recorder/kept")[0] == 0
        assert (name == "press-7") == ("keeper" in users) == recorded, (name, users, recorded)
        return "old" if recorded else "new"


class Recording:
    """An operation that has run to its end on a board, and the cuts that are drawn for it, by their moments."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        factory = Factory(FOLDER)
        factory.bundle(factory.other_root(NEWER, {FILLER: os.urandom(24 << 20)}), NEWER)
        image = factory.image()
        self._state = boot_state(image)
        board = Board(FOLDER / "board", credentials=(CONSOLE,), image=image, log_writes=True)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Server, directory=str(FOLDER)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        log = board.machine.run / WRITES
        try:
            board.power_on()
            assert board.settled() == "running", board.run("systemctl --failed --no-pager")
            board.run("ekctl set-name press-7; ekctl add-user keeper operator; touch /recorder/kept; sync")
            wait_until_confirmed(board)
            positions = operation.run(board, log, f"http://{HOST}:{server.server_port}")
        finally:
            server.shutdown()
            if board.on:
                board.power_cut()
        self.replay = Replay(image, log, MEDIUM_BYTES)
        self._marks = [self.replay.index(position) for position in positions]
        print(f"writes and flushes until each mark: {self._marks}")
        self.cuts = sorted(self._drawn(), key=lambda cut: cut.moment)

    def _drawn(self) -> Iterator[Cut]:
        marks, entries = self._marks, self.replay.entries
        writes = [
            i for i in range(marks[0], marks[3]) if entries[i].length and entries[i].offset in self._state
        ]
        assert len(writes) >= 4, "the operation must write the state of the boot loader"
        parts = {
            step: list(range(marks[number], marks[number + 1] + 1))
            for number, step in enumerate(self.operation.steps)
        }
        parts["boot state"] = [write + step for write in writes for step in (0, 1, 2)]
        for part, moments in parts.items():
            dice = random.Random(f"{SEED} power cut: {part}")  # noqa: S311 no secret
            for moment in dice.choices(moments, k=CUTS):
                # Once the first step has ended, the board has promised the new state.
                old, new = moment < marks[1], moment > writes[0]
                yield Cut(part, moment, frozenset(["old"] * old + ["new"] * new))


def boot_state(image: Path) -> range:
    """The bytes of the partition with the state of the boot loader."""
    done = subprocess.run(["sfdisk", "--json", image], capture_output=True, text=True, check=True)
    parts = json.loads(done.stdout)["partitiontable"]["partitions"]
    (part,) = [part for part in parts if part["name"] == "bootstate"]
    return range(part["start"] * 512, (part["start"] + part["size"]) * 512)


@pytest.fixture(scope="module", params=sample("power cuts", [Update, FactoryReset]))
def recording(request: pytest.FixtureRequest) -> Iterator[Recording]:
    yield Recording(request.param())
    for file in (*FOLDER.iterdir(), *(FOLDER / "board").iterdir()):
        if file.suffix in (".img", ".ext4", ".raucb", ".log", ".qcow2"):
            file.unlink()


@pytest.mark.parametrize("number", range(CUTS * 4))
def test_the_board_starts_by_itself_after_a_power_cut(number: int, recording: Recording) -> None:
    cut = recording.cuts[number]
    with recording.replay.cut(cut.moment, f"{SEED} {cut.moment}") as lost:
        print(f"{cut.part}, before write {cut.moment}: {lost} blocks are lost")
        board = Board(FOLDER / "cut", credentials=(CONSOLE,), image=recording.replay.image)
        try:
            board.power_on()
            assert board.settled() == "running", board.run("systemctl --failed --no-pager")
            outcome = recording.operation.outcome(board)
            print(f"  {outcome}")
            assert outcome in cut.outcomes
            wait_until_confirmed(board)
            assert board.health()[1]["health"] == "ok", board.run("ekctl status")
        finally:
            if board.on:
                board.power_cut()
