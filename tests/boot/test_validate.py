# SPDX-License-Identifier: Apache-2.0
"""ek-validate on a board that boots from an emulated eMMC: each step works, and nothing is left behind.

QEMU's eMMC moves about 4 MB/s, so the figures mean nothing. The tests use a small test file and few cases.
All tests use the same board and run in the order of this file.
"""

import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from boards import Board, power_on

QUEUE = "/sys/block/mmcblk0/queue"
FOLDER = "/data/.ek-validate"
STATE = "/var/lib/evenkeel-validate"
# cases that read, and compare schedulers; together they take about half a minute
RUN = "ek-validate run --yes --json --file 24 --only device.sequential-read --only fair.read.1m --compare-with bfq"
# A broken promise is no failure here: the figures of an emulated eMMC are chance.
DONE = (0, 4)
CUTS = 3


@pytest.fixture(scope="module")
def board() -> Iterator[Board]:
    yield from power_on("boot-validate", emmc=True)


@pytest.fixture
def settings(board: Board) -> str:
    """What a validation may change, before the test."""
    return board.run(f"grep -r . {QUEUE}/scheduler {QUEUE}/nr_requests {QUEUE}/iosched | sort")


def clean(board: Board, settings: str) -> None:
    """Asserts that nothing is left of a validation but its report."""
    assert board.run(f"grep -r . {QUEUE}/scheduler {QUEUE}/nr_requests {QUEUE}/iosched | sort") == settings
    assert board.try_run(f"ls -d {FOLDER} {STATE}/undo.json")[1].count("No such file") == 2
    assert board.try_run("pgrep -x fio")[1] == ""


def latest(board: Board) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(board.run("ek-validate show --json"))
    return found


def test_the_emmc_is_described(board: Board) -> None:
    assert board.settled() == "running"
    found = json.loads(board.run("ek-validate run --dry-run --json --file 24"))
    assert any(c["case"].startswith("fair.read") for c in found["cases"])
    assert found["announcement"][0].startswith("the file /data/.ek-validate/data on mmcblk0")


def test_a_run_is_complete_and_restores_everything(board: Board, settings: str) -> None:
    status, output = board.try_run(f"{RUN} > /run/report.json", timeout=600)
    assert status in DONE, output
    found = latest(board)
    assert (found["state"], found["not_restored"]) == ("complete", [])
    assert found["written"] == pytest.approx(found["announced"]["written"], rel=0.05)
    facts = {f["title"]: f for f in found["facts"]}
    assert facts["model"]["value"]
    assert facts["life time, type A"]["value"] or facts["life time, type A"]["reason"]
    rows = {r["id"]: r for r in found["rows"]}
    assert rows["fair.read.1m.ratio"]["subject"] == "evenkeel"
    assert "bfq" in rows["fair.read.1m.ratio"]["peers"]
    clean(board, settings)


def test_the_budget_is_kept(board: Board, settings: str) -> None:
    status, output = board.try_run(
        "ek-validate run --yes --json --file 24 --only device --no-compare --budget 40 > /run/report.json",
        timeout=600,
    )
    assert status in DONE, output
    found = latest(board)
    assert found["written"] <= 40e6 * 1.01
    assert any("budget" in why for why in found["skipped"].values())
    clean(board, settings)


def test_a_full_partition_is_refused(board: Board) -> None:
    board.run("fallocate -l $(($(df --output=avail -B1 /data | tail -n 1) - 40000000)) /data/filler")
    status, output = board.try_run(RUN)
    board.run("rm /data/filler")
    assert status == 1
    assert "to spare for the board" in output


def test_the_system_disk_is_refused(board: Board) -> None:
    status, output = board.try_run("ek-validate run --yes --destroy /dev/mmcblk0 --destroy /dev/mmcblk0")
    assert status == 1
    assert "is in use" in output
    assert "Nothing was written" in output


def test_cancel_leaves_a_partial_report(board: Board, settings: str) -> None:
    board.run(f"{RUN} > /run/report.json 2>&1 & sleep 8; ek-validate cancel", timeout=60)
    board.run("wait", timeout=120)
    found = latest(board)
    assert (found["state"], found["reason"]) == ("partial", "cancelled")
    clean(board, settings)


def test_restore_after_kill_9(board: Board, settings: str) -> None:
    board.run(
        f"{RUN} > /run/report.json 2>&1 & pid=$!; sleep 10; kill -9 $pid; wait $pid 2> /dev/null; true",
        timeout=60,
    )
    board.run("ek-validate restore")
    clean(board, settings)
    assert latest(board)["reason"] == "the run was killed, or the power failed"


def test_a_power_cut_at_a_random_moment(board: Board, settings: str) -> None:
    dice = random.Random(1)  # noqa: S311
    for _ in range(CUTS):
        board.run(f"{RUN} > /run/report.json 2>&1 &")
        time.sleep(2 + 20 * dice.random())
        board.power_cut()
        board.power_on()
        board.settled()
        clean(board, settings)
        assert {r["state"] for r in json.loads(board.run("ek-validate list --json"))} <= {
            "complete",
            "partial",
        }
