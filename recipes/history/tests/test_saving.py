# SPDX-License-Identifier: Apache-2.0
"""The saving thread of the service, step by step: what the log and the database have of each minute, and what that costs."""

import errno
import os
import sqlite3
import subprocess
from pathlib import Path

import pytest
from disks import data_partition, fill_up, small_disk
from evenkeel_agent.settings import Settings
from evenkeel_api.messages import Message
from evenkeel_history.minutes import SIZE
from evenkeel_history.period import Sum
from evenkeel_history.schema import DAMAGED, FILE, FOLDER, MINUTES
from evenkeel_history.service import LOGGED, SAVE_S, History
from evenkeel_history.store import Store, StoreError
from evenkeel_history.testing import busy, fill, total
from evenkeel_history.tiers import DAY

START = 1_800_000_000 // (4 * DAY) * (4 * DAY)
# the budgets with 16 busy apps: size of the files, and what the flash writes per day
SIZE_MB, WRITES_MB = 200, 20


class Board:
    """A board whose service samples and saves only when the test wants it. Each minute has another start."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / FOLDER.lstrip("/")
        self.sampled = 0
        self.boot()

    def boot(self) -> None:
        """Start the service, which saves at once. Without stop(), this is a power cut."""
        self.history = History(Settings(root=str(self.root)))
        self.save()

    def stop(self) -> None:
        self.history._store.close()
        self.history._log.close()

    def sample(self, minutes: int) -> None:
        for _ in range(minutes):
            self.sampled += 1
            self.history._live.add(60 * self.sampled, Sum(ms=1000))
        self.history._live.close_minute()

    def save(self) -> list[str]:
        """The problems that the service reports then."""
        self.history._try_to_save(last_time=False)
        return [problem.code for problem in self.history._problems]

    def save_in_database(self) -> list[str]:
        self.history._logged = LOGGED
        return self.save()

    @property
    def stored(self) -> list[int]:
        """The numbers of the minutes in the database."""
        with sqlite3.connect(self.folder / FILE) as db:
            starts = [start for (start,) in db.execute("SELECT start FROM period_60 ORDER BY seq")]
        db.close()
        return [start // 60 for start in starts]


def damage(database: Path) -> None:
    """Overwrite its header, also the count of changes: otherwise SQLite would not read it again."""
    with database.open("r+b") as file:
        file.write(b"not a database" * 8)


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path)


def upto(number: int) -> list[int]:
    return list(range(1, number + 1))


def test_of_thirty_saves_one_is_in_the_database(board: Board) -> None:
    for number in range(1, 62):
        board.sample(4)
        assert board.save() == []
        assert board.stored == upto(4 * (number // 30 * 30))


def test_a_power_cut_loses_no_minute_that_is_in_the_log(board: Board) -> None:
    for _ in range(3):
        board.sample(4)
        board.save()
    board.sample(3)
    board.boot()
    assert board.stored == upto(12)
    board.boot()
    assert board.stored == upto(12), "they are not saved again"


@pytest.mark.parametrize("committed", [False, True])
def test_a_power_cut_during_a_save_doubles_and_loses_nothing(
    board: Board, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """It comes just before or just after the end of the transaction."""
    board.sample(4)
    board.save()
    board.sample(2)

    class PowerCutError(Exception):
        pass

    write = Store._write

    def cut(store: Store, *arguments: object) -> None:
        if committed:
            write(store, *arguments)  # type: ignore[arg-type]
        raise PowerCutError

    with monkeypatch.context() as patch:
        patch.setattr(Store, "_write", cut)
        with pytest.raises(PowerCutError):
            board.save_in_database()
    board.boot()
    assert board.stored == upto(6 if committed else 4)


def test_minutes_of_the_log_are_shown_before_they_are_in_the_database(board: Board) -> None:
    board.sample(4)
    board.save()
    board.history = History(Settings(root=str(board.root)))
    board.history._open()
    assert board.stored == []
    assert [start // 60 for _, start, _ in board.history._live.unsaved(0)] == upto(4)


def test_on_a_full_disk_the_log_has_what_the_database_lacks(tmp_path: Path) -> None:
    disk = tmp_path / FOLDER.lstrip("/")
    disk.mkdir(parents=True)
    with small_disk(disk, "2m"):
        board = Board(tmp_path)
        board.sample(1)
        assert board.save() == []
        filler = fill_up(disk)
        number = 1
        while "history-not-saved" not in board.save_in_database():  # the database has some free pages
            number += 1
            board.sample(1)
        board.sample(4)
        assert "history-not-saved" in board.save()
        board.boot()  # a power cut
        filler.unlink()
        assert board.save() == []
        assert board.stored == upto(number + 4)
        board.stop()


def test_without_a_log_each_save_is_in_the_database(tmp_path: Path) -> None:
    """There is no space for the log. It does not take the last space from the database either."""
    disk = tmp_path / FOLDER.lstrip("/")
    disk.mkdir(parents=True)
    with small_disk(disk, f"{SIZE // 1024}k"):
        board = Board(tmp_path)
        for number in range(1, 4):
            board.sample(2)
            assert board.save() == []
            assert board.stored == upto(2 * number)
            assert (disk / MINUTES).stat().st_size == 0
        board.stop()


def test_a_log_that_cannot_be_synced_doubles_nothing(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record may be on the medium nevertheless."""

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    board.sample(2)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        assert board.save() == []
    assert board.stored == upto(2)
    board.boot()
    assert board.stored == upto(2)


