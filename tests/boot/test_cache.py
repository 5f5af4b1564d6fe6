# SPDX-License-Identifier: Apache-2.0
"""The page pool of a booted board: it protects priority directories, and a fault of it is no fault of anything else.

The tests leave the page cache about 220 MB, so that a stream through it evicts what is not protected. All tests use the same
board and run in the order of this file.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from boards import Board, power_on, until

UNIT = "evenkeel-pool.service"
DEVICE = "/dev/evenkeel-pagepool"
MODULE = "evenkeel_pagepool"
CGROUP = "/sys/fs/cgroup/evenkeelpool.slice"
APP = "ek-test-cache"
TOP, OTHER, STREAM, LATER = "/data/cache/top", "/data/cache/other", "/data/cache/stream", "/data/cache/later"
FILE_MB = 40
STREAM_MB = 300
CACHE_MB = 220
PAGES = FILE_MB * 256


@pytest.fixture(scope="module")
def board() -> Iterator[Board]:
    for found in power_on("boot-cache"):
        text = f'title = "Cache"\\nunit = "{APP}.service"\\n'
        found.run(f"printf '{text}' > /etc/evenkeel/apps.d/{APP}.toml && systemctl reload evenkeeld")
        found.run(f"mkdir -p {TOP} {OTHER}")
        for folder in (TOP, OTHER):
            found.run(f"dd if=/dev/zero of={folder}/file bs=1M count={FILE_MB} conv=fsync status=none")
        found.run(f"dd if=/dev/zero of={STREAM} bs=1M count={STREAM_MB} conv=fsync status=none", timeout=300)
        yield found


def cache(board: Board) -> dict[str, Any]:
    # The console may have messages of the board before the answer.
    found: dict[str, Any] = json.loads("{" + board.run("ekctl cache --json").partition("{")[2])
    return found


def states(board: Board) -> dict[str, str]:
    """The state of each directory, by path."""
    return {one["path"]: one["state"] for one in cache(board)["directories"]}


def count(board: Board, name: str) -> int:
    """A figure of the module."""
    return int(board.run(f"awk '$1 == \"{name}\" {{ print $2 }}' {DEVICE}"))


def low(board: Board) -> int:
    return int(board.run(f"cat {CGROUP}/memory.low"))


def misses_of(board: Board, path: str, name: str) -> int:
    """How many pages of the file PATH are missing in the cache. It reads the file."""
    before = count(board, name)
    board.run(f"cat {path} > /dev/null", timeout=120)
    return count(board, name) - before


def test_the_service_runs_and_is_idle(board: Board) -> None:
    assert board.settled() == "running"
    found = cache(board)
    assert (found["state"], found["problem"], found["directories"]) == ("idle", [], [])
    assert count(board, "directories") == 0
    assert board.run(f"cat {CGROUP}/memory.min") == "0"


def test_only_the_agent_reaches_the_service(board: Board) -> None:
    for user, allowed in (("evenkeel-agent", True), ("evenkeel-panel", False), ("nobody", False)):
        status, _ = board.try_run(f"runuser -u {user} -- test -w /run/evenkeel/pool")
        assert (status == 0) == allowed, user
    # also without the rights of root, nobody but the service opens the device
    assert board.try_run(f"runuser -u evenkeel-agent -- cat {DEVICE}")[0] != 0


def test_a_directory_is_protected_while_a_file_is_streamed(board: Board) -> None:
    board.run(f"ekctl add-directory {APP} {TOP}")
    assert states(board) == {TOP: "protected"}
    # Files in tmpfs cannot be evicted, because the board has no swap.
    board.run(
        "mkdir -p /run/filler && mount -t tmpfs -o size=100% filler /run/filler"
        f" && left=$(awk '$1 == \"MemAvailable:\" {{ print int($2 / 1024) - {CACHE_MB} }}' /proc/meminfo)"
        " && dd if=/dev/zero of=/run/filler/file bs=1M count=$left status=none",
        timeout=300,
    )

    def grown() -> bool:
        board.run(f"cat {TOP}/file {STREAM} > /dev/null", timeout=300)
        return low(board) >= FILE_MB << 20

    until("memory.low covers the file", grown, 600)
    board.run("echo 1 > /proc/sys/vm/drop_caches")
    board.run(f"cat {TOP}/file {OTHER}/file > /dev/null", timeout=120)
    for _ in range(2):
        board.run(f"cat {STREAM} > /dev/null", timeout=300)
    assert misses_of(board, f"{TOP}/file", "protected_misses") < PAGES * 0.05
    assert misses_of(board, f"{OTHER}/file", "normal_misses") > PAGES * 0.5, "the stream does not evict"
    found = cache(board)
    assert found["target_bytes"] <= found["limit_bytes"] <= found["memory_bytes"] // 2
    assert found["size_bytes"] > FILE_MB << 19
    assert board.run(f"cat {CGROUP}/memory.min") == "0"


def test_the_pool_gives_way_before_the_kernel_kills_a_process(board: Board) -> None:
    """The test before this one has left a cache of 220 MB. Now other memory grows until the pool has less than its file."""
    kills = "awk '$1 == \"oom_kill\" { print $2 }' /proc/vmstat"
    before = board.run(kills)
    board.run(f"cat {TOP}/file > /dev/null", timeout=120)
    try:
        board.run(
            f"i=0; until [ $(cat {CGROUP}/memory.current) -lt $(({FILE_MB - 4} << 20)) ]; do i=$((i + 1));"
            f" [ $i -le {(CACHE_MB + FILE_MB) // 4} ] || exit 1;"
            " dd if=/dev/zero of=/run/filler/more.$i bs=1M count=4 status=none || exit 1; done",
            timeout=600,
        )
        assert board.run(kills, 300) == before  # the board hardly has memory left
    finally:
        board.run("umount /run/filler", timeout=300)


def test_a_directory_that_appears_later_is_protected_then(board: Board) -> None:
    board.run(f"ekctl add-directory {APP} {LATER}")
    assert states(board)[LATER] == "absent"
    board.run(f"mkdir {LATER}")
    until("the directory is protected", lambda: states(board)[LATER] == "protected", 60)
    assert count(board, "directories") == 2
    board.run(f"rmdir {LATER} && mkdir {LATER}")  # ext4 may use the same inode number again
    until("the new directory is protected", lambda: count(board, "directories") == 2, 60)
    board.run(f"rmdir {LATER}")
    until("the directory is absent", lambda: states(board)[LATER] == "absent", 60)
    board.run(f"ekctl remove-directory {APP} {LATER}")


def test_a_directory_in_tmpfs_is_refused_with_its_reason(board: Board) -> None:
    board.run(f"mkdir -p /run/ek-test-top && ekctl add-directory {APP} /run/ek-test-top")
    assert states(board) == {TOP: "protected", "/run/ek-test-top": "no-device"}
    board.run(f"ekctl remove-directory {APP} /run/ek-test-top")


def test_a_file_system_with_a_priority_directory_can_be_unmounted(board: Board) -> None:
    board.run(
        "truncate -s 32M /data/cache/image && mkfs.ext4 -q /data/cache/image"
        " && mkdir -p /run/ek-test-mount && mount -o loop /data/cache/image /run/ek-test-mount"
        " && mkdir /run/ek-test-mount/top"
    )
    board.run(f"ekctl add-directory {APP} /run/ek-test-mount/top")
    until("the directory is protected", lambda: states(board)["/run/ek-test-mount/top"] == "protected", 60)
    board.run("umount /run/ek-test-mount")
    until("the directory is absent", lambda: states(board)["/run/ek-test-mount/top"] == "absent", 60)
    board.run(f"ekctl remove-directory {APP} /run/ek-test-mount/top")


def test_a_kill_ends_the_protection_and_systemd_begins_it_again(board: Board) -> None:
    pid = board.run(f"systemctl show --property=MainPID --value {UNIT}")
    board.run(f"systemctl kill --signal=KILL {UNIT}")

    def again() -> bool:
        now = board.run(f"systemctl show --property=MainPID --value {UNIT}")
        return now not in ("0", pid) and board.try_run("ekctl cache --json")[0] == 0

    until("the service runs again", again, 120)
    until("the directory is protected again", lambda: states(board) == {TOP: "protected"}, 60)
    # S_target begins at 0 again. So memory.low of the old process is gone.
    assert low(board) < FILE_MB << 20


def test_a_stop_leaves_the_module_clean(board: Board) -> None:
    board.run(f"systemctl stop evenkeel-pool.socket {UNIT}")
    assert count(board, "directories") == 0
    assert board.run(f"awk '$1 == \"pool\" {{ print $2 }}' {DEVICE}") == "none"
    assert low(board) == 0
    status, output = board.try_run("ekctl cache")
    assert status == 1
    assert "systemctl status evenkeel-pool" in output


def test_without_the_module_everything_else_works(board: Board) -> None:
    # The unit loads the module, unless modprobe does nothing.
    board.run(f"mkdir -p /run/modprobe.d && echo 'install {MODULE} /bin/false' > /run/modprobe.d/{APP}.conf")
    board.run(f"modprobe -r {MODULE}")
    board.run(f"systemctl start evenkeel-pool.socket {UNIT}")
    found = cache(board)
    assert (found["state"], [note["code"] for note in found["problem"]]) == ("off", ["pool-no-module"])
    assert states(board) == {TOP: "off"}
    assert board.settled() == "running"
    assert board.health()[0] == 200
    assert board.try_run("ekctl apps")[0] == 0
    # The unit allows the device only if it existed at the start. So the service starts again when the device appears.
    board.run(f"rm /run/modprobe.d/{APP}.conf && modprobe {MODULE}")
    until(
        "the directory is protected again",
        lambda: board.try_run("ekctl cache --json")[0] == 0 and states(board) == {TOP: "protected"},
        120,
    )


def test_a_reboot_keeps_the_directories(board: Board) -> None:
    board.reboot()
    until("the agent answers", lambda: board.try_run("ekctl cache --json")[0] == 0)
    until("the directory is protected", lambda: states(board) == {TOP: "protected"}, 60)
    board.run(f"ekctl remove-directory {APP} {TOP}")
    assert cache(board)["state"] == "idle"
