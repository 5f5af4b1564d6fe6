# SPDX-License-Identifier: Apache-2.0
"""What flash devices report about their wear, and the limit from which the board has a problem."""

import asyncio
import json
from pathlib import Path

import pytest
from agent_harness import ERROR, Harness, on_board
from evenkeel_agent.alerts import Tracker, texts_of
from evenkeel_agent.settings import Settings
from evenkeel_agent.wear import FlashWear, warnings
from evenkeel_api import errors
from evenkeel_api.features.wear import DEFAULT
from evenkeel_common.wear import Wear, wear
from test_accounts import PanelClient


@pytest.fixture
def emmc(tmp_path: Path) -> Path:
    """The folder in /sys/block of an eMMC that serves requests."""
    device = tmp_path / "sys/block/mmcblk0"
    (device / "queue").mkdir(parents=True)
    (device / "device").mkdir()
    for name, text in {
        "size": "1000",
        "dev": "179:0",
        "queue/scheduler": "[evenkeel]",
        "queue/rotational": "0",
    }.items():
        (device / name).write_text(text + "\n")
    (tmp_path / "var/lib/evenkeel-agent").mkdir(parents=True)
    return device


@pytest.mark.parametrize(
    ("life", "eol", "expected"),
    [
        ("0x01 0x03", "0x01", (10, 30, "normal")),
        ("0x0b 0x00", "0x03", (110, None, "urgent")),
        ("rubbish", "", (None, None, None)),
    ],
)
def test_wear_of_an_emmc(
    emmc: Path, life: str, eol: str, expected: tuple[int | None, int | None, str | None]
) -> None:
    (emmc / "device/life_time").write_text(life + "\n")
    (emmc / "device/pre_eol_info").write_text(eol + "\n")
    (emmc / "stat").write_text("1 2 3 4 5 6 700 8 9\n")
    assert wear(str(emmc.parent), "mmcblk0") == Wear("mmcblk0", *expected, 700 * 512)


def test_wear_of_a_ufs_device(tmp_path: Path) -> None:
    """Its health is in the folder of its host, above the folder of the disk's SCSI device."""
    host = tmp_path / "devices/1d84000.ufshc"
    scsi, disk = host / "host0/target0:0:0/0:0:0:0", tmp_path / "block/sda"
    for folder in (scsi, host / "health_descriptor", disk):
        folder.mkdir(parents=True)
    (disk / "device").symlink_to(scsi)
    values = {"life_time_estimation_a": "0x02", "life_time_estimation_b": "0x00", "eol_info": "0x02"}
    for name, text in values.items():
        (host / "health_descriptor" / name).write_text(text + "\n")
    assert wear(str(tmp_path / "block"), "sda") == Wear("sda", 20, None, "warning")


@pytest.mark.parametrize(
    ("state", "limit", "codes"),
    [
        (Wear("a", 70, 20, "normal"), 80, []),
        (Wear("a", 20, 80, "normal"), 80, ["wear-limit"]),
        (Wear("a", 100, None, None), 100, ["wear-limit"]),
        (Wear("a", 100, None, None), 0, []),
        (Wear("a", 110, 80, "normal"), 80, ["wear-used-up"]),
        (Wear("a", 110, 80, "urgent"), 0, ["wear-used-up", "wear-spare"]),
        (Wear("a", None, None, "warning"), 80, ["wear-spare"]),
        (Wear("a"), 1, []),
    ],
)
def test_the_warnings(state: Wear, limit: int, codes: list[str]) -> None:
    assert [message.code for message in warnings([state], limit)] == codes


def test_an_alert_says_when_the_limit_is_reached_and_what_to_do() -> None:
    tracker = Tracker()

    def at(now_s: float, *states: Wear) -> list[str]:
        return tracker.update(now_s, texts_of(message.note() for message in warnings(states, 80)))

    assert at(0, Wear("mmcblk0", 80)) == []
    (line,) = at(60, Wear("mmcblk0", 80))
    assert line.startswith(
        "Problem: up to 80 % of the life of mmcblk0 may be used, and the wear limit is 80 %; plan to replace mmcblk0"
    )
    assert at(120, Wear("mmcblk0", 90)) == [], "a further step is the same problem"
    at(180, Wear("mmcblk0", 110))
    assert at(240, Wear("mmcblk0", 110)) == [
        "Problem: the life of mmcblk0 is used up; save the data of the board now, and replace mmcblk0."
    ], "the limit is not solved"


@pytest.mark.parametrize(
    "content", ["", "x", "[]", "{}", '{"percent": 101}', '{"percent": true}', "[" * 900, "\xff"]
)
def test_a_damaged_limit_is_reported_and_not_lost(emmc: Path, content: str) -> None:
    settings = Settings(root=str(emmc.parents[2]))
    path = Path(settings.state_dir, "wear.json")
    path.write_bytes(content.encode("latin-1"))
    found = FlashWear(settings, lambda: None)
    assert (found.limit, [message.code for message in found.problems]) == (DEFAULT, ["wear-limit-unreadable"])
    assert path.read_bytes() == content.encode("latin-1")
    asyncio.run(found.restore(30))
    assert (found.limit, found.problems) == (30, [])
    assert FlashWear(settings, lambda: None).limit == 30


def test_a_limit_that_cannot_be_saved_changes_nothing(emmc: Path) -> None:
    settings = Settings(root=str(emmc.parents[2]))
    found = FlashWear(settings, lambda: None)
    Path(settings.state_dir, "wear.json.new").mkdir()
    with pytest.raises(errors.Failed, match="wear limit cannot be saved"):
        asyncio.run(found.restore(30))
    assert found.limit == DEFAULT


@on_board
async def test_an_administrator_sets_the_limit(board: Harness) -> None:
    board.device("mmcblk0", "[evenkeel]", "0", "")
    (board.root / "sys/block/mmcblk0/device/life_time").write_text("0x05 0x01\n")
    await board.agent_up()
    panel = PanelClient(board)
    await panel.log_in()

    async def codes() -> list[str]:
        status = (await panel.call("GetSnapshot"))["status"]
        return [note["code"] for note in status["problems"] if note["code"].startswith("wear-")]

    assert (await panel.call("GetSnapshot"))["status"]["wear_limit"] == DEFAULT
    assert await codes() == []
    await panel.call("SetWearLimit", 50)
    assert await codes() == ["wear-limit"], "the next snapshot shows it"
    for bad in (101, 2**32 - 1):
        assert (await panel.refused("SetWearLimit", bad)).name == ERROR + "InvalidArgument"
    await panel.call("SetWearLimit", 0)
    assert await codes() == []
    rows = [(row["action"], row["detail"]) for row in await panel.call("ListAudit", 0, 20)]
    assert ("SetWearLimit", "percent 50") in rows
    assert json.loads((board.root / "var/lib/evenkeel-agent/wear.json").read_text()) == {"percent": 0}
