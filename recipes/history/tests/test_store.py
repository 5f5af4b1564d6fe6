# SPDX-License-Identifier: Apache-2.0
"""history.db survives kills, damage, a full disk and clock jumps, and keeps its budgets of size and of writes per day."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from disks import fill_up, small_disk
from evenkeel_history.period import READ, WRITE, Sum, pack
from evenkeel_history.reader import Found, Reader
from evenkeel_history.schema import DAMAGED, FILE
from evenkeel_history.store import Store, StoreError
from evenkeel_history.testing import busy
from evenkeel_history.tiers import DAY, HOUR, TIERS, slot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

START = 1_800_000_000 // (4 * DAY) * (4 * DAY)


def minute(amount: int) -> bytes:
    measured = Sum(ms=60_000)
    flow = measured.flow(("player", "vda", READ))
    flow.bytes, flow.ios, flow.latency = amount, 1, {amount % 100: 1}
    return pack(measured.period())


def opened(folder: Path, **options: int) -> Store:
    store = Store(folder, **options)
    store.open()
    return store


def write(store: Store, starts: list[int], first: int = 1) -> None:
    last = store.last()
    store.write([(last + n, start, minute(first + n - 1)) for n, start in enumerate(starts, 1)])


def read(folder: Path, start: int, end: int) -> Found:
    """The history that the panel reads while the service is stopped."""
    return Reader(folder, folder / "no-socket").read(start, end)


def all_bytes(found: Found) -> int:
    return sum(flow.bytes for flow in found.total.flows.values())


def test_minutes_become_coarser_rows(tmp_path: Path) -> None:
    store = opened(tmp_path)
    starts = [START + 60 * n for n in range(500)]
    for at in range(0, 500, 4):
        write(store, starts[at : at + 4], at)
    db = sqlite3.connect(tmp_path / FILE)
    for tier, rows in zip(TIERS, (500, 49, 8, 0, 0), strict=True):
        assert db.execute(f"SELECT count(*) FROM {tier.table}").fetchone()[0] == rows  # noqa: S608
    # each minute counts once, whatever the resolution
    for span in (200 * 60, DAY, 7 * DAY, 60 * DAY, 729 * DAY):
        found = read(tmp_path, START, START + span)
        minutes = min(500, span // 60)
        assert all_bytes(found) == sum(range(minutes))
        assert found.total.ms == minutes * 60_000
    assert found.problem_code == "history-live-silent"


def test_it_does_not_matter_how_many_minutes_a_save_has(tmp_path: Path) -> None:
    """The same coarser rows, also if the clock jumps."""
    starts = [START + 60 * n for n in range(700)] + [START + 6 * HOUR + 60 * n for n in range(500)]
    found = []
    for minutes in (4, 120, 1200):
        store = opened(tmp_path / str(minutes))
        for at in range(0, len(starts), minutes):
            write(store, starts[at : at + minutes], at)
        store.close()
        with sqlite3.connect(tmp_path / str(minutes) / FILE) as db:
            found.append([db.execute(f"SELECT * FROM {tier.table}").fetchall() for tier in TIERS])  # noqa: S608
        db.close()
    assert found[0] == found[1] == found[2]
    assert len(found[0][2]) > 10


def test_written_bytes_by_day_count_each_minute_once(tmp_path: Path) -> None:
    """Three days, of which the last is only partly in coarser rows. Reads do not count as written."""
    store = opened(tmp_path)
    minutes = 3 * DAY // 60 - 7
    for first in range(0, minutes, 720):
        rows = []
        for n in range(first, min(first + 720, minutes)):
            measured = Sum(ms=60_000)
            measured.flow(("player", "vda", WRITE)).bytes = n
            measured.flow(("", "vda", WRITE)).bytes = 1
            measured.flow(("player", "vda", READ)).bytes = 1 << 40
            rows.append((n + 1, START + 60 * n, pack(measured.period())))
        store.write(rows)
    found = Reader(tmp_path, tmp_path / "no-socket").written(START + DAY + 5, START + 9 * DAY)
    assert sorted(found.points) == [START + DAY, START + 2 * DAY]
    for day, count in ((1, 1440), (2, 1433)):
        point = found.points[START + day * DAY]
        assert {key: flow.bytes for key, flow in point.flows.items()} == {
            ("player", "vda", WRITE): sum(range(day * 1440, day * 1440 + count)),
            ("", "vda", WRITE): count,
        }
        assert point.ms == count * 60_000
    assert found.total.ms == (1440 + 1433) * 60_000


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(jumps=st.lists(st.tuples(st.integers(1, 30), st.integers(-2 * DAY, 2 * DAY)), min_size=1, max_size=8))
def test_clock_jumps_lose_and_double_nothing(
    tmp_path_factory: pytest.TempPathFactory, jumps: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("jumps")
    store, at, count = opened(folder), START + 20 * DAY, 0
    for minutes, jump in jumps:
        write(store, [slot(at, 60) + 60 * n for n in range(minutes)], count)
        count += minutes
        at += 60 * minutes + jump
    for span in (300 * DAY, 720 * DAY):
        found = read(folder, START, START + span)
        assert (all_bytes(found), found.total.ms) == (sum(range(count)), count * 60_000)
    store.close()


def test_a_clock_far_ahead_removes_nothing(tmp_path: Path) -> None:
    store = opened(tmp_path)
    write(store, [START, START + 60])
    write(store, [START + 3000 * DAY])
    assert all_bytes(read(tmp_path, START, START + HOUR)) == 3


def test_old_rows_are_removed_only_when_they_are_in_a_coarser_row(tmp_path: Path) -> None:
    store = opened(tmp_path)
    amount = TIERS[0].rows + 100
    for at in range(0, amount, 1440):
        write(store, [START + 60 * n for n in range(at, min(at + 1440, amount))], at)
    db = sqlite3.connect(tmp_path / FILE)
    kept, newest = db.execute("SELECT count(*), max(seq) FROM period_60").fetchone()
    assert TIERS[0].rows <= kept <= TIERS[0].rows + 100
    assert newest == amount
    assert all_bytes(read(tmp_path, START, START + 60 * DAY)) == sum(range(amount))


def test_a_short_span_long_ago_is_read_from_coarser_rows(tmp_path: Path) -> None:
    """The minutes of this time are removed. The rows of 10 minutes that cover it are still there."""
    store = opened(tmp_path)
    amount = TIERS[0].rows + 200
    for at in range(0, amount, 1440):
        write(store, [START + 60 * n for n in range(at, min(at + 1440, amount))], at)
    found = read(tmp_path, START + 15 * 60, START + 25 * 60)
    assert (found.start, found.end, found.step) == (START + 600, START + 1800, 600)
    assert all_bytes(found) == sum(range(10, 30))
    # the minutes after this time are still shown by minutes, also if the span begins before the first one
    kept = START + 60 * amount - 600
    assert read(tmp_path, kept, kept + 600).step == 60
    assert read(tmp_path, START - 300, START + 60).step == 600


@pytest.mark.parametrize("wrong", [0, 2_000_000_000])
@pytest.mark.parametrize("day", [0, 8])
def test_a_spell_with_a_wrong_clock_hides_nothing(tmp_path: Path, day: int, wrong: int) -> None:
    """For half an hour of DAY, the clock is in 1970 or in the future. Later, the minutes of the first days are removed."""
    store = opened(tmp_path)
    for start in range(16):
        if start == day:
            write(store, [slot(wrong, 60) + 60 * n for n in range(30)])
        write(store, [START + start * DAY + 60 * n for n in range(1440)], start)
    for start, step in ((1, 600), (12, 60)):
        found = read(tmp_path, START + start * DAY, START + start * DAY + 3 * HOUR)
        assert (found.step, found.total.ms) == (step, 3 * HOUR * 1000)


def test_a_new_board_is_shown_by_minutes(tmp_path: Path) -> None:
    """Its first row of 10 minutes begins before its first minute, but has no older data."""
    write(opened(tmp_path), [START + HOUR * 5 + 300 + 60 * n for n in range(100)])
    found = read(tmp_path, START + HOUR * 4, START + HOUR * 6)
    assert (found.step, all_bytes(found)) == (60, sum(range(1, 56)))


WRITER = """
import sys
sys.path[:0] = sys.argv[2:]
from test_store import START, opened, write
from pathlib import Path
store = opened(Path(sys.argv[1]))
print("open", flush=True)
while True:
    at = store.last()
    write(store, [START + 60 * n for n in range(at, at + 4)], at)
    print(at + 4, flush=True)
