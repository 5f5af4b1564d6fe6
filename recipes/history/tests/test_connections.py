# SPDX-License-Identifier: Apache-2.0
"""A kept connection reads what was written meanwhile, and never a file that was replaced."""

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from evenkeel_history.connections import Connections


def write(path: Path, number: int) -> None:
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = PERSIST")
    db.execute("CREATE TABLE IF NOT EXISTS one (number)")
    db.execute("INSERT INTO one VALUES (?)", (number,))
    db.commit()
    db.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write(tmp_path / "a.db", 1)
    return tmp_path / "a.db"


@pytest.fixture
def kept(path: Path) -> Iterator[Connections]:
    found = Connections(path, kept=1)
    yield found
    found.close()


def numbers(connections: Connections) -> tuple[sqlite3.Connection, list[int]]:
    db, file = connections.take()
    found = [number for (number,) in db.execute("SELECT number FROM one")]
    connections.give(db, file)
    return db, found


def test_a_connection_is_used_again_and_sees_what_is_new(path: Path, kept: Connections) -> None:
    first, found = numbers(kept)
    assert found == [1]
    write(path, 2)
    assert numbers(kept) == (first, [1, 2])


def test_another_thread_may_use_it(kept: Connections) -> None:
    first, _ = numbers(kept)
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(numbers(kept)))
    thread.start()
    thread.join()
    assert found == [(first, [1])]


def test_a_new_file_is_opened(path: Path, kept: Connections) -> None:
    first, _ = numbers(kept)
    for file in path.parent.glob("a.db*"):
        file.rename(path.parent / f"old-{file.name}")
    write(path, 7)
    db, found = numbers(kept)
    assert found == [7]
    assert db is not first


def test_what_failed_is_not_used_again(kept: Connections) -> None:
    db, _ = kept.take()
    kept.drop(db)
    again, _ = numbers(kept)
    assert again is not db
    with pytest.raises(sqlite3.ProgrammingError):
        db.execute("SELECT 1")


def test_no_more_than_wanted_are_kept(path: Path) -> None:
    for count in (0, 2):
        connections = Connections(path, kept=count)
        taken = [connections.take() for _ in range(3)]
        for each in taken:
            connections.give(*each)
        usable = 0
        for db, _ in taken:
            try:
                db.execute("SELECT 1")
                usable += 1
            except sqlite3.ProgrammingError:
                pass
        assert usable == count
        connections.close()


def test_a_file_that_is_replaced_while_it_is_opened_is_opened_again(
    kept: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = iter(["old", "new", "new", "new"])
    monkeypatch.setattr(Connections, "_file", lambda _: next(files))
    db, file = kept.take()
    kept.drop(db)
    assert (file, list(files)) == ("new", [])


def test_a_reader_waits_for_a_commit(path: Path, kept: Connections) -> None:
    numbers(kept)
    writer = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    writer.execute("INSERT INTO one VALUES (2)")
    commit = threading.Timer(0.5, writer.execute, ("COMMIT",))
    commit.start()
    assert numbers(kept)[1] == [1, 2]
    commit.join()
    writer.close()


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError):
        Connections(tmp_path / "none.db", kept=1).take()
