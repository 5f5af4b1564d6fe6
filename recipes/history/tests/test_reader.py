# SPDX-License-Identifier: Apache-2.0
"""A reader with a cache finds what a reader without one finds, which adds up row by row."""

import contextlib
import os
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from evenkeel_common.wear import Wear
from evenkeel_history import connections
from evenkeel_history import live as live_module
from evenkeel_history import reader as module
from evenkeel_history.cache import Cache, LastAnswers
from evenkeel_history.connections import Connections
from evenkeel_history.live import Answer, Live, Server
from evenkeel_history.period import READ, WRITE, Sum, pack
from evenkeel_history.reader import BLOCK, Found, Reader
from evenkeel_history.rows import add_up
from evenkeel_history.schema import DAMAGED, FILE
from evenkeel_history.store import Store
from evenkeel_history.testing import busy
from evenkeel_history.tiers import DAY, HOUR, MINUTE, slot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_rows import values as spot_values

START = 1_800_000_000 // (4 * DAY) * (4 * DAY)
ROWS = [pack(busy(seed, apps=["player", "loader"][: seed % 3])) for seed in range(7)]


def opened(folder: Path) -> Store:
    store = Store(folder)
    store.open()
    return store


def write(store: Store, starts: list[int]) -> None:
    last = store.last()
    store.write([(last + n, start, ROWS[(last + n) % len(ROWS)]) for n, start in enumerate(starts, 1)])


def found_by(
    reader: Reader, start: int, end: int, *, points: bool = False
) -> tuple[Found, dict[int, object]]:
    """What READER finds, without the points, and the values of its spots."""
    found = reader.read(start, end, points=points)
    values: dict[int, object] = {at: (spot.ms, spot_values(spot)) for at, spot in found.spots.items()}
    found.points, found.spots = {}, {}
    return found, values


SPANS = st.tuples(
    st.integers(0, 10 * DAY), st.sampled_from([HOUR, 2 * HOUR, DAY, 7 * DAY, 60 * DAY, 700 * DAY])
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    jumps=st.lists(st.tuples(st.integers(1, 200), st.integers(-2 * HOUR, 2 * DAY)), min_size=1, max_size=5),
    asked=st.lists(SPANS, min_size=1, max_size=4),
    running=st.lists(st.integers(-7000, 3000), max_size=60),
)
def test_the_cache_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    jumps: list[tuple[int, int]],
    asked: list[tuple[int, int]],
    running: list[int],
) -> None:
    """Also if the clock jumps, if rows are added meanwhile, and if a slot has rows in the database and in RAM."""
    folder = tmp_path_factory.mktemp("cached")
    store, at = opened(folder), START
    cached, plain = Reader(folder, folder, Cache()), Reader(folder, folder)
    minutes: list[tuple[int, bytes]] = []
    monkeypatch.setattr(module.live, "ask", lambda *_: Answer(minutes, []))
    for count, jump in jumps:
        write(store, [slot(at, 60) + 60 * n for n in range(count)])
        at += 60 * count
        minutes[:] = [(slot(at + late, 60), ROWS[n % 7]) for n, late in enumerate(running, count)]
        for _ in range(2):
            for back, length in asked:
                span = max(at - back % (10 * 60 * count), 0), max(at - back % (10 * 60 * count), 0) + length
                assert found_by(cached, *span) == found_by(plain, *span, points=True)
                assert cached.written(*span) == plain.written(*span)
        at += jump
    store.close()


@pytest.fixture
def cached(tmp_path: Path) -> Iterator[Reader]:
    """A reader whose database has three hours, and no minutes in RAM."""
    store = opened(tmp_path)
    write(store, [START + 60 * n for n in range(180)])
    store.close()
    server = Server(tmp_path / "live", Live())
    yield Reader(tmp_path, tmp_path / "live", Cache())
    server.close()


def break_all_rows(folder: Path) -> None:
    with sqlite3.connect(folder / FILE) as db:
        db.execute("UPDATE period_60 SET data = x'00'")
    db.close()


