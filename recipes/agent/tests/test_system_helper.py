# SPDX-License-Identifier: Apache-2.0
"""ek-system: which orders it takes, and which commands it runs. test_system.py and test_update.py run them on a bus."""

import json
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from agent_harness import COMPONENT
from evenkeel_agent import recorder_config, system_helper
from evenkeel_agent.recorder_config import Recorder
from evenkeel_agent.system_orders import (
    EndSystem,
    Order,
    OrderReset,
    SaveName,
    SaveZone,
    SetRecorder,
    UseServers,
)
from hypothesis import given
from hypothesis import strategies as st

ARM = "record_size = 64\nretain = 1GiB\n"
RESET = "org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager"


def run(order: Order, failing: str = "", folder: str = "/none") -> tuple[list[str], dict[str, Any]]:
    """The commands of ORDER without their common part, and the answer. The command that contains FAILING fails."""
    called: list[str] = []

    def run(command: Sequence[str], limit_s: float) -> None:
        assert limit_s == system_helper.CALL_S + 1
        assert list(command[:5]) == ["busctl", "--quiet", "--timeout=8", "--", "call"]
        called.append(" ".join(command[5:]))
        if failing and failing in called[-1]:
            raise OSError("Call failed: the bus is tired")

    return called, json.loads(system_helper.answer(msgspec.json.encode(order), run, folder))


@pytest.mark.parametrize(
    ("order", "commands"),
    [
        (
            SaveName("press-7"),
            [
                "org.freedesktop.hostname1 /org/freedesktop/hostname1 org.freedesktop.hostname1"
                " SetStaticHostname sb press-7 false"
            ],
        ),
        (
            SaveZone("Europe/Berlin"),
            [
                "org.freedesktop.timedate1 /org/freedesktop/timedate1 org.freedesktop.timedate1"
                " SetTimezone sb Europe/Berlin false"
            ],
        ),
        (
            UseServers(["a.example", "::1"]),
            [
                "org.freedesktop.timesync1 /org/freedesktop/timesync1 org.freedesktop.timesync1.Manager"
                " SetRuntimeNTPServers as 2 a.example ::1"
            ],
        ),
        (
            EndSystem("restart"),
            ["org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager Reboot b false"],
        ),
        (
            EndSystem("power-off"),
            [
                "org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager PowerOff b false"
            ],
        ),
        (OrderReset("all"), [f"{RESET} StartUnit ss evenkeel-factory-reset@all.service replace"]),
        (
            OrderReset("none"),
            [
                f"{RESET} StopUnit ss evenkeel-factory-reset@keep.service replace",
                f"{RESET} StopUnit ss evenkeel-factory-reset@all.service replace",
                f"{RESET} StartUnit ss evenkeel-factory-reset@none.service replace",
            ],
        ),
    ],
)
def test_an_order_runs_its_commands(order: Order, commands: list[str]) -> None:
    assert run(order) == (commands, {})


def test_after_an_error_the_next_commands_are_not_run() -> None:
    called, answer = run(OrderReset("none"), failing="@all")
    assert len(called) == 2
    assert answer == {"error": "external", "parameters": {"text": "the bus is tired"}, "kind": "Failed"}


def test_the_recorder_reads_its_files_after_they_are_changed(tmp_path: Path) -> None:
    (tmp_path / "channels.d").mkdir()
    (tmp_path / "channels.d/leg.conf").write_text("old")
    order = SetRecorder("press", 0, {"arm": ARM, "leg": None})
    reload = "org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager"
    reload += " ReloadOrTryRestartUnit ss ek-recorder.service replace"
    assert run(order, folder=str(tmp_path)) == ([reload], {})
    assert (tmp_path / "channels.d/arm.conf").read_text() == ARM
    assert not (tmp_path / "channels.d/leg.conf").exists()
    assert (tmp_path / "recorder.conf").read_text() == "group = press\n"


def test_a_file_of_the_recorder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    called, answer = run(SetRecorder("press", 0, {"arm": ARM}), folder=str(tmp_path))
    assert (called, answer["kind"]) == ([], "Failed")
    assert "No such file" in answer["parameters"]["text"]


def test_the_largest_order_fits_into_a_packet() -> None:
    text = ARM + "# " + "x" * (recorder_config.MAX_BYTES - 2_000)
    assert recorder_config.checked(Recorder("press", 0, {"arm": text}))
    order = SetRecorder("press", 0, {"arm": text, **{f"c{number}": None for number in range(64)}})
    packet = json.dumps(msgspec.to_builtins(order)).encode()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        assert ours.send(packet) == len(packet)
        assert theirs.recv(system_helper.PACKET) == packet


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"order": "halt"}',
        b'{"name": "press"}',
        b'{"order": "name"}',
        b'{"order": "name", "name": "a.b"}',
        b'{"order": "name", "name": "a\\n"}',
        b'{"order": "name", "name": "--help"}',
        b'{"order": "name", "name": "press", "pretty": "x"}',
        b'{"order": "zone", "zone": "../UTC"}',
        b'{"order": "servers", "servers": ["--address=x"]}',
        b'{"order": "servers", "servers": ["a b"]}',
        b'{"order": "servers", "servers": "a"}',
        b'{"order": "servers", "servers": ["a", "a", "a", "a", "a", "a", "a", "a", "a"]}',
        b'{"order": "end", "how": "halt"}',
        b'{"order": "reset", "what": "x"}',
        b'{"order": "reset", "what": "keep.service"}',
        b"[" * 16384,
        b'{"order": "recorder", "group": "x", "priority": 0}',
        b'{"order": "recorder", "group": "x\\ndirectory = /srv", "priority": 0, "channels": {}}',
        b'{"order": "recorder", "group": "a b", "priority": 0, "channels": {}}',
        b'{"order": "recorder", "group": "x", "priority": 99, "channels": {}}',
        b'{"order": "recorder", "group": "x", "priority": 0, "channels": {"../x": null}}',
        b'{"order": "recorder", "group": "x", "priority": 0, "channels": {"x.conf": null}}',
        b'{"order": "recorder", "group": "x", "priority": 0, "channels": {"x": 5}}',
        b'{"order": "recorder", "group": "x", "priority": 0, "channels": {"x": "schema = /etc/shadow"}}',
        b'{"order": "recorder", "group": "x", "priority": 0, "channels": {}, "directory": "/srv"}',
    ],
)
def test_an_order_that_breaks_a_rule_runs_nothing(packet: bytes) -> None:
    def run(command: Sequence[str], limit_s: float) -> None:
        raise AssertionError(command, limit_s)

    found = json.loads(system_helper.answer(packet, run))
    assert found["kind"] == "Failed"
    assert found["parameters"]["text"].startswith("the order is not valid")


@given(
    st.binary(max_size=200)
    | st.recursive(st.text() | st.integers(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_no_packet_is_fatal(packet: bytes) -> None:
    assert b"not valid" in system_helper.answer(packet, lambda *_: None)


def test_the_program_answers_on_standard_input() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ours.send(b'{"order": "end", "how": "halt"}')
        command = [sys.executable, str(COMPONENT / "src/ek-system")]
        done = subprocess.run(command, stdin=theirs, capture_output=True, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (0, b"")
        assert b"the order is not valid" in ours.recv(65536)
