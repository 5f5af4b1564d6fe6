# SPDX-License-Identifier: Apache-2.0
"""Who may write to a channel and who may read it. The groups are those that every Debian has."""

from __future__ import annotations

import errno
import grp
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from board import Board, RawWriter

NOBODY = 65534
GROUPS = {name: grp.getgrnam(name).gr_gid for name in ("bin", "sys", "adm")}

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="running code as another user needs root")


def as_user(groups: list[str], what: Callable[[], int]) -> int:
    """Run `what` as nobody with these groups; returns its result, 0..255."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([GROUPS[name] for name in groups])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            os._exit(what())
        except BaseException:
            os._exit(255)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def shared(board: Board) -> Iterator[Board]:
    """The socket is where every user can reach it."""
    with tempfile.TemporaryDirectory(prefix="ek-") as top:
        Path(top).chmod(0o755)
        board.socket = Path(top) / "socket"
        board.configure(group="adm")
        yield board


def write_as(board: Board, groups: list[str], channel: str) -> int:
    def write() -> int:
        with RawWriter(board.socket, channel) as writer:
            if writer.refused:
                return writer.refused[0]
            writer.submit(b"x")
            return writer.sync()

    return as_user(groups, write)


def read_as(board: Board, groups: list[str], channel: str) -> int:
    top = os.open(board.directory, os.O_RDONLY | os.O_DIRECTORY)

    def read() -> int:
        try:
            directory = os.open(channel, os.O_RDONLY | os.O_DIRECTORY, dir_fd=top)
            os.close(os.open("00000000.seg", os.O_RDONLY, dir_fd=directory))
        except OSError as error:
            return error.errno or 255
        return 0

    result = as_user(groups, read)
    os.close(top)
    return result


def test_each_channel_has_its_own_writers(shared: Board) -> None:
    shared.channel("arm", write_group="bin")
    shared.channel("leg", write_group="sys")
    shared.channel("default")
    shared.channel("own", write_group="")
    shared.channel("open", write_mode="all")
    shared.start()
    allowed = {"arm": "bin", "leg": "sys", "default": "adm", "own": None}
    for channel, group in allowed.items():
        for other in GROUPS:
            assert write_as(shared, [other], channel) == (0 if other == group else errno.EACCES), (
                channel,
                other,
            )
    assert write_as(shared, [], "open") == 0
    assert write_as(shared, ["bin", "sys"], "leg") == 0
    # root may always
    with shared.writer("own") as writer:
        assert writer.sync() == 0
    with RawWriter(shared.socket, "arm") as writer:
        assert not writer.refused
    shared.stop()
    assert shared.payloads("arm") == [b"x"]
    assert shared.payloads("own") == []


def test_a_user_without_any_channel_is_refused_at_once(shared: Board) -> None:
    shared.channel("arm", write_group="bin")
    shared.start()

    def connect() -> int:
        refused = RawWriter(shared.socket, "arm").refused
        return refused[0] if refused and "may write to no channel" in refused[1] else 1

    assert as_user(["sys"], connect) == errno.EACCES
    shared.stop()


def test_each_channel_has_its_own_readers(shared: Board) -> None:
    shared.channel("arm", read_group="bin")
    shared.channel("leg", read_group="sys")
    shared.channel("default")
    shared.channel("own", read_group="")
    shared.channel("open", read_mode="all", read_group="")
    shared.start()
    for channel, group in {"arm": "bin", "leg": "sys", "default": "adm", "own": None}.items():
        for other in GROUPS:
            assert read_as(shared, [other], channel) == (0 if other == group else errno.EACCES), (
                channel,
                other,
            )
    assert read_as(shared, [], "open") == 0
    shared.stop()
    # another group takes effect with the next start, for what is there already as well
    shared.channel("arm", read_group="sys")
    shared.start()
    assert read_as(shared, ["sys"], "arm") == 0
    assert read_as(shared, ["bin"], "arm") == errno.EACCES
    shared.stop()


def test_a_group_that_does_not_exist_is_an_error_of_the_channel(board: Board) -> None:
    board.channel("arm", write_group="no-such-group")
    board.channel("leg", read_group="neither")
    board.start()
    assert board.wait_state("arm", "failed")["reason"].endswith(
        "arm.conf: write_group = no-such-group: there is no such group"
    )
    assert "read_group = neither" in board.wait_state("leg", "failed")["reason"]
    board.stop()
