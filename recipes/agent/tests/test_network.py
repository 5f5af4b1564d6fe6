# SPDX-License-Identifier: Apache-2.0
"""The feature network of evenkeeld, with a fake systemd-networkd and the code of ek-network in this process."""

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from agent_harness import Fake, Harness, on_board
from dbus_fast import Message
from evenkeel_agent.network import NETWORKD, interfaces
from evenkeel_agent.network_helper import APPLY_S, Clock, Helper
from evenkeel_api.features.network import NetworkSettings

ETH0: dict[str, Any] = {
    "Index": 2,
    "Name": "eth0",
    "Type": "ether",
    "AdministrativeState": "configured",
    "OperationalState": "routable",
    "NetworkFile": "/usr/lib/systemd/network/60-wired.network",
    "HardwareAddress": [82, 84, 0, 18, 52, 86],
    "Addresses": [
        {"Family": 2, "Address": [10, 0, 2, 15], "PrefixLength": 24},
        {"Family": 10, "Address": [254, 128, *([0] * 13), 1], "PrefixLength": 64},
    ],
    "Routes": [
        {"Family": 2, "Destination": [0, 0, 0, 0], "Gateway": [10, 0, 2, 2]},
        {"Family": 2, "Destination": [10, 0, 2, 0]},
    ],
    "DNS": [{"Family": 2, "Address": [10, 0, 2, 3]}],
}
FIXED = ("eth0", "fixed", "10.0.2.77/24", "10.0.2.2", ["10.0.2.3"])


class FakeNetworkd(Fake):
    """Describes ROWS. If FOLDER has a file of ek-network for a row, the row names this file."""

    name = NETWORKD

    def __init__(self, bus: Any, folder: Path) -> None:
        super().__init__(bus)
        self.rows = [
            ETH0,
            {"Name": "lo", "Type": "loopback"},
            {"Name": "br0", "Type": "ether", "Kind": "bridge"},
        ]
        self.folder = folder

    async def answer(self, message: Message) -> tuple[str, list[Any]]:
        assert message.member == "Describe"
        rows = []
        for row in self.rows:
            own = self.folder / f"50-evenkeel-{row['Name']}.network"
            rows.append({**row, "NetworkFile": str(own)} if own.exists() else row)
        return "s", [json.dumps({"Interfaces": rows})]


class Network:
    """networkd, and ek-network at its socket. NOW_S: the time since the boot."""

    def __init__(self, board: Harness) -> None:
        self.board = board
        self.now_s = 100.0
        folder = board.top / "network"
        folder.mkdir()
        self.helper = Helper(
            Clock(lambda: self.now_s, "boot"), str(board.top / "state.json"), str(folder), lambda: None
        )
        path = board.root / "run/evenkeel/network"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(str(path))
        self.socket.listen()
        self.socket.setblocking(False)
        self.task = asyncio.get_running_loop().create_task(self._serve())
        self.folder = folder

    async def up(self) -> "Network":
        self.networkd = FakeNetworkd(await self.board.connect(), self.folder)
        assert await self.networkd.bus.own(NETWORKD)
        return self

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            connection, _ = await loop.sock_accept(self.socket)
            with connection:
                packet = await loop.sock_recv(connection, 65536)
                self.helper.work()
                await loop.sock_sendall(connection, self.helper.answer(packet))

    def down(self) -> None:
        self.task.cancel()
        self.socket.close()


@on_board
async def test_set_and_confirm(board: Harness) -> None:
    network = await Network(board).up()
    await board.agent_up()
    state = await board.call("GetNetwork")
    assert state["problem"] == []
    assert state["host"].endswith(".local")
    # The kernel's name does not follow in a service with ProtectHostname=.
    (board.root / "etc").mkdir(exist_ok=True)
    for name in ("evenkeel-1a2b3c", "press-7"):
        (board.root / "etc/hostname").write_text(name + "\n")
        assert (await board.call("GetNetwork"))["host"] == f"{name}.local"
    (eth0,) = state["interfaces"]
    assert (eth0["name"], eth0["link"], eth0["mac"]) == ("eth0", "connected", "52:54:00:12:34:56")
    assert eth0["addresses"] == ["10.0.2.15/24", "fe80::1/64"]
    assert (eth0["gateways"], eth0["dns"]) == (["10.0.2.2"], ["10.0.2.3"])
    assert eth0["settings"]["mode"] == "dhcp"

    state = await board.call("SetNetwork", *FIXED)
    assert (state["trial"][0]["interface"], state["trial"][0]["left_s"]) == ("eth0", 60)
    assert state["trial"][0]["settings"]["address"] == "10.0.2.77/24"
    error = await board.refused("ConfirmNetwork")
    assert "not in force yet" in error.text
    network.now_s += APPLY_S
    state = await board.call("GetNetwork")
    assert state["interfaces"][0]["settings"]["address"] == "10.0.2.77/24"
    state = await board.call("ConfirmNetwork")
    assert (state["trial"], state["last"]) == ([], "confirmed")
    rows = await board.call("ListAudit", 0, 10)
    assert {"SetNetwork", "ConfirmNetwork"} <= {row["action"] for row in rows}
    assert "10.0.2.77/24" in str(rows)
    network.down()


@on_board
async def test_a_kill_of_the_agent_does_not_stop_the_clock(board: Harness) -> None:
    network = await Network(board).up()
    await board.agent_up()
    await board.call("SetNetwork", *FIXED)
    board.agent.kill()
    await board.agent_ends()
    network.now_s += APPLY_S
    network.helper.work()
    assert list(network.folder.iterdir())
    network.now_s += 60
    network.helper.work()
    assert not list(network.folder.iterdir())
    await board.agent_down()
    await board.agent_up()
    state = await board.call("GetNetwork")
    assert (state["trial"], state["last"], state["interfaces"][0]["settings"]["mode"]) == (
        [],
        "expired",
        "dhcp",
    )
    network.down()


