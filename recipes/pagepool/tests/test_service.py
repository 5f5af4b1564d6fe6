# SPDX-License-Identifier: Apache-2.0
"""ek-pool with a fake of the kernel module: directories that come and go, the controller, faults, the agent's orders."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from evenkeel_agent.settings import Settings
from evenkeel_api.features.cache import Cache
from evenkeel_common.packets import PACKET_BYTES, End, parse
from evenkeel_pagepool import memory, service
from evenkeel_pagepool.device import PATH as DEVICE
from evenkeel_pagepool.device import Device, Identity, Totals
from evenkeel_pagepool.device import parse as parse_totals
from evenkeel_pagepool.memory import PAGE, SLICE
from evenkeel_pagepool.service import HOLDS, TICK_S, Sample, Service, identity_of, minutes, ratio, ratios
from hypothesis import given
from hypothesis import strategies as st

MIB = 1 << 20
MEMORY = 512 * MIB
WINDOW = MEMORY // 2 // PAGE  # accesses of a window: the largest number of blocks


class Module:
    """A fake of the kernel module. It forgets a directory that is removed, as the real one does."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.marks: dict[
            Identity, int
        ] = {}  # identity → descriptor, which shows whether the directory still exists
        self.counts = Totals()
        self.pool = "none"
        self.refuse: dict[str, int] = {}  # directory → errno
        self.clears = 0
        self.open = True

    def _forget(self) -> None:
        for identity, fd in list(self.marks.items()):
            if os.fstat(fd).st_nlink == 0:
                os.close(fd)
                del self.marks[identity]

    def charge_to(self, cgroup: str) -> None:
        if not Path(cgroup).is_dir():
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", cgroup)
        self.pool = "online"

    def add(self, directory: str) -> Identity:
        if found := self.refuse.get(directory):
            raise OSError(found, os.strerror(found))
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        identity = Identity(os.fstat(fd).st_dev, os.fstat(fd).st_ino)
        if identity in self.marks:
            os.close(fd)
            raise FileExistsError(errno.EEXIST, "exists")
        self.marks[identity] = fd
        return identity

    def clear(self) -> None:
        self.clears += 1
        for fd in self.marks.values():
            os.close(fd)
        self.marks.clear()

    def totals(self) -> Totals:
        self._forget()
        if not self.open:
            raise OSError(errno.EIO, "Input/output error")
        values = {name: getattr(self.counts, name) for name in Totals.__slots__}
        return Totals(**{**values, "directories": len(self.marks), "pool": self.pool})

    def close(self) -> None:
        self.clear()
        self.pool = "none"

    def count(self, protected: tuple[int, int] = (0, 0), normal: tuple[int, int] = (0, 0)) -> None:
        """Add accesses and misses of the two pools."""
        now = self.counts
        self.counts = Totals(
            protected_accesses=now.protected_accesses + protected[0],
            protected_misses=now.protected_misses + protected[1],
            normal_accesses=now.normal_accesses + normal[0],
            normal_misses=now.normal_misses + normal[1],
        )


