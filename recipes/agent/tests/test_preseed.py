# SPDX-License-Identifier: Apache-2.0
"""The feature preseed: what a file may have, and evenkeeld with fake services that applies it once or twice."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from agent_harness import Harness, on_board, write
from evenkeel_agent import passwords, preseed
from evenkeel_agent.preseed import Content, NetworkPart, Preseeder, parse
from evenkeel_api.errors import InvalidArgument
from evenkeel_api.features.preseed import MAX_BYTES
from hypothesis import given, settings
from hypothesis import strategies as st
from test_accounts import PASSWORD, PanelClient
from test_network import ETH0, Network
from test_system import FakeHostname, services

HASH = passwords.digest(PASSWORD)
FILE = f"""\
name = "press-7"
password_hash = "{HASH}"

[network]
mode = "fixed"
address = "10.0.2.77/24"
gateway = "10.0.2.2"
dns = ["10.0.2.3"]
"""
DHCP = '[network]\nmode = "dhcp"\n'


def test_the_hash_of_the_program_that_the_guide_names_fits() -> None:
    """Made of PASSWORD by `argon2 SALT -id -t 2 -k 19456 -p 1 -e`."""
    made = "$argon2id$v=19$m=19456,t=2,p=1$Zjk5NThkYmM2MGMyOWY5MQ$C9RnRR6UB/MG1teTALK0e9/OPI9UeJA0GDetlYTdM1g"
    assert passwords.matches(parse(f'password_hash = "{made}"').password_hash, PASSWORD)


def test_each_part_may_be_missing() -> None:
    fixed = NetworkPart("fixed", "", "10.0.2.77/24", "10.0.2.2", ["10.0.2.3"])
    assert parse(FILE) == Content("press-7", HASH, fixed)
    assert parse("\ufeff" + FILE.replace("\n", "\r\n")) == parse(FILE), "written on Windows"
    assert parse('name = "a"') == Content(name="a")
    assert parse(DHCP + 'interface = "enp1s0"') == Content(network=NetworkPart("dhcp", "enp1s0"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("name = press", "line 1"),
        ("hostname = 'a'", "unknown field `hostname`"),
        ("name = 'a b'", "name must be 1 to 63"),
        ("name = 7", "name must be 1 to 63"),
        ("name = 'LocalHost'", "choose another name"),
        ("password_hash = 'secret'", "password_hash must be an argon2id hash"),
        (f"password_hash = '{HASH.replace('m=19456', 'm=65537')}'", "password_hash must be"),
        ("password = 'secret'", "unknown field `password`"),
        ("[network]\naddress = '10.0.2.7/24'", "missing required field `mode`"),
        ("[network]\nmode = 'other'", "$.network.mode"),
        ("[network]\nmode = 'fixed'", "a fixed address is missing"),
        ("[network]\nmode = 'fixed'\naddress = '10.0.2.7'", "has no prefix"),
        (f"{DHCP}address = '10.0.2.7/24'", "with DHCP"),
        (f"{DHCP}name = 'eth0'", "unknown field `name`"),
        ("network = 'dhcp'", "$.network"),
        (f"{DHCP}interface = 'a/b'", "cannot be the name of a network interface"),
        ("# name = 'a'\n", "it has no setting"),
        ("a = " + "[" * 5000, "recursion"),
        ("a = " + "9" * 5000, "digits"),
        ("a = 9999-99-99", "line 1"),
    ],
)
def test_an_error_has_its_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse(text)
    assert caught.value.message.code == "preseed-invalid"
    assert reason in str(caught.value)
    assert HASH not in str(caught.value)


def test_a_reason_fits_on_a_screen() -> None:
    for text in (f"{'x' * 9000} = 1", f"[network]\n{'x' * 9000} = 1"):
        with pytest.raises(InvalidArgument) as caught:
            parse(text)
        assert len(str(caught.value)) < 400


@settings(deadline=None)
@given(st.text(st.sampled_from("name=password_hshfixeddhcp[]network'\"\n0123/.{}\ufeff")) | st.text())
def test_any_text_gives_a_content_or_a_reason(text: str) -> None:
    with suppress(InvalidArgument):
        assert isinstance(parse(text), Content)


@settings(deadline=None)
@given(
    st.from_regex(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True).filter(
        lambda name: name != "localhost"
    ),
    st.sampled_from(["", "eth0", "enp1s0"]),
    st.integers(2, 254),
)
def test_valid_values_are_read_as_they_are_written(name: str, interface: str, last: int) -> None:
    # The strings of JSON are also strings of TOML.
    address = f"192.0.2.{last}/24"
    network = {"interface": interface, "mode": "fixed", "address": address, "gateway": "192.0.2.1"}
    lines = [f"{key} = {json.dumps(value)}" for key, value in network.items()]
    text = "\n".join([f"name = {json.dumps(name)}", "[network]", *lines])
    assert parse(text) == Content(name, None, NetworkPart("fixed", interface, address, "192.0.2.1"))


class Appearing:
    """The network of a board whose interfaces appear one after the other. PRESENT: their names at each poll."""

    def __init__(self, *present: list[str]) -> None:
        self._present = list(present)
        self.polls = 0

    async def present(self) -> list[str]:
        self.polls += 1
        return self._present.pop(0) if len(self._present) > 1 else self._present[0]


def found(network: Appearing, wanted: str) -> str:
    preseeder = Preseeder(None, None, network)  # type: ignore[arg-type]
    try:
        return asyncio.run(preseeder._interface(wanted))
    except InvalidArgument as error:
        return str(error)


@pytest.mark.parametrize(
    ("wanted", "present", "outcome"),
    [
        ("", [["eth0"]], "eth0"),
        ("", [[], [], ["eth0"]], "eth0"),
        ("eth1", [["eth0"], ["eth0", "eth1"]], "eth1"),
    ],
)
def test_an_interface_may_appear_late(
    monkeypatch: pytest.MonkeyPatch, wanted: str, present: list[list[str]], outcome: str
) -> None:
    """A driver may need seconds."""
    monkeypatch.setattr(preseed, "POLL_S", 0.01)
    network = Appearing(*present)
    assert found(network, wanted) == outcome
    assert network.polls == len(present)


@pytest.mark.parametrize(
    ("wanted", "present", "reason", "waits"),
    [
        ("", ["eth0", "eth1"], "does not have exactly one; choose one of these: eth0, eth1", False),
        ("eth7", ["eth0"], "there is no network interface 'eth7'; choose one of these: eth0", True),
        ("", [], "the board has no network interface; connect one", True),
        ("eth7", [], "the board has no network interface; connect one", True),
    ],
)
def test_without_its_interface_a_file_has_an_error(
    monkeypatch: pytest.MonkeyPatch, wanted: str, present: list[str], reason: str, waits: bool
) -> None:
    monkeypatch.setattr(preseed, "POLL_S", 0.01)
    monkeypatch.setattr(preseed, "PRESENT_S", 0.1)
    network = Appearing(present)
    assert reason in found(network, wanted)
    assert (network.polls > 1) == waits


class Board:
    """A board with fake services, and a clock of ek-network that runs twice as fast. So a change is in force after 1 s."""

    def __init__(self, board: Harness) -> None:
        self.board = board
        self.file = board.top / "evenkeel.toml"

    async def up(self) -> "Board":
        self.network = await Network(self.board).up()
        self.hostname: FakeHostname = (await services(self.board))[0]
        write(self.board.root / "etc/hostname", "evenkeel-1a2b3c\n")
        await self.board.agent_up()
        self.clock = asyncio.get_running_loop().create_task(self._run())
        return self

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            self.network.now_s += 0.2

    async def apply(self, text: str = FILE) -> tuple[int, str]:
        """Exit status and message of ekctl."""
        self.file.write_text(text)
        answer = await self.board.ekctl("preseed", str(self.file))
        return answer.status, answer.err

    async def state(self) -> dict[str, Any]:
        network = await self.board.call("GetNetwork")
        return {
            "name": (await self.board.call("GetSystem"))["name"],
            "trial": network["trial"],
            "address": network["interfaces"][0]["settings"]["address"],
            "first": bool((await self.board.call("GetFirstPassword"))["password"]),
        }

    def down(self) -> None:
        self.clock.cancel()
        self.network.down()


BEFORE = {"name": "evenkeel-1a2b3c", "trial": [], "address": "", "first": True}
AFTER = {"name": "press-7", "trial": [], "address": "10.0.2.77/24", "first": False}


@on_board
async def test_a_file_is_applied_and_a_repetition_gives_the_same(harness: Harness) -> None:
    board = await Board(harness).up()
    assert await board.state() == BEFORE
    for _ in range(2):
        assert await board.apply() == (0, "")
        assert await board.state() == AFTER
        assert await harness.problems() == []
    login = await PanelClient(harness).call("LogIn", "admin", PASSWORD, "", "", "test")
    assert not login["must_change"]
    rows = await harness.call("ListAudit", 0, 10)
    assert [row["action"] for row in rows].count("ApplyPreseed") == 2
    assert HASH not in str(rows)
    board.down()


@on_board
async def test_a_file_with_an_error_changes_nothing(harness: Harness) -> None:
    board = await Board(harness).up()
    # each value but the last one is valid
    for text in ("#" * (MAX_BYTES + 1), f"{FILE}color = 1", FILE.replace("mode", "mood")):
        status, reason = await board.apply(text)
        assert status == 3, reason
        assert await board.state() == BEFORE
    assert "`mood`" in reason
    (problem,) = await harness.problems()
    assert problem.startswith("the preseed file was not applied: evenkeel.toml has an error: Object contains")
    assert await board.apply() == (0, "")
    assert await harness.problems() == []
    board.down()


@on_board
async def test_a_file_that_is_no_text_is_an_error_of_the_file(harness: Harness) -> None:
    """With another status, each boot would try it again."""
    board = await Board(harness).up()
    nested = f"a = {'[' * 8000}".encode()
    for content in (FILE.encode("utf-16"), b"\0", bytes(range(256)), nested):
        board.file.write_bytes(content)
        answer = await harness.ekctl("preseed", str(board.file))
        assert (answer.status, answer.out) == (3, ""), answer.err
        assert answer.err.count("\n") == 1, "no traceback"
    assert await board.state() == BEFORE
    board.down()


@on_board
async def test_after_the_owner_has_set_a_password_a_file_changes_nothing(harness: Harness) -> None:
    """The first attempt may have failed, and the owner has set up the board without the file since."""
    board = await Board(harness).up()
    board.hostname.refuses = "Read-only file system"
    assert (await board.apply())[0] == 1
    board.hostname.refuses = ""
    panel = PanelClient(harness)
    first = (await harness.call("GetFirstPassword"))["password"]
    panel.session = (await panel.call("LogIn", "admin", first, "", "", "test"))["session"]
    own = "another one of the owner"
    await panel.call("ChangePassword", first, own, "test")
    await harness.call("SetHostName", "mine")
    for text in (FILE, 'name = "press-7"', DHCP, "color = 1"):
        status, reason = await board.apply(text)
        assert status == 4
        assert "this board is not new: the first-boot password was changed; delete the file" in reason
        assert await harness.problems() == []
    assert (await board.state())["name"] == "mine"
    assert (await panel.call("LogIn", "admin", own, "", "", "test"))["session"]
    board.down()


@on_board
async def test_a_repetition_does_not_undo_what_the_owner_has_set_since(harness: Harness) -> None:
    """The file may still be there: its removal failed, or the power was cut before."""
    board = await Board(harness).up()
    assert await board.apply() == (0, "")
    await harness.call("SetHostName", "mine")
    assert await board.apply() == (0, "")
    assert (await board.state())["name"] == "mine"
    board.down()


@on_board
async def test_a_board_with_two_interfaces_needs_the_name_of_one(harness: Harness) -> None:
    board = await Board(harness).up()
    board.network.networkd.rows.insert(0, {**ETH0, "Name": "eth1"})
    status, reason = await board.apply()
    assert status == 3
    assert "choose one of these: eth0, eth1" in reason
    assert await harness.call("GetFirstPassword") != {"password": ""}
    assert await board.apply(FILE + 'interface = "eth0"') == (0, "")
    assert (await board.state())["address"] == "10.0.2.77/24"
    board.down()


@on_board
async def test_a_service_that_fails_is_no_error_of_the_file(harness: Harness) -> None:
    """The next boot tries again. The password comes last, so it does not open a board that is half set up."""
    board = await Board(harness).up()
    board.hostname.refuses = "Read-only file system"
    status, reason = await board.apply()
    assert status == 1
    assert "Read-only file system" in reason
    assert await harness.problems() == [
        "the preseed file was not applied completely: the name was not changed: Read-only file system;"
        " restart the board, which tries again"
    ]
    assert (await board.state())["first"]
    board.hostname.refuses = ""
    assert await board.apply() == (0, "")
    assert await board.state() == AFTER
    board.down()


@on_board
async def test_another_change_of_the_network_only_delays_the_file(harness: Harness) -> None:
    """This conflict must not look as if the board had its owner: then no boot would apply the file."""
    board = await Board(harness).up()
    await harness.call("SetNetwork", "eth0", "fixed", "10.0.2.88/24", "10.0.2.2", [])
    status, reason = await board.apply()
    assert status == 1
    assert "a change of eth0 waits for its confirmation" in reason
    await harness.call("RevertNetwork")
    assert await board.apply() == (0, "")
    assert await board.state() == AFTER
    board.down()


@on_board
async def test_dhcp_is_what_a_new_board_has(harness: Harness) -> None:
    board = await Board(harness).up()
    assert await board.apply(DHCP) == (0, "")
    assert await board.state() == BEFORE
    assert not list(Path(board.network.folder).iterdir())
    board.down()


@on_board
async def test_users_that_root_has_added_stay(harness: Harness) -> None:
    board = await Board(harness).up()
    await harness.call("AddUser", "eve", "operator")
    assert await board.apply(f'password_hash = "{HASH}"') == (0, "")
    assert [user["name"] for user in await harness.call("ListUsers")] == ["admin", "eve"]
    board.down()
