# SPDX-License-Identifier: Apache-2.0
"""The output and the exit status of ekctl, run with the real agent."""

import json

from agent_harness import Harness, on_board


@on_board
async def test_commands(board: Harness) -> None:
    board.app("player")
    board.app("loader", active=False)
    await board.agent_up()

    status = await board.ekctl("status")
    assert (status.status, status.err) == (0, "")
    assert status.out.startswith(
        "health     ok\nscheduler  evenkeel\nkernel     6.12.1-evenkeel\nslot       B\n"
    )
    assert "device     nvme0n1 evenkeel 0.0 GB Fast Flash\n" in status.out
    as_json = json.loads((await board.ekctl("status", "--json")).out)
    assert {**as_json, "uptime_s": 0} == {**await board.call("GetStatus"), "uptime_s": 0}

    table = (await board.ekctl("apps")).out.splitlines()
    assert table[0].split() == [
        "APP",
        "STATE",
        "WEIGHT",
        "FIXED",
        "IN",
        "FORCE",
        "READ",
        "MB/s",
        "WRITE",
        "MB/s",
        "SHARE",
        "P99",
        "ms",
    ]
    assert table[1].split() == ["loader", "inactive", "100", "-", "no", "0.0", "0.0", "0%", "-"]
    assert table[2].split() == ["player", "active", "100", "-", "yes", "0.0", "0.0", "0%", "-"]
    assert [app["name"] for app in json.loads((await board.ekctl("apps", "--json")).out)] == [
        "loader",
        "player",
    ]

    assert (await board.ekctl("weight", "player")).out == "player 100\n"
    assert (await board.ekctl("weight", "player", "250")).out == "player 250\n"
    assert (await board.ekctl("weight", "loader", "5")).out == "loader 5 (in force when the app starts)\n"
    app = json.loads((await board.ekctl("weight", "player", "251", "--json")).out)
    assert (app["weight"], app["applied"]) == (251, True)
    assert json.loads((await board.ekctl("weight", "player", "--json")).out)["weight"] == 251

    assert (await board.ekctl("start", "loader")).status == 0
    assert (await board.apps())["loader"]["active_state"] == "active"
    answer = await board.ekctl("stop", "loader", "--json")
    assert json.loads(answer.out) == {"name": "loader", "stopped": True}


@on_board
async def test_refusals_are_one_line_and_status_1(board: Harness) -> None:
    board.app("player")
    await board.agent_up()
    for arguments, reason in (
        (("weight", "player", "0"), "weight must be a whole number from 1 to 10000, not 0"),
        (("weight", "player", "10001"), "not 10001"),
        (("weight", "player", "99999999999"), "not 99999999999"),
        (("weight", "player", "heavy"), "not 'heavy'"),
        (("weight", "player", "-5"), "not '-5'"),
        (("weight", "player", "1.5"), "not '1.5'"),
        (("weight", "player", ""), "not ''"),
        (("weight", "nobody", "5"), "there is no app 'nobody'"),
        (("weight", "nobody"), "there is no app 'nobody'"),
        (("start", "nobody"), "there is no app 'nobody'"),
        (("stop", "nobody", "--json"), "there is no app 'nobody'"),
        (("status", "--bus", "unix:path=/nowhere"), "cannot connect to D-Bus at unix:path=/nowhere"),
        (("status", "--bus", "nonsense"), "cannot connect to D-Bus at nonsense"),
    ):
        answer = await board.ekctl(*arguments)
        assert (answer.status, answer.out) == (1, ""), arguments
        assert answer.err.startswith("ekctl: ")
        assert reason in answer.err
        assert answer.err.count("\n") == 1
    await board.agent_down()
    answer = await board.ekctl("status")
    assert (answer.status, answer.out) == (1, "")
    assert answer.err.startswith("ekctl: the agent does not answer: ")
    assert answer.err.endswith("; see 'systemctl status evenkeeld'\n")
    assert answer.err.count("\n") == 1


@on_board
async def test_wrong_usage_is_status_2(board: Harness) -> None:
    for arguments in (
        (),
        ("fly",),
        ("weight",),
        ("start",),
        ("apps", "--yaml"),
        ("weight", "a", "1", "2"),
    ):
        answer = await board.ekctl(*arguments)
        assert answer.status == 2, arguments
        assert "usage: ekctl" in answer.err
