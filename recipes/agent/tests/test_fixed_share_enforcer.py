# SPDX-License-Identifier: Apache-2.0
"""Fixed shares with the real evenkeeld: saving, applying, applying again, refusals and problems."""

import asyncio
import errno
import json
import signal
import subprocess
from typing import Any

from agent_harness import COMPONENT, ERROR, Harness, on_board, write
from evenkeel_agent.fixed_share_enforcer import Order, send_orders
from evenkeel_api.features.apps import App


def problem_of(app: dict[str, Any]) -> str:
    """The text that says why the app's fixed share is not in force; "" if there is none."""
    return "".join(problem["text"] for problem in app["fixed_share_problem"])


async def problems(board: Harness) -> list[str]:
    return await board.problems()


@on_board
async def test_a_fixed_share_is_saved_and_in_force(board: Harness) -> None:
    player, stopped = board.app("player"), board.app("loader", active=False)
    await board.agent_up()
    app = (await board.apps())["player"]
    assert (app["fixed_share"], app["fixed_share_applied"], problem_of(app)) == (0, True, "")
    assert (app["fixed_share_used"], app["fixed_share_late"], app["fixed_share_behind"]) == (-1, -1, False)
    assert board.helper.orders == [], "no orders without a fixed share"

    app = await board.call("SetFixedShare", "player", 10)
    assert set(app) == set(App.__struct_fields__)
    assert (app["name"], app["fixed_share"], app["fixed_share_applied"]) == ("player", 10, True)
    assert board.fixed(player) == "259:0 10\n"
    assert board.helper.orders == ["259:0 10 /evenkeel-player.service"]
    # the weight has not changed
    assert (app["weight"], app["applied"]) == (100, True)

    app = await board.call("SetFixedShare", "loader", 90)
    assert (app["fixed_share"], app["fixed_share_applied"], problem_of(app)) == (90, False, "")
    saved = board.state / "fixed-shares.json"
    assert json.loads(saved.read_text()) == {"player": 10, "loader": 90}
    assert not (board.state / "weights.json").exists()

    # the agent applies it as soon as the unit has a cgroup
    board.systemd.start(stopped)

    async def applied() -> bool:
        return bool((await board.apps())["loader"]["fixed_share_applied"])

    await board.until(applied)
    assert board.fixed(stopped) == "259:0 90\n"
    assert await problems(board) == []

    for number in (signal.SIGTERM, signal.SIGKILL):
        await board.agent_down(number)
        write(board.systemd.directory(player) / "io.evenkeel.fixed", "")
        await board.agent_up()

        async def applied_again() -> bool:
            return board.fixed(player) == "259:0 10\n"

        await board.until(applied_again)

    app = await board.call("SetFixedShare", "player", 0)
    assert (app["fixed_share"], app["fixed_share_applied"]) == (0, True)
    assert board.fixed(player) == ""
    assert json.loads(saved.read_text()) == {"loader": 90}
    assert await problems(board) == []


@on_board
async def test_invalid_fixed_shares_are_refused_and_change_nothing(board: Harness) -> None:
    player = board.app("player")
    board.app("loader")
    await board.agent_up()
    await board.call("SetFixedShare", "player", 60)
    await board.call("SetFixedShare", "loader", 30)
    before = (board.state / "fixed-shares.json").stat().st_ino
    orders = list(board.helper.orders)
    bad: list[tuple[str, Any, str]] = [
        ("su", 101, "or 0 for none, not 101 (app player)"),
        ("su", (1 << 32) - 1, "not 4294967295"),
        ("ss", "10", "D-Bus type u, not s"),
        ("sd", 10.5, "not d"),
        ("si", -5, "not i"),
    ]
    for signature, value, reason in bad:
        error = await board.refused("SetFixedShare", "player", value, signature=signature)
        assert error.name == ERROR + "InvalidFixedShare"
        assert "fixed share must be a whole number of percent from 1 to 100" in error.text
        assert reason in error.text
    error = await board.refused("SetFixedShare", "loader", 41)
    assert error.name == ERROR + "InvalidFixedShare"
    assert error.text == "41 % for loader is more than the 40 % that are left: player 60 %"
    assert (await board.refused("SetFixedShare", "nobody", 5)).name == ERROR + "UnknownApp"
    assert (board.state / "fixed-shares.json").stat().st_ino == before
    assert board.helper.orders == orders
    assert board.fixed(player) == "259:0 60\n"
    # The app can have exactly the rest of the 100 %.
    assert (await board.call("SetFixedShare", "loader", 40))["fixed_share_applied"]


