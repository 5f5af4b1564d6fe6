# SPDX-License-Identifier: Apache-2.0
"""Compares the simulator with a plain implementation of the paper's rules, and runs it on loads like the paper's."""

from __future__ import annotations

import random
from collections.abc import Iterator

from evenkeel_pagepool.controller import Settings, Window, decide, exclusive, mixed
from evenkeel_pagepool.simulator import Access, Basic, Cache, Decision, Lru, Partition
from hypothesis import given
from hypothesis import strategies as st

traces = st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=300)
sizes = st.integers(1, 10)


@st.composite
def settings(draw: st.DrawFn) -> Settings:
    blocks = draw(sizes)
    protected_min = draw(st.integers(0, blocks))
    return Settings(
        blocks, draw(st.integers(1, 20)), draw(st.integers(0, 100)), draw(st.integers(0, 100)),
        protected_min, draw(st.integers(0, blocks - protected_min)),
    )  # fmt: skip


@given(sizes, traces)
def test_lru_keeps_the_blocks_that_were_used_last(blocks: int, trace: list[Access]) -> None:
    cache = Lru(blocks)
    for n, (block, protected) in enumerate(trace):
        recent = list(dict.fromkeys(reversed(trace[:n])))[:blocks]
        assert cache.access(block, protected) == ((block, protected) in recent)
    assert cache.totals.protected_accesses == sum(protected for _, protected in trace)


@given(sizes, traces)
def test_basic_shrinks_the_protected_pool_only_when_the_normal_pool_is_empty(
    blocks: int, trace: list[Access]
) -> None:
    cache = Basic(blocks)
    for block, protected in trace:
        before, normal = len(cache.protected), len(cache.normal)
        cache.access(block, protected)
        assert len(cache.protected) >= before or normal == 0


@given(settings(), st.integers(0, 12), traces)
def test_partition_follows_the_release_rules(s: Settings, start: int, trace: list[Access]) -> None:
    """The rules of section 3.3.4 on plain lists."""
    seen: list[Decision] = []
    cache = Partition(s, start, seen.append)
    pools: dict[bool, list[object]] = {True: [], False: []}
    target, counts, decisions = start, [0, 0, 0, 0], []
    for n, (block, protected) in enumerate(trace, 1):
        own = pools[protected]
        hit = block in own
        if hit:
            own.remove(block)
        elif len(pools[True]) + len(pools[False]) == s.blocks:
            current = len(pools[True])
            chosen = False if current < target else True if current > target else protected
            (pools[chosen] or pools[not chosen]).pop(0)
        own.append(block)
        first = 0 if protected else 2
        counts[first] += 1
        counts[first + 1] += hit
        if n % s.window == 0:
            target = decide(s, target, Window(*counts))
            decisions.append(Decision(Window(*counts), target, len(pools[True])))
            counts = [0, 0, 0, 0]
        assert cache.access(block, protected) == hit
        assert list(cache.protected) == pools[True]
        assert list(cache.normal) == pools[False]
    assert seen == decisions


def compile_job(blocks_of_headers: int, seed: int) -> Iterator[Access]:
    """A job of 700 compilations. Each reads many headers (priority files, some very popular), then other files twice."""
    draw = random.Random(seed)  # noqa: S311
    for unit in range(700):
        for _ in range(60):
            yield ("header", int(blocks_of_headers * draw.random() ** 2)), True
        own = [("source", unit, n) for n in range(8)] + [("other", draw.randrange(150)) for _ in range(40)]
        for block in own * 2:
            yield block, False


def time_of(cache: Cache, trace: Iterator[Access]) -> int:
    """The running time of a job, in misses: the job waits for each miss."""
    return cache.replay(trace).misses


def test_a_compile_with_a_small_cache_is_much_slower_with_the_basic_method_only() -> None:
    for seed in range(5):
        lru = time_of(Lru(296), compile_job(254, seed))
        basic = time_of(Basic(296), compile_job(254, seed))
        partition = time_of(Partition(mixed(296, 32)), compile_job(254, seed))
        assert basic > 1.1 * lru
        assert partition < 0.9 * basic
        assert partition < 1.05 * lru


def site(seed: int) -> Iterator[Access]:
    """A web site: popular pages (priority files), other pages, and a backup that reads each block once."""
    draw = random.Random(seed)  # noqa: S311
    for n in range(200_000):
        page = draw.random()
        if page < 0.05:
            yield ("top", draw.randrange(90)), True
        elif page < 0.15:
            yield ("page", int(20_000 * draw.random() ** 3)), False
        yield ("backup", n), False


def test_a_backup_does_not_push_the_top_pages_out() -> None:
    lru, partition = Lru(734).replay(site(1)), Partition(exclusive(734, 32)).replay(site(1))
    miss_lru = lru.protected_accesses - lru.protected_hits
    miss_partition = partition.protected_accesses - partition.protected_hits
    assert miss_partition < 0.15 * miss_lru
