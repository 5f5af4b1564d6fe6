# SPDX-License-Identifier: Apache-2.0
"""A regulated app on the booted board: its reads slow down, stay so after a reboot, and come back.

The tests go through one board's life in the order in which they stand here.
"""

import json
import re
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from boards import Board

GROUP = "/sys/fs/cgroup/evenkeel.slice/evenkeel-apps.slice/ek-test-reader.service"
APP = """title = "Reader"
unit = "ek-test-reader.service"
"""
# one direct read at a time, all the time, of what takes the emulated disk longer than a timer is late
UNIT = """[Service]
Slice=evenkeel-apps.slice
ExecStart=/bin/sh -c 'while :; do dd if=/dev/vda of=/dev/null bs=1M count=1024 iflag=direct status=none; done'
[Install]
WantedBy=multi-user.target
"""
MEASURE_SECONDS = 10
# Of the rate without regulation: a tenth of the device's time. The emulated CPU's between two reads is not stretched,
# and the device does several requests of a read at once where a regulated app's are done in turn.
REGULATED = (0.01, 0.3)


@pytest.fixture(scope="module")
def rates() -> dict[str, float]:
    """What one test measured for those after it."""
    return {}


def until(board: Board, command: str, wanted: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while (found := board.try_run(command)[1]) != wanted:
        assert time.monotonic() < deadline, f"{command}: {found!r}, not {wanted!r} after {seconds} s"
        time.sleep(0.5)


def in_force(board: Board, percent: int, seconds: float = 30) -> None:
    number = board.run("cat /sys/block/vda/dev")
    until(board, f"cat {GROUP}/io.evenkeel.perf", f"{number} {percent}" if percent else "", seconds)


def rate(board: Board) -> float:
    """Bytes a second that the app reads, by the scheduler's own count."""

    def look() -> tuple[float, int]:
        number = board.run("cat /sys/block/vda/dev")
        text = board.run(f"cat /proc/uptime {GROUP}/io.evenkeel.stat")
        found = re.search(rf"^{number} .*?\brbytes=(\d+)", text, re.MULTILINE)
        assert found, text
        return float(text.split()[0]), int(found[1])

    before_s, before = look()
    time.sleep(MEASURE_SECONDS)
    after_s, after = look()
    found = (after - before) / (after_s - before_s)
    print(f"{found / 1e6:.2f} MB/s")
    return found


def app(board: Board) -> dict[str, object]:
    found: dict[str, object] = json.loads(board.run("ekctl performance ek-test-reader --json"))
    return found


def regulate(board: Board, percent: str) -> str:
    return board.run(f"ekctl performance ek-test-reader {percent}")


def test_an_app_reads(board: Board, rates: dict[str, float]) -> None:
    assert board.settled() == "running", board.run("systemctl --failed --no-legend --plain")
    for path, text in (
        ("/etc/evenkeel/apps.d/ek-test-reader.toml", APP),
        ("/etc/systemd/system/ek-test-reader.service", UNIT),
    ):
        board.run(f"cat > {path} <<'END'\n{text}END")
    board.run("systemctl daemon-reload; systemctl enable --now ek-test-reader.service")
    board.run("systemctl reload evenkeeld.service")
    assert board.run("ekctl performance ek-test-reader") == "ek-test-reader off"
    board.run(f"cat {GROUP}/io.evenkeel.stat; sleep 3")
    rates["free"] = rate(board)
    assert rates["free"] > 1e6


def test_at_10_percent_its_reads_slow_down(board: Board, rates: dict[str, float]) -> None:
    assert regulate(board, "10%").startswith("ek-test-reader 10%")
    # the answer comes when it is in force; a busy board may be given a second for that
    in_force(board, 10, 10)
    time.sleep(5)
    rates["regulated"] = rate(board)
    low, high = REGULATED
    assert low < rates["regulated"] / rates["free"] < high, rates
    found = app(board)
    assert (found["performance"], found["performance_applied"], found["performance_problem"]) == (
        10,
        True,
        "",
    )
    print({key: value for key, value in found.items() if key.startswith("performance")})
    assert isinstance(found["performance_used"], float)
    assert found["performance_used"] > 0.5, "it asks for all that it may have"
    status, health = board.health()
    assert (status, health["health"]) == (200, "ok"), board.run("ekctl status")


def test_a_change_takes_no_longer_than_a_page_waits(board: Board) -> None:
    """The panel gives the agent 2 s."""
    number = board.run("cat /sys/block/vda/dev")
    took = []
    for percent in (11, 12, 10):
        text = board.run(
            f"a=$(date +%s%N); ekctl performance ek-test-reader {percent} > /dev/null; b=$(date +%s%N);"
            " ekctl performance ek-test-reader > /dev/null; c=$(date +%s%N);"
            f" echo $(((b - a - (c - b)) / 1000000)); cat {GROUP}/io.evenkeel.perf"
        )
        ms, line = text.splitlines()
        assert line == f"{number} {percent}"
        took.append(int(ms))
    print(f"beside ekctl itself, a change takes {took} ms")
    assert min(took) < 1500


def test_nobody_else_may(board: Board) -> None:
    before = board.run(f"cat {GROUP}/io.evenkeel.perf")
    drop = "setpriv --reuid=nobody --regid=nogroup --clear-groups"
    assert board.try_run(f"{drop} ekctl performance ek-test-reader 50%")[0] == 1
    assert board.try_run(f"{drop} ekctl performance ek-test-reader off")[0] == 1
    assert board.run("stat -c '%a %U %F' /run/evenkeel/regulate") == "600 root socket"
    # root without CAP_SYS_ADMIN is refused by the kernel, and so is the agent, which has no capability
    number = before.split()[0]
    status, said = board.try_run(
        f"setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin sh -c 'echo {number} 50 | tee {GROUP}/io.evenkeel.perf'"
    )
    assert status != 0
    assert "not permitted" in said
    caps = board.run("grep CapEff /proc/$(systemctl show -P MainPID evenkeeld)/status").split()[1]
    assert int(caps, 16) == 0
    assert board.run(f"cat {GROUP}/io.evenkeel.perf") == before
    for bad in ("0", "101%", "much"):
        assert board.try_run(f"ekctl performance ek-test-reader {bad}")[0] == 1
    assert board.run(f"cat {GROUP}/io.evenkeel.perf") == before


def test_a_new_cgroup_gets_it(board: Board) -> None:
    board.run("systemctl stop ek-test-reader.service")
    board.run(f"! test -e {GROUP}")
    board.run("systemctl start ek-test-reader.service")
    in_force(board, 10, 10)


def test_with_another_scheduler_it_is_said_and_comes_back(board: Board) -> None:
    board.run("modprobe bfq; echo bfq > /sys/block/vda/queue/scheduler")
    try:
        said = (
            "performance 10 % of ek-test-reader is not in force: only the scheduler evenkeel can do it, "
            "and vda has bfq"
        )
        until(board, f"ekctl status | grep -c '{said}'", "1")
        assert not app(board)["performance_applied"]
        assert "vda has bfq" in board.run("ekctl performance ek-test-reader")
    finally:
        board.run("echo evenkeel > /sys/block/vda/queue/scheduler")
    # nobody tells the agent; it sees the counters come back
    in_force(board, 10, 15)
    until(board, "ekctl status | grep -c 'not in force'", "0")


def test_it_is_still_in_force_after_a_reboot(board: Board, rates: dict[str, float]) -> None:
    boot = board.run("cat /proc/sys/kernel/random/boot_id")
    board.reboot()
    assert board.run("cat /proc/sys/kernel/random/boot_id") != boot
    assert board.settled() == "running", board.run("systemctl --failed --no-legend --plain")
    in_force(board, 10, 10)
    board.run(f"cat {GROUP}/io.evenkeel.stat; sleep 5")
    again = rate(board)
    low, high = REGULATED
    assert low < again / rates["free"] < high, (again, rates)


def test_off_gives_its_rate_back_for_good(board: Board, rates: dict[str, float]) -> None:
    assert regulate(board, "off").startswith("ek-test-reader off")
    in_force(board, 0, 10)
    time.sleep(3)
    free = rate(board)
    assert free > 0.5 * rates["free"], (free, rates)
    assert board.run("cat /var/lib/evenkeel/performances.json") == "{}"
    # what wrote the file has left nothing behind
    assert board.try_run("systemctl list-units --no-legend --plain 'evenkeel-regulate@*' | grep .")[1] == ""
    assert board.try_run("systemctl --failed --no-legend --plain | grep .")[1] == ""
    said = board.try_run("journalctl -b -o cat --no-pager | grep -F 'evenkeel-regulate@'")[1]
    assert said == "", "a change leaves no line on flash"
