# SPDX-License-Identifier: Apache-2.0
"""Regulated performance through the real evenkeeld: kept, in force, in force again, refused, and in the way."""

import asyncio
import errno
import json
import signal
import subprocess
from typing import Any

from agent_harness import ERROR, Harness, on_board, write
from evenkeel_agent import interface
from evenkeel_agent.regulation import Order, give


async def problems(board: Harness) -> list[str]:
    found: list[str] = (await board.call("GetStatus"))["problems"]
    return found


@on_board
async def test_a_performance_is_kept_and_in_force(board: Harness) -> None:
    player, stopped = board.app("player"), board.app("loader", active=False)
    await board.agent_up()
    app = (await board.apps())["player"]
    assert (app["performance"], app["performance_applied"], app["performance_problem"]) == (0, True, "")
    assert (app["performance_used"], app["performance_late"], app["performance_behind"]) == (-1, -1, False)
    assert board.regulator.orders == [], "nothing set, nothing ordered"

    app = await board.call("SetPerformance", "player", 10)
    assert set(app) == set(interface.APP)
    assert (app["name"], app["performance"], app["performance_applied"]) == ("player", 10, True)
    assert board.perf(player) == "259:0 10\n"
    assert board.regulator.orders == ["259:0 10 /evenkeel.slice/evenkeel-apps.slice/evenkeel-player.service"]
    # the weight is what it was
    assert (app["weight"], app["applied"]) == (100, True)

    app = await board.call("SetPerformance", "loader", 90)
    assert (app["performance"], app["performance_applied"], app["performance_problem"]) == (90, False, "")
    kept = board.state / "performances.json"
    assert json.loads(kept.read_text()) == {"player": 10, "loader": 90}
    assert not (board.state / "weights.json").exists()

    # it comes into force with the unit's cgroup
    board.systemd.start(stopped)

    async def regulated() -> bool:
        return bool((await board.apps())["loader"]["performance_applied"])

    await board.until(regulated)
    assert board.perf(stopped) == "259:0 90\n"
    assert await problems(board) == []

    for number in (signal.SIGTERM, signal.SIGKILL):
        await board.agent_down(number)
        write(board.systemd.directory(player) / "io.evenkeel.perf", "")
        await board.agent_up()

        async def mended() -> bool:
            return board.perf(player) == "259:0 10\n"

        await board.until(mended)

    app = await board.call("SetPerformance", "player", 0)
    assert (app["performance"], app["performance_applied"]) == (0, True)
    assert board.perf(player) == ""
    assert json.loads(kept.read_text()) == {"loader": 90}
    assert await problems(board) == []


@on_board
async def test_bad_performances_are_refused_and_change_nothing(board: Harness) -> None:
    player = board.app("player")
    board.app("loader")
    await board.agent_up()
    await board.call("SetPerformance", "player", 60)
    await board.call("SetPerformance", "loader", 30)
    before = (board.state / "performances.json").stat().st_ino
    orders = list(board.regulator.orders)
    bad: list[tuple[str, Any, str]] = [
        ("su", 101, "or 0 for none, not 101 (app player)"),
        ("su", (1 << 32) - 1, "not 4294967295"),
        ("ss", "10", "D-Bus type u, not s"),
        ("sd", 10.5, "not d"),
        ("si", -5, "not i"),
    ]
    for signature, value, reason in bad:
        error = await board.refused("SetPerformance", "player", value, signature=signature)
        assert error.name == ERROR + "InvalidPerformance"
        assert "performance must be a whole number of percent from 1 to 100" in error.text
        assert reason in error.text
    error = await board.refused("SetPerformance", "loader", 41)
    assert error.name == ERROR + "InvalidPerformance"
    assert error.text == "41 % for loader is more than the 40 % that are left: player 60 %"
    assert (await board.refused("SetPerformance", "nobody", 5)).name == ERROR + "UnknownApp"
    assert (board.state / "performances.json").stat().st_ino == before
    assert board.regulator.orders == orders
    assert board.perf(player) == "259:0 60\n"
    # what is left may be had
    assert (await board.call("SetPerformance", "loader", 40))["performance_applied"]


