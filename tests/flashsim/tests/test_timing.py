# SPDX-License-Identifier: Apache-2.0
"""Property tests of flashsim's timing model, compiled for user space with UBSan."""

from __future__ import annotations

import math
import random
import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from timing import (  # noqa: E402
    DISCARD,
    FIGURES,
    FLUSH,
    KB,
    MB,
    MS,
    PARTS,
    READ,
    SRC,
    US,
    WRITE,
    Io,
    Model,
    Run,
    compiled,
    figure,
    scattered,
    sequential,
)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return compiled(
        tmp_path_factory.mktemp("timing"), "-O1", "-g", "-fsanitize=undefined,bounds", "-fno-sanitize-recover=all",
        "-static-libubsan",
    )  # fmt: skip


# a small flash device with round times: 10 us for a command, 100 us for a read, 1 ms for a program
FLASH = (
    "kind=flash,capacity_mb=1024,depth=32,active=32,channels=2,dies=2,planes=1,page_kb=16,chunk_kb=16,"
    "channel_mbps=400,t_r_us=100,t_prog_us=1000,t_erase_us=5000,cmd_us=10,cmd_write_us=10,flush_us=100,"
    "link_read_mbps=200,link_write_mbps=200,map_cache=0"
)


def small_page(mbps: int = 200) -> int:
    return 4 * KB * 1000 // mbps


# --- any device, any stream --------------------------------------------------

configurations = st.builds(
    lambda **kw: ",".join(f"{k}={v}" for k, v in kw.items()),
    kind=st.sampled_from(["flash", "flash", "flash", "disk", "link"]),
    capacity_mb=st.just(256),
    depth=st.just(64),
    active=st.sampled_from([1, 2, 32, 64]),
    link_duplex=st.integers(0, 1),
    channels=st.integers(1, 4),
    dies=st.integers(1, 3),
    planes=st.integers(1, 2),
    page_kb=st.sampled_from([4, 16]),
    chunk_kb=st.sampled_from([4, 16, 64]),
    block_pages=st.sampled_from([4, 64]),
    map=st.sampled_from(["stripe", "ranges"]),
    cmd_us=st.sampled_from([0, 20]),
    cmd_write_us=st.sampled_from([0, 50]),
    map_miss_us=st.sampled_from([0, 40]),
    map_cache=st.sampled_from([0, 1, 8]),
    buffer_kb=st.sampled_from([0, 512, 2048]),
    suspend_us=st.sampled_from([0, 20]),
    slc_kb=st.sampled_from([0, 1024]),
    gc_after_kb=st.sampled_from([0, 64, 4096]),
    channel_mbps=st.sampled_from([100, 400]),
    seed=st.integers(0, 3),
    jitter_pct=st.sampled_from([0, 0, 30]),
    jitter_tail_in=st.sampled_from([0, 20]),
    retry_in=st.sampled_from([0, 3]),
    wear_pct=st.sampled_from([0, 80]),
    full_pct=st.sampled_from([0, 95]),
    discard_us=st.sampled_from([0, 2000]),
    discard_group_us=st.sampled_from([0, 100]),
    discard_exclusive=st.integers(0, 1),
    bg_after_kb=st.sampled_from([0, 128]),
    bg_ms=st.just(3),
    bg_idle_ms=st.sampled_from([0, 5]),
    bg_stop_us=st.sampled_from([0, 700]),
    bg_most=st.sampled_from([0, 1, 8]),
    heat_mb=st.sampled_from([0, 1]),
    heat_pct=st.sampled_from([1, 50]),
)


