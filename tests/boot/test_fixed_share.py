# SPDX-License-Identifier: Apache-2.0
"""A fixed share on the booted board: it slows an app's reads, it survives a reboot, and it can be ended.

All tests use the same board. They run in the order of this file, because each continues from the state
that the previous one left.
"""

import json
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from boards import Board, until

GROUP = "/sys/fs/cgroup/evenkeel.slice/evenkeel-apps.slice/ek-test-reader.service"
APP = """title = "Reader"
unit = "ek-test-reader.service"
"""
# The app does one direct read at a time, without pauses. A read of 1 MB takes the emulated disk longer than a timer
# may be late, so timers of the scheduler are exact enough.
UNIT = """[Service]
Slice=evenkeel-apps.slice
ExecStart=/bin/sh -c 'while :; do dd if=/dev/vda of=/dev/null bs=1M count=1024 iflag=direct status=none; done'
[Install]
WantedBy=multi-user.target
"""
# what a restart keeps
KEPT = """/etc/systemd/system/ek-test-reader.service
/etc/systemd/system/*/ek-test-reader.service
"""
MEASURE_SECONDS = 10
# Allowed rate with a fixed share of 10 %, as a part of the rate without a fixed share: from and to. The rate is not
# exactly 0.1, for two reasons. A fixed share does not lengthen the CPU time between two reads. And without a fixed
# share, the device works on several requests of a read at once; with it, on one after the other.
SLOWED = (0.01, 0.3)


@pytest.fixture(scope="module")
def rates() -> dict[str, float]:
    """Rates in bytes per second that one test measures and later tests use, by name."""
    return {}


def answers(board: Board, command: str, wanted: str) -> None:
    """Wait until COMMAND prints WANTED on the board."""
    until(f"{command} prints {wanted!r}", lambda: board.try_run(command)[1] == wanted)


def in_force(board: Board, percent: int) -> None:
    number = board.run("cat /sys/block/vda/dev")
    answers(board, f"cat {GROUP}/io.evenkeel.fixed", f"{number} {percent}" if percent else "")


def rate(board: Board) -> float:
    """Bytes per second that the app reads, from the scheduler's counters."""

    def sample() -> tuple[float, int]:
        number = board.run("cat /sys/block/vda/dev")
        text = board.run(f"cat /proc/uptime {GROUP}/io.evenkeel.stat")
        found = re.search(rf"^{number} .*?\brbytes=(\d+)", text, re.MULTILINE)
        assert found, text
        return float(text.split()[0]), int(found[1])

    before_s, before = sample()
    board.wait(MEASURE_SECONDS)
    after_s, after = sample()
    found = (after - before) / (after_s - before_s)
    print(f"{found / 1e6:.2f} MB/s")
    return found


def app(board: Board) -> dict[str, object]:
    found: dict[str, object] = json.loads(board.run("ekctl fixed-share ek-test-reader --json"))
    return found


def set_fixed_share(board: Board, percent: str) -> str:
    return board.run(f"ekctl fixed-share ek-test-reader {percent}")


def test_an_app_reads_without_a_fixed_share(board: Board, rates: dict[str, float]) -> None:
    assert board.settled() == "running", board.run("systemctl --failed --no-legend --plain")
    for path, text in (
        ("/etc/evenkeel/apps.d/ek-test-reader.toml", APP),
        ("/etc/systemd/system/ek-test-reader.service", UNIT),
        ("/etc/evenkeel/keep.d/ek-test-reader", KEPT),
    ):
        board.run(f"cat > {path} <<'END'\n{text}END")
    board.run("systemctl daemon-reload; systemctl enable --now ek-test-reader.service")
    board.run("systemctl reload evenkeeld.service")
    assert board.run("ekctl fixed-share ek-test-reader") == "ek-test-reader off"
    board.run(f"cat {GROUP}/io.evenkeel.stat; sleep 3")
    rates["free"] = rate(board)
    assert rates["free"] > 1e6


def test_at_10_percent_its_reads_slow_down(board: Board, rates: dict[str, float]) -> None:
    assert set_fixed_share(board, "10%").startswith("ek-test-reader 10%")
    # ekctl waits at most 1 s until the value is in force. A busy board may need longer.
    in_force(board, 10)
    board.wait(5)
    rates["slowed"] = rate(board)
    low, high = SLOWED
    assert low < rates["slowed"] / rates["free"] < high, rates
    found = app(board)
    assert (found["fixed_share"], found["fixed_share_applied"], found["fixed_share_problem"]) == (
        10,
        True,
        [],
    )
    print({key: value for key, value in found.items() if key.startswith("fixed_share")})
    assert isinstance(found["fixed_share_used"], float)
    assert found["fixed_share_used"] > 0.5, "the app always has a read, so it uses its fixed share"
    status, health = board.health()
    assert (status, health["health"]) == (200, "ok"), board.run("ekctl status")