class Board:
    """A root folder with an app, its directories, and a clock that only tick() moves."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.module = Module(self)
        self.lows: list[int] = []
        self.now_s = 1000.0
        self.error: OSError | None = None
        self.low_error: OSError | None = None
        self.cgroup = root / "sys/fs/cgroup" / SLICE
        for folder in ("etc/evenkeel/apps.d", "var/lib/evenkeel-pool", "proc", "sys/block/sda/queue", "srv"):
            (root / folder).mkdir(parents=True)
        self.cgroup.mkdir(parents=True)
        (self.cgroup / "memory.current").write_text(f"{5 * MIB}\n")
        (root / "sys/block/sda/queue/read_ahead_kb").write_text("128\n")
        self.memory(MEMORY)
        self.service: Service

    def memory(self, free: int) -> None:
        (self.root / "proc/meminfo").write_text(
            f"MemTotal: {MEMORY // 1024} kB\nMemFree: {free // 1024} kB\nActive(file): 0 kB\nHugePages_Total: 0\n"
        )

    def start(self) -> Service:
        self.service = Service(Settings(root=str(self.root)), self._open, self._low, lambda: self.now_s)
        self.service.tick()
        return self.service

    def app(self, name: str, *directories: str) -> None:
        text = f'title = "T"\nunit = "{name}.service"\npriority_directories = {json.dumps(directories)}\n'
        (self.root / f"etc/evenkeel/apps.d/{name}.toml").write_text(text)

    def directory(self, name: str) -> str:
        path = self.root / "srv" / name
        path.mkdir()
        return str(path)

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.now_s += TICK_S
            self.service.tick()

    def states(self) -> dict[str, str]:
        return {Path(one.path).name: one.state for one in self.service.state().directories}

    def ask(self, order: str, **more: Any) -> Any:
        return json.loads(self.service.answer(json.dumps({"order": order, **more}).encode()))

    def hold(self, holder: Any, directory: str) -> Any:
        packet = json.dumps({"order": "hold", "directory": directory}).encode()
        return json.loads(self.service.answer(packet, holder))

    def _open(self) -> Module:
        if self.error:
            raise self.error
        return self.module

    def _low(self, size: int) -> None:
        if self.low_error:
            raise self.low_error
        self.lows.append(size)


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path)


# directories


def test_the_directories_of_all_apps_are_protected(board: Board) -> None:
    a, b = board.directory("a"), board.directory("b")
    board.app("web", a)
    board.app("player", b)
    found = board.start().state()
    assert found.state == "on"
    assert [(one.app, one.path, one.state) for one in found.directories] == [
        ("player", b, "protected"),
        ("web", a, "protected"),
    ]
    assert board.module.marks.keys() == {identity_of(a), identity_of(b)}
    assert board.module.pool == "online"
    clears = board.module.clears
    board.tick(20)
    assert board.module.clears == clears, "directories that do not change are left alone"


def test_no_directory_means_idle_and_nothing_is_protected(board: Board) -> None:
    board.app("web")
    found = board.start().state()
    assert (found.state, found.problem, found.directories) == ("idle", [], [])
    assert board.lows == [0]
    assert board.module.pool == "none"


def test_a_directory_that_appears_later_is_protected_then(board: Board) -> None:
    path = str(board.root / "srv/later")
    board.app("web", path)
    board.start()
    assert board.states() == {"later": "absent"}
    assert board.service.state().state == "idle"
    board.tick()
    board.directory("later")
    board.tick()
    assert board.states() == {"later": "protected"}


def test_a_directory_that_is_removed_and_replaced_is_protected_again(board: Board) -> None:
    path = board.directory("a")
    board.app("web", path)
    board.start()
    old = identity_of(path)
    shutil.rmtree(path)
    board.tick()
    assert board.states() == {"a": "absent"}
    board.directory("a")
    board.tick()
    assert board.states() == {"a": "protected"}
    # also if it is replaced between two ticks; the new one may even have the inode of the old one
    shutil.rmtree(path)
    board.directory("a")
    board.tick()
    assert list(board.module.marks) == [identity_of(path)], old


def test_the_same_inode_number_does_not_hide_a_replacement(board: Board) -> None:
    path = board.directory("a")
    board.app("web", path)
    board.start()
    board.service.find = lambda _: next(iter(board.module.marks), identity_of(path))
    board.module.clear()  # the module has forgotten the removed directory
    board.tick()
    assert len(board.module.marks) == 1


def test_a_directory_that_is_renamed_away_is_no_longer_protected(board: Board) -> None:
    path = board.directory("a")
    board.app("web", path)
    board.start()
    Path(path).rename(path + "-old")
    board.tick()
    assert board.states() == {"a": "absent"}
    assert not board.module.marks


def test_a_file_is_no_directory_until_it_is_replaced_by_one(board: Board) -> None:
    path = board.root / "srv/a"
    path.write_text("")
    board.app("web", str(path))
    board.start()
    assert board.states() == {"a": "not-a-directory"}
    # A directory may get the inode number of the file, so the number must not count.
    assert identity_of(str(path)) is None
    path.unlink()
    board.directory("a")
    board.tick()
    assert board.states() == {"a": "protected"}


def test_apps_that_name_the_same_directory_share_it(board: Board) -> None:
    path = board.directory("a")
    link = board.root / "srv/link"
    link.symlink_to(path)
    board.app("one", path)
    board.app("two", path, str(link))
    found = board.start().state()
    assert [one.state for one in found.directories] == ["protected", "shared", "shared"]
    assert len(board.module.marks) == 1
    # a directory inside another one is a directory of its own
    inner = board.directory("a/inner")
    board.app("two", inner)
    board.tick(7)
    assert board.states() == {"a": "protected", "inner": "protected"}


@pytest.mark.parametrize(
    ("number", "state"),
    [
        (errno.EOPNOTSUPP, "no-device"),
        (errno.EXDEV, "overlay"),
        (errno.ENOSPC, "too-many"),
        (errno.EIO, "failed"),
    ],
)
def test_a_directory_that_the_module_refuses_has_its_reason(board: Board, number: int, state: str) -> None:
    good, bad = board.directory("good"), board.directory("bad")
    board.app("web", bad, good)
    board.module.refuse[bad] = number
    found = board.start().state()
    assert [one.state for one in found.directories] == [state, "protected"]
    assert bool(found.directories[0].reason) == (state == "failed")
    clears = board.module.clears
    board.tick(3)
    assert board.module.clears == clears
    board.module.refuse.clear()
    board.tick(7)
    assert (board.states()["bad"] == "protected") == (state == "failed"), (
        "a failure may pass; a refusal stays"
    )


# the controller


def test_s_target_grows_with_misses_and_memory_low_follows(board: Board) -> None:
    board.app("web", board.directory("a"))
    board.start()
    board.module.count((WINDOW - 1, WINDOW - 1))
    board.tick()
    assert board.lows == [0], "no decision before the window is full"
    board.module.count((1, 1))
    board.tick()
    found = board.service.state()
    assert found.target_bytes == board.lows[-1] > 100 * MIB
    assert found.size_bytes == 5 * MIB == found.cost_bytes


def test_s_target_never_exceeds_half_of_the_memory_and_shrinks_with_it(board: Board) -> None:
    board.app("web", board.directory("a"))
    board.start()
    for _ in range(5):
        board.module.count((2 * WINDOW, 2 * WINDOW))
        board.tick()
    assert MEMORY // 4 < board.lows[-1] < MEMORY // 2
    assert board.lows[-1] == board.service.state().limit_bytes
    board.memory(40 * MIB)  # the apps need the memory
    board.tick()
    assert board.lows[-1] < 40 * MIB


def test_without_directories_nothing_stays_protected(board: Board) -> None:
    board.app("web", board.directory("a"))
    board.start()
    board.module.count((2 * WINDOW, 2 * WINDOW))
    board.tick()
    assert board.lows[-1] > 0
    board.app("web")
    board.tick(7)
    assert board.lows[-1] == 0
    assert board.service.state().target_bytes == 0


def test_memory_low_that_cannot_be_set_is_reported_and_tried_again(board: Board) -> None:
    board.low_error = OSError(errno.EIO, "no bus")
    board.app("web", board.directory("a"))
    found = board.start().state()
    assert [note.code for note in found.problem] == ["pool-not-limited"]
    assert found.state == "on"
    board.low_error = None
    board.tick()
    assert board.lows == [0]
    assert board.service.state().problem == []


def test_hit_ratios_now_and_in_the_last_minutes(board: Board) -> None:
    board.app("web", board.directory("a"))
    board.start()
    assert board.service.state().protected_ratio == -1
    for misses in (100, 50, 0):
        for _ in range(12):
            board.module.count((100, misses), (200, 180))
            board.tick()
    found = board.service.state()
    assert (found.protected_ratio, found.normal_ratio) == (100.0, 10.0)
    assert [row.ago_min for row in found.minutes] == [0, 1, 2]
    assert [row.protected_ratio for row in found.minutes] == [100.0, 50.0, 0.0]
    assert found.normal_lack == 75.0
    board.tick(1000)
    found = board.service.state()
    assert len(found.minutes) == 10
    assert found.normal_ratio == found.minutes[0].protected_ratio == -1


# faults


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (FileNotFoundError(errno.ENOENT, "none"), "pool-no-module"),
        (OSError(errno.ENXIO, "none"), "pool-no-module"),
        (OSError(errno.EBUSY, "busy"), "pool-busy"),
        (OSError(errno.EIO, "bad"), "pool-device-failed"),
    ],
)
def test_without_the_device_the_pool_is_off_until_it_can_be_opened(
    board: Board, error: OSError, code: str
) -> None:
    board.error = error
    path = board.directory("a")
    board.app("web", path)
    found = board.start().state()
    assert (found.state, [note.code for note in found.problem]) == ("off", [code])
    assert board.states() == {"a": "off"}
    assert board.lows == [0]
    # directories can be chosen meanwhile
    assert board.ask("add", name="web", directory=f"{path}/b")["state"] == "off"
    board.error = None
    board.tick()
    assert board.states() == {"a": "protected", "b": "absent"}
    assert board.service.state().problem == []


def test_a_device_that_appeared_after_the_start_ends_the_process(board: Board) -> None:
    board.error = PermissionError(errno.EPERM, "not permitted")
    with pytest.raises(PermissionError):
        board.start()


def test_a_device_that_fails_is_closed_and_opened_again(board: Board) -> None:
    board.app("web", board.directory("a"))
    board.start()
    board.module.count((2 * WINDOW, 2 * WINDOW))
    board.tick()
    board.module.open = False
    board.tick()
    found = board.service.state()
    assert (found.state, found.problem[0].code) == ("off", "pool-device-failed")
    assert board.lows[-1] == 0
    board.module.open = True
    board.tick()
    assert board.states() == {"a": "protected"}


def test_without_the_cgroup_nothing_is_protected(board: Board) -> None:
    board.app("web", board.directory("a"))
    shutil.rmtree(board.cgroup)
    found = board.start().state()
    assert (found.state, found.problem[0].code) == ("off", "pool-no-cgroup")
    assert not board.module.marks
    board.cgroup.mkdir()
    board.tick()
    assert board.service.state().state == "on"
    board.module.count((2 * WINDOW, 2 * WINDOW))
    board.tick()
    assert board.lows[-1] > 0
    shutil.rmtree(board.cgroup)
    board.module.pool = "gone"
    board.tick()
    assert (board.states(), board.module.marks, board.lows[-1]) == ({"a": "off"}, {}, 0)
    board.cgroup.mkdir()
    board.tick()
    assert board.service.state().state == "on"
    board.module.pool = "gone"  # somebody removed the cgroup, and it exists again
    board.tick()
    assert board.module.pool == "online"


# orders


def saved_file(board: Board) -> Path:
    return board.root / "var/lib/evenkeel-pool/directories.json"


def test_directories_are_added_and_removed(board: Board) -> None:
    a, b = board.directory("a"), board.directory("b")
    board.app("web", a)
    board.start()
    assert {
        one["path"]: one["state"] for one in board.ask("add", name="web", directory=b)["directories"]
    } == {
        a: "protected",
        b: "protected",
    }
    board.ask("remove", name="web", directory=a)
    assert board.states() == {"b": "protected"}
    # the choice takes precedence over the app's file, and survives a restart
    board.module.close()
    board.start()
    assert board.states() == {"b": "protected"}
    # the list of the file is in use again if the same directories are chosen
    board.ask("add", name="web", directory=a)
    board.ask("remove", name="web", directory=b)
    board.app("web")
    board.tick(7)
    assert board.states() == {}


def test_an_app_that_was_added_just_now_can_have_directories(board: Board) -> None:
    board.start()
    board.app("web")
    assert board.ask("add", name="web", directory="/srv/later")["directories"][0]["state"] == "absent"


@pytest.mark.parametrize(
    ("order", "name", "path", "kind", "code"),
    [
        ("add", "nobody", "/srv", "UnknownApp", "unknown-app"),
        ("add", "web", "srv", "InvalidArgument", "directory-path"),
        ("add", "web", "/a", "Conflict", "directory-listed"),
        ("remove", "web", "/b", "Conflict", "directory-not-listed"),
        ("fly", "web", "/b", "Failed", "external"),
    ],
)
def test_a_bad_order_changes_nothing(
    board: Board, order: str, name: str, path: str, kind: str, code: str
) -> None:
    board.app("web", "/a")
    board.start()
    answer = board.ask(order, name=name, directory=path)
    assert (answer["kind"], answer["error"]) == (kind, code)
    assert [one.path for one in board.service.state().directories] == ["/a"]
    assert not saved_file(board).exists()


def test_an_app_has_32_directories_at_most(board: Board) -> None:
    board.app("web", *(f"/srv/{i}" for i in range(32)))
    board.start()
    assert board.ask("add", name="web", directory="/srv/more")["error"] == "directories-full"


@pytest.mark.parametrize(
    "packet", [b"", b"[]", b"{}", b"\xff", b'{"order": "add"}', b'{"order": 1}', b"[" * 9000]
)
def test_a_packet_that_is_no_request_is_answered(board: Board, packet: bytes) -> None:
    board.start()
    assert json.loads(board.service.answer(packet))["kind"] == "Failed"


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b'{"web": "x"}', b'{"web": ["x"]}', b'{"../x": []}', b"\xff"]
)
def test_a_damaged_file_is_kept_and_reported(board: Board, content: bytes) -> None:
    path = saved_file(board)
    path.write_bytes(content)
    board.app("web", board.directory("a"))
    for _ in range(2):  # also after a restart
        found = board.start().state()
        assert [note.code for note in found.problem] == ["directories-damaged"]
        assert [one.state for one in found.directories] == ["protected"]
        board.module.close()
    assert path.with_name("directories.json.damaged").read_bytes() == content
    board.start()
    assert board.ask("add", name="web", directory="/srv/b")["problem"] == []


def test_a_change_that_cannot_be_saved_changes_nothing(board: Board) -> None:
    board.app("web", "/a")
    board.start()
    shutil.rmtree(board.root / "var/lib/evenkeel-pool")
    answer = board.ask("add", name="web", directory="/srv/b")
    assert answer["error"] == "directories-not-saved"
    assert [one.path for one in board.service.state().directories] == ["/a"]


def test_all_saved_directories_are_read_and_replaced(board: Board) -> None:
    a, b = board.directory("a"), board.directory("b")
    board.app("web", a)
    board.app("player")
    board.start()
    assert board.ask("saved") == {"saved": {}}, "those of an app's file are not saved"
    board.ask("add", name="player", directory=b)
    assert board.ask("saved") == {"saved": {"player": [b]}}
    wanted = {"web": [], "gone": ["/srv/x"]}
    assert board.ask("restore", directories=wanted) == {"saved": wanted}
    assert board.states() == {}
    board.start()
    assert board.ask("saved") == {"saved": wanted}
    assert board.ask("restore", directories={}) == {"saved": {}}
    assert board.states() == {"a": "protected"}


@pytest.mark.parametrize(
    "wanted",
    [None, [], {"web": "x"}, {"web": ["x"]}, {"../x": []}, {"web": [f"/srv/{i}" for i in range(33)]}],
)
def test_directories_that_are_not_valid_are_not_restored(board: Board, wanted: Any) -> None:
    board.app("web")
    board.start()
    board.ask("add", name="web", directory="/srv/b")
    before = saved_file(board).read_bytes()
    assert board.ask("restore", directories=wanted)["error"] == "external"
    assert saved_file(board).read_bytes() == before
    assert board.ask("saved") == {"saved": {"web": ["/srv/b"]}}


def test_the_directories_of_a_removed_app_are_forgotten(board: Board) -> None:
    for name in ("web", "player"):
        board.app(name, "/a")
    board.start()
    for name in ("web", "player"):
        board.ask("add", name=name, directory="/srv/b")
    assert board.ask("forget", name="web") == {"saved": {"player": ["/a", "/srv/b"]}}
    assert board.ask("forget", name="web")["saved"].keys() == {"player"}
    assert json.loads(saved_file(board).read_bytes()).keys() == {"player"}
    # if an app of this name is added again, it has the directories of its file
    assert [one.path for one in board.service.state().directories if one.app == "web"] == ["/a"]


# directories that a program holds


def held(board: Board) -> dict[str, str]:
    """The state of each held directory, by name."""
    return {Path(one.path).name: one.state for one in board.service.state().held}


def test_a_held_directory_is_protected_until_it_is_released(board: Board) -> None:
    a, b = board.directory("a"), board.directory("b")
    board.app("web", a)
    board.start()
    answer = board.hold("one", b)
    assert answer["held"] == [{"path": b, "state": "protected", "reason": ""}]
    assert [one["path"] for one in answer["directories"]] == [a], "it belongs to no app"
    assert board.module.marks.keys() == {identity_of(a), identity_of(b)}
    assert not saved_file(board).exists()
    board.service.release("one")
    board.tick()
    assert held(board) == {}
    assert board.module.marks.keys() == {identity_of(a)}


def test_a_held_directory_alone_turns_the_pool_on_and_leaves_nothing(board: Board) -> None:
    board.start()
    board.hold("one", board.directory("a"))
    assert board.service.state().state == "on"
    board.module.count((2 * WINDOW, 2 * WINDOW))
    board.tick()
    assert board.lows[-1] > 0
    board.service.release("one")
    board.tick()
    assert (board.service.state().state, board.lows[-1], board.module.marks) == ("idle", 0, {})


def test_two_holders_of_one_directory_do_not_depend_on_each_other(board: Board) -> None:
    path = board.directory("a")
    board.start()
    for holder in ("one", "two"):
        board.hold(holder, path)
    assert held(board) == {"a": "protected"}
    assert len(board.module.marks) == 1
    board.service.release("one")
    board.tick()
    assert (held(board), len(board.module.marks)) == ({"a": "protected"}, 1)
    # neither does an app that names it
    board.app("web", path)
    board.service.release("two")
    board.tick(7)
    assert (held(board), board.states()) == ({}, {"a": "protected"})


def test_a_held_directory_that_is_absent_or_refused_has_its_state(board: Board) -> None:
    bad = board.directory("bad")
    board.module.refuse[bad] = errno.EOPNOTSUPP
    board.start()
    board.hold("one", bad)
    board.hold("two", f"{bad}/later")
    assert held(board) == {"bad": "no-device", "later": "absent"}
    board.directory("bad/later")
    board.tick()
    assert held(board)["later"] == "protected"


def test_a_fault_of_the_module_ends_no_hold(board: Board) -> None:
    board.start()
    board.hold("one", board.directory("a"))
    board.module.open = False
    board.tick()
    assert held(board) == {"a": "off"}
    board.module.open = True
    board.tick()
    assert held(board) == {"a": "protected"}
    assert len(board.module.marks) == 1


@pytest.mark.parametrize(
    ("path", "kind", "code"),
    [
        ("srv", "InvalidArgument", "directory-path"),
        ("/srv/../etc", "InvalidArgument", "directory-path"),
        ("/" + "x" * 5000, "InvalidArgument", "directory-too-long"),
        ("/srv/many", "Conflict", "holds-full"),
    ],
)
def test_a_bad_hold_changes_nothing(board: Board, path: str, kind: str, code: str) -> None:
    board.start()
    count = HOLDS if code == "holds-full" else HOLDS - 1
    for number in range(count):
        board.hold(number, f"/srv/{number}")
    answer = board.hold("one more", path)
    assert (answer["kind"], answer["error"]) == (kind, code)
    assert not board.service.holds("one more")
    assert len(held(board)) == count
    board.service.release(0)
    assert "error" not in board.hold("one more", "/srv/many"), "a place is free again"


class Serving:
    """The real loop on a socket, in a thread, with short ticks."""

    def __init__(self, board: Board) -> None:
        board.service = Service(Settings(root=str(board.root)), board._open, board._low)
        self.path = str(board.root / "socket")
        self._stopped, self._stopping = socket.socketpair()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self.path)
        self._listener.listen()
        self._thread = threading.Thread(
            target=service.serve, args=(self._listener, board.service, self._stopped)
        )

    def __enter__(self) -> Serving:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.send(b"x")
        self._thread.join(20)
        for one in (self._stopped, self._stopping, self._listener):
            one.close()
        assert not self._thread.is_alive()

    def connect(self) -> socket.socket:
        agent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        agent.settimeout(20)
        agent.connect(self.path)
        return agent

    def ask(self, order: str, agent: socket.socket | None = None, **more: str) -> Any:
        """The answer to a request on the connection AGENT, or on one of its own."""
        own = agent or self.connect()
        own.sendall(json.dumps({"order": order, **more}).encode())
        content = b""
        while not isinstance(part := parse(own.recv(PACKET_BYTES)), End):
            content += part
        if not agent:
            own.close()
        return json.loads(content)

    def held(self) -> list[str]:
        return [one["path"] for one in self.ask("state")["held"]]

    def free(self, board: Board) -> None:
        """Asserts that no directory is held or protected soon. A holder that ends wakes the loop at once."""
        deadline = time.monotonic() + TICK_S * 0.8
        while (self.held() or board.module.marks) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert (self.held(), board.module.marks) == ([], {})


def test_a_connection_holds_its_directory_and_others_are_answered(board: Board) -> None:
    a, b = board.directory("a"), board.directory("b")
    with Serving(board) as serving, serving.connect() as first:
        assert serving.ask("hold", first, directory=a)["held"][0]["state"] == "protected"
        assert serving.held() == [a]
        second = serving.connect()
        serving.ask("hold", second, directory=b)
        assert serving.held() == [a, b]
        # a program that sends no more requests may say so; it holds the directory still
        second.shutdown(socket.SHUT_WR)
        assert serving.held() == [a, b]
        first.close()
        deadline = time.monotonic() + TICK_S * 0.8
        while len(board.module.marks) > 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert serving.held() == [b]
        assert board.module.marks.keys() == {identity_of(b)}
        second.close()
        serving.free(board)


def test_what_a_holder_sends_afterwards_is_ignored(board: Board) -> None:
    a, b = board.directory("a"), board.directory("b")
    with Serving(board) as serving, serving.connect() as holder:
        serving.ask("hold", holder, directory=a)
        ticks: list[int] = []
        tick = board.service.tick
        board.service.tick = lambda: tick() or ticks.append(1)  # type: ignore[method-assign,func-returns-value]
        holder.sendall(json.dumps({"order": "hold", "directory": b}).encode())
        holder.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(10_000):
                holder.send(b"garbage" * 100)
        assert serving.held() == [a]
        assert len(ticks) < 5, "the loop turns without a pause"
        holder.close()
        serving.free(board)


def test_a_refused_hold_closes_its_connection(board: Board) -> None:
    with Serving(board) as serving, serving.connect() as holder:
        assert serving.ask("hold", holder, directory="srv")["error"] == "directory-path"
        assert holder.recv(1) == b""


def test_a_holder_that_leaves_before_its_answer_holds_nothing(board: Board) -> None:
    with Serving(board) as serving:
        for _ in range(2 * HOLDS):
            with serving.connect() as holder:
                holder.sendall(json.dumps({"order": "hold", "directory": board.directory("a")}).encode())
            serving.free(board)
            shutil.rmtree(board.root / "srv/a")


def test_a_client_that_sends_nothing_delays_others_for_its_time_at_most(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "REQUEST_S", 0.2)
    path = board.directory("a")
    with Serving(board) as serving, serving.connect(), serving.connect() as holder:
        assert serving.ask("hold", holder, directory=path)["held"][0]["state"] == "protected"


HOLDER = """
import json, socket, sys, time
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as agent:
    agent.connect(sys.argv[1])
    agent.sendall(json.dumps({"order": "hold", "directory": sys.argv[2]}).encode())
    print(agent.recv(40000), flush=True)
    time.sleep(60)
