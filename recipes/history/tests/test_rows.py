# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S311  (random damage needs no cryptography)
"""The C code that adds up rows finds what Python code finds that adds up dicts; it refuses rows that are damaged."""

import random
import struct
import subprocess
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from evenkeel_common import iostat
from evenkeel_common.iostat import BUCKETS
from evenkeel_history import lanes, testing
from evenkeel_history.merged import Mix, Spot
from evenkeel_history.period import BLAME_BITS, COUNT_BITS, Period, Sum, long, pack, short, unzip
from evenkeel_history.rows import Added, add_up
from evenkeel_history.zstd import MAGIC, Decompressor, compress
from history_library import compile_c
from hypothesis import given, settings
from hypothesis import strategies as st
from test_period import SUM


def stored(measured: Sum) -> Sum:
    """MEASURED with the numbers that a Period of it has."""
    result = Sum()
    result.add(measured)
    for flow in result.flows.values():
        flow.latency = {n: long(short(count, COUNT_BITS), COUNT_BITS) for n, count in flow.latency.items()}
    result.blame = {pair: long(short(us, BLAME_BITS), BLAME_BITS) for pair, us in result.blame.items()}
    return result


def total(sums: Sequence[Sum]) -> Sum:
    """The sum of the rows that SUMS are stored as."""
    exact = Sum()
    for each in sums:
        exact.add(stored(each))
    return exact


def added(sums: Sequence[Sum], slots: Sequence[int] = (), **options: object) -> Added:
    """What the C code makes of SUMS. SLOTS: the slot of each one; without them, each has its own."""
    rows = [(at, pack(each.period())) for at, each in zip(slots or range(len(sums)), sums, strict=True)]
    return add_up(rows, **options)  # type: ignore[arg-type]


def values(spot: Spot) -> dict[str, tuple[int, int | None, int]]:
    """What SPOT has of each app with I/O."""
    found = {app: (spot.bytes(app), spot.p99_us(app), spot.bands(app)) for app in spot.apps}
    return {app: each for app, each in found.items() if each != (0, None, 0)}


def number(histogram: iostat.Histogram) -> lanes.Lanes:
    return sum(lanes.lanes(index, [lanes.chunk(count)]) for index, count in histogram.items())


def exact_spot(whole: Sum) -> tuple[int, dict[str, tuple[int, int | None, int]], int]:
    """The time, the values and the bands of all apps that a spot of WHOLE has."""
    latency: dict[str, Counter[int]] = {}
    moved = Counter[str]()
    for (app, _, _), flow in whole.flows.items():
        moved[app] += flow.bytes
        latency.setdefault(app, Counter()).update(flow.latency)
    found = {
        app: (moved[app], iostat.percentile(each, 99), lanes.bands(number(each)))
        for app, each in latency.items()
    }
    every = lanes.bands(number(sum(latency.values(), Counter())))
    return whole.ms, {app: each for app, each in found.items() if each != (0, None, 0)}, every


def seen(spot: Spot) -> tuple[int, dict[str, tuple[int, int | None, int]], int]:
    return spot.ms, values(spot), spot.bands(None)


SLOTTED = st.lists(st.tuples(SUM, st.integers(0, 3)), max_size=6)


@settings(deadline=None)
@given(SLOTTED)
def test_the_sum_and_the_spots_are_exact(given_: list[tuple[Sum, int]]) -> None:
    sums, slots = [each for each, _ in given_], [at for _, at in given_]
    found = added(sums, slots)
    assert found.total.sum() == total(sums)
    assert found.total.ms == sum(each.ms for each in sums)
    assert found.spots.keys() == set(slots)
    for at, spot in found.spots.items():
        assert seen(spot) == exact_spot(total([each for each, own in given_ if own == at]))
        assert (spot.bytes("none"), spot.p99_us("none"), spot.bands("none")) == (0, None, 0)
    assert (found.mixes, found.damaged) == ({}, [])


@settings(deadline=None)
@given(SLOTTED, st.integers(0, 6))
def test_a_mix_becomes_the_spot_of_all_its_rows(given_: list[tuple[Sum, int]], cut: int) -> None:
    mixes: dict[int, Mix] = {}
    for part in (given_[:cut], given_[cut:]):
        found = added([each for each, _ in part], [at for _, at in part], mixed=range(3))
        assert found.spots.keys() == {at for _, at in part if at == 3}
        for at, mix in found.mixes.items():
            mixes.setdefault(at, Mix()).add(mix)
    for at, mix in mixes.items():
        assert seen(mix.spot()) == exact_spot(total([each for each, own in given_ if own == at]))


