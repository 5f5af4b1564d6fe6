# SPDX-License-Identifier: Apache-2.0
"""The real evenkeeld on a private bus: every method and error, restarts, kills, and absent or hanging services."""

import asyncio
import contextlib
import json
import os
import random
import signal
from typing import Any

import pytest
from agent_harness import ADMINISTRATOR, ERROR, STRANGER, Harness, on_board, write
from disks import fill_up, small_disk
from evenkeel_agent import __version__, service
from evenkeel_agent.agent import QUIET
from evenkeel_agent.bus import CallError
from evenkeel_api import interface
from evenkeel_api.features import apps
from evenkeel_api.features.apps import App
from evenkeel_api.features.board import Status
from test_accounts import PanelClient

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to run programs as other users")


def stat(rbytes: int, wbytes: int = 0, rtotal: str = "-") -> str:
    return (
        f"259:0 weight=100 rbytes={rbytes} wbytes={wbytes} rios=1 wios=0 rtotal={rtotal} wtotal=- later=1\n"
    )


@on_board
async def test_status_of_a_healthy_board(board: Harness) -> None:
    board.app("player")
    await board.agent_up()
    status = await board.call("GetStatus")
    assert set(status) == set(Status.__struct_fields__)
    assert status["problems"] == []
    expected = {
        "version": __version__,
        "kernel": "6.12.1-evenkeel",
        "slot": "B",
        "scheduler": "evenkeel",
        "health": "ok",
        "demo": False,
        "uptime_s": 4711,
    }
    assert {key: status[key] for key in expected} == expected
    device = {
        "name": "nvme0n1",
        "scheduler": "evenkeel",
        "model": "Fast Flash",
        "size_bytes": 1 << 20,
    }
    assert status["devices"] == [device]
    assert await board.agent_down() == 0


@on_board
async def test_status_has_all_problems(board: Harness) -> None:
    board.app("player")
    board.device("vda", "none [mq-deadline]", "1", "")
    (board.apps_d / "bad.toml").write_text("weight = 0")
    (board.apps_d / os.fsdecode(b"\xff.toml")).write_text("")
    (board.state / "weights.json").write_text("{")
    (board.root / "run/evenkeel").mkdir(exist_ok=True)
    (board.root / "run/evenkeel/data-degraded").touch()
    credentials = board.top / "credentials"
    credentials.mkdir()
    (credentials / "evenkeel.demo").touch()
    await board.agent_up(CREDENTIALS_DIRECTORY=str(credentials))
    status = await board.call("GetStatus")
    assert (status["health"], status["scheduler"], status["demo"]) == (
        "degraded",
        "mq-deadline",
        True,
    )
    text = "\n".join(problem["text"] for problem in status["problems"])
    assert "evenkeel is not active on vda: its scheduler is mq-deadline" in text
    assert "apps.d/bad.toml is ignored: title is missing" in text
    assert "apps.d/?.toml is ignored: its name must be" in text
    assert "the saved weights were damaged" in text
    assert "the data partition is not in use" in text
    assert len(status["problems"]) == 5
    assert list(await board.apps()) == ["player"], "a bad file does not affect the other app"