@on_board
async def test_lower_percentages_are_applied_first(board: Harness) -> None:
    """The saved values differ from the values in force. Applied in the order of names, they would need 150 % for a moment."""
    units = [board.app(name) for name in ("a", "b")]
    (board.state / "fixed-shares.json").write_text('{"a": 80, "b": 20}')
    for unit, percent in zip(units, (30, 70), strict=True):
        write(board.systemd.directory(unit) / "io.evenkeel.fixed", f"259:0 {percent}\n")
    await board.agent_up()

    async def applied() -> bool:
        return [board.fixed(unit) for unit in units] == ["259:0 80\n", "259:0 20\n"]

    await board.until(applied)
    assert [order.split()[1] for order in board.helper.orders] == ["20", "80"]


@on_board
async def test_a_full_disk_refuses_the_fixed_share(board: Harness) -> None:
    player = board.app("player")
    await board.agent_up()
    await board.call("SetFixedShare", "player", 10)
    # even root cannot write to a directory
    (board.state / "fixed-shares.json.new").mkdir()
    error = await board.refused("SetFixedShare", "player", 20)
    assert error.name == ERROR + "Failed"
    assert error.text.startswith("the fixed share of player stays 10 %: the fixed share cannot be saved in ")
    assert (board.fixed(player), (await board.apps())["player"]["fixed_share"]) == ("259:0 10\n", 10)


@on_board
async def test_a_damaged_file_is_a_problem_and_no_app_has_a_fixed_share(board: Harness) -> None:
    player = board.app("player")
    (board.state / "fixed-shares.json").write_text('{"player": 101}')
    await board.agent_up()
    [problem] = await problems(board)
    assert "the saved fixed shares were damaged (player: fixed share must be" in problem
    assert problem.endswith("no app has a fixed share; set the fixed shares again")
    assert (await board.call("SetFixedShare", "player", 10))["fixed_share_applied"]
    assert board.fixed(player) == "259:0 10\n"
    assert await problems(board) == []


@on_board
async def test_another_scheduler_is_a_problem_until_evenkeel_is_back(board: Harness) -> None:
    player = board.app("player")
    line = "259:0 weight=100 rbytes=1 wbytes=0 rios=1 wios=0\n"
    board.set_stat(player, line)
    await board.agent_up()
    await board.call("SetFixedShare", "player", 10)

    # the device gets another scheduler: the kernel drops the fixed shares on it
    board.device("nvme0n1", "none [bfq] evenkeel", "0", "Fast Flash")
    write(board.systemd.directory(player) / "io.evenkeel.fixed", "")
    board.set_stat(player, "")
    reason = "fixed shares need the scheduler evenkeel, but nvme0n1 uses the scheduler bfq"
    problem = f"fixed share 10 % of player is not in force: {reason}"

    async def reported() -> bool:
        return problem in await problems(board)

    await board.until(reported)
    app = (await board.apps())["player"]
    assert (app["fixed_share"], app["fixed_share_applied"], problem_of(app)) == (
        10,
        False,
        problem,
    )
    # another value can still be saved
    app = await board.call("SetFixedShare", "player", 20)
    assert (app["fixed_share"], app["fixed_share_applied"]) == (20, False)
    assert "fixed share 20 % of player is not in force" in problem_of(app)

    # The device gets evenkeel back. No signal says so; the agent notices that the counters exist again.
    board.device("nvme0n1", "none bfq [evenkeel]", "0", "Fast Flash")
    board.set_stat(player, line)

    async def applied() -> bool:
        return board.fixed(player) == "259:0 20\n"

    await board.until(applied)
    assert await problems(board) == []


@on_board
async def test_every_flash_device_must_have_the_fixed_share(board: Harness) -> None:
    player = board.app("player")
    board.device("vda", "none [evenkeel]", "1", "", number="254:0")
    board.device("vdb", "[bfq] evenkeel", "1", "", number="254:16")
    board.helper.devices.add("254:0")
    await board.agent_up()
    app = await board.call("SetFixedShare", "player", 10)
    assert sorted(board.fixed(player).splitlines()) == ["254:0 10", "259:0 10"]
    assert not app["fixed_share_applied"]
    assert problem_of(app).endswith(
        "fixed shares need the scheduler evenkeel, but vdb uses the scheduler bfq"
    )