def test_a_row_is_decoded_once(tmp_path: Path, cached: Reader) -> None:
    """The rows are damaged after the first call, so that the second one can find its values in the cache only."""
    first = cached.read(START, START + HOUR)
    assert first.total.ms == 60 * 60_000
    break_all_rows(tmp_path)
    assert cached.read(START, START + HOUR) == first
    # of another span, the blocks at its ends are new
    other = cached.read(START + 120, START + HOUR)
    assert other.unreadable == BLOCK - 3
    assert other.total.ms == (60 - 2 - other.unreadable) * 60_000


def test_a_minute_in_ram_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the span moves on, but not the last half an hour, which has the minute that is running."""
    minutes = [(START + MINUTE * n, ROWS[n % 7]) for n in range(115)]
    monkeypatch.setattr(module.live, "ask", lambda *_: Answer(minutes, []))
    decoded: list[int] = []
    monkeypatch.setattr(
        module, "add_up", lambda rows, **more: decoded.append(len(rows)) or add_up(rows, **more)
    )
    reader = Reader(tmp_path, tmp_path, Cache())
    for span in ((START, START + 2 * HOUR), (START - 8 * DAY, START + DAY)):
        first = reader.read(*span)
        assert sum(decoded) == 115
        decoded.clear()
        assert reader.read(*span) == first
        assert sum(decoded) == 115 - 90
        decoded.clear()
    reader.read(START + HOUR, START + 3 * HOUR)
    assert sum(decoded) == 115 - 90


def test_the_written_bytes_of_a_day_are_decoded_once(tmp_path: Path, cached: Reader) -> None:
    first = cached.written(START, START + DAY)
    assert first.total.flows
    break_all_rows(tmp_path)
    assert cached.written(START, START + DAY) == first


def test_damaged_rows_are_counted_each_time(tmp_path: Path, cached: Reader) -> None:
    break_all_rows(tmp_path)
    for _ in range(2):
        assert cached.read(START, START + HOUR).unreadable == 60
        assert cached.written(START, START + DAY).unreadable == 10  # that no coarser row covers yet


def test_a_new_database_is_read_again(tmp_path: Path, cached: Reader) -> None:
    """Its rows have the same numbers and times as those of the old one."""
    first = cached.read(START, START + HOUR)
    (tmp_path / FILE).rename(tmp_path / DAMAGED)
    store = opened(tmp_path)
    one = Sum(ms=1000)
    one.flow(("new", "vda", WRITE)).bytes = 5
    store.write([(n, START + 60 * (n - 1), pack(one.period())) for n in range(1, 61)])
    store.close()
    second = cached.read(START, START + HOUR)
    assert second.spots.keys() == first.spots.keys()
    assert {app for app, _, _ in second.total.flows} == {"new"}
    assert {app for app, _, _ in cached.written(START, START + DAY).total.flows} == {"new"}


def save(live: Live, store: Store) -> None:
    minutes = live.unsaved(store.last())
    store.write(minutes)
    live.saved(len(minutes))


def sample(live: Live, at: int, amount: int = 1) -> None:
    second = Sum(ms=1000)
    second.flow(("player", "vda", READ)).bytes = amount
    live.add(at, second)


def test_a_short_chart_shows_the_minutes_before_a_restart_of_the_service(tmp_path: Path) -> None:
    """RAM has two minutes of its ten. Two minutes that were saved meanwhile do not count twice."""
    store, live = opened(tmp_path), Live()
    write(store, [START - 8 * 60 + 60 * n for n in range(8)])
    server, reader = Server(tmp_path / "live", live), Reader(tmp_path, tmp_path / "live")
    for second in range(130):
        sample(live, START + second)
    save(live, store)
    found = reader.read(START - 480, START + 130)
    by_second = reader.read(START, START + 130)
    server.close()
    store.close()
    assert (found.step, found.total.ms) == (60, (480 + 130) * 1000)
    assert (by_second.step, by_second.total.ms) == (1, 130_000)
    assert not found.problem


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    runs=st.lists(
        st.tuples(st.integers(1, 400), st.integers(-300, 400), st.booleans()), min_size=1, max_size=5
    ),
    asked=st.lists(st.tuples(st.integers(0, 1500), st.integers(60, 900)), min_size=1, max_size=4),
)
def test_each_sampled_second_of_a_short_chart_counts_once(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    runs: list[tuple[int, int, bool]],
    asked: list[tuple[int, int]],
) -> None:
    """Also if the service restarts, if the clock jumps, and after RAM has dropped its oldest seconds.

    RUNS: how many seconds are sampled, by how much the clock jumps then, and whether the service restarts.
    """
    monkeypatch.setattr(live_module, "LIVE_S", 250)
    folder = tmp_path_factory.mktemp("seconds")
    store, live, at, seconds = opened(folder), Live(), START, list[int]()
    monkeypatch.setattr(module.live, "ask", lambda _, request, __: live.answer(request))
    reader = Reader(folder, folder)
    for number, (count, jump, restart) in enumerate(runs):
        for second in range(at, at + count):
            sample(live, second, second - START + 10_000)
            seconds.append(second)
            if second % 90 == 0:
                save(live, store)
        for back, length in asked:
            start = at + count - back
            found = reader.read(start, start + length)
            begin = start
            if found.step == 60:
                begin, counted = slot(start, MINUTE), [slot(each, MINUTE) for each in seconds]
            else:
                counted = seconds
            expected = [
                second
                for second, when in zip(seconds, counted, strict=True)
                if begin <= when < start + length
            ]
            assert found.total.ms == 1000 * len(expected), (number, back, length)
            flow = found.total.flows.get(("player", "vda", READ))
            assert (flow.bytes if flow else 0) == sum(second - START + 10_000 for second in expected)
        at += count + jump
        if restart:
            live.close_minute()
            save(live, store)
            live = Live()
    store.close()


# ---- while the service commits ----

PAGE_S = 0.1  # the time in which a page must be shown; that of a chart is 0.3
FLUSH_S = 1.0  # how much longer a flush takes
SPANS_UNTIL_NOW = (600, HOUR, DAY, 700 * DAY)
SAVE = """
import sys, time
from pathlib import Path
from evenkeel_history.store import Store
from evenkeel_history.testing import busy
from evenkeel_history.period import pack
store = Store(Path(sys.argv[1]))
store.open()
last, data = store.last(), pack(busy(1))
print("begins", flush=True)
store.write([(last + n, int(sys.argv[2]) + 60 * n, data) for n in range(1, 121)])
print("saved", flush=True)
store.close()
"""


class Panel:
    """A reader as the panel has it. The service has sampled the last 700 s, and saved the minutes of 50 h before."""

    def __init__(self, folder: Path) -> None:
        self.now = int(time.time())
        store, self.live = opened(folder), Live()
        write(store, [slot(self.now, MINUTE) - 60 * n for n in range(3000, 12, -1)])
        store.write([], [Wear("vda", life_a=7)], self.now)
        store.close()
        for second in range(self.now - 700, self.now + 1):
            sample(self.live, second)
        self.server = Server(folder / "live", self.live)
        kept = Connections(folder / FILE, kept=1)
        self.reader = Reader(folder, folder / "live", Cache(), kept, LastAnswers())

    def ask(self) -> tuple[list[Found], list[float]]:
        """The answers about all spans until now, and how long each took. The last one is about the wear."""
        found, times = [], []
        for span in (*SPANS_UNTIL_NOW, None):
            before = time.monotonic()
            end = int(time.time()) + 1
            found.append(
                self.reader.read(end - span, end) if span else self.reader.written(end - 30 * DAY, end)
            )
            times.append(time.monotonic() - before)
        before = time.monotonic()
        assert self.reader.wear()["vda"][0][1].life_used == 7
        return found, [*times, time.monotonic() - before]


@pytest.fixture
def panel(tmp_path: Path) -> Iterator[Panel]:
    found = Panel(tmp_path)
    yield found
    found.server.close()


@contextlib.contextmanager
def commit(folder: Path) -> Iterator[None]:
    """The database is locked, as during a commit."""
    db = sqlite3.connect(folder / FILE, isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    yield
    db.close()


def test_no_page_waits_for_a_slow_flash(panel: Panel, tmp_path: Path) -> None:
    """The service saves two hours in the database, with four slow flushes. No answer waits for a single one.

    The median is compared with the time of a page: other programs share this machine.
    """
    library = tmp_path / "slow_sync.so"
    source = Path(__file__).with_name("slow_sync.c")
    subprocess.run(
        ["gcc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library, source], check=True
    )
    before, _ = panel.ask()
    assert [found.problem_code for found in before] == [""] * 5
    env = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "SLOW_MS": str(round(FLUSH_S * 1000)),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    start = str(slot(panel.now, MINUTE))
    with subprocess.Popen(
        [sys.executable, "-c", SAVE, tmp_path, start], env=env, stdout=subprocess.PIPE
    ) as save:
        assert save.stdout
        assert save.stdout.readline() == b"begins\n"
        waits = []
        while save.poll() is None:
            found, times = panel.ask()
            if [each.problem_code for each in found] == ["", *["history-saving"] * 4]:
                waits += times
            assert max(times) < FLUSH_S
        assert save.stdout.read() == b"saved\n"
    print(
        f"{len(waits)} answers, {statistics.median(waits) * 1000:.0f} ms, {max(waits) * 1000:.0f} ms at most"
    )
    assert len(waits) >= 18
    assert statistics.median(waits) < PAGE_S
    assert [found.problem_code for found in panel.ask()[0]] == [""] * 5


def test_the_last_answer_says_how_old_it_is(
    panel: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, _ = panel.ask()
    with commit(tmp_path):
        monkeypatch.setattr(module.time, "time", lambda: panel.now + 90.0)
        found = panel.reader.read(panel.now + 90 - HOUR, panel.now + 90)
    assert found.problem_code == "history-saving"
    assert 60 <= int(found.problem.removesuffix(" s")) <= 90
    assert (found.end, found.spots, found.total) == (before[1].end, before[1].spots, before[1].total)


def test_a_short_chart_needs_no_database(panel: Panel, tmp_path: Path) -> None:
    """Also without a last answer, and if it does not end now. It is complete, or waits for the database."""
    with commit(tmp_path):
        found = panel.reader.read(panel.now - 500, panel.now - 100)
        assert (found.step, found.total.ms, found.problem_code) == (1, 400_000, "")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connections, "WAIT_MS", 200)
            older = panel.reader.read(panel.now - 720, panel.now - 600)
        assert older.problem_code == "history-unreadable"
    older = panel.reader.read(panel.now - 720, panel.now - 600)
    assert older.problem_code == ""


def test_another_span_waits_for_the_commit(panel: Panel, tmp_path: Path) -> None:
    """The answer about a span until now is no answer about an earlier one of the same length, nor one with all flows."""
    panel.ask()
    with ThreadPoolExecutor(2) as pool:
        with commit(tmp_path):
            until = slot(panel.now, MINUTE) - HOUR
            earlier = pool.submit(panel.reader.read, until - HOUR, until)
            flows = pool.submit(panel.reader.read, panel.now - HOUR, panel.now, points=True)
            time.sleep(0.3)
            assert not earlier.done()
            assert not flows.done()
        assert earlier.result().total.ms == HOUR * 1000
        assert flows.result().points
        assert not earlier.result().problem + flows.result().problem


def test_an_old_answer_is_not_shown(panel: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    panel.ask()
    monkeypatch.setattr(connections, "WAIT_MS", 200)
    monkeypatch.setattr(module.time, "time", lambda: panel.now + module.LAST_S + 10.0)
    end = panel.now + module.LAST_S + 10
    with commit(tmp_path):
        assert panel.reader.read(end - HOUR, end).problem_code == "history-unreadable"


def test_a_service_that_was_killed_during_a_commit(panel: Panel, tmp_path: Path) -> None:
    """Nobody may read the database until the service starts again, and rolls the commit back."""
    panel.ask()
    db = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    db.execute("PRAGMA cache_size = 5")  # so that pages are written before the commit
    db.execute("BEGIN EXCLUSIVE")
    db.execute("UPDATE period_60 SET data = zeroblob(2000)")
    killed = {path: path.read_bytes() for path in tmp_path.glob(f"{FILE}*")}
    db.close()
    for path, content in killed.items():
        path.write_bytes(content)
    assert [each.problem_code for each in panel.ask()[0]] == ["", *["history-saving"] * 4]
    store = opened(tmp_path)
    assert [each.problem_code for each in panel.ask()[0]] == [""] * 5
    store.close()