@on_board
async def test_who_gives_some_back_comes_first(board: Harness) -> None:
    """After a start with other numbers than are in force, in an order that would ask for 150 % meanwhile."""
    units = [board.app(name) for name in ("a", "b")]
    (board.state / "performances.json").write_text('{"a": 80, "b": 20}')
    for unit, percent in zip(units, (30, 70), strict=True):
        write(board.systemd.directory(unit) / "io.evenkeel.perf", f"259:0 {percent}\n")
    await board.agent_up()

    async def mended() -> bool:
        return [board.perf(unit) for unit in units] == ["259:0 80\n", "259:0 20\n"]

    await board.until(mended)
    assert [order.split()[1] for order in board.regulator.orders] == ["20", "80"]


@on_board
async def test_a_full_disk_refuses_the_performance(board: Harness) -> None:
    player = board.app("player")
    await board.agent_up()
    await board.call("SetPerformance", "player", 10)
    # nobody can write there, root neither
    (board.state / "performances.json.new").mkdir()
    error = await board.refused("SetPerformance", "player", 20)
    assert error.name == ERROR + "Failed"
    assert error.text.startswith("the performance of player stays 10 %: the performance cannot be saved in ")
    assert (board.perf(player), (await board.apps())["player"]["performance"]) == ("259:0 10\n", 10)


@on_board
async def test_a_damaged_file_is_told_and_regulates_nobody(board: Harness) -> None:
    player = board.app("player")
    (board.state / "performances.json").write_text('{"player": 101}')
    await board.agent_up()
    [said] = await problems(board)
    assert "the saved performances were damaged (player: performance must be" in said
    assert said.endswith("no app has regulated performance")
    assert (await board.call("SetPerformance", "player", 10))["performance_applied"]
    assert board.perf(player) == "259:0 10\n"
    assert await problems(board) == []


@on_board
async def test_another_scheduler_is_said_and_its_end_noticed(board: Harness) -> None:
    player = board.app("player")
    line = "259:0 weight=100 rbytes=1 wbytes=0 rios=1 wios=0\n"
    board.set_stat(player, line)
    await board.agent_up()
    await board.call("SetPerformance", "player", 10)

    # the device gets another scheduler: the kernel forgets what was regulated there
    board.device("nvme0n1", "none [bfq] evenkeel", "0", "Fast Flash")
    write(board.systemd.directory(player) / "io.evenkeel.perf", "")
    board.set_stat(player, "")
    said = "performance 10 % of player is not in force: only the scheduler evenkeel can do it, and nvme0n1 has bfq"

    async def told() -> bool:
        return said in await problems(board)

    await board.until(told)
    app = (await board.apps())["player"]
    assert (app["performance"], app["performance_applied"], app["performance_problem"]) == (10, False, said)
    # it can still be set and taken back
    app = await board.call("SetPerformance", "player", 20)
    assert (app["performance"], app["performance_applied"]) == (20, False)
    assert "performance 20 % of player is not in force" in app["performance_problem"]

    # and its own again: nobody says so, but the counters are back
    board.device("nvme0n1", "none bfq [evenkeel]", "0", "Fast Flash")
    board.set_stat(player, line)

    async def mended() -> bool:
        return board.perf(player) == "259:0 20\n"

    await board.until(mended)
    assert await problems(board) == []


@on_board
async def test_a_second_device_counts_too(board: Harness) -> None:
    player = board.app("player")
    board.device("vda", "none [evenkeel]", "1", "", number="254:0")
    board.device("vdb", "[bfq] evenkeel", "1", "", number="254:16")
    board.regulator.devices.add("254:0")
    await board.agent_up()
    app = await board.call("SetPerformance", "player", 10)
    assert sorted(board.perf(player).splitlines()) == ["254:0 10", "259:0 10"]
    assert not app["performance_applied"]
    assert app["performance_problem"].endswith("only the scheduler evenkeel can do it, and vdb has bfq")


