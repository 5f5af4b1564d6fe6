# SPDX-License-Identifier: Apache-2.0
"""AddApp, RemoveApp and ListFreeUnits, with the real evenkeeld."""

import signal

from agent_harness import ERROR, Harness, on_board
from packet_helper import PoolHelper
from test_accounts import PASSWORD, PanelClient
from test_network import Network

PLAYER = ("cam", "Camera", "Records the road", "cam.service", 250)


def added(board: Harness, name: str = "cam") -> bytes | None:
    """The content of the file of the added app NAME; None without one."""
    path = board.added / f"{name}.toml"
    return path.read_bytes() if path.exists() else None


@on_board
async def test_an_added_app_is_listed_weighted_and_kept(board: Harness) -> None:
    board.app("player")
    board.systemd.add("cam.service")
    await board.agent_up()
    assert await board.call("ListFreeUnits") == ["cam.service"]
    app = await board.call("AddApp", *PLAYER)
    assert (app["title"], app["unit"], app["weight"], app["added"]) == ("Camera", "cam.service", 250, True)
    assert await board.call("ListFreeUnits") == []
    assert not (await board.apps())["player"]["added"]

    async def applied() -> bool:
        return bool((await board.apps())["cam"]["applied"])

    await board.until(applied)
    assert board.systemd.units["cam.service"].weight == 250
    # the history, which is another user, reads the file too
    assert (board.added / "cam.toml").stat().st_mode & 0o777 == 0o644
    await board.agent_down(signal.SIGKILL)
    await board.agent_up()
    assert (await board.apps())["cam"]["weight"] == 250


@on_board
async def test_a_removed_app_leaves_nothing_behind(board: Harness) -> None:
    board.systemd.add("cam.service")
    await board.agent_up()
    await board.call("AddApp", *PLAYER)
    await board.call("SetWeight", "cam", 900)
    await board.call("SetFixedShare", "cam", 30)
    assert "30" in board.fixed("cam.service")
    await board.call("RemoveApp", "cam")
    assert added(board) is None
    assert await board.apps() == {}
    assert board.fixed("cam.service") == ""
    assert board.systemd.units["cam.service"].active == "active"
    assert (await board.refused("RemoveApp", "cam")).name == ERROR + "UnknownApp"
    app = await board.call("AddApp", *PLAYER)
    assert (app["weight"], app["fixed_share"]) == (250, 0)


@on_board
async def test_refused_apps_change_nothing(board: Harness) -> None:
    board.app("player")
    board.systemd.add("cam.service")
    board.systemd.add("stopped.service", active=False)
    board.systemd.add("sshd.service", active=False).slice = "system.slice"
    await board.agent_up()
    for values, kind, reason in (
        (("Cam", "C", "", "cam.service", 1), "InvalidArgument", "its name must be 1 to 32 characters"),
        (("../cam", "C", "", "cam.service", 1), "InvalidArgument", "its name must be 1 to 32 characters"),
        (("cam", "", "", "cam.service", 1), "InvalidArgument", "title is missing"),
        (("cam", "x" * 41, "", "cam.service", 1), "InvalidArgument", "title has 41 characters"),
        (("cam", "a\nb", "", "cam.service", 1), "InvalidArgument", "one line of printable text"),
        (("cam", "C", "\x07", "cam.service", 1), "InvalidArgument", "one line of printable text"),
        (("cam", "C", "", "../x.service", 1), "InvalidArgument", "must be the name of a .service"),
        (("cam", "C", "", "system.slice", 1), "InvalidArgument", "unit must be below evenkeel-apps.slice"),
        (("cam", "C", "", "cam.service", 0), "InvalidWeight", "0"),
        (("cam", "C", "", "nobody.service", 1), "UnitNotFound", "there is no unit nobody.service"),
        (("cam", "C", "", "sshd.service", 1), "UnitOutsideSlice", "is in system.slice, not below"),
        (("player", "C", "", "cam.service", 1), "Conflict", "there is already an app with the name player"),
        (("cam", "C", "", "evenkeel-player.service", 1), "Conflict", "already belongs to the app player"),
    ):
        error = await board.refused("AddApp", *values)
        assert error.name == ERROR + kind, (values, error)
        assert reason in error.text
    assert list(board.added.iterdir()) == []
    error = await board.refused("RemoveApp", "player")
    assert error.name == ERROR + "Conflict"
    assert "its file is" in error.text
    assert list(await board.apps()) == ["player"]
    # a stopped unit may be added
    assert (await board.call("AddApp", "stopped", "S", "", "stopped.service", 5))[
        "active_state"
    ] == "inactive"


@on_board
async def test_text_of_any_kind_survives_the_file(board: Harness) -> None:
    board.systemd.add("cam.service")
    await board.agent_up()
    title, description = 'Kämera "1" \\ \'#', "= [x] 𝄞 end"
    app = await board.call("AddApp", "cam", title, description, "cam.service", 1)
    assert (app["title"], app["description"]) == (title, description)


@on_board
async def test_a_folder_that_is_missing_is_reported(board: Harness) -> None:
    board.systemd.add("cam.service")
    board.added.rmdir()
    await board.agent_up()
    error = await board.refused("AddApp", *PLAYER)
    assert error.name == ERROR + "Failed"
    assert "app cam was not added: No such file or directory" in error.text
    assert await board.problems() == []


