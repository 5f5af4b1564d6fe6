# SPDX-License-Identifier: Apache-2.0
"""ek-validate on a board that boots from an emulated eMMC: each step works, and nothing is left behind.

Some tests start validations with ekctl, and so through agent, helper and unit. The test file of these has the size of the
profile, so they take about two minutes.

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
from boards import Board, power_on, until
from sample import DEEP, SEED

QUEUE = "/sys/block/mmcblk0/queue"
FOLDER = "/data/.ek-validate"
STATE = "/var/lib/evenkeel-validate"
# cases that read, and compare schedulers; together they take about half a minute
RUN = "ek-validate run --yes --json --file 24 --only device.sequential-read --only fair.read.1m --compare-with bfq"
# A broken promise is no failure here: the figures of an emulated eMMC are chance.
DONE = (0, 4)
# A second eMMC, which holds no data. Its validations have one case, so they are short.
SPARE = "mmcblk1"
SPARE_MIB = 64
DESTROY = (
    f"ek-validate run --yes --json --destroy /dev/{SPARE} --destroy /dev/{SPARE} --no-compare"
    " --only device.sequential-read"
)
# A power cut takes up to a minute: the run before it, and the boot after it.
CUTS = 20 if DEEP else 3


@pytest.fixture(scope="module")
def board() -> Iterator[Board]:
    yield from power_on("boot-validate", emmc=True, spare_mib=SPARE_MIB)


# What a validation may change. The list of loaded schedulers may grow, so only the active one counts.
SETTINGS = f"grep -o '\\[.*\\]' {QUEUE}/scheduler; grep -r . {QUEUE}/nr_requests {QUEUE}/iosched | sort"


@pytest.fixture
def settings(board: Board) -> str:
    """What a validation may change, before the test."""
    return board.run(SETTINGS)


def clean(board: Board, settings: str) -> None:
    """Asserts that nothing is left of a validation but its report."""
    assert board.run(SETTINGS) == settings
    assert board.try_run(f"ls -d {FOLDER} {STATE}/undo.json")[1].count("No such file") == 2
    assert board.try_run("pgrep -x 'fio|ek-light-reader|ek-player|ek-writer|ek-disturb'")[1] == ""


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
    assert "fair.read.1m.ratio" in rows, found["skipped"]
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


def test_a_budget_holds_for_what_the_device_counts(board: Board) -> None:
    """Nothing else uses this eMMC. So the bytes that it counts are those of the validation: 67 MB of data that loads read, and
    then what fits into the budget.
    """
    written = f"awk '{{ print $7 * 512 }}' /sys/block/{SPARE}/stat"
    before = int(board.run(written))
    status, output = board.try_run(
        f"ek-validate run --yes --json --destroy /dev/{SPARE} --destroy /dev/{SPARE} --no-compare --only device"
        " --budget 90 > /run/report.json",
        timeout=600,
    )
    assert status in DONE, output
    found, counted = latest(board), int(board.run(written)) - before
    assert found["state"] == "complete"
    assert 0 < counted <= 90e6 * 1.01
    assert any("budget" in why for why in found["skipped"].values())
    assert found["written"] == pytest.approx(counted, rel=0.01)
    assert found["device_written"] == counted
    assert found["announced"]["written"] == pytest.approx(counted, rel=0.05)


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


def test_a_read_only_partition_is_refused(board: Board, settings: str) -> None:
    """As after an error of the file system, the folder of the test file cannot be written."""
    board.run(
        "mkdir -p /run/read-only && mount --bind /data /run/read-only && mount -o remount,bind,ro /run/read-only"
    )
    status, output = board.try_run(f"{RUN} --folder /run/read-only")
    board.run("umount /run/read-only")
    assert status == 1
    assert "/run/read-only is read-only" in output
    clean(board, settings)


def test_a_read_only_medium_is_refused(board: Board) -> None:
    board.run(f"blockdev --setro /dev/{SPARE}")
    status, output = board.try_run(DESTROY)
    board.run(f"blockdev --setrw /dev/{SPARE}")
    assert status == 1
    assert f"/dev/{SPARE} is read-only" in output
    assert "Nothing was written" in output


def test_nobody_else_gets_a_device_that_is_overwritten(board: Board, settings: str) -> None:
    opened = f"import os; os.open('/dev/{SPARE}', os.O_RDWR | os.O_EXCL)"
    board.run(f"{DESTROY} > /run/report.json 2>&1 & sleep 8", timeout=60)
    status, output = board.try_run(f'python3 -c "{opened}"')
    board.run("ek-validate cancel; wait", timeout=120)
    assert status == 1
    assert "Device or resource busy" in output
    assert board.try_run(f'python3 -c "{opened}"')[0] == 0
    clean(board, settings)


def test_a_device_that_becomes_read_only_ends_the_run(board: Board, settings: str) -> None:
    """As an eMMC at the end of its life, which still reads. The report has what was measured before."""
    board.run(
        f"{DESTROY} > /run/report.json 2>&1 & sleep 8; blockdev --setro /dev/{SPARE}; wait", timeout=300
    )
    board.run(f"blockdev --setrw /dev/{SPARE}")
    found = latest(board)
    assert found["state"] == "partial"
    assert "the device became read-only" in found["reason"], found["reason"]
    assert found["not_restored"] == []
    clean(board, settings)


def test_a_device_that_is_removed_ends_the_run(board: Board, settings: str) -> None:
    """The driver lets go of the card, as when somebody pulls it out. Afterwards a new run measures the card."""
    card = board.run(f"basename $(readlink -f /sys/block/{SPARE}/device)")
    driver = "/sys/bus/mmc/drivers/mmcblk"
    board.run(
        f"{DESTROY} > /run/report.json 2>&1 & sleep 8; echo {card} > {driver}/unbind; wait", timeout=300
    )
    found = latest(board)
    assert found["state"] == "partial"
    assert "was removed" in found["reason"], found["reason"]
    assert found["not_restored"] == []
    clean(board, settings)
    assert board.settled() == "running"
    board.run(f"echo {card} > {driver}/bind; udevadm settle")
    status, output = board.try_run(f"{DESTROY} > /run/report.json", timeout=600)
    assert status in DONE, output
    assert latest(board)["state"] == "complete"
    clean(board, settings)


def test_cancel_leaves_a_partial_report(board: Board, settings: str) -> None:
    board.run(f"{RUN} > /run/report.json 2>&1 & sleep 8; ek-validate cancel", timeout=60)
    board.run("wait", timeout=120)
    found = latest(board)
    assert (found["state"], found["reason"]) == ("partial", "cancelled")
    clean(board, settings)


def test_a_killed_run_is_undone_at_once(board: Board, settings: str) -> None:
    """Nobody has to restore the board: a second process waits for the end of a run in a shell."""
    board.run(
        f"{RUN} > /run/report.json 2>&1 & pid=$!; sleep 10; kill -9 $pid; wait $pid 2> /dev/null; true",
        timeout=60,
    )
    gone = f"test ! -e {STATE}/undo.json"
    until("the board is restored", lambda: board.try_run(gone)[0] == 0, 60)
    clean(board, settings)
    assert latest(board)["reason"].startswith("the run was killed")
    assert board.run("ek-validate restore") == "There was nothing to restore."


def test_restore_after_the_guard_was_killed_too(board: Board, settings: str) -> None:
    board.run(
        f"{RUN} > /run/report.json 2>&1 & pid=$!; sleep 10; kill -9 $pid $(pgrep -f 'ended .. exe[c]'); wait $pid 2> /dev/null;"
        " true",
        timeout=60,
    )
    # a plan is about the scheduler of the board, whatever the killed run has left
    plan = json.loads(
        board.run("ek-validate run --dry-run --json --file 24 --only fair.read.1m --no-compare")
    )
    assert {case["scheduler"] for case in plan["cases"]} == {"evenkeel"}
    assert "is restored" in board.run("ek-validate restore")
    clean(board, settings)


# The page cache gets this much memory. The files of the case have 32 MiB. In 90 s, the case reads a file that is larger than
# the cache, and the emulated eMMC reads 1.6 to 2 MB/s.
CACHE_MIB = 112
CACHE_FILE_MIB = 124


def test_a_priority_directory_is_measured_and_held_no_longer(board: Board, settings: str) -> None:
    # Files in tmpfs cannot leave the memory, because the board has no swap.
    board.run(
        "mkdir -p /run/filler && mount -t tmpfs -o size=100% filler /run/filler"
        " && left=$(awk '$1 ~ /^(MemFree|Active.file.|Inactive.file.):/ { kb += $2 }"
        f" END {{ print int(kb / 1024) - {CACHE_MIB} }}' /proc/meminfo)"
        " && dd if=/dev/zero of=/run/filler/file bs=1M count=$left status=none",
        timeout=300,
    )
    try:
        status, output = board.try_run(
            f"ek-validate run --yes --json --profile full --no-compare --only pool --file {CACHE_FILE_MIB}"
            " > /run/report.json",
            timeout=1200,
        )
    finally:
        board.run("umount /run/filler", timeout=300)
    assert status in DONE, output
    found = latest(board)
    assert (found["state"], found["skipped"]) == ("complete", {})
    rows = {row["id"].removeprefix("pool.directory."): row for row in found["rows"]}
    # While memory is short, the pool may be too small to promise something. Then the figure is only for information.
    kept = rows["kept"]["value"]
    assert kept >= 99 or rows["kept"]["target"] is None, rows
    assert 0 <= rows["kept-without"]["value"] <= 100
    assert rows["p50"]["value"] > 0
    cache = json.loads("{" + board.run("ekctl cache --json").partition("{")[2])
    assert cache["held"] == []
    clean(board, settings)


# -- through the agent ---------------------------------------------------------

RUN_UNIT = "evenkeel-validate-run.service"
LOADS = "evenkeel-validate.slice"  # the groups of a validation, without the validation itself
# Beside a validation, a command takes up to 40 s here: QEMU stops both processors while it moves a block of the eMMC, and a
# read waits for a write of 1 MiB, which takes 0.25 s. The helper may miss the time limit of the agent, so a call is repeated.
BUSY_S = 200.0


def asked(board: Board, command: str) -> Any:
    """The answer to `ekctl validate COMMAND`, as soon as there is one."""
    answers: list[Any] = []

    def answered() -> bool:
        status, output = board.try_run(f"ekctl validate {command} --json", BUSY_S)
        assert status == 0 or "did not answer in time" in output, output
        if status == 0:
            answers.append(json.loads(output))
        return status == 0

    until(f"ekctl validate {command} is answered", answered, BUSY_S)
    return answers[0]


def state(board: Board) -> dict[str, Any]:
    found: dict[str, Any] = asked(board, "state")
    return found


def started(board: Board, *options: str) -> str:
    """Start a validation, and wait until it runs. Returns its id. It takes two minutes.

    A question takes up to 40 s. So the answer to the start counts, if it has the id already.
    """
    command = " ".join(("ekctl validate start --no-compare --json", *options))
    found = [json.loads(board.run(command, BUSY_S))["id"]]

    def runs() -> bool:
        found[0] = found[0] or state(board)["id"]
        return bool(found[0])

    until("the validation runs", runs, BUSY_S)
    return str(found[0])


def ended(board: Board) -> None:
    until("the validation has ended", lambda: state(board)["state"] == "idle", 2 * BUSY_S)


def row(board: Board, id_: str) -> dict[str, Any]:
    return next(found for found in asked(board, "list") if found["id"] == id_)


def test_only_the_agent_reaches_the_helper(board: Board) -> None:
    for user, allowed in (("evenkeel-agent", True), ("evenkeel-panel", False), ("nobody", False)):
        status, _ = board.try_run(f"runuser -u {user} -- test -w /run/evenkeel/validate")
        assert (status == 0) == allowed, user


def test_a_plan_through_the_agent_writes_nothing(board: Board, settings: str) -> None:
    plan = json.loads(board.run("ekctl validate plan --json"))
    assert 0 < plan["written_bytes"] <= 10**9
    assert plan["most_s"] == 120
    assert plan["endurance_percent"] > 0
    assert (
        board.try_run(f"ls /run/evenkeel-validate/order; systemctl is-active {RUN_UNIT}")[1].count("inactive")
        == 1
    )
    clean(board, settings)


def test_a_validation_survives_agent_panel_and_helper(board: Board, settings: str) -> None:
    """Each of them is killed. The validation goes on, can be watched and cancelled, and restores everything."""
    # the answers may take longer than the two minutes of the default profile
    id_ = started(board, "--profile full --topic fair")
    pid = board.run(f"systemctl show --property=MainPID --value {RUN_UNIT}", BUSY_S)
    # Agent and helper read their programs again. Beside the loads, the emulated eMMC would need minutes for that.
    board.run(f"systemctl freeze {LOADS}", BUSY_S)
    before = state(board)
    for unit in ("evenkeeld", "evenkeel-panel", "evenkeel-validate"):
        board.try_run(f"systemctl kill --signal=KILL {unit}.service")
    until("the agent answers again", lambda: board.try_run("ekctl validate state", BUSY_S)[0] == 0, BUSY_S)
    after = state(board)
    assert (after["state"], after["id"]) == ("running", id_)
    assert after["ran_s"] >= before["ran_s"]
    assert board.run(f"systemctl show --property=MainPID --value {RUN_UNIT}") == pid
    status, output = board.try_run("ekctl validate start", BUSY_S)
    assert status == 1
    assert "a validation is running" in output
    board.run(f"systemctl thaw {LOADS}", BUSY_S)
    status, output = board.try_run("ekctl validate cancel", BUSY_S)
    # the loads are busy again
    assert status == 0 or "did not answer in time" in output, output
    ended(board)
    found = row(board, id_)
    assert (found["state"], found["reason"]) == ("partial", "cancelled")
    clean(board, settings)
    until("the board has recovered", lambda: board.settled() == "running")


def test_a_validation_that_is_killed_is_undone_at_once(board: Board, settings: str) -> None:
    """The apps were paused. They go on, too."""
    frozen = "systemctl show --property=FreezerState --value evenkeel-apps.slice"
    board.run("systemd-run --quiet --unit=paused --slice=evenkeel-apps.slice sleep infinity")
    id_ = started(board, "--exclusive")
    until("the apps are paused", lambda: board.run(frozen, BUSY_S) == "frozen", BUSY_S)
    board.run(f"systemctl kill --kill-whom=main --signal=KILL {RUN_UNIT}", BUSY_S)
    ended(board)
    assert board.run(frozen) == "running"
    board.run("systemctl stop paused.service")
    assert row(board, id_)["reason"].startswith("the run was killed")
    clean(board, settings)
    board.run(f"systemctl reset-failed {RUN_UNIT}")


def test_a_report_through_the_agent_is_that_of_the_board(board: Board, settings: str) -> None:
    id_ = started(board)
    ended(board)
    found = row(board, id_)
    # On a slow host, the time of the profile is over before the last case.
    assert found["state"] == "complete" or "time of the profile" in found["reason"], found
    board.run(f"rm -f /run/saved.*; ekctl validate fetch {id_} /run/saved.json")
    board.run(f"ekctl validate fetch {id_} /run/saved.html")
    saved = json.loads(board.run("cat /run/saved.json"))
    assert saved == json.loads(board.run(f"cat {STATE}/runs/{id_}/report.json"))
    assert saved["not_restored"] == []
    # The restrictions of the unit hide neither the device nor its groups.
    assert {fact["title"]: fact["value"] for fact in saved["facts"]}["model"]
    assert saved["rows"], saved["skipped"]
    assert not any("permitted" in reason or "denied" in reason for reason in saved["skipped"].values())
    assert board.run("head -c 15 /run/saved.html").lower() == "<!doctype html>"
    status, output = board.try_run("ekctl validate fetch 20000101-000000 /run/none.json")
    assert status == 1
    assert "there is no validation 20000101-000000" in output
    clean(board, settings)


def test_a_power_cut_at_a_random_moment(board: Board, settings: str) -> None:
    """The moments differ in each run of the tests. The head of pytest's output has the seed that repeats them."""
    dice = random.Random(f"{SEED} power cut of a validation")  # noqa: S311 no secret
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
