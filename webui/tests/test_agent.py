# SPDX-License-Identifier: Apache-2.0
"""The D-Bus client, with an agent on a private bus."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from evenkeel_agent import journal, support
from evenkeel_agent.settings import Settings as AgentSettings
from evenkeel_panel import texts
from evenkeel_panel.agent import TIMEOUT_S, AgentRefused, AgentUnreachable, BusAgent
from evenkeel_panel.testing import COMPONENT

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(shutil.which("dbus-daemon") is None, reason="needs dbus-daemon")

DOCTYPE = "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
CONFIG = f"""<!DOCTYPE busconfig PUBLIC "{DOCTYPE}" "busconfig.dtd">
<busconfig><type>session</type><listen>unix:path=%s</listen><auth>EXTERNAL</auth><policy context="default">
<allow send_destination="*" eavesdrop="true"/><allow receive_sender="*" eavesdrop="true"/>
<allow own="*"/><allow user="*"/></policy></busconfig>
"""


class Bus:
    def __init__(self, directory: Path) -> None:
        self.address = f"unix:path={directory}/bus"
        self._directory = directory
        self._processes: list[subprocess.Popen[str]] = []
        self.daemon: subprocess.Popen[str] | None = None
        self.agent: subprocess.Popen[str] | None = None

    def start_daemon(self) -> None:
        config = self._directory / "bus.conf"
        config.write_text(CONFIG % f"{self._directory}/bus")
        self.daemon = self._start(["dbus-daemon", f"--config-file={config}", "--nofork", "--print-address"])

    def start_agent(self) -> None:
        self.agent = self._start([sys.executable, str(COMPONENT / "tests/bus_service.py"), self.address])

    def _start(self, command: list[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._processes.append(process)
        assert process.stdout
        assert process.stdout.readline(), f"{command[0]} did not start"
        return process

    def stop(self, process: subprocess.Popen[str] | None) -> None:
        if process is not None and process.stdout and not process.stdout.closed:
            process.kill()
            process.communicate()

    def close(self) -> None:
        for process in self._processes:
            self.stop(process)


@pytest.fixture
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    bus = Bus(tmp_path_factory.mktemp("bus"))
    bus.start_daemon()
    yield bus
    bus.close()


def test_calls_and_refusals(bus: Bus) -> None:
    bus.start_agent()
    agent = BusAgent(bus.address, timeout_s=0.5)
    status = agent.call("GetStatus", "s", "")
    assert (status.scheduler, status.slot, [note.code for note in status.problems], status.uptime_s) == (
        "evenkeel",
        "B",
        ["no-flash"],
        7,
    )
    player = agent.call("ListApps", "s", "")[0]
    assert (player.name, player.weight, player.read_bps, player.p99_us) == ("player", 100, 5e6, 1234.5)
    assert (player.fixed_share, player.fixed_share_applied) == (10, False)
    assert texts.plain(player.fixed_share_problem[0]) == "the reason", "of a newer agent"
    assert (player.fixed_share_used, player.fixed_share_late, player.fixed_share_behind) == (0.5, 0.25, True)
    assert agent.call("SetWeight", "s", "", "player", 400).weight == 400
    assert agent.call("SetFixedShare", "s", "", "player", 25).fixed_share == 25
    with pytest.raises(AgentRefused, match="There is no app 'nobody'"):
        agent.call("SetFixedShare", "s", "", "nobody", 25)
    with pytest.raises(AgentRefused, match="There is no app 'nobody'") as refused:
        agent.call("SetWeight", "s", "", "nobody", 400)
    assert refused.value.kind == "UnknownApp"
    assert refused.value.http == 404
    with pytest.raises(AgentRefused) as refused:
        agent.call("SetWeight", "", "", "player", 400)
    assert (refused.value.kind, str(refused.value)) == ("NotLoggedIn", "The session has ended; log in again.")


def test_ended_sessions_are_signalled(bus: Bus) -> None:
    bus.start_agent()
    agent = BusAgent(bus.address, timeout_s=2)
    signalled = threading.Event()
    agent.call("GetStatus", "s", "")
    agent.on_sessions_changed(signalled.set)
    agent.call("LogOut", "s", "")
    assert signalled.wait(5)


def test_hanging_agent_costs_one_time_out(bus: Bus) -> None:
    bus.start_agent()
    agent = BusAgent(bus.address, timeout_s=0.5)
    start = time.monotonic()
    with pytest.raises(AgentUnreachable, match=r"did not answer within 0\.5 s") as lost:
        agent.call("StartApp", "s", "", "sleepy")
    assert time.monotonic() - start < 2
    assert lost.value.sent
    assert agent.call("ListApps", "s", "")


def test_call_that_times_out_does_not_cancel_others(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent sets a weight although another call times out meanwhile."""
    bus.start_agent()
    monkeypatch.setattr("evenkeel_panel.agent.SLOW", {"SetWeight"})
    agent = BusAgent(bus.address, timeout_s=0.2, slow_timeout_s=5)
    with ThreadPoolExecutor(1) as pool:
        weight = pool.submit(agent.call, "SetWeight", "s", "", "later", 7)
        time.sleep(0.3)
        with pytest.raises(AgentUnreachable, match=r"did not answer within 0\.2 s"):
            agent._call("Sleep")
        assert agent.call("ListApps", "s", "")[0].weight == 100
        assert weight.result().weight == 7
    assert agent.call("ListApps", "s", "")[0].weight == 7
    assert agent._in_flight == {}


