# SPDX-License-Identifier: Apache-2.0
"""Name and clock of the board: what the agent asks systemd's services, and what it makes of their answers."""

import asyncio
import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from agent_harness import ERROR, Fake, FakeHelper, Harness, on_board, write
from dbus_fast import Message, Variant
from evenkeel_agent import system
from evenkeel_agent.alerts import Alerts
from evenkeel_agent.bus import CallError
from evenkeel_agent.caller import Caller
from evenkeel_agent.settings import Settings
from evenkeel_api.features.system import NAME, SERVER, ZONE, SetHostName, System
from hypothesis import given
from hypothesis import strategies as st

ZONE_TAB = "# a comment\nDE\t+5230+01322\tEurope/Berlin\tmost of Germany\nUS\t+4042-07400\tAmerica/New_York\nXX\tbroken\n"


class FakeHostname(Fake):
    """systemd-hostnamed: writes /etc/hostname."""

    name = "org.freedesktop.hostname1"

    def __init__(self, bus: Any, board: Harness) -> None:
        super().__init__(bus)
        self.file = board.root / "etc/hostname"
        self.refuses = ""

    async def answer(self, message: Message) -> tuple[str, list[Any]]:
        assert (message.member, message.signature, message.body[1]) == ("SetStaticHostname", "sb", False)
        if self.refuses:
            raise CallError("org.freedesktop.DBus.Error.IOError", self.refuses)
        write(self.file, f"{message.body[0]}\n")
        return "", []


class FakeTimedate(Fake):
    name = system.TIMEDATE

    def __init__(self, bus: Any) -> None:
        super().__init__(bus)
        self.properties = {"Timezone": "Etc/UTC", "CanNTP": True, "NTP": True, "NTPSynchronized": False}

    async def answer(self, message: Message) -> tuple[str, list[Any]]:
        if message.member == "SetTimezone":
            assert (message.signature, message.body[1]) == ("sb", False)
            self.properties["Timezone"] = message.body[0]
            return "", []
        assert (message.member, message.body) == ("GetAll", [system.TIMEDATE])
        variants = {
            name: Variant("b" if type(value) is bool else "s", value)
            for name, value in self.properties.items()
        }
        return "a{sv}", [variants]


class FakeTimesync(Fake):
    """systemd-timesyncd: forgets its servers when it ends."""

    name = system.TIMESYNC

    def __init__(self, bus: Any) -> None:
        super().__init__(bus)
        self.servers: list[str] = []
        self.refuses = 0  # so many calls fail

    async def answer(self, message: Message) -> tuple[str, list[Any]]:
        if message.member == "SetRuntimeNTPServers":
            assert message.signature == "as"
            if self.refuses:
                self.refuses -= 1
                raise CallError("org.freedesktop.DBus.Error.AccessDenied", "no")
            self.servers = list(message.body[0])
            return "", []
        assert (message.member, message.body) == ("GetAll", [system.TIMESYNC_MANAGER])
        server = self.servers[0] if self.servers else "pool.example.org"
        return "a{sv}", [{"ServerName": Variant("s", server)}]


async def up(board: Harness, fake: Any) -> Any:
    assert await fake.bus.own(fake.name)
    return fake


async def services(board: Harness) -> tuple[FakeHostname, FakeTimedate, FakeTimesync]:
    folder = board.root / "usr/share/zoneinfo"
    (folder / "Europe").mkdir(parents=True)
    (folder / "zone.tab").write_text(ZONE_TAB)
    for name in ("Europe/Berlin", "UTC"):
        (folder / name).write_text("TZif")
    return (
        await up(board, FakeHostname(await board.connect(), board)),
        await up(board, FakeTimedate(await board.connect())),
        await up(board, FakeTimesync(await board.connect())),
    )


@on_board
async def test_name_and_zone_are_set_by_the_services_of_systemd(board: Harness) -> None:
    hostname, timedate, _ = await services(board)
    write(board.root / "etc/hostname", "evenkeel\n")
    await board.agent_up(TZ="UTC-2")
    found = await board.call("GetSystem")
    assert set(found) == set(System.__struct_fields__)
    assert (found["name"], found["zone"], found["offset_s"]) == ("evenkeel", "Etc/UTC", 7200)
    assert (found["clock"], found["server"], found["servers"]) == ("waiting", "pool.example.org", [])
    assert found["problem"] == []
    assert (await board.call("SetHostName", "Press-7"))["name"] == "Press-7"
    assert hostname.file.read_text() == "Press-7\n"
    assert await board.call("ListTimeZones") == ["Europe/Berlin", "UTC"]
    assert (await board.call("SetTimeZone", "Europe/Berlin"))["zone"] == "Europe/Berlin"
    timedate.properties["NTPSynchronized"] = True
    assert (await board.call("GetSystem"))["clock"] == "synchronised"
    actions = [row["action"] for row in await board.call("ListAudit", 0, 10)]
    assert actions == ["SetTimeZone", "SetHostName"]