@on_board
async def test_an_evenkeel_without_the_file(board: Harness) -> None:
    board.systemd.has_fixed = False
    board.app("player")
    await board.agent_up()
    assert await problems(board) == []
    app = await board.call("SetFixedShare", "player", 10)
    problem = (
        "fixed share 10 % of player is not in force: its cgroup has no io.evenkeel.fixed: "
        "evenkeel is not loaded, or its version has no fixed shares"
    )
    assert (app["fixed_share_applied"], problem_of(app)) == (False, problem)
    assert await problems(board) == [problem]
    assert board.helper.orders == []


@on_board
async def test_a_refusal_by_the_kernel_is_a_problem(board: Harness) -> None:
    player = board.app("player")
    await board.agent_up()
    for number, reason in (
        (errno.ENOSPC, "all groups with a fixed share together would have more than 100 % of it"),
        (errno.EPERM, "the kernel does not allow it (CAP_SYS_ADMIN is missing)"),
        (errno.EIO, "Input/output error"),
    ):
        board.helper.refuses = number
        app = await board.call("SetFixedShare", "player", 10 + number)
        problem = f"fixed share {10 + number} % of player is not in force: nvme0n1: {reason}"
        assert (app["fixed_share_applied"], problem_of(app)) == (False, problem)
        assert await problems(board) == [problem]
    assert board.log.read_text().count("is not in force: nvme0n1: all groups") == 1, (
        "each reason is logged once"
    )
    board.helper.refuses = 0
    assert (await board.call("SetFixedShare", "player", 10))["fixed_share_applied"]
    # a fixed share that cannot be ended
    board.helper.refuses = errno.EPERM
    app = await board.call("SetFixedShare", "player", 0)
    assert problem_of(app).startswith("fixed share of player is still in force: nvme0n1: ")
    assert board.fixed(player) == "259:0 10\n"


@on_board
async def test_without_the_helper_everything_else_works(board: Harness) -> None:
    board.app("player")
    await board.agent_up("--call-timeout", "3", "--settle", "0.2")
    board.helper.close()
    app = await board.call("SetFixedShare", "player", 10)
    assert (app["fixed_share"], app["fixed_share_applied"]) == (10, False)
    assert "nvme0n1: ek-fixed-share cannot be reached at " in problem_of(app)
    assert problem_of(app).endswith("run/evenkeel/fixed-share: Connection refused")
    assert (await board.call("SetWeight", "player", 200))["applied"]

    # A helper that hangs does not delay other calls for long.
    board.helper_up()
    board.helper.frozen = True
    loop = asyncio.get_running_loop()
    before = loop.time()
    assert not (await board.call("SetFixedShare", "player", 20))["fixed_share_applied"]
    assert (await board.call("SetWeight", "player", 300))["applied"]
    assert loop.time() - before < 2.7

    async def reported() -> bool:
        return any("ek-fixed-share did not answer within 3 s" in problem for problem in await problems(board))

    await board.until(reported)
    board.helper.close()
    board.helper_up()
    assert (await board.call("SetFixedShare", "player", 30))["fixed_share_applied"]


@on_board
async def test_a_value_written_by_hand_is_removed(board: Harness) -> None:
    player = board.app("player")
    await board.agent_up("--recheck", "0.3")
    write(board.systemd.directory(player) / "io.evenkeel.fixed", "259:0 50\n")

    async def removed() -> bool:
        return board.fixed(player) == ""

    await board.until(removed)


