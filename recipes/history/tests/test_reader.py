# SPDX-License-Identifier: Apache-2.0
"""A reader with a cache finds what a reader without one finds, which adds up row by row."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from evenkeel_history import live as live_module
from evenkeel_history import reader as module
from evenkeel_history.cache import Cache
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