@pytest.mark.parametrize(
    ("member", "value", "text"),
    [
        ("SetHostName", "", "hostname"),
        ("SetHostName", "-a", "hostname"),
        ("SetHostName", "a-", "hostname"),
        ("SetHostName", "a.b", "hostname"),
        ("SetHostName", "a b", "hostname"),
        ("SetHostName", "a\n", "hostname"),
        ("SetHostName", "käse", "hostname"),
        ("SetHostName", "12", "hostname"),
        ("SetHostName", "x" * 64, "hostname"),
        ("SetHostName", "LocalHost", "choose another name"),
        ("SetTimeZone", "America/New_York", "no time zone"),  # in zone.tab, but its file is missing
        ("SetTimeZone", "../UTC", "zone"),
        ("SetTimeZone", "/etc/passwd", "zone"),
        ("SetTimeZone", "zone.tab", "zone"),
        ("SetTimeServers", ["a", "-b"], "servers"),
        ("SetTimeServers", ["a b"], "servers"),
        ("SetTimeServers", [""], "servers"),
        ("SetTimeServers", ["a"] * 9, "servers"),
    ],
)
def test_a_bad_value_is_refused_and_changes_nothing(member: str, value: object, text: str) -> None:
    @on_board
    async def test(board: Harness) -> None:
        fakes = await services(board)
        await board.agent_up()
        error = await board.refused(member, value)
        assert error.name == ERROR + "InvalidArgument"
        assert text in error.text
        assert not [call for fake in fakes for call in fake.calls if call[0].startswith("Set")]
        assert not (board.state / "time.json").exists()

    test()


@on_board
async def test_the_time_servers_are_in_use_whenever_the_time_service_runs(board: Harness) -> None:
    _, _, timesync = await services(board)
    await board.agent_up()
    assert timesync.count("SetRuntimeNTPServers") == 0, (
        "without a setting, the agent leaves the service alone"
    )
    found = await board.call("SetTimeServers", ["ntp.example.org", "192.0.2.7", "2001:db8::1"])
    assert found["servers"] == timesync.servers == ["ntp.example.org", "192.0.2.7", "2001:db8::1"]
    assert found["server"] == "ntp.example.org"
    assert timesync.count("SetRuntimeNTPServers") == 1
    assert (board.state / "time.json").stat().st_mode & 0o777 == 0o600

    # a restart of the agent
    timesync.servers = []
    await board.agent_down()
    await board.agent_up()

    async def given_again() -> bool:
        return len(timesync.servers) == 3

    await board.until(given_again)

    # a restart of the time service
    timesync.bus.close()
    timesync = await up(board, FakeTimesync(await board.connect()))
    await board.until(given_again)

    found = await board.call("SetTimeServers", [])
    assert found["servers"] == timesync.servers == []


@on_board
async def test_servers_that_the_service_does_not_take_are_a_problem_until_it_does(board: Harness) -> None:
    _, _, timesync = await services(board)
    await board.agent_up()
    timesync.refuses = 2  # the agent tries again at once
    found = await board.call("SetTimeServers", ["ntp.example.org"])
    assert found["servers"] == ["ntp.example.org"]
    assert [note["code"] for note in found["problem"]] == ["time-servers-not-in-use"]
    assert "did not accept them: Access denied" in (await board.problems())[0]
    # The next change clears it. Otherwise the agent tries again after a minute.
    found = await board.call("SetTimeServers", ["192.0.2.7"])
    assert found["problem"] == []
    assert await board.problems() == []


@on_board
async def test_the_agent_tries_again_by_itself(board: Harness) -> None:
    _, _, timesync = await services(board)
    (board.state / "time.json").write_text('{"servers": ["ntp.example.org"]}')
    settings = board.site / "evenkeel_agent/system.py"
    settings.write_text(settings.read_text().replace("RETRY_S = 60.0", "RETRY_S = 0.1"))
    timesync.refuses = 2
    await board.agent_up(PYTHONPATH=str(board.site))

    async def taken() -> bool:
        return timesync.servers == ["ntp.example.org"]

    await board.until(taken)
    assert timesync.count("SetRuntimeNTPServers") == 3


@on_board
async def test_without_the_services_the_page_says_what_is_missing(board: Harness) -> None:
    await board.agent_up()
    found = await board.call("GetSystem")
    assert (found["zone"], found["clock"], found["server"]) == ("", "unknown", "")
    assert [note["code"] for note in found["problem"]] == ["time-service-silent"]
    assert await board.call("ListTimeZones") == []
    error = await board.refused("SetHostName", "press")
    assert error.name == ERROR + "Failed"
    assert "the name was not changed" in error.text
    # the servers are saved for a time service that starts later
    assert (await board.call("SetTimeServers", ["ntp.example.org"]))["servers"] == ["ntp.example.org"]
    assert json.loads((board.state / "time.json").read_text()) == {"servers": ["ntp.example.org"]}
    assert await board.problems() == []