@on_board
async def test_the_usage_is_shown(board: Harness) -> None:
    player = board.app("player")
    await board.agent_up("--interval", "0.2", "--window", "0.6")
    await board.call("SetFixedShare", "player", 10)

    loop = asyncio.get_running_loop()
    done = ideal = actual = late = 0.0
    # by how much the counters grow per second, in which 20 requests complete: number of late requests, sum of the
    # ideal times (us), sum of the actual times (us)
    pace = (0.0, 950_000.0, 3_000_000.0)

    async def feed() -> None:
        nonlocal done, ideal, actual, late
        before = loop.time()
        while True:
            await asyncio.sleep(0.02)
            passed, before = loop.time() - before, loop.time()
            done, late = done + 20 * passed, late + pace[0] * passed
            ideal, actual = ideal + pace[1] * passed, actual + pace[2] * passed
            fixed = f"fixed=10 fixed_ios={int(done)} fixed_late={int(late)}"
            times = f"fixed_ideal_us={int(ideal)} fixed_actual_us={int(actual)}"
            board.set_stat(player, f"259:0 weight=100 rbytes={int(done)} rios={int(done)} {fixed} {times}\n")

    feeding = asyncio.create_task(feed())
    await asyncio.sleep(1.5)
    app = (await board.apps())["player"]
    assert 0.8 <= app["fixed_share_used"] <= 1.0
    assert (app["fixed_share_late"], app["fixed_share_behind"]) == (0, False)
    answer = await board.ekctl("fixed-share", "player")
    assert answer.out.startswith("player 10%, ")
    assert answer.out.endswith("% of it used; the scheduler keeps up\n")

    pace = (10.0, 500_000.0, 3_000_000.0)
    await asyncio.sleep(1.5)
    app = (await board.apps())["player"]
    assert 0.4 <= app["fixed_share_used"] <= 0.65
    assert 0.3 <= app["fixed_share_late"] <= 0.7
    assert app["fixed_share_behind"]
    assert "the scheduler is behind: " in (await board.ekctl("fixed-share", "player")).out
    feeding.cancel()


@on_board
async def test_the_command_line(board: Harness) -> None:
    player = board.app("player")
    board.app("loader", active=False)
    await board.agent_up()
    for arguments, output in (
        (("player",), "player off\n"),
        (("player", "10%"), "player 10%\n"),
        (("player", "12"), "player 12%\n"),
        (("player",), "player 12%\n"),
        (("loader", "7%"), "loader 7% (in force when the app starts)\n"),
    ):
        answer = await board.ekctl("fixed-share", *arguments)
        assert (answer.status, answer.out, answer.err) == (0, output, ""), arguments
    assert board.fixed(player) == "259:0 12\n"
    table = (await board.ekctl("apps")).out.splitlines()
    assert table[1].split()[:5] == ["loader", "inactive", "100", "7%", "no"]
    assert table[2].split()[:5] == ["player", "active", "100", "12%", "yes"]
    app = json.loads((await board.ekctl("fixed-share", "player", "13", "--json")).out)
    assert (app["fixed_share"], app["fixed_share_applied"]) == (13, True)
    for text in ("0", "0%", "x", "1.5%", "", "12 percent", "9" * 30):
        answer = await board.ekctl("fixed-share", "player", text)
        assert (answer.status, answer.out) == (1, "")
        assert answer.err == (
            f"ekctl: fixed share must be a whole number of percent from 1 to 100, or off, not {text!r}\n"
        )
    answer = await board.ekctl("fixed-share", "player", "101%")
    assert (answer.status, answer.err.count("\n")) == (1, 1)
    assert "not 101 (app player)" in answer.err
    assert "there is no app 'nobody'" in (await board.ekctl("fixed-share", "nobody", "off")).err
    assert board.fixed(player) == "259:0 13\n"
    board.helper.refuses = errno.EPERM
    answer = await board.ekctl("fixed-share", "player", "off")
    assert answer.status == 0, "the value is saved"
    assert answer.out.startswith("player off (fixed share of player is still in force: nvme0n1: ")
    board.helper.refuses = 0
    assert (await board.ekctl("fixed-share", "player", "off")).out == "player off\n"
    assert board.fixed(player) == ""
    assert (await board.ekctl("fixed-share")).status == 2


@on_board
async def test_the_real_helper(board: Harness) -> None:
    """send_orders() and ek-fixed-share use the same protocol."""
    player = board.app("player")
    program = board.top / "ek-fixed-share"
    source = COMPONENT / "src/ek_fixed_share.c"
    subprocess.run(["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-o", program, source], check=True)
    import socket

    path = board.top / "fixed-share"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(path))
        listening.listen()
        apps = board.cgroups / "evenkeel.slice/evenkeel-apps.slice"
        directory = "/" + str(board.systemd.directory(player).relative_to(apps))
        orders = [Order(directory, "259:0", 10), Order("/gone", "259:0", 10), Order(directory, "259:0", 20)]
        results = asyncio.create_task(send_orders(str(path), orders, 5))
        connection, _ = await asyncio.to_thread(listening.accept)
        with connection:
            helper = await asyncio.create_subprocess_exec(program, apps, stdin=connection)
        assert list(map(str, await results)) == ["None", "No such file or directory", "None"]
        assert await helper.wait() == 0
    assert board.fixed(player) == "259:0 20"