"""


def test_a_killed_holder_holds_nothing(board: Board) -> None:
    path = board.directory("a")
    with Serving(board) as serving:
        process = subprocess.Popen([sys.executable, "-c", HOLDER, serving.path, path], stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            assert b'"protected"' in process.stdout.readline()
            assert serving.held() == [path]
        finally:
            process.kill()
            process.communicate()
        serving.free(board)


def test_orders_are_served_between_the_ticks(board: Board) -> None:
    board.app("web", *(f"/srv/{'x' * 1000}{i}" for i in range(32)))  # more than a packet
    board.service = Service(Settings(root=str(board.root)), board._open, board._low)
    path = str(board.root / "socket")
    stopped, stopping = socket.socketpair()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        thread = threading.Thread(target=service.serve, args=(listener, board.service, stopped))
        thread.start()
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as agent:
                agent.settimeout(10)
                agent.connect(path)
                agent.sendall(b'{"order": "state"}')
                content = b""
                while not isinstance(part := parse(agent.recv(PACKET_BYTES)), End):
                    content += part
        finally:
            stopping.send(b"x")
            thread.join(10)
    assert part.status == 0
    assert len(msgspec.json.decode(content, type=Cache).directories) == 32
    assert not thread.is_alive()


@pytest.mark.skipif(Path(DEVICE).exists(), reason="this machine has the module")
def test_the_process_serves_until_it_is_asked_to_stop(tmp_path: Path) -> None:
    """The real process, with the socket as descriptor 3 as systemd passes it, on a machine without the module."""
    path, program = str(tmp_path / "socket"), "import os, sys; os.dup2(int(sys.argv[1]), 3); "
    program += "from evenkeel_pagepool.service import main; sys.exit(main())"
    notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notified.bind(str(tmp_path / "notify"))
    notified.settimeout(20)
    fake = tmp_path / "systemctl"
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": ":".join(sys.path),
        "NOTIFY_SOCKET": str(tmp_path / "notify"),
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, notified:
        listener.bind(path)
        listener.listen()
        fd = listener.fileno()
        process = subprocess.Popen([sys.executable, "-c", program, str(fd)], pass_fds=[fd], env=env)
        try:
            assert notified.recv(100) == b"READY=1"
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as agent:
                agent.settimeout(10)
                agent.connect(path)
                agent.sendall(b'{"order": "state"}')
                found = msgspec.json.decode(parse(agent.recv(PACKET_BYTES)), type=Cache)  # type: ignore[arg-type]
            process.terminate()
            assert process.wait(10) == 0
            assert notified.recv(100) == b"STOPPING=1"
        finally:
            process.kill()
            process.wait()
    assert found.state == "off"
    assert found.problem[0].code == "pool-no-module"


# the device


def test_the_device_gets_commands_with_descriptors(tmp_path: Path) -> None:
    path = tmp_path / "device"
    path.write_text("")
    device = Device(str(path))
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert device.add(str(tmp_path)) == identity_of(str(tmp_path))
    device.charge_to(str(tmp_path))
    device.clear()
    assert len(list(Path("/proc/self/fd").iterdir())) == before, "an open directory would block an unmount"
    device.close()
    first, second, rest = path.read_text().replace("pool", " pool").replace("clear", " clear").split(" ", 2)
    assert (first, rest.split()[0], rest.split()[-1]) == ("add", "pool", "clear")
    assert second.isdigit()
    with pytest.raises(NotADirectoryError):
        Device(str(path)).add(str(path))


def test_the_counters_are_parsed() -> None:
    text = "directories 2\npool online\nprotected_accesses 5\nprotected_misses 4\nprotected_added 3\n"
    text += "normal_accesses 7\nnormal_misses 6\nmissed_probes 0\nnew thing 1\n"
    assert parse_totals(text) == Totals(2, "online", 5, 4, 7, 6)
    for bad in ("", "directories x\n", text.replace("pool", "pond")):
        with pytest.raises(ValueError):
            parse_totals(bad)


# memory.low


def test_systemd_sets_memory_low(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "systemctl"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/notify")
    fake.write_text(f'#!/bin/sh\necho "$@$NOTIFY_SOCKET" > {tmp_path}/orders\n')
    fake.chmod(0o755)
    memory.set_low(4096)
    assert (tmp_path / "orders").read_text() == "set-property --runtime evenkeelpool.slice MemoryLow=4096\n"
    fake.write_text("#!/bin/sh\necho refused >&2\nexit 1\n")
    with pytest.raises(OSError, match="refused"):
        memory.set_low(0)
    fake.write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(memory, "SYSTEMCTL_S", 0.2)
    with pytest.raises(OSError, match="did not end within"):
        memory.set_low(0)


ZONES = """Node 0, zone      DMA
  pages free     3840
        min      66
        high     98
  pagesets
    cpu: 0
              high:  378
              high_min: 11
