# SPDX-License-Identifier: Apache-2.0
"""power_cuts: what is on a disk after a power cut, by logs of writes that these tests make."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from power_cuts import BLOCK, DISCARD, FLUSH, FUA, MAGIC, SECTOR, UNDO, Replay, read_log

BLOCKS = 16


def log(path: Path, entries: list[tuple[int, int, bytes | int]]) -> Path:
    """A log of (flags, offset, data, or the length of a discard)."""
    with path.open("wb") as file:
        file.write(struct.pack("<QQQI", MAGIC, 1, len(entries), SECTOR).ljust(SECTOR, b"\0"))
        for flags, offset, data in entries:
            length = data if isinstance(data, int) else len(data)
            file.write(
                struct.pack("<QQQQ", offset // SECTOR, length // SECTOR, flags, 0).ljust(SECTOR, b"\0")
            )
            if isinstance(data, bytes):
                file.write(data)
    return path


def block(byte: int, count: int = 1) -> bytes:
    return bytes([byte]) * (BLOCK * count)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    (tmp_path / "image").write_bytes(block(255, BLOCKS))
    return tmp_path / "image"


def test_what_was_flushed_is_there_and_nothing_that_comes_later(image: Path, tmp_path: Path) -> None:
    made = log(
        tmp_path / "log", [(0, 0, block(1, 2)), (FLUSH, 0, b""), (0, BLOCK, block(2)), (0, 0, block(3))]
    )
    replay = Replay(image, made, BLOCKS * BLOCK)
    for moment, possible in ((0, {255}), (1, {255, 1}), (2, {1}), (3, {1}), (4, {1, 3})):
        with replay.cut(moment, moment):
            assert image.read_bytes()[0] in possible


def test_each_block_is_old_or_new_and_a_cut_leaves_no_trace(image: Path, tmp_path: Path) -> None:
    made = log(
        tmp_path / "log",
        [(0, 0, block(1, 8)), (FLUSH, 0, b""), (0, 0, block(2, 8)), (DISCARD, BLOCK * 8, BLOCK)],
    )
    replay = Replay(image, made, BLOCKS * BLOCK)
    seen = set()
    for seed in range(40):
        with replay.cut(4, seed) as lost:
            found = image.read_bytes()
            firsts = found[::BLOCK]
            assert all(found[i * BLOCK : (i + 1) * BLOCK] == block(byte) for i, byte in enumerate(firsts))
            assert set(firsts[:8]) <= {1, 2}
            assert firsts[8] in (0, 255)
            assert lost == firsts[:8].count(1) + (firsts[8] == 255)
            seen.add(firsts)
        assert image.read_bytes() == block(1, 8) + block(255, BLOCKS - 8)
    assert len(seen) > 20


def test_a_forced_write_is_there_at_once(image: Path, tmp_path: Path) -> None:
    replay = Replay(image, log(tmp_path / "log", [(FUA, 0, block(1, 4))]), BLOCKS * BLOCK)
    for seed in range(10):
        with replay.cut(1, seed) as lost:
            assert (lost, image.read_bytes()[: 4 * BLOCK]) == (0, block(1, 4))


def test_a_large_discard_that_was_not_flushed_leaves_the_old_contents(image: Path, tmp_path: Path) -> None:
    size = UNDO + (1 << 20)
    replay = Replay(image, log(tmp_path / "log", [(DISCARD, 0, size), (FLUSH, 0, b"")]), size)
    with replay.cut(1, 1):
        assert image.read_bytes()[: BLOCKS * BLOCK] == block(255, BLOCKS)
    with replay.cut(2, 1):
        pass
    with replay.cut(2, 1):
        assert not any(image.read_bytes()[: BLOCKS * BLOCK])


def test_an_entry_that_is_not_complete_ends_the_log(tmp_path: Path) -> None:
    made = log(tmp_path / "log", [(0, 0, block(1)), (0, BLOCK, block(2))])
    whole = made.read_bytes()
    for cut in (1, BLOCK, BLOCK + SECTOR - 1, BLOCK + SECTOR):
        made.write_bytes(whole[:-cut])
        assert len(read_log(made)) == 1
    made.write_bytes(b"no log" * 100)
    with pytest.raises(ValueError, match="is no log"):
        read_log(made)


def test_a_position_in_the_log_is_a_moment(image: Path, tmp_path: Path) -> None:
    made = log(tmp_path / "log", [(0, 0, block(1))])
    first = made.stat().st_size
    made = log(tmp_path / "log", [(0, 0, block(1)), (FLUSH, 0, b"")])
    replay = Replay(image, made, BLOCKS * BLOCK)
    assert [replay.index(at) for at in (0, first - 1, first, made.stat().st_size)] == [0, 0, 1, 2]


ENTRIES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([0, 0, FUA]), st.integers(0, BLOCKS - 4), st.integers(1, 4)),
        st.tuples(st.just(FLUSH), st.just(0), st.just(0)),
        st.tuples(st.just(DISCARD), st.integers(0, BLOCKS - 4), st.integers(1, 4)),
    ),
    max_size=20,
)


@settings(deadline=None)
@given(entries=ENTRIES, data=st.data())
def test_each_block_has_contents_that_the_cut_allows(
    tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    (folder / "image").write_bytes(block(255, BLOCKS))
    made = [
        (flags, at * BLOCK, count * BLOCK if flags & DISCARD else block(number, count))
        for number, (flags, at, count) in enumerate(entries)
    ]
    replay = Replay(folder / "image", log(folder / "log", made), BLOCKS * BLOCK)
    moments = sorted(data.draw(st.lists(st.integers(0, len(entries)), max_size=5)))
    for moment in moments:
        possible = [{255} for _ in range(BLOCKS)]
        for number, (flags, at, count) in enumerate(entries[:moment]):
            if flags & FLUSH and not count:
                continue
            value = 0 if flags & DISCARD else number
            flushed = any(flag & FLUSH for flag, _, _ in entries[number:moment])
            for index in range(at, at + count):
                possible[index] = {value} if flushed or flags & FUA else possible[index] | {value}
        with replay.cut(moment, data.draw(st.integers(0, 99))):
            found = (folder / "image").read_bytes()
        for index, allowed in enumerate(possible):
            assert found[index * BLOCK : (index + 1) * BLOCK] in [block(value) for value in allowed]
