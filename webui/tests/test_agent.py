# SPDX-License-Identifier: Apache-2.0
"""The D-Bus client, with an agent on a private bus."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from evenkeel_agent import journal, support
from evenkeel_agent.settings import Settings as AgentSettings
from evenkeel_panel import texts
from evenkeel_panel.agent import TIMEOUT_S, AgentRefused, AgentUnreachable, BusAgent
from evenkeel_panel.app import create_app
from evenkeel_panel.testing import BASE, COMPONENT, Browser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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

    def start_agent(self, program: str = "bus_service.py") -> None:
        """PROGRAM: bus_service.py has a few methods, and ways to fail. bus_agent.py has all methods that a page needs."""
        self.agent = self._start([sys.executable, str(COMPONENT / "tests" / program), self.address])

    def hang(self) -> None:
        """Make the agent hang. It stays on the bus, and gets its calls when it continues."""
        assert self.agent
        self.agent.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self.agent
        self.agent.send_signal(signal.SIGCONT)

    def _start(self, command: list[str]) -> subprocess.Popen[str]:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
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


# ---- an agent that hangs ----

ASK_S, SILENT_S = 0.2, 0.5


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The panel notices within 0.7 s that the agent hangs."""
    monkeypatch.setattr("evenkeel_panel.agent.ASK_S", ASK_S)
    monkeypatch.setattr("evenkeel_panel.agent.SILENT_S", SILENT_S)


def seconds(work: Callable[[], object]) -> float:
    start = time.monotonic()
    work()
    return time.monotonic() - start


def until(condition: Callable[[], bool]) -> None:
    """Wait until CONDITION. While the agent counts as silent, a call raises AgentUnreachable."""
    end = time.monotonic() + 10
    while True:
        with suppress(AgentUnreachable):
            if condition():
                return
        assert time.monotonic() < end
        time.sleep(0.05)


def silent(agent: BusAgent) -> AgentUnreachable:
    with pytest.raises(AgentUnreachable) as lost:
        agent.call("ListApps", "s", "")
    return lost.value


@pytest.mark.usefixtures("impatient")
def test_a_hang_is_noticed_once_and_its_end_as_well(bus: Bus) -> None:
    bus.start_agent()
    agent = BusAgent(bus.address)
    assert agent.call("ListApps", "s", "")
    for _ in range(2):
        bus.hang()
        assert ASK_S + SILENT_S <= seconds(lambda: silent(agent)) < 5
        assert seconds(lambda: [silent(agent) for _ in range(200)]) < 1
        lost = silent(agent)
        assert (lost.note.code, lost.sent) == ("agent-silent", False)
        with pytest.raises(AgentUnreachable) as lost_change:
            agent.call("SetWeight", "s", "", "player", 400)
        assert not lost_change.value.sent, "the user reads that the weight has not changed"
        bus.go_on()
        until(lambda: bool(agent.call("ListApps", "s", "")))


@pytest.mark.usefixtures("impatient")
def test_a_change_that_was_sent_before_a_hang_is_made_after_it(bus: Bus) -> None:
    """The user waits, rather than to read that the change may have been made."""
    bus.start_agent()
    agent = BusAgent(bus.address)
    assert agent.call("ListApps", "s", "")
    bus.hang()
    with ThreadPoolExecutor(1) as pool:
        weight = pool.submit(agent.call, "SetWeight", "s", "", "player", 7)
        assert silent(agent).sent
        assert silent(agent).note.code == "agent-silent"
        bus.go_on()
        assert weight.result(10).weight == 7


@pytest.mark.usefixtures("impatient")
def test_an_agent_that_ends_while_it_hangs_is_noticed(bus: Bus) -> None:
    bus.start_agent()
    agent = BusAgent(bus.address)
    assert agent.call("ListApps", "s", "")
    bus.hang()
    assert silent(agent).note.code == "agent-silent"
    bus.stop(bus.agent)
    until(lambda: silent(agent).note.code == "agent-not-running")
    bus.start_agent()
    assert agent.call("ListApps", "s", "")


@pytest.mark.usefixtures("impatient")
def test_a_bus_that_hangs_is_noticed_and_its_end_as_well(bus: Bus) -> None:
    bus.start_agent()
    agent = BusAgent(bus.address)
    assert agent.call("ListApps", "s", "")
    assert bus.daemon
    bus.daemon.send_signal(signal.SIGSTOP)
    assert seconds(lambda: silent(agent)) < 5
    assert silent(agent).note.code == "agent-silent"
    bus.daemon.send_signal(signal.SIGCONT)
    until(lambda: bool(agent.call("ListApps", "s", "")))
    bus.daemon.send_signal(signal.SIGSTOP)
    assert silent(agent).note.code == "agent-silent"
    bus.stop(bus.daemon)
    until(lambda: silent(agent).note.code == "bus-unreachable")