Node 0, zone    DMA32
        high     1504
"""


def test_the_reserve_is_the_high_watermarks_of_all_zones() -> None:
    assert memory.reserve(ZONES) == (98 + 1504) * PAGE
    assert memory.reserve("high\nhigh x\nhigh 1 2\n") == 0


def test_memory_that_the_kernel_keeps_free_is_not_part_of_the_cache(board: Board) -> None:
    """Otherwise the protected pool may grow to more pages than the cache can have, and other files get none."""
    before = board.start().state().limit_bytes
    board.memory(MEMORY // 2)
    (board.root / "proc/zoneinfo").write_text(ZONES)
    board.tick()
    assert board.service.state().limit_bytes == before - (98 + 1504) * PAGE


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 40), st.integers(0, 1 << 26), st.integers(0, 1 << 40))
def test_the_pools_have_at_most_half_of_the_memory(
    total: int, free: int, readahead: int, kept_free: int
) -> None:
    found = memory.settings({"MemTotal": total, "MemFree": free}, readahead, kept_free)
    most = max(total // 2, memory.LEAST_BLOCKS * PAGE)
    assert 0 < (found.blocks - found.normal_min) * PAGE <= most
    assert found.blocks * PAGE <= max(free - kept_free, memory.LEAST_BLOCKS * PAGE)


# pure functions


@given(st.integers(0, 1 << 60), st.integers(0, 1 << 60))
def test_a_hit_ratio_is_a_percentage_or_not_known(accesses: int, misses: int) -> None:
    found = ratio(accesses, misses)
    assert (found == -1) if not accesses else 0 <= found <= 100


@given(st.lists(st.tuples(st.floats(0.1, 100), st.integers(0, 50), st.integers(0, 50)), max_size=200))
def test_minutes_are_at_most_ten_and_add_up(steps: list[tuple[float, int, int]]) -> None:
    samples, at_s, totals = [Sample(0.0, Totals(), 0, 0)], 0.0, Totals()
    for step_s, accesses, misses in steps:
        at_s += step_s
        totals = Totals(
            normal_accesses=totals.normal_accesses + accesses, normal_misses=totals.normal_misses + misses
        )
        samples.append(Sample(at_s, totals, 0, 0))
    found = minutes(samples)
    assert len(found) == min(10, int(at_s // 60))
    assert [row.ago_min for row in found] == list(range(len(found)))
    assert all(row.protected_ratio == -1 and -1 <= row.normal_ratio <= 100 for row in found)
    assert ratios(samples[0], samples[0]) == (-1, -1)
