# SPDX-License-Identifier: Apache-2.0
"""The load of discards: what a round does, in which order, and that nothing is left of it."""

import errno
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from evenkeel_validate import discards
from hypothesis import given
from hypothesis import strategies as st

EXTENT = (160 << 20, 32 << 20)
REAL = discards.longest_extent


class Tools:
    """Fake programs. The one with the number `last` gets SIGTERM while it runs; `fails`: name of one that fails."""

    def __init__(self, last: int = 0, fails: str = "") -> None:
        self.calls: list[tuple[str, ...]] = []
        self.last, self.fails = last, fails

    def __call__(self, *command: str) -> str:
        self.calls.append(command)
        if command[0] == "fallocate":
            Path(command[-1]).touch()
        else:
            # what is discarded must be free, and nothing may be left at a moment in which the program waits
            assert list(Path(command[-1]).iterdir()) == []
        if command[0] == self.fails:
            raise OSError(f"{command[0]}: Operation not supported")
        if len(self.calls) == self.last:
            os.kill(os.getpid(), signal.SIGTERM)
        return "/data: 96 MiB (100663296 bytes) trimmed\n" if command[0] == "fstrim" else ""


@pytest.fixture(autouse=True)
def handler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(discards, "longest_extent", lambda file: EXTENT)
    monkeypatch.setattr(discards, "EVERY_S", 0)
    old = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, old)


@pytest.mark.parametrize("last", range(1, 7))
def test_sigterm_at_any_moment_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], last: int
) -> None:
    tools = Tools(last)
    monkeypatch.setattr(discards, "call", tools)
    assert discards.main(str(tmp_path / "discards")) == 0
    assert list(tmp_path.iterdir()) == []
    found = json.loads(capsys.readouterr().out)
    # The signal ends the round in which it comes. But the first round ends, because its time is a figure.
    assert found["bytes"] == 100663296
    assert found["seconds"] > 0
    assert found["each_us"] > 0
    assert tools.calls[:3] == [
        ("fallocate", "--length", str(discards.BYTES), str(tmp_path / "discards")),
        ("sync", "-f", str(tmp_path)),
        ("fstrim", "--verbose", "--offset", str(EXTENT[0]), "--length", str(EXTENT[1]), str(tmp_path)),
    ]
    assert len(tools.calls) == max(last, 3)


@pytest.mark.parametrize("fails", ["fallocate", "sync", "fstrim"])
def test_a_file_system_that_cannot_discard_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fails: str
) -> None:
    monkeypatch.setattr(discards, "call", Tools(fails=fails))
    assert discards.main(str(tmp_path / "discards")) == 1
    out = capsys.readouterr().out
    assert out.startswith("error: cannot discard in the file system of")
    assert out.endswith(f"{fails}: Operation not supported\n")
    assert list(tmp_path.iterdir()) == []


def test_rounds_have_a_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round writes metadata, so their number is bounded."""
    pauses: list[float] = []
    monkeypatch.setattr(discards, "EVERY_S", 5.0)
    monkeypatch.setattr(discards, "call", Tools(last=4))
    monkeypatch.setattr(discards.time, "sleep", pauses.append)
    discards.main(str(tmp_path / "discards"))
    assert pauses == [pytest.approx(5.0, abs=1.0)]


def test_a_program_that_fails_is_reported() -> None:
    assert discards.call("echo", "x") == "x\n"
    with pytest.raises(OSError, match="No such file or directory"):
        discards.call("cat", "/nonexistent")
    with pytest.raises(OSError, match="false ended with status 1"):
        discards.call("false")


@given(st.lists(st.tuples(st.integers(0, 2**63), st.integers(1, 2**40)), max_size=discards.MOST_EXTENTS))
def test_the_longest_extent(extents: list[tuple[int, int]]) -> None:
    """The kernel's answer has the layout of struct fiemap (linux/fiemap.h)."""

    def fiemap(fd: int, request: int, table: bytearray) -> None:
        assert request == 0xC020660B
        head = discards.HEAD.unpack_from(table)
        assert (head[0], head[1], head[4]) == (0, discards.BYTES, discards.MOST_EXTENTS)
        assert len(table) == 32 + 56 * discards.MOST_EXTENTS
        table[20:24] = len(extents).to_bytes(4, "little")
        for i, (physical, length) in enumerate(extents):
            at = 32 + 56 * i
            table[at + 8 : at + 24] = physical.to_bytes(8, "little") + length.to_bytes(8, "little")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(discards.fcntl, "ioctl", fiemap)
        found = REAL(__file__)
    assert found == (max(extents, key=lambda extent: extent[1]) if extents else (0, 0))


def test_a_file_system_without_a_map_of_extents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(discards.fcntl, "ioctl", refuse)
    with pytest.raises(OSError, match="Operation not supported"):
        REAL(str(Path(__file__)))