@on_board
async def test_the_file_of_the_owner_precedes_an_added_one(board: Harness) -> None:
    board.systemd.add("cam.service")
    await board.agent_up()
    await board.call("AddApp", *PLAYER)
    (board.apps_d / "cam.toml").write_text('title = "Mine"\nunit = "cam.service"\n')
    board.agent.send_signal(signal.SIGHUP)

    async def reloaded() -> bool:
        return bool((await board.apps())["cam"]["title"] == "Mine")

    await board.until(reloaded)
    assert any("there is already an app with the name cam" in text for text in await board.problems())


@on_board
async def test_the_number_of_added_apps_is_limited(board: Harness) -> None:
    for number in range(65):
        board.systemd.add(f"a{number}.service", active=False)
    for number in range(64):
        (board.added / f"a{number}.toml").write_text(f'title = "A"\nunit = "a{number}.service"\n')
    await board.agent_up()
    error = await board.refused("AddApp", "a64", "A", "", "a64.service", 1)
    assert error.name == ERROR + "Conflict"
    assert "the board has 64 added apps, which is the maximum" in error.text


@on_board
async def test_ekctl(board: Harness) -> None:
    board.systemd.add("cam.service")
    await board.agent_up()
    assert (await board.ekctl("add-app")).out == "cam.service\n"
    answer = await board.ekctl("add-app", "cam")
    assert (answer.status, answer.out) == (1, "")
    assert "the unit is missing" in answer.err
    assert "not 'x'" in (await board.ekctl("add-app", "cam", "cam.service", "--weight", "x")).err
    answer = await board.ekctl("add-app", "cam", "cam.service", "--title", "Camera", "--weight", "40")
    assert (answer.status, answer.out) == (0, "cam is an app now, with weight 40\n")
    assert (
        await board.ekctl("add-app")
    ).out == "no unit that belongs to no app runs in evenkeel-apps.slice\n"
    assert (await board.apps())["cam"]["title"] == "Camera"
    assert (await board.ekctl("remove-app", "cam")).status == 0
    answer = await board.ekctl("remove-app", "cam")
    assert answer.status == 1
    assert "there is no app 'cam'" in answer.err


@on_board
async def test_the_next_snapshot_shows_that_an_app_was_added_or_removed(board: Harness) -> None:
    """Otherwise a page that is loaded after the change would still be without the app, or with it."""
    board.systemd.add("cam.service")
    await board.agent_up()
    panel = PanelClient(board)
    await panel.log_in()

    async def shown() -> list[str]:
        return [app["name"] for app in (await panel.call("GetSnapshot"))["apps"]]

    for _ in range(5):
        assert await shown() == []
        await panel.call("AddApp", *PLAYER)
        assert await shown() == ["cam"]
        await panel.call("RemoveApp", "cam")


@on_board
async def test_a_restored_backup_brings_added_apps_back(board: Harness) -> None:
    """A removed app is added again with its weight, and an app that the backup lacks is removed with its fixed share."""
    network = await Network(board).up()
    with PoolHelper(board) as pool:
        await restore_apps(board, pool)
    network.down()


async def restore_apps(board: Harness, pool: PoolHelper) -> None:
    for name in ("cam", "other"):
        board.systemd.add(f"{name}.service")
    await board.agent_up()
    panel = PanelClient(board)
    await panel.log_in()
    await panel.call("AddApp", *PLAYER)
    await panel.call("SetWeight", "cam", 900)
    pool.saved = {"cam": ["/data/cam"]}
    text = await panel.call("GetBackup", PASSWORD, "")
    await panel.call("RemoveApp", "cam")
    assert pool.saved == {}, "an app of this name that is added later begins without directories"
    pool.saved = {"other": ["/data/other"]}
    await panel.call("AddApp", "other", "Other", "", "other.service", 100)
    await panel.call("SetFixedShare", "other", 40)
    answer = await panel.call("RestoreBackup", text, False)
    assert {note["code"] for note in answer["changes"]} == {
        "restore-app-added",
        "restore-app-removed",
        "restore-weight",
        "restore-fixed-share",
        "restore-directories",
    }
    assert pool.saved == {"cam": ["/data/cam"]}
    assert {name: app["weight"] for name, app in (await board.apps()).items()} == {"cam": 900}
    assert board.fixed("other.service") == ""

    async def sent() -> bool:
        return board.systemd.units["cam.service"].weight == 900

    await board.until(sent)


@on_board
async def test_an_app_whose_unit_left_the_slice_can_be_removed(board: Harness) -> None:
    unit = board.systemd.add("cam.service", active=False)
    await board.agent_up()
    await board.call("AddApp", *PLAYER)
    await board.call("SetFixedShare", "cam", 30)
    unit.slice = "system.slice"
    board.systemd.start("cam.service")

    async def outside() -> bool:
        return any("app cam is not controlled" in text for text in await board.problems())

    await board.until(outside)
    await board.call("RemoveApp", "cam")
    board.systemd.stop("cam.service")
    unit.slice = "evenkeel-apps.slice"
    app = await board.call("AddApp", *PLAYER)
    assert (app["weight"], app["fixed_share"]) == (250, 0)