@on_board
async def test_a_refusal_of_hostnamed_is_passed_on(board: Harness) -> None:
    hostname, _, _ = await services(board)
    write(board.root / "etc/hostname", "evenkeel\n")
    hostname.refuses = "Read-only file system"
    await board.agent_up()
    assert "not changed: Read-only file system" in (await board.refused("SetHostName", "press")).text
    assert (await board.call("GetSystem"))["name"] == "evenkeel"


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"servers": [1]}', '{"servers": ["a b"]}', "[" * 100_000]
)
def test_a_damaged_file_is_a_problem_until_servers_are_saved(content: str) -> None:
    @on_board
    async def test(board: Harness) -> None:
        _, _, timesync = await services(board)
        (board.state / "time.json").write_text(content)
        await board.agent_up()
        assert "cannot be read" in (await board.problems())[0]
        assert (await board.call("GetSystem"))["servers"] == []
        await board.call("SetTimeServers", ["ntp.example.org"])
        assert await board.problems() == []
        assert timesync.servers == ["ntp.example.org"]

    test()


@on_board
async def test_a_hanging_service_delays_no_other_call(board: Harness) -> None:
    _, timedate, _ = await services(board)
    timedate.frozen = True
    await board.agent_up("--call-timeout", "1")
    waiting = asyncio.create_task(board.call("GetSystem"))
    assert (await board.call("GetStatus"))["health"] == "ok"
    assert (await waiting)["clock"] == "unknown"


@on_board
async def test_ekctl(board: Harness) -> None:
    await services(board)
    await board.agent_up()
    shown = await board.ekctl("set-name", "press-7")
    assert (shown.status, shown.out.splitlines()[0]) == (0, "name     press-7")
    assert (await board.ekctl("time-zones")).out == "Europe/Berlin\nUTC\n"
    assert "zone     Europe/Berlin\n" in (await board.ekctl("set-time-zone", "Europe/Berlin")).out
    assert (
        "servers  192.0.2.7 ntp.example.org\n"
        in (await board.ekctl("set-time-servers", "192.0.2.7", "ntp.example.org")).out
    )
    assert "servers  automatic\n" in (await board.ekctl("set-time-servers")).out
    assert json.loads((await board.ekctl("system", "--json")).out)["name"] == "press-7"
    assert (await board.ekctl("set-name", "a.b")).status == 1


@pytest.mark.parametrize(
    ("found", "runs", "state"),
    [
        ({}, True, "unknown"),
        ({"NTPSynchronized": True}, False, "synchronised"),
        ({"CanNTP": True}, True, "waiting"),
        ({"CanNTP": True, "NTP": True}, False, "waiting"),
        ({"CanNTP": True, "NTP": False}, False, "off"),
        ({"CanNTP": False, "NTP": False}, False, "missing"),
    ],
)
def test_states_of_the_clock(found: dict[str, Any], runs: bool, state: str) -> None:
    assert system.clock(found, runs) == state


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("-.aZ09"), max_size=70))
def test_a_name_is_a_label_of_rfc_1123(text: str) -> None:
    label = (
        1 <= len(text) <= 63
        and all(c.isascii() and (c.isalnum() or c == "-") for c in text)
        and text[0] != "-" != text[-1]
        and not text.isdigit()
    )
    assert bool(re.search(NAME, text)) == label


@given(st.text(st.sampled_from("aZ0/._-+ \n"), max_size=20))
def test_no_zone_leaves_its_folder(text: str) -> None:
    if re.search(ZONE, text):
        assert ".." not in text
        assert not text.startswith("/")
        assert Path("/zones", text).resolve().is_relative_to("/zones")


@given(st.text(max_size=20))
def test_a_server_has_no_whitespace_and_is_no_option(text: str) -> None:
    if re.search(SERVER, text):
        assert not text.startswith("-")
        assert not re.search(r"\s", text)


def test_alerts_get_the_new_name(tmp_path: Path) -> None:
    class Helper(FakeHelper):
        def reply(self, connection: socket.socket, order: dict[str, Any]) -> None:
            connection.sendall(b"{}")

    class Bus:
        async def call(self, *_: Any, **__: Any) -> list[Any]:
            return [{}]

        async def ask_bus(self, *_: Any) -> list[Any]:
            return [False]

    async def run() -> None:
        names: list[str] = []
        bus: Any = Bus()
        settings = Settings(root=str(tmp_path))
        found = system.SystemSettings(settings, bus, names.append)
        with Helper(Path(settings.system_socket)) as helper:
            await found.set_host_name(SetHostName("press-7"), Caller("", None, "bus"))
            assert helper.orders == [{"order": "name", "name": "press-7"}]
        assert names == ["press-7"]
        alerts = Alerts(Settings(root=str(tmp_path)), "evenkeel")
        alerts.rename("press-7")
        assert alerts._board == "press-7"

    asyncio.run(run())
