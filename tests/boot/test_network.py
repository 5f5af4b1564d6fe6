# SPDX-License-Identifier: Apache-2.0
"""Names resolve on the board, and a change of the network settings is undone unless somebody confirms it.

QEMU's user network gives the board the address 10.0.2.15 by DHCP, and forwards the panel's port to this address only.
All tests use the same board. They run in the order of this file.
"""

import json
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from boards import SLOW, Board

NAME, ANSWER = "updates.evenkeel.test", "192.0.2.7"
# A DNS server that knows one name. It runs on the board, at the board's own address, because the tests need no network.
DNS_SERVER = textwrap.dedent(
    f"""
    import socket, sys
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((sys.argv[1], 53))
    while True:
        query, client = server.recvfrom(4096)
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode())
            at += 1 + query[at]
        known = ".".join(labels).lower() == "{NAME}"
        found = known and query[at + 1 : at + 3] == b"\\0\\1"
        header = query[:2] + (b"\\x81\\x80" if known else b"\\x81\\x83") + b"\\0\\1" + bytes([0, found, 0, 0, 0, 0])
        answer = b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\x3c\\0\\4" + socket.inet_aton("{ANSWER}") if found else b""
        server.sendto(header + query[12 : at + 5] + answer, client)
    """
)


def network(board: Board) -> dict[str, Any]:
    """The network. The agent may be starting again, because a test has killed it."""
    end = time.monotonic() + 60 * SLOW
    while (answer := board.try_run("ekctl network --json"))[0] != 0:
        assert time.monotonic() < end, answer[1]
        time.sleep(1)
    found: dict[str, Any] = json.loads(answer[1])
    return found


def interface(board: Board) -> dict[str, Any]:
    (found,) = network(board)["interfaces"]
    return dict(found)


def until(board: Board, what: str, condition: Any, seconds: float = 60) -> None:
    end = time.monotonic() + SLOW * seconds
    while not condition():
        assert time.monotonic() < end, f"{what}; the network is {network(board)}"
        time.sleep(1)


def test_the_agent_reports_the_interface(board: Board) -> None:
    board.settled()
    until(board, "there is no address", lambda: "10.0.2.15/24" in interface(board)["addresses"])
    found = interface(board)
    assert network(board)["problem"] == []
    assert (found["link"], found["settings"]["mode"]) == ("connected", "dhcp")
    # QEMU also announces IPv6 servers.
    assert "10.0.2.2" in found["gateways"]
    assert "10.0.2.3" in found["dns"]
    assert found["mac"] == board.run(f"cat /sys/class/net/{found['name']}/address")


def test_programs_ask_the_resolver(board: Board) -> None:
    assert board.run("readlink -f /etc/resolv.conf") == "/run/systemd/resolve/stub-resolv.conf"
    assert board.run("systemctl is-active systemd-resolved systemd-timesyncd").split() == ["active", "active"]
    assert board.run("resolvectl dns --no-pager | grep -c 10.0.2.3") == "1"


def test_the_board_answers_to_its_name_by_mdns(board: Board) -> None:
    host = network(board)["host"]
    assert host == board.run("hostname") + ".local"
    query = f"resolvectl query --no-pager --protocol=mdns-ipv4 {host}"
    until(board, "the board does not know its name", lambda: "10.0.2.15" in board.try_run(query)[1], 30)
    assert "+mDNS" in board.run(f"resolvectl status --no-pager {interface(board)['name']}")


def test_a_change_that_nobody_confirms_is_undone(board: Board) -> None:
    """With the new address, the panel cannot be reached through QEMU, as after a real mistake. The agent is killed, too."""
    assert board.health()[0] == 200
    name = interface(board)["name"]
    board.run(f"ekctl set-network {name} 10.0.2.77/24 --gateway 10.0.2.2 --dns 10.0.2.3")
    until(board, "the change is not in force", lambda: "10.0.2.77/24" in interface(board)["addresses"], 30)
    assert "10.0.2.15/24" not in interface(board)["addresses"]
    board.run("systemctl kill --signal=KILL evenkeeld.service evenkeel-network.service")
    until(board, "the change was not undone", lambda: "10.0.2.15/24" in interface(board)["addresses"], 120)
    assert network(board)["last"] == "expired"
    assert board.run("ls /run/systemd/network") == ""
    assert board.health()[0] == 200


def test_a_power_cut_undoes_a_change_that_waits_and_keeps_the_confirmed_settings(board: Board) -> None:
    """The confirmed settings name the server of this file. They are in force again after the power cut."""
    name = interface(board)["name"]
    board.run(f"ekctl set-network {name} 10.0.2.15/24 --gateway 10.0.2.2 --dns 10.0.2.15")
    until(board, "the change is not in force", lambda: interface(board)["dns"] == ["10.0.2.15"], 30)
    board.run("ekctl confirm-network")
    board.run(f"ekctl set-network {name} 10.0.2.77/24")
    until(board, "the change is not in force", lambda: "10.0.2.77/24" in interface(board)["addresses"], 30)
    board.power_cut()
    board.power_on()
    board.settled()
    until(board, "there is no address", lambda: "10.0.2.15/24" in interface(board)["addresses"])
    assert interface(board)["settings"]["mode"] == "fixed"
    assert (network(board)["last"], network(board)["trial"]) == ("restarted", [])
    assert board.health()[0] == 200


def test_a_name_resolves_by_the_server_of_the_settings(board: Board) -> None:
    """The test before has confirmed these settings."""
    board.run(f"cat > /run/dns.py <<'END'\n{DNS_SERVER}\nEND")
    board.run("systemd-run --unit=test-dns python3 /run/dns.py 10.0.2.15")
    try:
        query = f"import socket; print(socket.gethostbyname('{NAME}'))"
        until(
            board,
            "the name does not resolve",
            lambda: board.try_run(f'python3 -c "{query}"')[1] == ANSWER,
            30,
        )
        # The sender of the alerts may reach the resolver, and nothing else on the board.
        unit = "systemd-run --pipe --wait -q -p DynamicUser=yes -p IPAddressDeny=localhost -p IPAddressAllow=127.0.0.53"
        assert board.run(f'{unit} python3 -c "{query}"') == ANSWER
    finally:
        board.run("systemctl stop test-dns")


@pytest.mark.parametrize(
    "path", ["/run/systemd/network/x.network", "/var/lib/evenkeel-network/state.json", "/etc/x"]
)
def test_the_agent_cannot_change_the_network_itself(board: Board, path: str) -> None:
    as_agent = "setpriv --reuid=evenkeel-agent --regid=evenkeel-agent --clear-groups"
    assert board.try_run(f"{as_agent} sh -c 'echo > {path}'")[0] != 0
    name, place = "org.freedesktop.network1", "/org/freedesktop/network1"
    reload = f"busctl call {name} {place} {name}.Manager Reload"
    assert board.try_run(f"{as_agent} {reload} < /dev/null")[0] != 0