@st.composite
def streams(draw: st.DrawFn) -> list[Io]:
    pick = random.Random(draw(st.integers(0, 2**32)))  # noqa: S311
    writes = draw(st.sampled_from([0.0, 0.3, 1.0]))
    pace = draw(st.sampled_from([0, 20 * US, 500 * US, 20 * MS]))
    ios, now = [], 0
    for _ in range(draw(st.integers(1, 120))):
        op = WRITE if pick.random() < writes else READ
        if pick.random() < 0.05:
            op = pick.choice([FLUSH, DISCARD])
        size = 0 if op == FLUSH else pick.choice([512, 4 * KB, 16 * KB, 100 * KB - 512, 512 * KB])
        pos = 0 if op == FLUSH else pick.randrange((256 * MB - size) // 512) * 512
        ios.append(Io(op, pos, size, now, fua=op == WRITE and pick.random() < 0.1))
        now += pick.randrange(pace + 1)
    return ios


@settings(max_examples=300, deadline=None)
@given(pairs=configurations, ios=streams())
def test_parts_sum_up_and_times_are_consistent(model: Model, pairs: str, ios: list[Io]) -> None:
    """Each request completes, none takes less time than its own work, and at most `active` requests run at a time."""
    run = model.run("", pairs, ios)  # checks that the parts sum up
    get = model.numbers(pairs)
    kind = model.value("", pairs, "kind")
    for io in run.io:
        assert io.done >= io.arrive
        if io.op in (READ, WRITE):
            mbps = get("link_read_mbps" if io.op == READ else "link_write_mbps")
            assert io.total >= io.bytes * 1000 // mbps
            if kind == "flash" and io.op == READ and not get("jitter_pct") + get("jitter_tail_in"):
                assert io.total >= get("t_r_us") * US
    by_order = sorted(run.io, key=lambda io: io.order)
    assert [io.done for io in by_order] == sorted(io.done for io in run.io)
    # at most `active` requests have begun and are not done
    active = 1 if kind == "disk" else get("active")
    some = [io for io in run.io if io.done > io.begin]
    events = sorted([(io.begin, 1) for io in some] + [(io.done, -1) for io in some])
    running = 0
    for _, step in events:
        running += step
        assert running <= active


@settings(max_examples=100, deadline=None)
@given(pairs=configurations, ios=streams(), late=st.integers(1, 10 * MS))
def test_a_caller_that_is_late_does_not_slow_the_device(
    model: Model, pairs: str, ios: list[Io], late: int
) -> None:
    again = [Io(io.op, io.pos, io.bytes, io.arrive, io.fua) for io in ios]
    prompt = [io.done for io in model.run("", pairs, ios).io]
    assert [io.done for io in model.run("", pairs, again, late=late).io] == prompt


@settings(max_examples=60, deadline=None)
@given(
    pairs=configurations, op=st.sampled_from([READ, WRITE]), size=st.integers(1, 127), pos=st.integers(0, 999)
)
def test_a_longer_request_is_never_faster(model: Model, pairs: str, op: int, size: int, pos: int) -> None:
    short = model.run("", pairs, [Io(op, pos * 4 * KB, size * 4 * KB)]).end
    assert model.run("", pairs, [Io(op, pos * 4 * KB, (size + 1) * 4 * KB)]).end >= short


@settings(max_examples=60, deadline=None)
@given(
    pairs=configurations,
    op=st.sampled_from([READ, WRITE]),
    size=st.sampled_from([4 * KB, 64 * KB, 512 * KB]),
    qd=st.sampled_from([1, 8, 64]),
    in_order=st.booleans(),
)
def test_throughput_is_bounded_by_link_channels_and_dies(
    model: Model, pairs: str, op: int, size: int, qd: int, in_order: bool
) -> None:
    # without heat and variation, because the mean of a few random times would prove nothing
    pairs += ",kind=flash,gc_after_kb=0,slc_kb=0,heat_mb=0,jitter_pct=0,jitter_tail_in=0"
    n = max(16, 16 * MB // size)
    ios = sequential(op, n, size) if in_order else scattered(op, n, size, 256 * MB)
    run = model.run("", pairs, ios, qd=qd)
    get = model.numbers(pairs)
    link = get("link_read_mbps" if op == READ else "link_write_mbps")
    # data that are still in the buffer when the last write is done have not used the channels
    moved = n * size - (get("buffer_kb") * KB if op == WRITE else 0)
    assert n * size * 1000 <= run.end * link + 1000 * link
    assert moved * 1000 <= run.end * get("channels") * get("channel_mbps") + 1000 * size
    if op == WRITE:
        unit = get("planes") * get("page_kb") * KB
        programs = -(-moved // unit) if moved > 0 else 0
        dies = get("channels") * get("dies")
        assert programs * get("t_prog_us") * US <= (run.end + get("t_prog_us") * US) * dies


# --- flash -------------------------------------------------------------------


def test_a_single_read_takes_the_sum_of_its_stages(model: Model) -> None:
    (io,) = model.run("", FLASH, [Io(READ, 0, 4 * KB)]).io
    assert io.part == {
        "cmd": 10 * US, "cell": 100 * US, "channel": 4 * KB * 1000 // 400, "link": small_page()
    }  # fmt: skip


def test_serial_commands_do_not_overlap(model: Model) -> None:
    for op in (READ, WRITE):
        run = model.run("", FLASH + ",active=1,buffer_kb=1024", scattered(op, 200, 4 * KB, MB), qd=32)
        end = 0
        for io in sorted(run.io, key=lambda io: io.order):
            assert io.begin == io.arrive + io.part.get("queue", 0) >= end
            end = io.done


def test_planned_requests_come_at_their_times_beside_a_closed_loop(model: Model) -> None:
    pairs = FLASH + ",active=1,buffer_kb=0"
    alone = model.run("", pairs, sequential(WRITE, 20, 64 * KB), qd=1, think=5 * US)
    times = [i * alone.end // 10 + 7 for i in range(20)]
    reads = [Io(READ, MB, 4 * KB, at) for at in times]
    run = model.run("", pairs, sequential(WRITE, 20, 64 * KB), qd=1, think=5 * US, planned=reads)
    begun = [io for io in reads if io.done]
    assert [io.arrive for io in reads] == times
    # the run ends with the closed loop, which the reads delay
    assert 10 <= len(begun) < 20
    assert alone.end < run.end
    assert all(io.done == 0 for io in reads if io.arrive > run.end)
    # the device serves one request at a time, and the loop sends the next write after the last one
    both = sorted([*run.io, *begun], key=lambda io: io.done)
    assert all(a.done <= b.begin for a, b in pairwise(both))
    assert all(b.arrive == a.done + 5 * US for a, b in pairwise(run.io))
    # without planned requests it is the same loop
    assert [
        io.done for io in model.run("", pairs, sequential(WRITE, 20, 64 * KB), qd=1, think=5 * US).io
    ] == [io.done for io in alone.io]


def test_sequential_reads_reach_the_rate_of_the_link(model: Model) -> None:
    run = model.run("", FLASH + ",channels=4", sequential(READ, 400, 512 * KB), qd=4)
    assert 0.98 * 200 <= run.mbps <= 200
    # if the channels are slower than the link, reads reach the rate of the channels
    slow = model.run("", FLASH + ",channels=1,dies=8,channel_mbps=50", sequential(READ, 100, 512 * KB), qd=4)
    assert 0.97 * 50 <= slow.mbps <= 50


def test_a_queue_keeps_the_dies_busy(model: Model) -> None:
    ios = [scattered(READ, 2000, 4 * KB, 512 * MB) for _ in range(3)]
    iops = [
        model.run("", FLASH + ",cmd_us=1", io, qd=qd).iops for io, qd in zip(ios, (1, 4, 32), strict=True)
    ]
    assert iops[0] < iops[1] < iops[2]
    # four dies work at once, and each takes 100 us plus the transfer
    assert iops[2] > 0.8 * 4 / 110e-6


def test_small_random_reads_miss_the_mapping(model: Model) -> None:
    pairs = FLASH + ",map_cache=8,map_miss_us=70,map_region_mb=4"
    rand = model.run("", pairs, scattered(READ, 500, 4 * KB, 1024 * MB), qd=1)
    seq = model.run("", pairs, sequential(READ, 500, 4 * KB), qd=1)
    assert seq.totals.map_misses == 1
    assert rand.totals.map_misses > 450
    assert rand.iops < 0.75 * seq.iops


def test_a_read_waits_for_a_program_on_its_die_only(model: Model) -> None:
    """Two channels with one die each. A write-through goes to the first die, and then one read to each die."""
    pairs = FLASH + ",dies=1,buffer_kb=0"
    ios = [Io(WRITE, 0, 16 * KB), Io(READ, 32 * KB, 4 * KB, 400 * US), Io(READ, 16 * KB, 4 * KB, 400 * US)]
    write, same, other = model.run("", pairs, ios).io
    assert write.part["cell"] == 1000 * US
    assert same.part["die_wait"] == write.done - 410 * US
    assert "die_wait" not in other.part


def buffered_interference(suspend_us: int) -> list[Io]:
    return [Io(WRITE, 0, 16 * KB), *(Io(READ, 0, 4 * KB, (300 + 400 * i) * US) for i in range(2))]


def test_a_program_of_the_buffer_is_suspended_for_reads_and_ends_later(model: Model) -> None:
    pairs = FLASH + ",channels=1,dies=1,buffer_kb=512"
    _, first, _ = model.run("", pairs, buffered_interference(0)).io
    # The program begins after command, link and channel of the write, and takes 1 ms. The read could begin at 310 us.
    begun = 10 * US + 2 * 16 * KB * 1000 // 400 + 16 * KB * 1000 // 400
    assert first.part["die_wait"] == begun + 1000 * US - 310 * US
    run = model.run("", pairs + ",suspend_us=20", buffered_interference(20))
    assert run.totals.suspends == 2
    assert [io.part["die_wait"] for io in run.io[1:]] == [20 * US, 20 * US]
    # the flush ends with the program, which two reads have delayed
    ends = [
        model.run("", pairs + extra, [*buffered_interference(0), Io(FLUSH, 0, 0, 900 * US)]).io[-1].done
        for extra in ("", ",suspend_us=20")
    ]
    reads = 2 * (20 + 100) * US + 2 * 4 * KB * 1000 // 400
    assert ends[1] == begun + 1000 * US + reads + 100 * US
    assert ends[0] == begun + 1000 * US + 100 * US


def test_reads_go_before_the_pages_in_the_buffer_and_do_not_starve_a_stalled_write(model: Model) -> None:
    pairs = FLASH + ",channels=1,dies=1,buffer_kb=512,link_write_mbps=2000"
    # the buffer is full with 32 pages: a read waits for the program of one page, not of all 32
    ios = [Io(WRITE, 0, 512 * KB), Io(READ, MB, 4 * KB, 5 * MS)]
    assert model.run("", pairs, ios).io[1].part["die_wait"] < 1100 * US
    # a second write stalls while 62 reads at a time keep the die busy: after each batch of reads one page is programmed
    ios = [Io(WRITE, 0, 512 * KB), Io(WRITE, MB, 512 * KB)]
    ios += [Io(READ, 2 * MB + i * 4 * KB, 4 * KB, 1 * MS) for i in range(4000)]
    run = model.run("", pairs + ",depth=64,active=64", ios, qd=64)
    assert run.io[1].part["buffer_wait"] < 33 * (1000 + 41 + 62 * 111) * US


def test_writes_are_as_fast_as_the_link_until_the_buffer_is_full(model: Model) -> None:
    pairs = FLASH + ",buffer_kb=8192,cmd_write_us=0"
    burst = model.run("", pairs, sequential(WRITE, 16, 512 * KB), qd=4)
    assert burst.totals.buffer_stalls == 0
    assert burst.mbps == pytest.approx(200, rel=0.001)
    # with a full buffer, writes are as fast as the four dies: 16 KiB each per program and transfer
    long = model.run("", pairs, sequential(WRITE, 400, 512 * KB), qd=4)
    dies = 4 * 16 * KB * 1000 / ((1000 + 41) * US)
    assert long.totals.buffer_stalls > 300
    assert long.mbps == pytest.approx(dies, rel=0.05)


def test_a_write_through_is_as_slow_as_the_flash(model: Model) -> None:
    for extra, fua in ((",buffer_kb=0", False), (",buffer_kb=1024", True)):
        (io,) = model.run("", FLASH + extra, [Io(WRITE, 0, 4 * KB, fua=fua)]).io
        assert io.part["cell"] == 1000 * US
    (io,) = model.run("", FLASH + ",buffer_kb=1024", [Io(WRITE, 0, 4 * KB)]).io
    assert "cell" not in io.part


def test_small_writes_share_a_page(model: Model) -> None:
    """Four writes of 4 KiB fill a page, so the dies need only a quarter of the programs."""
    pairs = FLASH + ",buffer_kb=512,cmd_write_us=1,channels=1"
    run = model.run("", pairs, scattered(WRITE, 2000, 4 * KB, 512 * MB), qd=32)
    assert run.iops == pytest.approx(4 * 2 / 1041e-6, rel=0.08)


def test_a_flush_empties_the_buffer_and_is_cheap_after_that(model: Model) -> None:
    ios = [Io(WRITE, 0, 512 * KB), Io(FLUSH, 0, 0, 10), Io(WRITE, MB, 4 * KB, 20), Io(FLUSH, 0, 0, 200 * MS)]
    run = model.run("", FLASH + ",buffer_kb=1024", ios)
    _, full, held, empty = run.io
    # the first flush waits for 32 pages on four dies
    assert full.part["buffer_wait"] > 8 * 1000 * US - 512 * KB * 1000 // 200
    assert full.part["cmd"] == 110 * US
    assert held.done > full.done - 100 * US, "no write enters the buffer during a flush"
    # the second flush programs the page that is only partly filled
    assert 1000 * US <= empty.part["buffer_wait"] <= 1100 * US


def test_fast_cache_lasts_for_its_size_and_comes_back_when_idle(model: Model) -> None:
    pairs = FLASH + ",buffer_kb=2048,slc_kb=8192,t_prog_slc_us=100,slc_refill_kbps=1000000"
    burst = sequential(WRITE, 8, 512 * KB)
    fast = model.run("", pairs, burst, qd=4)
    long = model.run("", pairs, sequential(WRITE, 100, 512 * KB), qd=4)
    assert fast.mbps > 150
    assert long.mbps < 80
    again = [Io(WRITE, i * 512 * KB, 512 * KB, i * 3 * MS) for i in range(40)]
    again += [Io(WRITE, i * 512 * KB, 512 * KB, 10_000 * MS + i * 3 * MS) for i in range(8)]
    run = model.run("", pairs, again)
    assert max(io.total for io in run.io[16:40]) > 5 * MS
    assert max(io.total for io in run.io[40:]) < 5 * MS
    assert run.totals.slc_left < 8 * MB


def test_collection_pauses_begin_only_after_sustained_writes(model: Model) -> None:
    pairs = FLASH + ",buffer_kb=512,gc_after_kb=16384,block_pages=16,gc_valid_pct=50"
    fresh = model.run("", pairs, sequential(WRITE, 30, 512 * KB), qd=4)
    assert fresh.totals.gc_pauses == 0
    worn = model.run("", pairs, sequential(WRITE, 200, 512 * KB), qd=4)
    # beyond the reserve, each collection frees half a block
    beyond = 200 * 512 * KB - 16384 * KB
    assert worn.totals.gc_pauses == pytest.approx(beyond / (8 * 16 * KB), rel=0.1)
    assert worn.totals.gc_ns == worn.totals.gc_pauses * (5000 + 8 * 1100) * US
    assert worn.mbps < 0.6 * fresh.mbps
    assert any(io.part.get("gc") for io in worn.io)
    # a read that waits for a collection has the wait in its part `gc`
    ios = sequential(WRITE, 100, 512 * KB)
    ios += [Io(READ, i * 4 * KB, 4 * KB, (i + 200) * MS) for i in range(1000)]
    mixed = model.run("", pairs, ios)
    assert max(io.part.get("gc", 0) for io in mixed.io if io.op == READ) > 5 * MS
    # idle time brings the reserve back
    late = sequential(WRITE, 60, 512 * KB)
    for i, io in enumerate(late):
        io.arrive = i * 10 * MS + (100_000 * MS if i >= 40 else 0)
    run = model.run("", pairs, late)
    assert run.totals.gc_pauses < model.run("", pairs, sequential(WRITE, 60, 512 * KB)).totals.gc_pauses / 2
    assert run.totals.reserve_left > 0


def test_ranges_put_neighbours_on_one_channel_and_stripes_do_not(model: Model) -> None:
    reads = [Io(READ, i * 16 * KB, 16 * KB) for i in range(64)]
    assert {io.channel for io in model.run("", FLASH, reads, qd=8).io} == {0, 1}
    near = model.run("", FLASH + ",map=ranges", [Io(READ, i * 16 * KB, 16 * KB) for i in range(64)], qd=8)
    assert {io.channel for io in near.io} == {0}
    far = model.run(
        "", FLASH + ",map=ranges", [Io(READ, 512 * MB + i * KB * 16, 4 * KB) for i in range(4)], qd=4
    )
    assert {io.channel for io in far.io} == {1}
    # reads that alternate between the ranges use both channels
    pairs = FLASH + ",map=ranges,link_read_mbps=2000,cmd_us=1,channel_mbps=50,dies=8"
    one = [Io(READ, i * 16 * KB, 16 * KB) for i in range(256)]
    two = [Io(READ, i % 2 * 512 * MB + i // 2 * 16 * KB, 16 * KB) for i in range(256)]
    assert model.run("", pairs, two, qd=16).mbps > 1.9 * model.run("", pairs, one, qd=16).mbps


def test_a_duplex_link_carries_both_ways_at_once(model: Model) -> None:
    mixed = [Io(op, i * 512 * KB, 512 * KB) for i in range(40) for op in (READ, WRITE)]
    pairs = "kind=link,active=32,link_read_mbps=200,link_write_mbps=200"
    half = model.run("", pairs, list(mixed), qd=8).mbps
    full = model.run("", pairs + ",link_duplex=1", list(mixed), qd=8).mbps
    assert half == pytest.approx(200, rel=0.01)
    assert full > 1.9 * half


# --- discards, housekeeping, heat, variation, age -----------------------------

DISCARDS = ",discard_us=1000,discard_group_kb=512,discard_group_us=200"


def test_a_discard_takes_a_time_per_command_and_per_erase_group_that_it_touches(model: Model) -> None:
    for pos, size, groups in ((0, 4 * KB, 1), (0, 512 * KB, 1), (508 * KB, 8 * KB, 2), (0, 1024 * MB, 2048)):
        (io,) = model.run("", FLASH + DISCARDS, [Io(DISCARD, pos, size)]).io
        assert io.part == {"cmd": 10 * US, "erase": (1000 + 200 * groups) * US}
    (free,) = model.run("", FLASH, [Io(DISCARD, 0, 1024 * MB)]).io
    assert free.part == {"cmd": 10 * US}


def test_a_queued_discard_delays_nobody_and_an_exclusive_one_everybody(model: Model) -> None:
    ios = [Io(DISCARD, 0, 4 * KB), *scattered(READ, 4, 4 * KB, MB)]
    queued = model.run("", FLASH + DISCARDS, ios).io
    assert max(io.total for io in queued[1:]) < 1000 * US
    discard, *reads = model.run("", FLASH + DISCARDS + ",discard_exclusive=1", list(ios)).io
    for io in reads:
        assert io.part["erase"] == discard.total
        assert "queue" not in io.part
    # When the discard begins, eight of the 32 pages are programmed. The other pages wait until the discard ends.
    ios = [Io(WRITE, 0, 512 * KB), Io(DISCARD, 0, 8 * MB, 4 * MS), Io(FLUSH, 0, 0, 5 * MS)]
    _, discard, flush = model.run("", FLASH + DISCARDS + ",buffer_kb=512,discard_exclusive=1", ios).io
    assert flush.part["erase"] + 1 * MS == discard.total
    assert flush.part["buffer_wait"] > 5 * 1041 * US


@settings(max_examples=150, deadline=None)
@given(pairs=configurations, ios=streams())
def test_an_exclusive_discard_is_alone_in_the_device(model: Model, pairs: str, ios: list[Io]) -> None:
    run = model.run("", pairs + ",kind=flash,discard_exclusive=1,discard_us=900", ios)
    for i, discard in enumerate(run.io):
        if discard.op != DISCARD:
            continue
        assert all(io.done <= discard.begin for io in run.io[:i])
        assert all(io.begin >= discard.done for io in run.io[i + 1 :])


VARYING = ",jitter_pct=20,jitter_tail_in=500,jitter_tail_x=4"


def test_jitter_keeps_the_mean_and_has_a_long_tail(model: Model) -> None:
    n = 40000
    run = model.run("", FLASH + VARYING, scattered(READ, n, 4 * KB, 512 * MB), qd=1)
    for part, mean in (("cell", 100 * US), ("cmd", 10 * US)):
        times = sorted(io.part[part] for io in run.io)
        assert sum(times) / n == pytest.approx(mean, rel=0.01)
        # times outside the tail are a little shorter, so that the mean of all is right
        assert 0.78 * mean < times[0] < 0.81 * mean
        tail = [t for t in times if t > 1.3 * mean]
        assert len(tail) == pytest.approx(n / 500, rel=0.3)
        assert tail[0] == 4 * mean
        assert sum(t >= 8 * mean for t in tail) == pytest.approx(len(tail) / 4, rel=0.5)
        assert times[-1] <= 256 * mean
    # the mean is right for programs and flushes, too
    ios = [Io(op, 0, size) for _ in range(4000) for op, size in ((WRITE, 16 * KB), (FLUSH, 0))]
    run = model.run("", FLASH + VARYING + ",buffer_kb=512", ios, qd=1)
    flushes = [io for io in run.io if io.op == FLUSH]
    assert sum(io.part["cmd"] for io in flushes) / 4000 == pytest.approx(110 * US, rel=0.03)
    assert sum(io.part["buffer_wait"] for io in flushes) / 4000 == pytest.approx(1041 * US, rel=0.03)


@settings(max_examples=60, deadline=None)
@given(pairs=configurations, ios=streams(), seed=st.integers(0, 2**32 - 1))
def test_the_same_seed_gives_the_same_times(model: Model, pairs: str, ios: list[Io], seed: int) -> None:
    pairs += f",seed={seed}"
    again = [Io(io.op, io.pos, io.bytes, io.arrive, io.fua) for io in ios]
    first = [io.part for io in model.run("", pairs, ios).io]
    assert [io.part for io in model.run("", pairs, again).io] == first


def test_another_seed_gives_other_times_and_without_variation_the_same(model: Model) -> None:
    def times(pairs: str) -> list[tuple[int, ...]]:
        ios = [scattered(READ, 500, 4 * KB, 512 * MB) for _ in range(3)]
        runs = [model.run("", f"{FLASH}{pairs},seed={seed}", io, qd=4) for seed, io in enumerate(ios)]
        return [tuple(io.total for io in run.io) for run in runs]

    assert len(set(times(""))) == 1
    for varying in (",jitter_pct=1", ",jitter_tail_in=100", ",retry_in=10"):
        assert len(set(times(varying))) == 3


def test_variation_of_times_does_not_move_the_retries(model: Model) -> None:
    def retried(pairs: str) -> list[bool]:
        run = model.run("", FLASH + pairs, scattered(READ, 500, 4 * KB, 512 * MB), qd=1)
        return ["retry" in io.part for io in run.io]

    assert retried(",retry_in=10") == retried(",retry_in=10,jitter_pct=30")


def test_one_read_in_so_many_takes_more_reads_of_its_cells(model: Model) -> None:
    n = 20000
    run = model.run("", FLASH + ",retry_in=20,retry_most=3", scattered(READ, n, 4 * KB, 512 * MB), qd=1)
    retries = [io.part["retry"] for io in run.io if "retry" in io.part]
    assert len(retries) == pytest.approx(n / 20, rel=0.1)
    assert set(retries) == {100 * US, 200 * US, 300 * US}
    assert sum(retries) == run.totals.retries * 100 * US
    assert sum(retries) / len(retries) == pytest.approx(200 * US, rel=0.05)
    assert {io.part["cell"] for io in run.io} == {100 * US}


HOUSEKEEPING = ",buffer_kb=512,bg_after_kb=1024,bg_ms=20,bg_idle_ms=10"


def after_idle(model: Model, pairs: str, *gaps: int) -> Run:
    """Writes 3 MiB, so that three rounds of housekeeping of 20 ms are due. Then a read arrives at each of the times `gaps`."""
    writes = sequential(WRITE, 6, 512 * KB)
    return model.run("", FLASH + HOUSEKEEPING + pairs, [*writes, *(Io(READ, 0, 4 * KB, t) for t in gaps)])


def test_housekeeping_uses_idle_time_and_a_command_waits_for_its_round(model: Model) -> None:
    # the last program ends after 50 ms, so housekeeping goes on from 60 to 120 ms
    early = after_idle(model, "", 1 * MS)
    assert early.totals.background_ns == 0
    waits = []
    for t in range(51, 200, 7):
        run = after_idle(model, "", t * MS)
        waits.append(run.io[-1].part.get("background", 0))
        assert run.totals.background_ns % (20 * MS) == 0, "it is not stopped within a round"
    assert 13 * MS < max(waits) <= 20 * MS
    assert sum(w > 0 for w in waits) == pytest.approx(60 / 7, abs=1)
    assert run.totals.background_ns == 60 * MS


def test_housekeeping_that_can_be_stopped_goes_on_later(model: Model) -> None:
    times = [(51 + 15 * i) * MS for i in range(40)]
    run = after_idle(model, ",bg_stop_us=700", *times)
    waits = [io.part.get("background", 0) for io in run.io[6:]]
    assert max(waits) == 700 * US
    assert run.totals.background_ns == 60 * MS
    # after each read, housekeeping begins again after 10 ms of idle time, so it needs many of the gaps between reads
    assert sum(w > 0 for w in waits) > 5
    assert waits[-1] == 0


def test_urgent_housekeeping_does_not_wait_for_idle_time(model: Model) -> None:
    lazy = model.run("", FLASH + HOUSEKEEPING, sequential(WRITE, 200, 512 * KB), qd=4)
    assert lazy.totals.background_ns == 0
    urgent = model.run("", FLASH + HOUSEKEEPING + ",bg_most=2", sequential(WRITE, 200, 512 * KB), qd=4)
    rounds = 200 * 512 * KB // MB - 1
    assert urgent.totals.background_ns == pytest.approx(rounds * 20 * MS, rel=0.02)
    assert max(io.part.get("background", 0) for io in urgent.io) >= 20 * MS
    assert urgent.end > lazy.end


def test_a_hot_device_slows_down_until_it_has_cooled_off(model: Model) -> None:
    pairs = FLASH + ",dies=8,channels=8,heat_mb=10,heat_cool_mbps=50,heat_pct=25"
    run = model.run("", pairs, sequential(READ, 400, 512 * KB), qd=4)
    rates = [
        sum(io.bytes for io in run.io[i : i + 10]) * 1000 / (run.io[i + 9].done - run.io[i - 1].done)
        for i in range(10, 400, 10)
    ]
    # Reads at 200 MB/s, less 50 MB/s of cooling, heat it up by 150 MB/s: 14 MB are fast. Then it reads 50 MB/s, as much as
    # cools off, so it stays hot.
    assert rates[0] == pytest.approx(200, rel=0.02)
    assert rates[-1] == pytest.approx(50, rel=0.02)
    slow = next(i for i, rate in enumerate(rates, 1) if rate < 195)
    assert slow * 10 * 512 * KB < 14e6 * 1.05
    assert (slow + 1) * 10 * 512 * KB > 14e6 * 0.95
    assert run.totals.throttles == 1
    hot = run.io[-1].part
    assert hot["throttle"] == pytest.approx(3 * (hot["cmd"] + hot["link"]), rel=0.001)
    # with more cooling it becomes hot again and again, and the mean is between the two rates
    cooled = model.run("", pairs + ",heat_cool_mbps=100", sequential(READ, 1000, 512 * KB), qd=4)
    assert cooled.totals.throttles > 2
    assert 60 < cooled.mbps < 150
    # idle time cools it off
    ios = sequential(READ, 100, 512 * KB)
    ios += [Io(READ, io.pos, io.bytes, 10_000 * MS) for io in sequential(READ, 10, 512 * KB)]
    assert all("throttle" not in io.part for io in model.run("", pairs, ios).io[100:])


FLASH_PRESETS = [name for name in FIGURES if name not in ("source", "hdd-5400", "pipe")]


@pytest.mark.parametrize("preset", FLASH_PRESETS)
def test_a_worn_and_full_device_is_slower(model: Model, preset: str) -> None:
    def measure(pairs: str) -> tuple[float, float, int]:
        writes = model.run(preset, pairs + ",slc_kb=0", sequential(WRITE, 600, 512 * KB), qd=4)
        reads = model.run(preset, pairs, scattered(READ, 4000, 4 * KB, 4096 * MB), qd=1)
        return writes.mbps, reads.iops, reads.totals.retries

    young, old = measure("wear_pct=0"), measure("wear_pct=80,full_pct=95")
    assert old[0] < 0.9 * young[0]
    assert old[1] < 0.99 * young[1]
    assert old[2] > 20 * max(young[2], 1)
    # with more wear, no figure gets better
    steps = [measure(f"wear_pct={w}") for w in (0, 30, 60, 100)]
    assert [s[0] for s in steps] == sorted((s[0] for s in steps), reverse=True)
    assert [s[2] for s in steps] == sorted(s[2] for s in steps)


def test_the_effects_of_age_are_those_in_the_comment(model: Model) -> None:
    def aged(pairs: str, name: str) -> int:
        return int(model.value("emmc51", pairs, name, aged=True))

    for name in model.names("param"):
        assert model.value("emmc51", "", name) == model.value("emmc51", "", name, aged=True)
    assert aged("wear_pct=100", "t_prog_us") == 2400
    assert aged("wear_pct=100", "t_erase_us") == 10000
    assert aged("wear_pct=50", "retry_in") == 125
    assert aged("wear_pct=100", "retry_in") == 2
    assert aged("wear_pct=100", "retry_most") == 9
    # "Analytic Modeling of SSD Write Performance": v = e^(-a (1 - v))
    for full in (40, 60, 80, 90, 95, 100):
        v, a = 0.0, (100 + 10) / full
        for _ in range(2000):
            v = math.exp(-a * (1 - v))
        assert aged(f"full_pct={full}", "gc_valid_pct") == pytest.approx(100 * v, abs=2)
    assert aged("full_pct=100,spare_pct=1", "gc_valid_pct") == 98
    assert aged("full_pct=100,spare_pct=1,wear_pct=100", "gc_valid_pct") == 99
    assert aged("full_pct=75", "gc_after_kb") == 2097152 // 4
    assert aged("full_pct=100", "gc_after_kb") == 1
    # disks and links do not age
    for preset in ("hdd-5400", "pipe"):
        for name in model.names("param"):
            pairs = "wear_pct=80,full_pct=90"
            assert model.value(preset, pairs, name) == model.value(preset, pairs, name, aged=True)


def test_the_host_of_an_emmc_waits_as_the_mmc_driver_does(model: Model) -> None:
    both, before, none = (True, True), (True, False), (False, False)
    serial = {READ: before, WRITE: before, FLUSH: both, DISCARD: both}
    queue = {READ: none, WRITE: none, FLUSH: none, DISCARD: both}
    for preset, want in (("emmc50-slow", serial), ("sd-uhs3", serial), ("emmc51", queue)):
        for op, waits in want.items():
            assert model.waits(preset, "", op) == waits
            assert model.waits(preset, "blocking=0", op) == none
    for preset in ("ufs31", "sata-mlc-8ch", "hdd-5400", "pipe"):
        assert all(model.waits(preset, "", op) == none for op in serial)


OFF = ("blocking", "retry_in", "discard_us", "discard_group_us", "discard_exclusive", "bg_after_kb", "bg_most",
       "heat_mb", "jitter_pct", "jitter_tail_in", "wear_pct", "full_pct")  # fmt: skip


def test_without_a_preset_the_device_has_no_such_behaviour(model: Model) -> None:
    assert {name: model.value("", "", name) for name in OFF} == dict.fromkeys(OFF, "0")


# --- the others --------------------------------------------------------------


BARE = "link_read_mbps=220,link_write_mbps=65,cmd_us=0,cmd_write_us=0,flush_us=0,buffer_kb=0"


@pytest.mark.parametrize(
    ("pairs", "rates", "work", "flush"), [("", (229, 66), (90, 76), 290), (BARE, (220, 65), (0, 0), 0)]
)
def test_the_pipe_takes_the_time_of_its_link_and_commands_and_keeps_the_order(
    model: Model, pairs: str, rates: tuple[int, int], work: tuple[int, int], flush: int
) -> None:
    pick = random.Random(3)  # noqa: S311
    ios = [Io(pick.choice([READ, WRITE, FLUSH]), pick.randrange(1000) * MB, 512 * KB) for _ in range(300)]
    run = model.run("pipe", pairs, ios, qd=64)
    now = 0
    for i, io in enumerate(run.io):
        assert io.order == i
        now += flush * US if io.op == FLUSH else 512 * KB * 1000 // rates[io.op] + work[io.op] * US
        assert io.done == now


def test_a_disk_gains_from_a_queue(model: Model) -> None:
    """At the depths of Nagao et al., "... I/O Performance Regulating Method to Suppress Decrease in I/O Throughput"."""
    iops = {qd: figure(model, "hdd-5400", f"rand_read_iops_qd{qd}") for qd in (1, 2, 7, 8)}
    assert iops[1] < iops[2] < iops[7] < iops[8]


def test_a_disk_streams_and_seeks(model: Model) -> None:
    stream = model.run("hdd-5400", "", sequential(READ, 100, 512 * KB), qd=1)
    assert stream.mbps == pytest.approx(100, rel=0.03)
    assert sum("seek" in io.part for io in stream.io) == 0, "all on the first track"
    assert stream.io[0].part["rotate"] < 60e9 / 5400
    (_, far) = model.run("hdd-5400", "", [Io(READ, 0, 4 * KB), Io(READ, 476939 * MB, 4 * KB)], qd=1).io
    assert far.part["seek"] == pytest.approx(20 * MS, rel=0.001)


def test_a_disk_serves_a_distant_request_in_time(model: Model) -> None:
    """One request is at the far end of the disk. Enough near requests would keep the head away from it."""
    near = scattered(READ, 2000, 4 * KB, 100 * MB)
    run = model.run("hdd-5400", "", [Io(READ, 0, 4 * KB), Io(READ, 400_000 * MB, 4 * KB), *near], qd=16)
    assert 100 * MS < run.io[1].total < 600 * MS


# --- parameters and presets --------------------------------------------------


CASES = [
    # strict: if the model meets an open figure after all, remove `open` from figures.toml
    pytest.param(p, m, marks=pytest.mark.xfail(strict=True, reason=want["open"]) if "open" in want else ())
    for p, metrics in FIGURES.items() if p != "source" for m, want in metrics.items()
]  # fmt: skip


@pytest.mark.parametrize(("preset", "metric"), CASES)
def test_a_preset_meets_the_figures_that_it_cites(model: Model, preset: str, metric: str) -> None:
    want = FIGURES[preset][metric]
    got = figure(model, preset, metric)
    if "value" in want:
        assert got == pytest.approx(want["value"], rel=0.1)
    else:
        assert want.get("least", 0) <= got <= want.get("most", float("inf"))


def test_each_figure_has_a_source_and_one_target(model: Model) -> None:
    names = {name for name in FIGURES if name != "source"}
    for want in (want for name in names for want in FIGURES[name].values()):
        assert want["source"] in FIGURES["source"]
        assert len({"value", "least", "most"} & set(want)) == 1
        assert ("settle" in want) == ("seconds" in want)


def test_a_worn_device_programs_as_often_as_the_formula_says(model: Model) -> None:
    """For each page that the host writes, the device programs 1 / (1 - valid) pages."""
    size = 512 * KB
    rates = []
    for worn in ("gc_after_kb=0", "gc_after_kb=1,gc_valid_pct=83"):
        run = model.run("emmc51", worn, sequential(WRITE, 1024, size), qd=4)
        rates.append(run.mbps)
    assert rates[0] / rates[1] == pytest.approx(1 / (1 - 0.83), rel=0.05)


def test_the_command_path_of_the_ssd_limits_reads_whatever_the_number_of_dies(model: Model) -> None:
    """The three models of the SSD series have 8, 16 and 32 dies, but similar specified IOPS (README.md)."""
    ios = scattered(READ, 20000, 4 * KB, 4096 * MB)

    def iops(pairs: str) -> list[float]:
        return [model.run("sata-mlc-8ch", f"{pairs}dies={d}", list(ios), qd=32).iops for d in (1, 2, 4)]

    series = [80_000, 85_000, 90_000]
    assert iops("") == pytest.approx(series, rel=0.1)
    # If the dies were the limit, with the longest read time of the data sheet, only one of the three models would fit.
    by_dies = iops("cmd_us=5,t_r_us=115,")
    assert by_dies[1] == pytest.approx(series[1], rel=0.02)
    assert by_dies[0] < 0.7 * series[0]
    assert by_dies[2] > 1.2 * series[2]


def test_each_preset_is_valid_and_has_figures(model: Model) -> None:
    assert set(model.names("preset")) == set(FIGURES) - {"source"}
    for name in model.names("preset"):
        assert model.error(name, "") == ""


@pytest.mark.parametrize(
    ("preset", "pairs", "message"),
    [
        ("floppy", "", 'no preset "floppy"; there are: emmc51 emmc50-slow'),
        ("pipe", "bogus=1", '"bogus=1" is not PARAMETER=VALUE; there are: kind capacity_mb'),
        ("pipe", "depth", '"depth" is not PARAMETER=VALUE'),
        ("pipe", "depth=", 'depth is "", must be a number from 1 to 256'),
        ("pipe", "depth=0", 'depth is "0", must be a number from 1 to 256'),
        ("pipe", "depth=-1", 'depth is "-1"'),
        ("pipe", "depth=99999999999", 'depth is "99999999999"'),
        ("pipe", "map=random", 'map is "random", must be one of: stripe ranges'),
        ("pipe", "logical_block=1024", "logical_block is 1024, must be 512 or 4096"),
        ("pipe", "active=65", "active=65 is more than depth=64"),
        ("emmc51", "buffer_kb=64", "buffer_kb=64 is less than max_kb=512"),
        ("emmc51", "chunk_kb=6", "must be multiples of 4"),
        ("emmc51", "jitter_tail_in=15", "jitter_tail_in=15 is less than four times jitter_tail_x=4"),
        ("emmc51", "jitter_pct=91", 'jitter_pct is "91", must be a number from 0 to 90'),
        ("hdd-5400", "seek_min_us=30000", "seek_min_us=30000 is more than seek_max_us=20000"),
    ],
)
def test_errors_name_the_wrong_parameter(model: Model, preset: str, pairs: str, message: str) -> None:
    assert message in model.error(preset, pairs)


def test_parameters_override_presets_in_order(model: Model) -> None:
    assert model.value("emmc51", "depth=40,depth=33", "depth") == "33"
    assert model.value("sata-mlc-8ch", "map=ranges", "map") == "ranges"
    assert model.value("hdd-5400", "", "kind") == "disk"


def test_the_parts_have_names(model: Model) -> None:
    assert tuple(model.names("part")) == PARTS
    trace = (SRC / "flashsim_trace.h").read_text()
    assert tuple(re.findall(r"(\w+)_ns=%llu", trace)) == (*PARTS, "total")
    assert [int(i) for i in re.findall(r"part\[(\d+)\]", trace)] == list(range(len(PARTS)))


def test_each_parameter_is_a_file_in_configfs(model: Model) -> None:
    text = (SRC / "flashsim_config.c").read_text()
    assert re.findall(r"^EK_FS_ATTR\((\w+)\);", text, re.M) == model.names("param")
    attributes = re.findall(r"&ek_fs_attr_(\w+),", text)
    assert attributes[: len(model.names("param"))] == model.names("param")