def test_agent_starts_late_and_restarts(bus: Bus) -> None:
    agent = BusAgent(bus.address, timeout_s=2)
    with pytest.raises(AgentUnreachable, match="it is not running") as lost:
        agent.call("GetStatus", "s", "")
    assert not lost.value.sent
    bus.start_agent()
    assert agent.call("GetStatus", "s", "").kernel == "6.12"
    bus.stop(bus.agent)
    with pytest.raises(AgentUnreachable):
        agent.call("GetStatus", "s", "")
    bus.start_agent()
    assert agent.call("GetStatus", "s", "").kernel == "6.12"


def test_bus_restarts(bus: Bus) -> None:
    bus.start_agent()
    agent = BusAgent(bus.address, timeout_s=1)
    agent.call("GetStatus", "s", "")
    bus.stop(bus.agent)
    bus.stop(bus.daemon)
    with pytest.raises(AgentUnreachable):
        agent.call("GetStatus", "s", "")
    with pytest.raises(AgentUnreachable, match="message bus cannot be reached"):
        agent.call("GetStatus", "s", "")
    bus.start_daemon()
    bus.start_agent()
    assert agent.call("GetStatus", "s", "").kernel == "6.12"


def test_no_text_ends_the_connection_of_all_users(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bus ends a connection on which a text with NUL arrives. So a viewer could make the calls of others fail."""
    bus.start_agent()
    monkeypatch.setattr("evenkeel_panel.agent.SLOW", {"SetWeight"})
    agent = BusAgent(bus.address, timeout_s=0.2, slow_timeout_s=5)
    with ThreadPoolExecutor(1) as pool:
        weight = pool.submit(agent.call, "SetWeight", "s", "", "later", 7)
        time.sleep(0.3)
        for text in ("1.1.1.1\0", "\ud800"):
            with pytest.raises(AgentUnreachable) as error:
                agent.call("SetNetwork", text, text, "e0", "fixed", text, text, [text, "9.9.9.9"])
            assert error.value.note.code == "agent-slow", "this agent never answers, so the call has arrived"
        assert weight.result().weight == 7


def test_malformed_answer(bus: Bus) -> None:
    bus.start_agent()
    agent = BusAgent(bus.address, timeout_s=1)
    with pytest.raises(AgentUnreachable, match="cannot be read"):
        agent.call("SetWeight", "s", "", "garbled", 1)


def test_an_open_file_arrives_and_its_connection_ends(bus: Bus) -> None:
    bus.start_agent()
    agent = BusAgent(bus.address, timeout_s=5)
    agent.call("GetStatus", "s", "")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        descriptor = agent.call("OpenRecording", "s", "", "", "", "", "mcap", ["arm"])
        with os.fdopen(descriptor, "rb") as file:
            assert file.read() == b"a file"
    with pytest.raises(AgentUnreachable, match="descriptor is missing"):
        agent.call("OpenRecording", "s", "", "", "", "none", "mcap", ["arm"])
    gc.collect()  # dbus-fast's objects refer to each other
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
    assert agent.call("GetStatus", "s", "").slot == "B"


def test_the_panel_waits_longer_than_the_agent() -> None:
    """So the user reads for whom the agent waited. The page waits longer than the panel."""
    assert AgentSettings().call_timeout_s < TIMEOUT_S < 20
    assert journal.ANSWER_S < TIMEOUT_S
    assert support.QUERY_S + support.SEND_S < TIMEOUT_S