@on_board
async def test_apps_show_rates_shares_and_latency(board: Harness) -> None:
    counters = board.root / "run/player.json"
    player = board.app("player", stats=str(counters))
    loader = board.app("loader", weight=50, active=False)
    await board.agent_up("--interval", "0.2", "--window", "0.6")
    for tick in range(40):
        board.set_stat(player, stat(tick * 3_000_000, 0, f"40:{tick}"))
        if tick == 5:
            board.systemd.start(loader)
        if tick >= 5:
            board.set_stat(loader, stat(0, (tick - 4) * 1_000_000))
        await asyncio.sleep(0.05)
    apps = await board.apps()
    p, other = apps["player"], apps["loader"]
    assert set(p) == set(App.__struct_fields__)
    assert 0.5 <= p["window_s"] <= 1.9  # the last sample before the question is up to 5 intervals old
    assert 45e6 <= p["read_bps"] <= 66e6
    assert p["write_bps"] == 0
    assert 15e6 <= other["write_bps"] <= 22e6
    assert abs(p["share"] - 0.75) < 0.05
    assert p["share"] + other["share"] == pytest.approx(1)
    assert (p["p99_us"], other["p99_us"]) == (143.0, -1.0)
    assert (p["active_state"], p["sub_state"], p["applied"]) == ("active", "running", True)

    # Without the cgroup there are no rates. With a new cgroup the rates start at 0.
    board.systemd.stop(player)
    await asyncio.sleep(1.0)
    p = (await board.apps())["player"]
    assert (p["read_bps"], p["p99_us"], p["active_state"], p["applied"]) == (0, -1, "inactive", False)
    board.systemd.start(player)
    board.set_stat(player, stat(900_000, 0, "9:3"))

    async def back() -> bool:
        return bool(0 < (await board.apps())["player"]["read_bps"] < 5e6)

    await board.until(back)
    assert await board.problems() == []

    # the app's own counters are shown unchanged if they are a JSON object in a regular file
    assert (await board.apps())["player"]["stats"] == ""
    shown = {
        '{"stalls": 3}\n': '{"stalls": 3}',
        "[1]": "",
        "{": "",
        '{"x": "' + "x" * 20000 + '"}': "",
    }
    for content, stats in shown.items():
        counters.write_text(content)
        assert (await board.apps())["player"]["stats"] == stats
    counters.unlink()
    os.mkfifo(counters)
    assert (await board.apps())["player"]["stats"] == ""
    counters.unlink()
    secret = board.root / "secret.json"
    secret.write_text("{}")
    counters.symlink_to(secret)
    assert (await board.apps())["player"]["stats"] == ""


@on_board
async def test_a_weight_is_saved_and_in_force(board: Harness) -> None:
    player = board.app("player", weight=300)
    stopped = board.app("loader", weight=50, active=False)
    absent = board.app("ghost", active=False)
    del board.systemd.units[absent]
    await board.agent_up()
    units = board.systemd.units
    assert (units[player].weight, units[stopped].weight) == (300, 50), "weights of the files are applied too"
    assert (await board.apps())["ghost"]["sub_state"] == "not-found"

    app = await board.call("SetWeight", "player", 400)
    assert (app["name"], app["weight"], app["applied"]) == ("player", 400, True)
    assert set(app) == set(App.__struct_fields__)
    assert (board.systemd.directory(player) / "io.weight").read_text() == "default 400\n"

    app = await board.call("SetWeight", "loader", 10000)
    assert (app["weight"], app["applied"], app["active_state"]) == (10000, False, "inactive")
    assert units[stopped].weight == 10000, "systemd has it before the unit starts"
    app = await board.call("SetWeight", "ghost", 1)
    assert (app["weight"], app["applied"]) == (1, False)
    saved = {"player": 400, "loader": 10000, "ghost": 1}
    assert json.loads((board.state / "weights.json").read_text()) == saved

    # the agent corrects the weight of a unit that starts with another one
    units[stopped].weight = 7
    board.systemd.start(stopped)

    async def corrected() -> bool:
        return bool((await board.apps())["loader"]["applied"])

    await board.until(corrected)

    for number in (signal.SIGTERM, signal.SIGKILL):
        await board.agent_down(number)
        units[player].weight = None
        await board.agent_up()
        assert {name: app["weight"] for name, app in (await board.apps()).items()} == saved
        assert units[player].weight == 400, "applied again before the agent answers calls"
    assert await board.problems() == []


@on_board
async def test_an_undo_does_not_replace_a_later_value(board: Harness) -> None:
    """The panel names the value that it undoes. Another change is on its way, or has just been made."""
    board.app("player")
    await board.agent_up()
    panel = PanelClient(board)
    await panel.log_in()
    for name, field, (first, second, other), shown in (
        ("Weight", "weight", (100, 200, 777), "777"), ("FixedShare", "fixed_share", (0, 20, 30), "30 %")
    ):  # fmt: skip
        await panel.call(f"Set{name}", "player", second)
        assert (await panel.call(f"Undo{name}", "player", first, second))[field] == first
        await panel.call(f"Set{name}", "player", second)
        _, late = await asyncio.gather(
            board.call(f"Set{name}", "player", other), panel.refused(f"Undo{name}", "player", first, second)
        )
        assert late.name == ERROR + "Conflict"
        assert f"was changed again and is {shown} now, so nothing was undone" in late.text
        assert (await board.apps())["player"][field] == other
        assert (await board.refused(f"Undo{name}", "player", first, other)).name.endswith("UnknownMethod")
    row = (await panel.call("ListAudit", 0, 9))[1]
    assert (row["action"], row["outcome"]) == ("UndoFixedShare", "Conflict")