@given(SUM)
def test_parts_can_be_left_out(measured: Sum) -> None:
    found = added([measured], spots=False, matrix=False)
    exact = stored(measured)
    exact.blame = {}
    assert found.total.sum() == exact
    assert found.spots == {}


@pytest.mark.parametrize("requests", [1, 7, 99, 100, 101, 12345, (1 << 32) - 2, 1 << 32, 1 << 50])
def test_many_requests(requests: int) -> None:
    """Percentiles at the limits of ranks, and bands whose counts have more than 4 bytes."""
    one = Sum(ms=1000)
    for app, bucket in (("player", 40), ("player", 47), ("loader", BUCKETS - 1)):
        flow = one.flow((app, "vda", len(app) % 2))
        flow.latency[bucket] = requests if bucket == 40 else max(requests // 99, 1)
    found = added([one, one], [0, 0])
    assert seen(found.spots[0]) == exact_spot(total([one, one]))


@pytest.mark.parametrize("slow", [0, 1, 2])
def test_a_percentile_is_the_nearest_rank(slow: int) -> None:
    """Of 100 requests, the 99th is slow only if two are. A row stores counts up to 31 exactly."""
    rows = []
    for bucket, count in [*[(40, 20)] * 4, (40, 20 - slow), (47, slow)]:
        one = Sum(ms=1000)
        one.flow(("player", "vda", 0)).latency = {bucket: count} if count else {}
        rows.append(one)
    found = added(rows, [0] * len(rows))
    assert found.spots[0].p99_us("player") == iostat.bucket_upper(47 if slow == 2 else 40)


def as_row(fields: object) -> bytes:
    return compress(msgspec.msgpack.encode(fields))


FLOW = [0, 0, 1, 10, 1, 0, 0, 0, 5, 40, 1]
# what is wrong → the fields of the period
WRONG = {
    "too few fields": [1, ["a"], ["d"], [], []],
    "too many fields": [1, ["a"], ["d"], [], [], [], []],
    "a text in place of a number": ["1", ["a"], ["d"], [], [], []],
    "a negative number": [-1, ["a"], ["d"], [], [], []],
    "a number in place of a name": [1, [1], ["d"], [], [], []],
    "a name that is no text": [1, [b"\xff"], ["d"], [], [], []],
    "a short flow": [1, ["a"], ["d"], [FLOW[:8]], [], []],
    "an app that does not exist": [1, ["a"], ["d"], [[1, *FLOW[1:]]], [], []],
    "a device that does not exist": [1, ["a"], ["d"], [[0, 1, *FLOW[2:]]], [], []],
    "a direction that does not exist": [1, ["a"], ["d"], [[0, 0, 2, *FLOW[3:]]], [], []],
    "a bucket that does not exist": [1, ["a"], ["d"], [[*FLOW[:9], 200, 1]], [], []],
    "a bucket far away": [1, ["a"], ["d"], [[*FLOW[:9], (1 << 64) - 1, 1]], [], []],
    "too many buckets": [1, ["a"], ["d"], [[*FLOW[:9], 150, *[1] * 51]], [], []],
    "a count that is too large": [1, ["a"], ["d"], [[*FLOW[:9], 40, 5000]], [], []],
    "a matrix of the wrong size": [1, ["a", "b"], ["d"], [FLOW], [1, 2, 3], []],
    "stalls without a time": [1, ["a"], ["d"], [FLOW], [], [0, 1]],
    "stalls of no app": [1, ["a"], ["d"], [FLOW], [], [1, 1, 1]],
    "a number in place of a list": [1, ["a"], ["d"], [FLOW], 7, []],
}
GOOD = pack(testing.busy(1))


@pytest.mark.parametrize("wrong", WRONG)
def test_a_damaged_row_is_left_out_as_a_whole(wrong: str) -> None:
    alone = add_up([(0, GOOD)])
    found = add_up([(0, GOOD), (0, as_row(WRONG[wrong])), (60, as_row(WRONG[wrong]))])
    assert sorted(found.damaged) == [1, 2]
    assert found.total.sum() == alone.total.sum()
    assert {at: seen(spot) for at, spot in found.spots.items()} == {0: seen(alone.spots[0])}


def test_rows_that_are_no_rows() -> None:
    cut = compress(unzip(GOOD)[:-1])
    more = compress(unzip(GOOD) + b"\x00")
    found = add_up([(n, data) for n, data in enumerate((b"", b"\x00", GOOD[:-1], cut, more, as_row(None)))])
    assert sorted(found.damaged) == list(range(6))
    assert found.total.sum() == Sum()
    assert found.spots == {}


def test_rows_with_too_many_names_are_left_out() -> None:
    """Their sums would need gigabytes of memory."""
    apps = [f"app-{number}" for number in range(70_000)]
    rows = [as_row([1, apps, ["d"], [], [], []]), as_row([1, apps[:300], apps[:20], [], [], []]), GOOD]
    found = add_up([(0, row) for row in rows])
    assert sorted(found.damaged) == [0, 1]
    assert found.total.sum() == add_up([(0, GOOD)]).total.sum()


def test_no_rows() -> None:
    assert add_up([]).total.sum() == Sum()


def mutants(count: int, draw: random.Random) -> list[bytes]:
    """Periods with damaged bytes, as msgpack."""
    texts = [
        msgspec.msgpack.encode(testing.busy(seed, apps=["player", "loader"][: seed % 3])) for seed in range(6)
    ]
    found = []
    for _ in range(count):
        text = bytearray(draw.choice(texts))
        for _ in range(draw.randint(0, 3)):
            at = draw.randint(0, min(len(text), draw.choice([40, len(text)])))
            text[at : at + draw.randint(0, 2)] = draw.choice(
                [b"", b"\x00", b"\xcf", b"\xdc", b"\xdd", b"\xdb", b"\xff" * 4, draw.randbytes(2)]
            )
        found.append(bytes(text[: draw.choice([len(text)] * 5 + [draw.randint(0, len(text))])]))
    return found


def test_damaged_periods_are_read_within_their_memory(tmp_path: Path) -> None:
    """The address sanitizer watches. What is accepted adds up to the same bytes and requests as in Python."""
    program = tmp_path / "add_periods"
    compile_c(program, str(Path(__file__).with_name("add_periods.c")), "-fsanitize=address,undefined")
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    periods = mutants(4000, random.Random(seed))
    data = b"".join(struct.pack("<I", len(each)) + each for each in periods)
    done = subprocess.run([program], input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    accepted = 0
    for period, line in zip(periods, done.stdout.decode().splitlines(), strict=True):
        if line == "-1":
            continue
        accepted += 1
        size, ios = map(int, line.split())
        try:
            found = msgspec.msgpack.decode(period, type=Period)
        except UnicodeDecodeError:  # a name is no text, which add_up() notices
            continue
        assert size == sum(row[3] for row in found.flows) % (1 << 64)
        assert ios == sum(row[4] for row in found.flows) % (1 << 64)
    assert 500 < accepted < 3500
    print(f"{accepted} periods are accepted")


def test_a_damaged_row_is_noticed() -> None:
    chance = random.Random(11)
    rows = [pack(testing.busy(seed, 60_000)) for seed in range(4)]
    texts = [unzip(row) for row in rows]
    with Decompressor(1 << 16) as room:
        assert [room.decompress(row) for row in rows] == texts
        for bad in (b"x", MAGIC, rows[0] + b"x", rows[0] + rows[1][:-1]):
            assert room.decompress(bad) is None
        for _ in range(5000):
            row = chance.choice(rows)
            damaged = bytearray(row)
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            assert room.decompress(bytes(damaged)) in (None, unzip(row))
            assert room.decompress(row[: chance.randrange(1, len(row))]) is None


def test_a_row_of_an_older_version_is_read() -> None:
    old = zlib.compress(unzip(GOOD))
    assert unzip(old) == unzip(GOOD)
    assert add_up([(0, old)]).total.sum() == add_up([(0, GOOD)]).total.sum()


def test_a_row_that_is_longer_than_the_room_is_read() -> None:
    data = pack(testing.busy(1, 60_000))
    length = len(unzip(data))
    for lack in (True, False):
        with Decompressor(length - lack) as room:
            assert room.decompress(data) == (None if lack else unzip(data))
    apps = [f"app-{number}-{'x' * 60}" for number in range(200)]
    many = pack(testing.busy(1, 60_000, apps))
    assert len(unzip(many)) > 1 << 16
    assert not add_up([(0, many)]).damaged