@pytest.mark.usefixtures("impatient")
def test_a_slow_call_is_no_hang(bus: Bus) -> None:
    """The agent waits for polkit, for example, and answers other calls."""
    bus.start_agent()
    agent = BusAgent(bus.address, timeout_s=2)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(agent.call, "GetUpdate", "s", "")
        while not slow.done():
            assert agent.call("ListApps", "s", "")
            time.sleep(0.05)
        with pytest.raises(AgentUnreachable, match="did not answer within 2 s"):
            slow.result()


@pytest.mark.usefixtures("impatient")
def test_no_signal_is_missed_while_calls_time_out(bus: Bus) -> None:
    """The connection on which signals arrive is not the one on which calls wait. So a hang ends no session."""
    bus.start_agent()
    agent, other = BusAgent(bus.address, timeout_s=1), BusAgent(bus.address)
    changed: list[float] = []
    agent.on_sessions_changed(lambda: changed.append(time.monotonic()))
    assert agent.call("ListApps", "s", "")
    assert len(changed) == 1, "a new connection may have missed signals"
    with pytest.raises(AgentUnreachable, match="did not answer within 1 s"):
        agent._call("Sleep")
    assert agent.call("ListApps", "s", "")
    bus.hang()
    for _ in range(3):
        assert silent(agent)
    with ThreadPoolExecutor(1) as pool:
        log_out = pool.submit(other.call, "LogOut", "s", "")
        time.sleep(0.3)
        assert len(changed) == 1
        bus.go_on()
        log_out.result(10)
    until(lambda: len(changed) == 2)
    assert agent.call("ListApps", "s", "")
    assert len(changed) == 2


@pytest.fixture
def whole(bus: Bus, tmp_path: Path) -> Browser:
    """An administrator at a panel whose agent is on the bus."""
    bus.start_agent("bus_agent.py")
    app = create_app(tmp_path, COMPONENT / "src/static", BusAgent(bus.address))
    return Browser(app.test_client(), tmp_path).set_up()


@pytest.mark.usefixtures("impatient")
def test_all_threads_show_the_last_state_while_the_agent_hangs(bus: Bus, whole: Browser) -> None:
    """Each open page polls every second. The panel has six threads, which must not all wait for the agent."""
    pages = ("/", "/apps", "/overview/rows", "/apps/rows", "/history")
    assert [whole.get(page).status_code for page in pages] == [200] * len(pages)
    cookie = whole.client.get_cookie("__Host-evenkeel", domain="board")
    assert cookie
    headers = {"Cookie": f"{cookie.key}={cookie.value}"}
    bus.hang()
    since = time.monotonic()

    def poll(number: int) -> list[float]:
        client, took = whole.client.application.test_client(use_cookies=False), []
        for turn in range(40):
            page = pages[(number + turn) % len(pages)]
            start = time.monotonic()
            answer = client.get(page, base_url=BASE, headers=headers)
            took.append(time.monotonic() - start)
            assert answer.status_code == 200, page
            fresh = start < since + 1  # the view of before may be shown for 0.9 s
            assert fresh or page == "/history" or "The agent does not answer" in answer.text
            time.sleep(0.1)
        return took

    with ThreadPoolExecutor(6) as pool:
        times = [time for one in pool.map(poll, range(6)) for time in one]
    slow = [time for time in times if time > ASK_S + SILENT_S]
    assert len(slow) <= 6, "each thread may wait once"
    assert max(times) < 3
    bus.go_on()
    until(lambda: "The agent does not answer" not in whole.get("/").text)


@pytest.mark.usefixtures("impatient")
def test_a_session_that_ends_while_the_agent_hangs(bus: Bus, whole: Browser) -> None:
    """Its user sees the last state as long as the agent hangs, and nothing when it goes on. Other users stay logged in."""
    viewer = whole.new_user("viewer")
    assert [user.get("/apps").status_code for user in (viewer, whole)] == [200, 200]
    bus.hang()
    for _ in range(3):
        assert [user.get("/apps").status_code for user in (viewer, whole)] == [200, 200]
        time.sleep(ASK_S + SILENT_S)
    assert viewer.set_weight("player", "7").status_code == 503
    with ThreadPoolExecutor(1) as pool:
        elsewhere = BusAgent(bus.address)
        with whole.client.session_transaction(base_url=BASE) as session:
            removed = pool.submit(elsewhere.call, "RemoveUser", session["token"], "", "the-viewer")
        time.sleep(0.3)
        assert viewer.get("/apps/rows").status_code == 200
        bus.go_on()
        removed.result(10)
    until(lambda: viewer.get("/apps/rows").status_code != 200)
    assert viewer.get("/apps").location == "/login"
    assert whole.get("/apps").status_code == 200


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