"""


@pytest.mark.parametrize("delay", [0.0, 0.003, 0.01, 0.03, 0.1, 0.3])
def test_a_kill_loses_nothing_that_was_saved(tmp_path: Path, delay: float) -> None:
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), *sys.path], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        time.sleep(delay)
        writer.send_signal(signal.SIGKILL)
        reported = [int(line) for line in writer.stdout if line.endswith("\n")]
        writer.wait()
        saved = reported[-1] if reported else 0
        store = opened(tmp_path)
        assert not store.set_aside
        count = store.last()
        assert saved <= count <= saved + 4 or not reported
        assert count % 4 == 0
        found = read(tmp_path, START, START + 300 * DAY)
        assert (all_bytes(found), found.total.ms) == (sum(range(count)), count * 60_000)
        store.close()


KILLED_IN_COMMIT = """
import os, sys
sys.path[:0] = sys.argv[2:]
from test_store import START, opened
from pathlib import Path
store = opened(Path(sys.argv[1]))
store._db.execute("PRAGMA cache_size = 1")  # so that changed pages are written before the end of the transaction
store._db.execute("BEGIN")
store._db.execute("UPDATE period_60 SET start = start + 7, data = data || zeroblob(3000)")
os._exit(0)
"""


def test_a_kill_during_a_commit_is_undone_at_the_next_start(tmp_path: Path) -> None:
    """Until then, readers report that they cannot read. They must not show half a save."""
    store = opened(tmp_path)
    write(store, [START + 60 * n for n in range(500)])
    store.close()
    before = (tmp_path / FILE).read_bytes()
    subprocess.run([sys.executable, "-c", KILLED_IN_COMMIT, str(tmp_path), *sys.path], check=True)
    assert (tmp_path / FILE).read_bytes() != before
    found = read(tmp_path, START, START + HOUR)
    assert (found.problem_code, found.total.ms) == ("history-unreadable", 0)
    store = opened(tmp_path)
    assert (store.set_aside, store.last()) == ("", 500)
    assert all_bytes(read(tmp_path, START, START + HOUR)) == sum(range(1, 61))
    store.close()


def damage_header(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"not a database, this is")


def damage_pages(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(24)
        file.write(os.urandom(4))  # another count of changes, so that SQLite reads the pages again
        for page in range(1, path.stat().st_size // 1024):
            file.seek(page * 1024)
            file.write(os.urandom(64))


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 + 7)


def another_program(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE mine (x)")


def newer(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize("damage", [damage_header, damage_pages, truncate, another_program, newer])
def test_a_damaged_database_is_set_aside_and_replaced(tmp_path: Path, damage: object) -> None:
    store = opened(tmp_path)
    write(store, [START + 60 * n for n in range(100)])
    store.close()
    damage(tmp_path / FILE)  # type: ignore[operator]
    before = (tmp_path / FILE).read_bytes()
    store = opened(tmp_path)
    assert store.set_aside
    assert store.last() == 0
    assert [problem.code for problem in store.problems] == ["history-damaged"]
    assert (tmp_path / DAMAGED).read_bytes()[100:] == before[100:]
    write(store, [START])
    assert all_bytes(read(tmp_path, START, START + HOUR)) == 1
    store.close()
    # after a restart, the damage is still reported; if the file is older than a month, write() deletes it
    store = opened(tmp_path)
    assert store.problems
    os.utime(tmp_path / DAMAGED, (0, 0))
    write(store, [START + 60])
    assert not store.problems
    assert not (tmp_path / DAMAGED).exists()


def test_damage_while_the_service_runs(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for n in range(0, 2000, 4):
        write(store, [START + 60 * m for m in range(n, n + 4)])
    damage_pages(tmp_path / FILE)
    replaced = any(store.write([(store.last() + 1, START + 60 * (2000 + n), minute(1))]) for n in range(100))
    assert replaced
    assert store.last() == 0
    assert (tmp_path / DAMAGED).exists()
    write(store, [START])


@pytest.mark.parametrize("data", ["x'00'", "'text'", "CAST(x'ff' AS TEXT)", "5", "1.5"])
def test_a_row_that_cannot_be_decoded_is_left_out(tmp_path: Path, data: str) -> None:
    store = opened(tmp_path)
    write(store, [START + 60 * n for n in range(5)])
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute(f"UPDATE period_60 SET data = {data} WHERE seq = 3")  # noqa: S608
    db.close()
    write(store, [START + 600])
    found = read(tmp_path, START, START + HOUR)
    assert (all_bytes(found), found.unreadable) == (1 + 2 + 4 + 5 + 1, 1)
    assert all_bytes(read(tmp_path, START, START + 4 * DAY)) == 1 + 2 + 4 + 5 + 1


def test_a_full_database_drops_its_oldest_minutes(tmp_path: Path) -> None:
    limit = 400_000
    store = opened(tmp_path, limit=limit)
    rows = [pack(busy(seed)) for seed in range(8)]
    for n in range(0, 800, 4):
        last = store.last()
        store.write([(last + m, START + 60 * (n + m), rows[(n + m) % 8]) for m in range(1, 5)])
    assert (tmp_path / FILE).stat().st_size <= limit
    assert store.last() == 800
    assert len(read(tmp_path, START, START + 820 * 60).spots) > 0


def test_a_full_disk_loses_nothing_and_recovers(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with small_disk(disk, "1m"):
        store = opened(disk)
        write(store, [START + 60 * n for n in range(8)])
        filler = fill_up(disk)
        minutes = [(store.last() + n, START + 60 * (7 + n), pack(busy(n))) for n in range(1, 40)]
        with pytest.raises(StoreError, match="the disk is full"):
            store.write(minutes)
        assert store.last() == 8
        assert all_bytes(read(disk, START, START + HOUR)) == 36
        filler.unlink()
        assert not store.write(minutes)
        assert store.last() == 47
        store.close()


def test_a_read_only_folder_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "file"
    folder.write_text("")
    with pytest.raises(StoreError, match="cannot be saved"):
        opened(folder)