@on_board
async def test_what_cannot_work_is_refused_and_changes_nothing(board: Harness) -> None:
    network = await Network(board).up()
    await board.agent_up()
    for arguments, kind, text in (
        (("eth0", "fixed", "10.0.2.255/24", "", []), "InvalidArgument", "broadcast address"),
        (
            ("eth0", "fixed", "10.0.2.7/24", "10.0.3.1", []),
            "InvalidArgument",
            "not in the network 10.0.2.0/24",
        ),
        (("eth9", *FIXED[1:]), "InvalidArgument", "choose one of these: eth0"),
        (("br0", *FIXED[1:]), "InvalidArgument", "choose one of these: eth0"),
        (("eth0", "dhcp", "", "", []), "Conflict", "has these settings already"),
        (("eth0", "other", "", "", []), "InvalidArgument", "dhcp or fixed"),
        (("eth0", "fixed", "10.0.2.7/24", "", ["1.1.1.1\n"]), "InvalidArgument", "dns"),
    ):
        error = await board.refused("SetNetwork", *arguments)
        assert error.name.endswith(f".Error.{kind}"), arguments
        assert text in error.text
    assert "no change" in (await board.refused("ConfirmNetwork")).text
    await board.call("SetNetwork", *FIXED)
    assert "waits for its confirmation" in (await board.refused("SetNetwork", *FIXED)).text
    state = await board.call("RevertNetwork")
    assert (state["trial"], state["last"]) == ([], "reverted")
    network.down()


@on_board
async def test_each_missing_part_is_a_problem_with_its_reason(board: Harness) -> None:
    await board.agent_up()
    state = await board.call("GetNetwork")
    assert [note["code"] for note in state["problem"]] == ["network-unreachable", "networkd-silent"]
    assert state["interfaces"] == []
    assert "ek-network cannot be reached" in (await board.refused("SetNetwork", *FIXED)).text
    network = Network(board)
    state = await board.call("GetNetwork")
    assert [note["code"] for note in state["problem"]] == ["networkd-silent"]
    assert "does not answer" in (await board.refused("SetNetwork", *FIXED)).text
    network.down()


@on_board
async def test_ekctl(board: Harness) -> None:
    network = await Network(board).up()
    await board.agent_up()
    answer = await board.ekctl("network")
    assert "interface eth0: connected, dhcp" in answer.out
    assert "10.0.2.15/24" in answer.out
    answer = await board.ekctl(
        "set-network", "eth0", "10.0.2.77/24", "--gateway", "10.0.2.2", "--dns", "10.0.2.3"
    )
    assert "change    eth0 to 10.0.2.77/24: undone in 60 s" in answer.out
    answer = await board.ekctl("confirm-network")
    assert answer.status == 1
    assert "not in force yet" in answer.err
    network.now_s += APPLY_S
    answer = await board.ekctl("confirm-network")
    assert (answer.status, "the last one was confirmed" in answer.out) == (0, True)
    await board.ekctl("set-network", "eth0", "dhcp")
    answer = await board.ekctl("revert-network", "--json")
    assert json.loads(answer.out)["last"] == "reverted"
    network.down()


@pytest.mark.parametrize(
    ("changes", "link"),
    [
        ({}, "connected"),
        ({"OperationalState": "degraded"}, "no-address"),
        ({"OperationalState": "no-carrier"}, "no-cable"),
        ({"OperationalState": "off", "AdministrativeState": "unmanaged"}, "off"),
        ({"AdministrativeState": "failed"}, "failed"),
        ({"AdministrativeState": "unmanaged"}, "not-managed"),
        ({"AdministrativeState": None, "SetupState": "unmanaged"}, "not-managed"),
        ({"OperationalState": "something new"}, "off"),
    ],
)
def test_the_state_of_an_interface(changes: dict[str, Any], link: str) -> None:
    assert interfaces({"Interfaces": [{**ETH0, **changes}]}, {})[0].link == link


def test_a_file_of_somebody_else_is_not_called_dhcp() -> None:
    rows = [{**ETH0, "NetworkFile": "/etc/systemd/network/10-mine.network"}]
    ours = NetworkSettings("fixed", "10.0.2.77/24")
    assert interfaces({"Interfaces": rows}, {"eth0": ours})[0].settings.mode == "other"
    rows = [{**ETH0, "NetworkFile": "/run/systemd/network/50-evenkeel-eth0.network"}]
    assert interfaces({"Interfaces": rows}, {"eth0": ours})[0].settings == ours


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"Interfaces": None},
        {"Interfaces": [7, None, {}]},
        {"Interfaces": [{"Name": 5, "Type": "ether"}]},
    ],
)
def test_an_odd_answer_of_networkd_gives_no_interfaces(odd: dict[str, Any]) -> None:
    assert interfaces(odd, {}) == []


def test_odd_fields_are_left_out() -> None:
    row = {
        "Name": "eth0",
        "Type": "ether",
        "Addresses": [{"Address": [1, 2], "PrefixLength": 8}, {"Address": "x"}, 5],
        "DNS": [{"Address": [999]}],
        "Routes": "none",
        "HardwareAddress": [-1],
    }
    (found,) = interfaces({"Interfaces": [row]}, {})
    assert (found.addresses, found.dns, found.gateways, found.mac, found.link) == ([], [], [], "", "off")