@on_board
async def test_an_app_that_names_devices_gets_its_weight_when_it_runs(board: Harness) -> None:
    """If the agent set the weight before the start, the app could not open a device that appears later."""
    loader = board.app("loader", weight=50, active=False)
    unit = board.systemd.units[loader]
    unit.devices = ("/dev/stick",)
    await board.agent_up()
    assert unit.weight is None
    app = await board.call("SetWeight", "loader", 60)
    assert (app["weight"], app["applied"]) == (60, False)
    assert unit.weight is None
    # While the unit waits for a restart, it has no cgroup either.
    unit.active, unit.sub = "activating", "auto-restart"
    board.systemd.changed(loader)
    await board.call("SetWeight", "loader", 61)
    assert unit.weight is None
    assert await board.problems() == []

    board.systemd.start(loader)

    async def applied() -> bool:
        return bool((await board.apps())["loader"]["applied"])

    await board.until(applied)
    assert unit.weight == 61


@on_board
async def test_bad_calls_are_refused_and_change_nothing(board: Harness) -> None:
    player = board.app("player")
    await board.agent_up()
    await board.call("SetWeight", "player", 200)
    before = (board.state / "weights.json").stat().st_ino
    calls = board.systemd.count("SetUnitProperties")
    bad: list[tuple[str, Any, str]] = [
        ("su", 0, "not 0"),
        ("su", 10001, "not 10001"),
        ("su", (1 << 32) - 1, "not 4294967295"),
        ("ss", "200", "D-Bus type u, not s"),
        ("sb", True, "not b"),
        ("sd", 200.0, "not d"),
        ("si", 200, "not i"),
        ("st", 1 << 40, "not t"),
    ]
    for signature, value, reason in bad:
        error = await board.refused("SetWeight", "player", value, signature=signature)
        assert error.name == ERROR + "InvalidWeight"
        assert "weight must be a whole number from 1 to 10000" in error.text
        assert reason in error.text
    for member, *more in (("SetWeight", 5), ("SetFixedShare", 5), ("StartApp",), ("StopApp",)):
        for name in ("nobody", "", "../player", "x" * 5000):
            error = await board.refused(member, name, *more)
            assert error.name == ERROR + "UnknownApp"
            assert error.text.startswith("there is no app '")
            assert len(error.text) < 200
    for member, signature, body in (
        ("ListApps", "s", ["x"]),
        ("SetWeight", "s", ["player"]),
        ("StartApp", "", []),
    ):
        error = await board.refused(member, *body, signature=signature)
        assert error.name == "org.freedesktop.DBus.Error.InvalidArgs"
    with pytest.raises(CallError, match="has no method Shutdown"):
        await board.call("Shutdown", signature="")
    assert (board.state / "weights.json").stat().st_ino == before
    assert board.systemd.count("SetUnitProperties") == calls
    assert board.systemd.units[player].weight == 200


@on_board
async def test_starting_and_stopping(board: Harness) -> None:
    player = board.app("player")
    absent = board.app("ghost", active=False)
    del board.systemd.units[absent]
    await board.agent_up()
    await board.call("StopApp", "player")
    assert (await board.apps())["player"]["active_state"] == "inactive"
    await board.call("StartApp", "player")
    assert (await board.apps())["player"]["active_state"] == "active"
    for member, word in (("StartApp", "started"), ("StopApp", "stopped")):
        error = await board.refused(member, "ghost")
        text = f"app ghost was not {word}: there is no unit evenkeel-ghost.service"
        assert (error.name, error.text) == (ERROR + "UnitNotFound", text)
    unit = board.systemd.units[player]
    unit.result = "failed"
    error = await board.refused("StartApp", "player")
    text = (
        "app player was not started: the job for evenkeel-player.service ended as failed;"
        " look for evenkeel-player.service on the page System, Journal,"
        " or see 'journalctl -u evenkeel-player.service'"
    )
    assert (error.name, error.text) == (ERROR + "Failed", text)
    unit.result = "done"
    await board.call("StopApp", "player")
    unit.condition = False
    error = await board.refused("StartApp", "player")
    text = "app player was not started: a condition in evenkeel-player.service is not met"
    assert (error.name, error.text) == (ERROR + "Failed", text)