def test_a_change_is_faster_than_the_panels_timeout(board: Board) -> None:
    """The panel waits 2 s for the agent, so a change must take less.

    A busy host slows down the change and the start of ekctl alike. So the test compares both: a change must take
    less time than the start of ekctl.
    """
    number = board.run("cat /sys/block/vda/dev")
    took, starts = [], []
    for percent in (11, 12, 10):
        text = board.run(
            f"a=$(date +%s%N); ekctl fixed-share ek-test-reader {percent} > /dev/null; b=$(date +%s%N);"
            " ekctl fixed-share ek-test-reader > /dev/null; c=$(date +%s%N);"
            f" echo $(((b - a - (c - b)) / 1000000)) $(((c - b) / 1000000)); cat {GROUP}/io.evenkeel.fixed"
        )
        times, line = text.splitlines()
        assert line == f"{number} {percent}"
        ms, start = map(int, times.split())
        took.append(ms)
        starts.append(start)
    print(f"a change takes {took} ms, without the start of ekctl, which takes {starts} ms")
    assert min(took) < min(starts)


def test_only_root_can_set_a_fixed_share(board: Board) -> None:
    before = board.run(f"cat {GROUP}/io.evenkeel.fixed")
    drop = "setpriv --reuid=nobody --regid=nogroup --clear-groups"
    assert board.try_run(f"{drop} ekctl fixed-share ek-test-reader 50%")[0] == 1
    assert board.try_run(f"{drop} ekctl fixed-share ek-test-reader off")[0] == 1
    assert board.run("stat -c '%a %U %F' /run/evenkeel/fixed-share") == "600 evenkeel-agent socket"
    # The kernel refuses root without CAP_SYS_ADMIN, so it also refuses the agent, which has no capability.
    number = before.split()[0]
    status, output = board.try_run(
        f"setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin sh -c 'echo {number} 50 | tee {GROUP}/io.evenkeel.fixed'"
    )
    assert status != 0
    assert "not permitted" in output
    caps = board.run("grep CapEff /proc/$(systemctl show -P MainPID evenkeeld)/status").split()[1]
    assert int(caps, 16) == 0
    assert board.run(f"cat {GROUP}/io.evenkeel.fixed") == before
    for bad in ("0", "101%", "much"):
        assert board.try_run(f"ekctl fixed-share ek-test-reader {bad}")[0] == 1
    assert board.run(f"cat {GROUP}/io.evenkeel.fixed") == before


def test_a_new_cgroup_gets_the_fixed_share(board: Board) -> None:
    board.run("systemctl stop ek-test-reader.service")
    board.run(f"! test -e {GROUP}")
    board.run("systemctl start ek-test-reader.service")
    in_force(board, 10)


def test_another_scheduler_is_a_problem_until_evenkeel_is_back(board: Board) -> None:
    board.run("modprobe bfq; echo bfq > /sys/block/vda/queue/scheduler")
    try:
        until("the problem is reported", lambda: "fixed-share-not-in-force" in board.problems())
        assert not app(board)["fixed_share_applied"]
        assert "vda uses the scheduler bfq" in board.run("ekctl fixed-share ek-test-reader")
    finally:
        board.run("echo evenkeel > /sys/block/vda/queue/scheduler")
    # The agent gets no signal about the change of the scheduler. It notices that the scheduler's counters exist again.
    in_force(board, 10)
    until("the problem is gone", lambda: "fixed-share-not-in-force" not in board.problems())


def test_the_fixed_share_is_in_force_after_a_reboot(board: Board, rates: dict[str, float]) -> None:
    boot = board.run("cat /proc/sys/kernel/random/boot_id")
    board.reboot()
    assert board.run("cat /proc/sys/kernel/random/boot_id") != boot
    assert board.settled() == "running", board.run("systemctl --failed --no-legend --plain")
    in_force(board, 10)
    board.run(f"cat {GROUP}/io.evenkeel.stat; sleep 5")
    again = rate(board)
    low, high = SLOWED
    assert low < again / rates["free"] < high, (again, rates)


def test_off_ends_the_fixed_share(board: Board, rates: dict[str, float]) -> None:
    assert set_fixed_share(board, "off").startswith("ek-test-reader off")
    in_force(board, 0)
    board.wait(3)
    free = rate(board)
    assert free > 0.5 * rates["free"], (free, rates)
    assert board.run("cat /var/lib/evenkeel-agent/fixed-shares.json") == "{}"
    # no instance of the helper remains
    assert (
        board.try_run("systemctl list-units --no-legend --plain 'evenkeel-fixed-share@*' | grep .")[1] == ""
    )
    assert board.try_run("systemctl --failed --no-legend --plain | grep .")[1] == ""
    lines = board.try_run("journalctl -b -o cat --no-pager | grep -F 'evenkeel-fixed-share@'")[1]
    assert lines == "", "a change writes no line to the journal on flash"
