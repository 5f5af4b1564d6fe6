# SPDX-License-Identifier: Apache-2.0
"""ek-network: files for systemd-networkd, deadline, kill at any moment, boot. networkd is fake; one test runs the program."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from evenkeel_agent import network_helper
from evenkeel_agent.network_helper import APPLY_S, DAMAGED, MARK, Clock, Helper
from evenkeel_agent.network_trial import TRIAL_S, decode

COMPONENT = Path(__file__).resolve().parent.parent
FIXED = {"interface": "eth0", "mode": "fixed", "address": "10.0.0.5/8", "gateway": "", "dns": ["10.0.0.1"]}
FILE = "50-evenkeel-eth0.network"


class Killed(BaseException):
    """Ends the helper in the middle of a step, as SIGKILL does."""


class Board:
    """A board with a fake systemd-networkd, which has read `read`. Helpers come and go."""

    def __init__(self, folder: Path) -> None:
        self.state, self.files = folder / "state.json", folder / "files"
        self.files.mkdir()
        self.now_s, self.boot = 1000.0, "first"
        self.read: dict[str, str] = {}
        self.reloads = 0
        self.fails = ""  # why the reload fails
        self.helper = self.start()

    def start(self) -> Helper:
        self.helper = Helper(
            Clock(lambda: self.now_s, self.boot), str(self.state), str(self.files), self.reload
        )
        return self.helper

    def reload(self) -> None:
        if self.fails:
            raise OSError(self.fails)
        self.reloads += 1
        self.read = self.present()

    def present(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.files.glob("*.network")}

    def ask(self, order: str, **more: Any) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.helper.answer(json.dumps({"order": order, **more}).encode()))
        return answer

    def set(self, **more: Any) -> dict[str, Any]:
        return self.ask("set", **{**FIXED, **more})

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.helper.work()

    def addresses(self) -> list[str]:
        """What networkd uses."""
        return [
            line for text in self.read.values() for line in text.splitlines() if line.startswith("Address=")
        ]


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path)


def confirmed(board: Board) -> None:
    board.set()
    board.wait(APPLY_S)
    assert "error" not in board.ask("confirm")


def test_a_change_is_in_force_after_the_answer_and_stays_when_confirmed(board: Board) -> None:
    answer = board.set()
    assert answer["trial"] == {"interfaces": ["eth0"], "left_s": 60}
    assert decode(board.state.read_bytes()).trial, (
        "the deadline is on the medium before the change is in force"
    )
    board.helper.work()
    assert board.addresses() == [], "the answer must reach the caller first"
    board.wait(APPLY_S)
    assert board.addresses() == ["Address=10.0.0.5/8"]
    answer = board.ask("confirm")
    assert (answer["trial"], answer["last"], answer["settings"]["eth0"]["address"]) == (
        None,
        "confirmed",
        "10.0.0.5/8",
    )
    board.wait(10 * TRIAL_S)
    assert board.addresses() == ["Address=10.0.0.5/8"]
    assert board.helper.work() is None
    assert board.reloads == 1


def test_a_backup_is_restored_for_all_interfaces_in_one_change(board: Board) -> None:
    confirmed(board)
    eth1 = {"mode": "fixed", "address": "10.1.0.5/16", "gateway": "", "dns": []}
    answer = board.ask("restore", changes={"eth0": None, "eth1": eth1})
    assert answer["trial"] == {"interfaces": ["eth0", "eth1"], "left_s": 60}
    assert (answer["settings"], list(answer["saved"])) == ({"eth1": eth1}, ["eth0"])
    assert board.ask("restore", changes={"eth1": eth1})["error"] == "network-trial-runs"
    board.wait(APPLY_S)
    assert board.addresses() == ["Address=10.1.0.5/16"]
    board.wait(TRIAL_S)
    assert board.addresses() == ["Address=10.0.0.5/8"]
    board.ask("restore", changes={"eth0": None, "eth1": eth1})
    board.wait(APPLY_S)
    assert board.ask("confirm")["saved"] == {"eth1": eth1}
    board.start().work()
    assert board.addresses() == ["Address=10.1.0.5/16"]


@pytest.mark.parametrize("changes", [{}, [], None, {"lo": None}, {"eth0": {"mode": "dhcp"}}, {"eth0": 5}])
def test_a_restore_that_is_not_valid_changes_nothing(board: Board, changes: Any) -> None:
    confirmed(board)
    before = board.state.read_bytes()
    assert "error" in board.ask("restore", changes=changes)
    assert board.state.read_bytes() == before


def test_a_change_that_nobody_confirms_is_undone(board: Board) -> None:
    confirmed(board)
    board.set(address="10.0.0.6/8")
    wait_s = board.helper.work()
    assert wait_s == APPLY_S
    board.now_s += wait_s
    wait_s = board.helper.work()
    assert wait_s == TRIAL_S - APPLY_S, "the loop wakes up at the deadline"
    assert board.addresses() == ["Address=10.0.0.6/8"]
    board.wait(wait_s)
    assert board.addresses() == ["Address=10.0.0.5/8"]
    assert board.ask("state")["last"] == "expired"
    assert board.ask("confirm")["error"] == "network-no-trial"


def test_the_first_change_leaves_no_file_when_it_is_undone(board: Board) -> None:
    board.set()
    board.wait(APPLY_S)
    board.ask("revert")
    board.wait(APPLY_S)
    assert board.present() == board.read == {}
    assert board.ask("state")["last"] == "reverted"


def test_a_change_that_is_not_in_force_yet_cannot_be_confirmed(board: Board) -> None:
    board.set()
    assert board.ask("confirm")["error"] == "network-too-early"
    board.fails = "networkd does not run"
    board.wait(APPLY_S)
    assert board.ask("confirm")["error"] == "network-too-early"
    board.fails = ""
    board.wait(5)
    assert "error" not in board.ask("confirm")


@pytest.mark.parametrize("moment", ["before-files", "in-files", "before-reload", "after-reload"])
@pytest.mark.parametrize("step", ["apply", "undo"])
def test_a_kill_at_any_moment_ends_in_confirmed_settings(
    board: Board, monkeypatch: pytest.MonkeyPatch, moment: str, step: str
) -> None:
    """A new process goes on: it applies the change, and undoes it at the deadline that the first one has set."""
    confirmed(board)
    board.set(address="10.0.0.6/8")
    deadline_s = board.now_s + TRIAL_S
    if step == "undo":
        board.wait(APPLY_S)
        assert board.addresses() == ["Address=10.0.0.6/8"]
    board.now_s = deadline_s if step == "undo" else board.now_s + APPLY_S

    def killed(*_: Any) -> None:
        raise Killed

    def reload_and_die() -> None:
        board.reload()
        raise Killed

    if moment in ("before-files", "in-files"):
        monkeypatch.setattr(board.helper, "_write_files", killed)
        if moment == "in-files":
            (board.files / (FILE + ".new")).write_text("[Mat")
    else:
        monkeypatch.setattr(board.helper, "_reload", killed if moment == "before-reload" else reload_and_die)
    with pytest.raises(Killed):
        board.helper.work()
    board.start().work()
    assert board.addresses() == ["Address=10.0.0.5/8" if step == "undo" else "Address=10.0.0.6/8"]
    board.now_s = max(board.now_s, deadline_s)
    board.helper.work()
    assert board.addresses() == ["Address=10.0.0.5/8"]
    assert {path.name for path in board.files.iterdir()} == {FILE}


def test_a_power_cut_during_a_change_ends_in_the_old_settings(board: Board) -> None:
    confirmed(board)
    board.set(address="10.0.0.6/8")
    board.wait(APPLY_S)
    for path in board.files.iterdir():
        path.unlink()  # /run is empty at a boot
    board.read, board.now_s, board.boot = {}, 3.0, "-"
    board.start().boot()
    assert "Address=10.0.0.5/8" in board.present()[FILE]
    assert board.reloads == 2, "networkd has not started yet"
    board.boot = "second"
    board.start()
    assert (board.ask("state")["trial"], board.ask("state")["last"]) == (None, "restarted")


def test_a_boot_without_the_boot_unit_also_drops_the_change(board: Board) -> None:
    board.set()
    board.now_s, board.boot = 3.0, "second"
    board.start().work()
    assert board.present() == {}
    assert board.ask("state")["last"] == "restarted"


def test_networkd_that_fails_is_asked_again(board: Board) -> None:
    confirmed(board)
    board.set(address="10.0.0.6/8")
    board.wait(APPLY_S)
    board.fails = "no bus"
    board.wait(TRIAL_S)
    assert board.helper.work() == network_helper.RETRY_S
    board.fails = ""
    board.start().work()
    assert board.addresses() == ["Address=10.0.0.5/8"]
    assert not (board.files / MARK).exists()


def test_a_state_that_cannot_be_saved_changes_nothing(board: Board) -> None:
    confirmed(board)
    (board.state.parent / (board.state.name + ".new")).mkdir()
    answer = board.set(address="10.0.0.6/8")
    assert answer["error"] == "network-not-saved"
    board.wait(APPLY_S)
    assert board.addresses() == ["Address=10.0.0.5/8"]
    assert board.ask("state")["trial"] is None


def test_a_damaged_state_is_kept_and_reported(board: Board) -> None:
    confirmed(board)
    board.state.write_bytes(b"{")
    board.start().work()
    assert board.present() == {}
    damaged = board.ask("state")["damaged"]
    assert damaged == str(board.state) + DAMAGED
    assert Path(damaged).read_bytes() == b"{"
    confirmed(board)
    assert board.ask("state")["damaged"] == ""


def test_files_of_others_stay(board: Board) -> None:
    other = board.files / "40-mine.network"
    other.write_text("[Match]\n")
    board.set()
    board.wait(APPLY_S)
    board.wait(TRIAL_S)
    assert other.read_text() == "[Match]\n"


@pytest.mark.parametrize(
    "request_",
    [
        {**FIXED, "interface": "../eth0"},
        {**FIXED, "interface": "lo"},
        {**FIXED, "interface": "eth0\n[Network]"},
        {**FIXED, "address": "10.0.0.5/8\nDNS=6.6.6.6"},
        {**FIXED, "dns": ["10.0.0.1\nDHCP=yes"]},
        {**FIXED, "gateway": "11.0.0.1"},
        {**FIXED, "mode": "other"},
        {"interface": "eth0"},
    ],
)
def test_the_helper_checks_again(board: Board, request_: dict[str, Any]) -> None:
    assert "error" in board.ask("set", **request_)
    board.wait(APPLY_S)
    assert board.present() == {}
    assert not board.state.exists()


@pytest.mark.parametrize(
    "packet", [b"", b"{", b"[]", b"7", b'"state"', b'{"order": "reload"}', b'{"order": null}', b"\xff"]
)
def test_a_bad_request_gets_an_answer(board: Board, packet: bytes) -> None:
    assert "error" in json.loads(board.helper.answer(packet))


def test_others_may_read_the_file_and_not_write_it(board: Board) -> None:
    before = os.umask(0o077)  # as UMask= of the unit
    try:
        board.set()
        board.wait(APPLY_S)
    finally:
        os.umask(before)
    assert (board.files / FILE).stat().st_mode & 0o777 == 0o644


def test_the_loop_wakes_up_when_something_is_due(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def select(_: Any, __: Any, ___: Any, timeout_s: float) -> tuple[list[Any], list[Any], list[Any]]:
        waits.append(timeout_s)
        board.now_s += timeout_s
        return [], [], []

    monkeypatch.setattr(network_helper.select, "select", select)
    board.set()
    with socket.socket() as listener:
        network_helper.serve(listener, board.helper)
    assert waits == [APPLY_S, TRIAL_S - APPLY_S, network_helper.IDLE_S]
    assert board.read == {}


def test_the_program_undoes_a_change_although_it_is_killed(tmp_path: Path) -> None:
    """The real program on a socket, with short times: set, kill -9, start again, and no confirmation."""
    (tmp_path / "files").mkdir()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(tmp_path / "s"))
    listener.listen()
    script = f"""