@on_board
async def test_a_full_disk_refuses_the_weight(board: Harness) -> None:
    player = board.app("player")
    with small_disk(board.state, "1m"):
        await board.agent_up()
        await board.call("SetWeight", "player", 200)
        filler = fill_up(board.state)
        error = await board.refused("SetWeight", "player", 300)
        assert error.name == ERROR + "Failed"
        assert error.text.startswith("the weight of player stays 200: the weight cannot be saved in ")
        assert error.text.endswith("No space left on device")
        app = (await board.apps())["player"]
        assert (app["weight"], app["applied"], board.systemd.units[player].weight) == (200, True, 200)
        assert json.loads((board.state / "weights.json").read_text()) == {"player": 200}
        filler.unlink()
        assert (await board.call("SetWeight", "player", 300))["weight"] == 300
        await board.agent_down()


@on_board
async def test_concurrent_weights_end_in_one_state(board: Harness) -> None:
    units = [board.app(name) for name in ("a", "b")]
    await board.agent_up()
    answers = await asyncio.gather(
        *(board.call("SetWeight", name, value) for value in range(1, 21) for name in ("a", "b"))
    )
    assert len(answers) == 40
    saved = json.loads((board.state / "weights.json").read_text())
    for name, unit in zip(("a", "b"), units, strict=True):
        app = (await board.apps())[name]
        assert app["applied"]
        assert app["weight"] == saved[name] == board.systemd.units[unit].weight == 20


@on_board
async def test_the_last_value_counts_although_systemd_answers_an_earlier_question_late(
    board: Harness,
) -> None:
    board.app("player")
    await board.agent_up()
    for method, field, values in (
        ("SetWeight", "weight", (10, 20)),
        ("SetFixedShare", "fixed_share", (10, 0)),
    ):
        board.systemd.late_s = [0.5]
        await asyncio.gather(*(board.call(method, "player", value) for value in values))
        assert (await board.apps())["player"][field] == values[-1]


@on_board
async def test_kill_9_while_weights_are_set(board: Harness) -> None:
    board.app("player")
    chance = random.Random(7)  # noqa: S311  chooses when to kill
    value = 0
    for _ in range(5):
        await board.agent_up()
        kill = asyncio.get_running_loop().call_later(0.1 + chance.random() * 0.2, board.agent.kill)
        acknowledged = (await board.apps())["player"]["weight"]
        with contextlib.suppress(CallError):
            while True:
                value += 1
                acknowledged = (await board.call("SetWeight", "player", value))["weight"]
        kill.cancel()
        await board.agent_ends()
        saved = json.loads((board.state / "weights.json").read_text())["player"]
        assert saved in (acknowledged, value)
        assert not (board.state / "weights.json.corrupt").exists()


@on_board
async def test_a_failed_recorder_is_a_problem(board: Harness) -> None:
    board.systemd.add("ek-recorder.service")
    board.systemd.add("recorder.mount")
    await board.agent_up()
    assert await board.problems() == []
    board.systemd.units["ek-recorder.service"].active = "failed"
    board.systemd.units["recorder.mount"].active = "failed"
    status = await board.call("GetStatus")
    assert status["health"] == "degraded"
    assert [problem["text"].split(";")[0] for problem in status["problems"]] == [
        "the recorder's partition is not mounted, so nothing can be recorded",
        "the recorder has failed, so nothing is recorded",
    ]


@on_board
async def test_without_systemd_the_agent_answers_and_reports_it(board: Harness) -> None:
    player = board.app("player")
    await board.agent_up()
    assert (await board.apps())["player"]["active_state"] == "active"
    board.systemd.bus.close()
    app = await board.call("SetWeight", "player", 250)
    assert (app["weight"], app["applied"], app["active_state"]) == (250, False, "unknown")
    for member in ("StartApp", "StopApp"):
        assert (await board.refused(member, "player")).name == ERROR + "Failed"
    status = await board.call("GetStatus")
    assert status["health"] == "degraded"
    assert "systemd-silent" in [problem["code"] for problem in status["problems"]]
    read = 5_000_000

    async def measured() -> bool:
        nonlocal read
        # The counter grows at every call: on a busy machine, a single step may leave the window before the call.
        read += 1_000_000
        board.set_stat(player, stat(read))
        return bool((await board.apps())["player"]["read_bps"] > 0)

    await board.until(measured)

    # when systemd is back, the agent sends it the missing weight by itself
    await board.systemd_up()

    async def sent() -> bool:
        return board.systemd.units[player].weight == 250

    await board.until(sent)

    async def healthy() -> bool:
        return bool((await board.call("GetStatus"))["health"] == "ok")

    await board.until(healthy)

    async def subscribed() -> bool:
        return board.systemd.count("Subscribe") > 0

    await board.until(subscribed)
    assert board.systemd.count("Subscribe") == 1