@on_board
async def test_an_evenkeel_without_the_file(board: Harness) -> None:
    board.systemd.knows_perf = False
    board.app("player")
    await board.agent_up()
    assert await problems(board) == []
    app = await board.call("SetPerformance", "player", 10)
    said = (
        "performance 10 % of player is not in force: its cgroup has no io.evenkeel.perf: "
        "this evenkeel cannot do it, or is not loaded"
    )
    assert (app["performance_applied"], app["performance_problem"]) == (False, said)
    assert await problems(board) == [said]
    assert board.regulator.orders == []


@on_board
async def test_what_the_kernel_refuses_is_said(board: Harness) -> None:
    player = board.app("player")
    await board.agent_up()
    for number, reason in (
        (errno.ENOSPC, "all regulated groups together would have more than 100 % of it"),
        (errno.EPERM, "the kernel does not allow it (CAP_SYS_ADMIN)"),
        (errno.EIO, "Input/output error"),
    ):
        board.regulator.refuses = number
        app = await board.call("SetPerformance", "player", 10 + number)
        said = f"performance {10 + number} % of player is not in force: nvme0n1: {reason}"
        assert (app["performance_applied"], app["performance_problem"]) == (False, said)
        assert await problems(board) == [said]
    assert board.log.read_text().count("is not in force: nvme0n1: all regulated") == 1, (
        "each reason is logged once"
    )
    board.regulator.refuses = 0
    assert (await board.call("SetPerformance", "player", 10))["performance_applied"]
    # one that cannot be ended
    board.regulator.refuses = errno.EPERM
    app = await board.call("SetPerformance", "player", 0)
    assert app["performance_problem"].startswith(
        "regulated performance of player is still in force: nvme0n1: "
    )
    assert board.perf(player) == "259:0 10\n"


@on_board
async def test_without_the_writer_the_rest_works(board: Harness) -> None:
    board.app("player")
    await board.agent_up("--call-timeout", "3", "--settle", "0.2")
    board.regulator.close()
    app = await board.call("SetPerformance", "player", 10)
    assert (app["performance"], app["performance_applied"]) == (10, False)
    assert "nvme0n1: ek-regulate cannot be asked at " in app["performance_problem"]
    assert app["performance_problem"].endswith("run/evenkeel/regulate: Connection refused")
    assert (await board.call("SetWeight", "player", 200))["applied"]

    # one that hangs holds nobody up for long
    board.regulator_up()
    board.regulator.frozen = True
    loop = asyncio.get_running_loop()
    before = loop.time()
    assert not (await board.call("SetPerformance", "player", 20))["performance_applied"]
    assert (await board.call("SetWeight", "player", 300))["applied"]
    assert loop.time() - before < 2.7

    async def said() -> bool:
        return any("ek-regulate did not answer within 3 s" in problem for problem in await problems(board))

    await board.until(said)
    board.regulator.close()
    board.regulator_up()
    assert (await board.call("SetPerformance", "player", 30))["performance_applied"]


@on_board
async def test_what_somebody_wrote_by_hand_goes(board: Harness) -> None:
    player = board.app("player")
    await board.agent_up("--recheck", "0.3")
    write(board.systemd.directory(player) / "io.evenkeel.perf", "259:0 50\n")

    async def gone() -> bool:
        return board.perf(player) == ""

    await board.until(gone)