def test_a_full_log_is_saved_in_the_database(board: Board) -> None:
    board.history._log._size = 2 * 4096
    for number in range(1, 10):
        board.sample(1)
        assert board.save() == []
        assert board.stored == upto(number // 3 * 3)


def test_the_log_restores_what_a_damaged_database_had(board: Board) -> None:
    """Its old records are still there. The new database has no note of them."""
    for _ in range(3):
        board.sample(2)
        board.save()
    board.save_in_database()
    board.stop()
    damage(board.folder / FILE)
    for _ in range(2):
        board.boot()
        assert (board.folder / DAMAGED).exists()
        assert board.stored == upto(6)


@pytest.mark.parametrize("logged", [0, 1, 2])
def test_damage_while_the_service_runs_and_a_power_cut_double_nothing(board: Board, logged: int) -> None:
    board.sample(2)
    board.save()
    board.save_in_database()
    for _ in range(logged):
        board.sample(2)
        board.save()
    damage(board.folder / FILE)
    assert board.save_in_database() == ["history-damaged"]
    for _ in range(2):
        assert board.stored == upto(2 + 2 * logged)
        board.boot()


def test_while_no_new_database_can_be_made_the_log_goes_on(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    board.sample(2)
    board.save()
    damage(board.folder / FILE)

    def fail(_: Store) -> None:
        raise StoreError(Message("history-not-saved", reason="a test"))

    with monkeypatch.context() as patch:
        patch.setattr(Store, "open", fail)
        for _ in range(3):
            board.sample(2)
            assert "history-not-saved" in board.save_in_database()
    board.boot()
    assert board.stored == upto(8)


def test_an_older_database_without_the_table_of_the_log_is_used(board: Board) -> None:
    board.sample(2)
    board.save_in_database()
    board.stop()
    with sqlite3.connect(board.folder / FILE) as db:
        db.execute("DROP TABLE log")
        db.execute("PRAGMA journal_mode = WAL")
    db.close()
    (board.folder / MINUTES).unlink(missing_ok=True)
    board.boot()
    assert board.stored == upto(2)
    assert not (board.folder / f"{FILE}-wal").exists()


def test_an_older_database_with_a_wal_that_is_being_read_is_used(board: Board) -> None:
    board.sample(2)
    board.save_in_database()
    board.stop()
    panel = sqlite3.connect(board.folder / FILE)
    panel.execute("PRAGMA journal_mode = WAL")
    panel.execute("SELECT * FROM period_60").fetchone()
    board.boot()
    board.sample(2)
    assert board.save_in_database() == []
    assert board.stored == upto(4)
    panel.close()


def test_size_and_writes_stay_within_their_budgets(tmp_path: Path) -> None:
    """A day's saves of 16 busy apps on a real file system: what its block device writes.

    In the next 40 s after a save, ext4 also writes inodes, and its journal. `sync` writes the same without the wait.
    """
    disk = tmp_path / "disk"
    disk.mkdir()
    minutes = [total([busy(seed)]) for seed in range(100, 148)]
    end = START + 730 * DAY
    with data_partition(disk, "1g") as counters:

        def written() -> int:
            """The bytes that the device has written, including all that it would write later."""
            subprocess.run(["sync", "--file-system", str(disk)], check=True)
            return int(counters.read_text().split()[6]) * 512

        history = History(Settings(root=str(disk)))
        history._open()
        fill(history._store, end)
        filled = history._store.last()

        def save(number: int) -> None:
            for minute in range(4 * number, 4 * number + 4):
                history._live.add(end + 60 * minute, minutes[minute % 48])
            history._save(last_time=False)
            written()

        for number in range(2):  # the second one makes the file of the log
            save(number)
        before, day = written(), round(DAY / SAVE_S)
        for number in range(2, 2 + day):
            save(number)
        writes = written() - before
        size = sum(path.stat().st_size for path in (disk / FOLDER.lstrip("/")).iterdir())
        history._save(last_time=True)
        assert history._store.last() == filled + 4 * (day + 2) - 1
        history._store.close()
        history._log.close()
    print(f"history: {size / 1e6:.1f} MB on disk, {writes / 1e6:.1f} MB written a day")
    assert size <= SIZE_MB * 1e6
    assert writes <= WRITES_MB * 1e6