@on_board
async def test_a_hanging_systemd_does_not_delay_answers_for_long(board: Harness) -> None:
    board.app("player")
    await board.agent_up("--call-timeout", "1", "--patience", "0.2")
    await board.apps()
    board.systemd.frozen = True
    loop = asyncio.get_running_loop()
    before = loop.time()
    assert (await board.apps())["player"]["active_state"] == "active", "the last known state"
    assert loop.time() - before < 0.8
    error = await board.refused("StartApp", "player")
    assert error.name == ERROR + "Failed"
    assert "org.freedesktop.systemd1 did not answer StartUnit within 1 s" in error.text
    app = await board.call("SetWeight", "player", 250)
    assert (app["weight"], app["applied"]) == (250, False)
    board.systemd.frozen = False

    async def applied() -> bool:
        return bool((await board.apps())["player"]["applied"])

    await board.until(applied)


@on_board
async def test_starting_while_systemd_is_absent(board: Harness) -> None:
    player = board.app("player", weight=70)
    stopped = board.app("loader", weight=30, active=False)
    board.systemd.bus.close()
    await board.agent_up()
    assert (await board.apps())["player"]["active_state"] == "unknown"
    await board.systemd_up()

    async def sent() -> bool:
        return (board.systemd.units[player].weight, board.systemd.units[stopped].weight) == (70, 30)

    await board.until(sent)


@on_board
async def test_a_weight_that_is_not_in_force_is_a_problem(board: Harness) -> None:
    player = board.app("player")
    await board.agent_up("--settle", "0.2")
    board.systemd.writes_weights = False
    app = await board.call("SetWeight", "player", 250)
    assert (app["weight"], app["applied"]) == (250, False)
    problem = "weight 250 of player is not in force: its io.weight is 'default 100'"
    assert await board.problems() == [problem]
    (board.systemd.directory(player) / "io.weight").unlink()
    await board.call("SetWeight", "player", 260)
    problem = "weight 260 of player is not in force: its cgroup has no io.weight"
    assert await board.problems() == [problem]
    board.systemd.units[player].refuses = "No."
    await board.call("SetWeight", "player", 270)
    assert await board.problems() == ["weight 270 of player is not in force: No"]
    board.systemd.units[player].refuses = ""
    board.systemd.writes_weights = True
    await board.call("SetWeight", "player", 280)
    assert await board.problems() == []


@on_board
async def test_counters_that_cannot_be_read_are_a_problem(board: Harness) -> None:
    player = board.app("player")
    (board.systemd.directory(player) / "io.evenkeel.stat").unlink()
    await board.agent_up()

    async def reported() -> bool:
        problem = "io.evenkeel.stat of player cannot be read: No such file or directory"
        return bool(await board.problems() == [problem])

    await board.until(reported)
    board.set_stat(player, stat(1))

    async def healthy() -> bool:
        return bool(await board.problems() == [])

    await board.until(healthy)