@on_board
async def test_what_is_used_is_shown(board: Harness) -> None:
    player = board.app("player")
    await board.agent_up("--interval", "0.2", "--window", "0.6")
    await board.call("SetPerformance", "player", 10)

    loop = asyncio.get_running_loop()
    done = ideal = actual = late = 0.0
    pace = (
        0.0,
        950_000.0,
        3_000_000.0,
    )  # a second: of 20 requests the late ones, ideal and actual times in us

    async def feed() -> None:
        nonlocal done, ideal, actual, late
        before = loop.time()
        while True:
            await asyncio.sleep(0.02)
            passed, before = loop.time() - before, loop.time()
            done, late = done + 20 * passed, late + pace[0] * passed
            ideal, actual = ideal + pace[1] * passed, actual + pace[2] * passed
            perf = f"perf=10 perf_ios={int(done)} perf_late={int(late)}"
            times = f"perf_ideal_us={int(ideal)} perf_actual_us={int(actual)}"
            board.set_stat(player, f"259:0 weight=100 rbytes={int(done)} rios={int(done)} {perf} {times}\n")

    feeding = asyncio.create_task(feed())
    await asyncio.sleep(1.5)
    app = (await board.apps())["player"]
    assert 0.8 <= app["performance_used"] <= 1.0
    assert (app["performance_late"], app["performance_behind"]) == (0, False)
    answer = await board.ekctl("performance", "player")
    assert answer.out.startswith("player 10%, ")
    assert answer.out.endswith("% of it used; the scheduler keeps up\n")

    pace = (10.0, 500_000.0, 3_000_000.0)
    await asyncio.sleep(1.5)
    app = (await board.apps())["player"]
    assert 0.4 <= app["performance_used"] <= 0.65
    assert 0.3 <= app["performance_late"] <= 0.7
    assert app["performance_behind"]
    assert "the scheduler is behind: " in (await board.ekctl("performance", "player")).out
    feeding.cancel()


@on_board
async def test_on_the_command_line(board: Harness) -> None:
    player = board.app("player")
    board.app("loader", active=False)
    await board.agent_up()
    for arguments, said in (
        (("player",), "player off\n"),
        (("player", "10%"), "player 10%\n"),
        (("player", "12"), "player 12%\n"),
        (("player",), "player 12%\n"),
        (("loader", "7%"), "loader 7% (in force when the app starts)\n"),
    ):
        answer = await board.ekctl("performance", *arguments)
        assert (answer.status, answer.out, answer.err) == (0, said, ""), arguments
    assert board.perf(player) == "259:0 12\n"
    table = (await board.ekctl("apps")).out.splitlines()
    assert table[1].split()[:5] == ["loader", "inactive", "100", "7%", "no"]
    assert table[2].split()[:5] == ["player", "active", "100", "12%", "yes"]
    app = json.loads((await board.ekctl("performance", "player", "13", "--json")).out)
    assert (app["performance"], app["performance_applied"]) == (13, True)
    for text in ("0", "0%", "x", "1.5%", "", "12 percent", "9" * 30):
        answer = await board.ekctl("performance", "player", text)
        assert (answer.status, answer.out) == (1, "")
        assert answer.err == (
            f"ekctl: performance must be a whole number of percent from 1 to 100, or off, not {text!r}\n"
        )
    answer = await board.ekctl("performance", "player", "101%")
    assert (answer.status, answer.err.count("\n")) == (1, 1)
    assert "not 101 (app player)" in answer.err
    assert "there is no app 'nobody'" in (await board.ekctl("performance", "nobody", "off")).err
    assert board.perf(player) == "259:0 13\n"
    board.regulator.refuses = errno.EPERM
    answer = await board.ekctl("performance", "player", "off")
    assert answer.status == 0, "it is kept"
    assert answer.out.startswith("player off (regulated performance of player is still in force: nvme0n1: ")
    board.regulator.refuses = 0
    assert (await board.ekctl("performance", "player", "off")).out == "player off\n"
    assert board.perf(player) == ""
    assert (await board.ekctl("performance")).status == 2


@on_board
async def test_the_real_writer(board: Harness) -> None:
    """give() and ek-regulate agree on what they say to each other."""
    player = board.app("player")
    program = board.top / "ek-regulate"
    source = interface.__file__.rpartition("/evenkeel_agent/")[0] + "/src/ek_regulate.c"
    subprocess.run(["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-o", program, source], check=True)
    import socket

    path = board.top / "regulate"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(path))
        listening.listen()
        directory = "/" + str(board.systemd.directory(player).relative_to(board.cgroups))
        orders = [Order(directory, "259:0", 10), Order("/gone", "259:0", 10), Order(directory, "259:0", 20)]
        given = asyncio.create_task(give(str(path), orders, 5))
        connection, _ = await asyncio.to_thread(listening.accept)
        with connection:
            writer = await asyncio.create_subprocess_exec(program, board.cgroups, stdin=connection)
        assert await given == ["", "No such file or directory", ""]
        assert await writer.wait() == 0
    assert board.perf(player) == "259:0 20"