import os, socket, sys
from evenkeel_agent import network_helper, network_trial
network_trial.TRIAL_S, network_helper.APPLY_S, network_helper.IDLE_S = 3.0, 0.1, 0.5
clock = network_helper.Clock(boot=network_helper.boot_id())
helper = network_helper.Helper(clock, {str(tmp_path / "state")!r}, {str(tmp_path / "files")!r}, lambda: None)
network_helper.serve(socket.socket(fileno={listener.fileno()}), helper)
"""

    def start() -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": str(COMPONENT / "src")}
        return subprocess.Popen(
            [sys.executable, "-c", script], pass_fds=(listener.fileno(),), env=environment
        )

    def ask(**order: Any) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(20)
            connection.connect(str(tmp_path / "s"))
            connection.sendall(json.dumps(order).encode())
            answer: dict[str, Any] = json.loads(connection.recv(1 << 16))
            return answer

    file, process = tmp_path / "files" / FILE, start()
    try:
        assert "error" not in ask(order="set", **FIXED)
        began = time.monotonic()
        while not file.exists():
            assert time.monotonic() - began < 20
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait(20)
        assert file.exists()
        process = start()
        assert process.wait(20) == 0, "it ends by itself after it has undone the change"
        assert not file.exists()
        assert decode((tmp_path / "state").read_bytes()).last == "expired"
    finally:
        process.kill()
        process.wait(20)
        listener.close()