@needs_root
@on_board
async def test_authorization(board: Harness) -> None:
    board.app("player")
    await board.agent_up()
    assert await board.call("ListApps")
    assert board.polkit.calls == [], "root needs no decision of polkit"

    # for a user that the bus policy accepts, polkit decides on each method
    for command, action in (
        (("status",), apps.READ),
        (("apps",), apps.READ),
        (("weight", "player", "5"), apps.SET_WEIGHT),
        (("fixed-share", "player", "5%"), apps.SET_FIXED_SHARE),
        (("start", "player"), apps.CONTROL_APP),
        (("stop", "player"), apps.CONTROL_APP),
    ):
        board.polkit.granted = set(interface.ACTIONS) - {action}
        answer = await board.ekctl(*command, user=ADMINISTRATOR)
        assert answer.status == 1
        assert answer.err == f"ekctl: user 2 is not authorized for {action}\n"
        board.polkit.granted = {action}
        assert (await board.ekctl(*command, user=ADMINISTRATOR)).status == 0
    error = await board.ekctl("weight", "player", "0", user=ADMINISTRATOR)
    assert "not authorized" in error.err, "an unauthorized caller learns nothing about the value"

    # the bus policy refuses the user of an app
    answer = await board.ekctl("status", user=STRANGER)
    assert answer.status == 1
    assert "AccessDenied" in answer.err
    assert answer.err.count("\n") == 1

    # without polkit, only root is served
    board.polkit.bus.close()
    assert await board.call("ListApps")
    answer = await board.ekctl("apps", user=ADMINISTRATOR)
    assert answer.status == 1
    assert "is not authorized for org.evenkeel.agent.read: polkit did not decide" in answer.err
    await board.polkit_up()
    board.polkit.frozen = True
    await board.agent_down()
    await board.agent_up("--call-timeout", "0.5")
    assert "did not answer CheckAuthorization" in (await board.ekctl("apps", user=ADMINISTRATOR)).err


@on_board
async def test_a_reload_adds_new_apps_and_drops_removed_ones(board: Harness) -> None:
    board.app("player")
    await board.agent_up()
    loader = board.app("loader", weight=77)
    (board.apps_d / "player.toml").unlink()
    board.agent.send_signal(signal.SIGHUP)

    async def reloaded() -> bool:
        return list(await board.apps()) == ["loader"]

    await board.until(reloaded)

    async def sent() -> bool:
        return board.systemd.units[loader].weight == 77

    await board.until(sent)
    assert (await board.refused("SetWeight", "player", 5)).name == ERROR + "UnknownApp"


@on_board
async def test_a_unit_outside_the_slice_of_the_apps_is_left_alone(board: Harness) -> None:
    """A listed unit of the system is neither changed nor measured, whether it runs or not."""
    board.app("player")
    for name, active in (("running", True), ("stopped", False)):
        (board.apps_d / f"{name}.toml").write_text(f'title = "X"\nunit = "{name}.service"\nweight = 7\n')
        board.systemd.add(f"{name}.service", active=False)
        board.systemd.units[f"{name}.service"].slice = "system.slice"
        if active:
            board.systemd.start(f"{name}.service")
    await board.agent_up()
    for name in ("running", "stopped"):
        for call in (
            ("SetWeight", name, 9),
            ("SetFixedShare", name, 9),
            ("StartApp", name),
            ("StopApp", name),
        ):
            error = await board.refused(*call)
            assert error.name == ERROR + "UnitOutsideSlice"
            assert f"its unit {name}.service is in system.slice, not below evenkeel-apps.slice" in error.text
    changed = {
        body[0]
        for member, body in board.systemd.calls
        if member not in ("ListUnitsByNames", "Subscribe", "Get")
    }
    assert changed == {"evenkeel-player.service"}
    assert board.helper.orders == []
    problems = await board.problems()
    assert [text.partition(":")[0] for text in problems] == [
        "app running is not controlled",
        "app stopped is not controlled",
    ]
    assert not (await board.apps())["running"]["applied"]
    # The owner moves the unit into a slice below that of the apps.
    board.systemd.stop("running.service")
    board.systemd.units["running.service"].slice = "evenkeel-apps-alone.slice"
    board.systemd.start("running.service")

    async def applied() -> bool:
        return bool((await board.apps())["running"]["applied"])

    await board.until(applied)
    assert (await board.call("SetWeight", "running", 9))["weight"] == 9


@on_board
async def test_a_cgroup_that_moves_is_followed(board: Harness) -> None:
    player = board.app("player")
    await board.agent_up()
    await board.apps()
    await asyncio.sleep(0.3)
    new = board.cgroups / "evenkeel.slice/evenkeel-apps.slice/elsewhere"
    board.systemd.directory(player).rename(new)
    board.systemd.units[player].cgroup = "/evenkeel.slice/evenkeel-apps.slice/elsewhere"
    write(new / "io.evenkeel.stat", stat(5_000_000))

    async def followed() -> bool:
        return board.systemd.count("ListUnitsByNames") > asked

    asked = board.systemd.count("ListUnitsByNames")
    await board.until(followed)
    assert (await board.apps())["player"]["applied"]


