# SPDX-License-Identifier: Apache-2.0
"""The log of the minutes that are not in the database: no minute is lost or counts twice, whatever happens."""

import os
from pathlib import Path

import pytest
from evenkeel_history.minutes import BLOCK, MinuteLog, record, records
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

BLOCKS = 12


class Model:
    """What the service and its database have of the minutes, which are numbers. A power cut ends the service."""

    def __init__(self, path: Path) -> None:
        self.path, self.next = path, 1
        self.database: set[int] = set()
        self.saved = 0  # the generation in the database
        self.damaged = False  # whether the log has been damaged: then it may lack minutes
        self.durable: set[int] = set()  # the minutes that must survive a power cut
        self.start()

    def start(self) -> None:
        self.log = MinuteLog(self.path, BLOCKS * BLOCK)
        self.unsaved = [start for start, data in self.log.read(self.saved) if self.check(start, data)]
        self.unlogged: list[int] = []
        self.kept: list[int] = []  # saved minutes that are still in RAM
        everything = [*self.database, *self.unsaved]
        assert len(everything) == len(set(everything)), "a minute counts twice"
        if not self.damaged:
            assert self.durable <= set(everything)
        self.durable = set(everything)

    @staticmethod
    def content(start: int) -> bytes:
        """One to three blocks of records are made of these."""
        return bytes([start % 256]) * (start * 997 % 6000)

    def check(self, start: int, data: bytes) -> bool:
        assert data == self.content(start)
        return True

    def sample(self, count: int) -> None:
        new = list(range(self.next, self.next + count))
        self.next += count
        self.unsaved += new
        self.unlogged += new

    def append(self) -> bool:
        if done := self.log.append([(start, self.content(start)) for start in self.unlogged]):
            self.durable |= set(self.unlogged)
            self.unlogged = []
        return done

    def append_torn(self, blocks: int) -> None:
        """A power cut during an append. BLOCKS: the bits of those blocks of the file that have reached the medium."""
        before = self.path.read_bytes() if self.path.exists() else b""
        durable = set(self.durable)
        self.append()
        after = self.path.read_bytes() if self.path.exists() else b""
        mix = [
            (after if blocks >> at // BLOCK & 1 else before.ljust(len(after), b"\0"))[at : at + BLOCK]
            for at in range(0, len(after), BLOCK)
        ]
        self.path.write_bytes(b"".join(mix))
        self.durable = durable
        self.cut()

    def append_unsynced(self, monkeypatch: pytest.MonkeyPatch, written: bool) -> None:
        def fail(*_: object) -> None:
            raise OSError

        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync" if written else "pwrite", fail)
            assert not self.unlogged or not self.append()

    def save(self) -> None:
        generation = self.log.seal()
        self.commit(generation)
        self.log.restart()

    def commit(self, generation: int) -> None:
        self.database |= set(self.unsaved)
        self.durable |= self.database
        self.saved = generation
        self.kept, self.unsaved, self.unlogged = self.kept + self.unsaved, [], []

    def cut(self) -> None:
        self.log.close()
        self.start()

    def lose_database(self) -> None:
        """The service starts with a new database."""
        self.durable -= self.database
        self.database, self.saved = set(), 0
        self.cut()

    def replace_database(self) -> None:
        """The database is damaged while the service runs."""
        self.durable -= self.database
        self.database, self.saved = set(), 0
        self.kept, self.unsaved, self.unlogged = [], self.kept + self.unsaved, self.kept + self.unlogged

    def damage(self, at: int, byte: int) -> None:
        """Change or cut off the file at a byte, during a power cut."""
        if self.path.exists():
            data = bytearray(self.path.read_bytes())
            at %= len(data) or 1
            if byte:
                data[at : at + 1] = bytes([data[at] ^ byte]) if data else b""
            else:
                del data[at:]
            self.path.write_bytes(data)
        self.damaged = True
        self.cut()
        self.damaged = False


number = st.integers(0, 1 << BLOCKS)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 4)),
        st.tuples(st.just("save"), st.integers(0, 4)),
        st.tuples(st.just("fails"), st.integers(0, 4)),
        st.tuples(st.just("commits, and a power cut"), st.integers(0, 4)),
        st.tuples(st.just("torn"), number),
        st.tuples(st.just("unsynced"), number),
        st.tuples(st.just("cut"), st.integers(0, 4)),
        st.tuples(st.just("new database"), number),
        st.tuples(st.just("database replaced"), number),
        st.tuples(st.just("damage"), st.integers(0, BLOCKS * BLOCK * 256)),
    ),
    max_size=30,
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
def test_no_minute_is_lost_or_counts_twice(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, steps: list[tuple[str, int]]
) -> None:
    model = Model(tmp_path_factory.mktemp("log") / "minutes")
    for name, value in steps:
        model.sample(value % 5)
        match name:
            case "append":
                model.append()
            case "save":
                model.save()
            case "fails":
                model.log.seal()
                model.append()
            case "commits, and a power cut":
                model.commit(model.log.seal())
                model.cut()
            case "torn":
                model.append_torn(value)
            case "unsynced":
                model.append_unsynced(monkeypatch, bool(value % 2))
            case "cut":
                model.cut()
            case "new database":
                model.lose_database()
            case "database replaced":
                model.replace_database()
            case "damage":
                model.damage(value // 256, value % 256)
    model.cut()
    model.log.close()


def test_an_append_never_touches_the_blocks_of_an_earlier_one(tmp_path: Path) -> None:
    """Otherwise a torn block would damage minutes that have been synced."""
    path = tmp_path / "minutes"
    log = MinuteLog(path)
    log.read(0)
    log.append([(60, b"a")])
    size, first = path.stat().st_size, path.read_bytes()[:BLOCK]
    for number in range(9):
        log.append([(120, b"b" * 1000 * number)])
        assert path.read_bytes()[:BLOCK] == first
    assert path.stat().st_size == size, "an append changes the size, so it must write metadata"
    log.close()


def test_old_records_after_a_new_one_do_not_count(tmp_path: Path) -> None:
    """Minutes of a database that was damaged later are appended again, because they are not in the new one."""
    minutes = [(60, b"a"), (120, b"b")]
    log = MinuteLog(tmp_path / "minutes")
    log.read(0)
    assert log.append(minutes[:1])
    assert log.append(minutes[1:])
    log.seal()
    log.restart()
    assert log.append(minutes)
    log.close()
    assert MinuteLog(tmp_path / "minutes").read(0) == minutes


def test_records_end_at_the_first_damage() -> None:
    data = b"".join(record(1, [(n, b"x" * 5000)]) for n in range(3))
    assert [minutes for _, _, minutes in records(data)] == [[(n, b"x" * 5000)] for n in range(3)]
    for at in range(0, 5000, 97):
        changed = bytearray(data)
        changed[at] ^= 1
        assert records(bytes(changed)) == []
    assert len(records(data[:-1])) == 3, "the padding of the last block"
    assert len(records(data[: 4 * BLOCK + 5000])) == 2


@pytest.mark.parametrize("content", [b"", b"\0" * BLOCK, b"ekhm", b"\xff" * 3 * BLOCK])
def test_a_file_without_records_has_no_minutes(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "minutes"
    path.write_bytes(content)
    log = MinuteLog(path)
    assert log.read(7) == []
    assert log.append([(60, b"a")])
    log.close()
    assert MinuteLog(path).read(7) == [(60, b"a")]
    assert MinuteLog(path).read(8) == []