@on_board
async def test_idle_costs_no_calls(board: Harness) -> None:
    board.app("player")
    board.app("loader", active=False)
    await board.agent_up()
    await asyncio.sleep(0.5)
    before = len(board.systemd.calls)
    await asyncio.sleep(1.5)
    assert len(board.systemd.calls) == before, "fifteen samples without a call to systemd"
    asked = board.systemd.count("Get")
    await board.apps()
    assert board.systemd.count("Get") == asked, "no call for a cgroup while the unit's state is unchanged"


@on_board
async def test_checks_without_a_signal_seldom_ask_for_each_app(board: Harness) -> None:
    for number in range(3):
        board.app(f"app-{number}")
    await board.agent_up("--recheck", "0.1", "--interval", "0.1")
    checks, questions = board.systemd.count("ListUnitsByNames"), board.systemd.count("Get")

    async def checked() -> bool:
        return board.systemd.count("ListUnitsByNames") >= checks + 2 * QUIET

    await board.until(checked)
    asked = board.systemd.count("Get") - questions
    assert 6 <= asked <= 18, "slice and cgroup of three apps, in one to three of twenty checks"


@on_board
async def test_only_samples_ping_the_watchdog(board: Harness) -> None:
    player = board.app("player")
    await board.agent_up(wait=False, WATCHDOG_USEC="400000")
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        (board.top / "notify").unlink()
        sock.bind(str(board.top / "notify"))
        sock.settimeout(5)

        def next_ping() -> bytes:
            while (text := sock.recv(100)) != b"WATCHDOG=1":
                pass
            return text

        await asyncio.to_thread(next_ping)
        await asyncio.to_thread(next_ping)
        # A pipe instead of the counters: opening the pipe blocks, like a read from a failing device.
        path = board.systemd.directory(player) / "io.evenkeel.stat"
        path.unlink()
        os.mkfifo(path)
        await asyncio.sleep(0.5)
        sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                sock.recv(100)
        sock.settimeout(1.0)
        with pytest.raises(TimeoutError):
            await asyncio.to_thread(sock.recv, 100)
        # The agent answers calls nevertheless.
        assert (await board.apps())["player"]["active_state"] == "active"
        board.agent.kill()


@on_board
async def test_a_second_agent_on_the_bus_ends(board: Harness) -> None:
    await board.agent_up()
    first = board.agent
    await board.agent_up(wait=False)
    assert await board.agent_ends() == 1
    assert "another evenkeeld runs on this bus" in board.log.read_text()
    assert (await board.call("GetStatus"))["health"] == "ok"
    first.terminate()
    await asyncio.to_thread(first.wait)


@on_board
async def test_the_agent_ends_with_its_bus(board: Harness) -> None:
    await board.agent_up()
    board.bus_down()
    assert await board.agent_ends() == 1
    assert "the connection to D-Bus ended" in board.log.read_text()
    await board.agent_up(wait=False)
    assert await board.agent_ends() == 1
    assert "cannot connect to D-Bus at unix:path=" in board.log.read_text()


@on_board
async def test_introspection(board: Harness) -> None:
    await board.agent_up()
    name = "org.freedesktop.DBus.Introspectable"
    answer = await board.client.call(interface.NAME, interface.PATH, name, "Introspect", timeout_s=5)
    from dbus_fast.introspection import Node

    described = Node.parse(answer[0]).interfaces
    assert [each.name for each in described] == [interface.NAME, interface.SESSION]
    for each, before in zip(described, ("", interface.SESSION_SIGNATURE), strict=True):
        found = {
            method.name: (
                "".join(argument.signature for argument in method.in_args),
                "".join(argument.signature for argument in method.out_args),
            )
            for method in each.methods
        }
        assert found == {
            method.name: (before + method.in_signature, method.out_signature)
            for method in interface.served(each.name)
        }


def test_the_log_has_one_line_without_passwords() -> None:
    method = interface.METHODS["InstallBundle"]
    source = "https://ops:SECRET@host/x.raucb\nadmin logged in"
    text = service._detail(method, method.request(source=source, allow_older=False))
    assert (
        text == "source https://***@host/x.raucb\N{REPLACEMENT CHARACTER}admin logged in, allow_older False"
    )
    login = interface.METHODS["LogIn"]
    values = login.request(user="admin", password="SECRET", code="123456", device="SECRET", client="x")  # noqa: S106
    assert service._detail(login, values) == "user admin"
