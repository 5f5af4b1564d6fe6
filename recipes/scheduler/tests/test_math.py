# SPDX-License-Identifier: GPL-2.0-only
"""Property tests of evenkeel's arithmetic, compiled in user space with UBSan."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

ONE = 1 << 16
BUCKETS = 200

u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
weights = st.integers(1, 10000)


class Search(ctypes.Structure):
    """struct ek_search"""

    _fields_ = (("bonus", ctypes.c_int32), ("owed", ctypes.c_int32), ("first", ctypes.c_bool))


class Service(ctypes.Structure):
    """struct ek_service"""

    _fields_ = (("mean", ctypes.c_uint64), ("nr", ctypes.c_uint32))


@pytest.fixture(scope="session")
def ek(user_space: Callable[[str], ctypes.CDLL]) -> ctypes.CDLL:
    lib = user_space("math")
    c32, c64, flag = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_bool
    for name, result, args in (
        ("ek_before", flag, (c64, c64)),
        ("ek_later", c64, (c64, c64)),
        ("ek_bounded", c64, (c64, c64, c64)),
        ("ek_may_hold", flag, (c32, c32, c32, c64, flag)),
        ("ek_batch", c32, (c32, c32, c32)),
        ("ek_fixed_may_hold", flag, (c32, c32, c32)),
        ("ek_bucket", c32, (c64,)),
        ("ek_bucket_max", c64, (c32,)),
        ("ek_size_class", c32, (c32,)),
        ("ek_fixed_mean", c64, (c64, c64, c32)),
        ("ek_fixed_ideal", c64, (c64, c32)),
        ("ek_permille", c32, (c64, c64)),
        ("ek_fixed_allowed", c32, (c32, c32)),
        ("ek_service_learn", None, (ctypes.POINTER(Service), c64, flag)),
        ("ek_search_round", None, (ctypes.POINTER(Search), c32, flag)),
    ):
        function = lib[f"shim_{name}"]
        function.restype, function.argtypes = result, args
        setattr(lib, name, function)
    return lib


@given(us=u64)
def test_a_latency_is_in_the_range_of_its_bucket(ek: ctypes.CDLL, us: int) -> None:
    bucket = ek.ek_bucket(us)
    assert bucket < BUCKETS
    if bucket < BUCKETS - 1:
        assert us <= ek.ek_bucket_max(bucket)
    if bucket > 0:
        assert us > ek.ek_bucket_max(bucket - 1)
    # a bucket is an eighth of its power of two, so at most 12.5 % wide
    if us >= 8 and bucket < BUCKETS - 1:
        assert ek.ek_bucket_max(bucket) - ek.ek_bucket_max(bucket - 1) <= us / 8


@given(a=u64, step=st.integers(1, 2**62))
def test_virtual_time_compares_across_wrap_around(ek: ctypes.CDLL, a: int, step: int) -> None:
    b = (a + step) % 2**64
    assert ek.ek_before(a, b)
    assert not ek.ek_before(b, a)
    assert not ek.ek_before(a, a)
    assert ek.ek_later(a, b) == b == ek.ek_later(b, a)


@given(tags=st.integers(1, 10240), shares=st.lists(weights, min_size=2, max_size=8))
def test_each_group_gets_its_share_of_tags_and_none_gets_all(
    ek: ctypes.CDLL, tags: int, shares: list[int]
) -> None:
    """With four tags or more, no group can hold all tags. Each group gets its share, or all but a quarter."""
    total = sum(shares)
    for weight in shares:
        held = 0
        while ek.ek_may_hold(held, tags, weight * ONE, total * ONE, False):
            held += 1
        assert 1 <= held <= tags
        if tags >= 4:
            assert held <= tags - tags // 4
        assert held >= min(tags * weight // total, tags - tags // 4)
        assert not ek.ek_may_hold(held, tags, weight * ONE, total * ONE, True), (
            "asynchronous requests never get more tags"
        )


@given(tags=st.integers(1, 10240), order=st.lists(st.integers(0, 7), max_size=200))
def test_groups_with_a_fixed_share_hold_one_tag_each_and_more_up_to_half_of_all(
    ek: ctypes.CDLL, tags: int, order: list[int]
) -> None:
    held = [0] * 8
    for g in order * 10:
        if ek.ek_fixed_may_hold(held[g], sum(held), tags):
            held[g] += 1
            assert held[g] <= max(2, (tags + 3) // 4)
        assert sum(held) <= max(tags - 1, 1), "one tag is left for groups without a fixed share"
        if max(held) > 1:
            assert sum(n for n in held if n > 1) <= tags // 2, (
                "groups with more than one tag hold at most half of all"
            )
        if sum(held) < tags - 1:
            assert all(ek.ek_fixed_may_hold(0, sum(held), tags) for n in held if n == 0), (
                "a group takes its first tag if another tag is left"
            )
    assert ek.ek_fixed_may_hold(0, 0, tags)
    assert ek.ek_fixed_may_hold(1, 1, tags) == (tags >= 4)
    assert ek.ek_fixed_may_hold(2, 2, 12)


@given(vnow=u64, away=u64, most=st.integers(0, 2**56))
def test_virtual_time_of_a_group_that_was_idle_is_bounded(
    ek: ctypes.CDLL, vnow: int, away: int, most: int
) -> None:
    vtime = ek.ek_bounded((vnow - away) % 2**64, vnow, most)
    assert (vtime - vnow) % 2**64 <= most
    ahead = min(away, most)
    assert ek.ek_bounded((vnow + ahead) % 2**64, vnow, most) == (vnow + ahead) % 2**64


@given(size=u32)
def test_a_size_is_in_the_class_of_its_power_of_two(ek: ctypes.CDLL, size: int) -> None:
    found = ek.ek_size_class(size)
    assert 0 <= found <= 15
    if 512 <= size < 2**24:
        assert 512 << found <= size < 1024 << found


@given(samples=st.lists(st.integers(0, 2**40), min_size=1, max_size=300))
def test_the_service_time_starts_as_the_mean_and_stays_between_its_samples(
    ek: ctypes.CDLL, samples: list[int]
) -> None:
    mean = 0
    for nr, sample in enumerate(samples, 1):
        before, mean = mean, ek.ek_fixed_mean(mean, sample, nr)
        assert min(samples) - 1 <= mean <= max(samples) + 1
        if nr <= 16:
            assert abs(mean - sum(samples[:nr]) / nr) <= nr
        else:
            assert mean <= before + 64 * before / min(nr, 256) + 1, (
                "a request that hung counts as 64 mean times at most"
            )


@given(
    before=st.lists(st.integers(1, 2**40), max_size=40),
    clean=st.lists(
        st.tuples(st.integers(1, 2**40), st.lists(st.integers(1, 2**40), max_size=3)), max_size=300
    ),
)
def test_requests_during_a_flush_count_only_while_few_others_are_known(
    ek: ctypes.CDLL, before: list[int], clean: list[tuple[int, list[int]]]
) -> None:
    service = Service()
    for ns in before:
        ek.ek_service_learn(service, ns, True)
    if before:
        assert service.nr == 0
        assert service.mean >= min(before), "an estimate from requests during a flush is better than none"
    seen = [*before]
    for nr, (ns, flushed) in enumerate(clean, 1):
        expected = ek.ek_fixed_mean(service.mean, ns, min(nr, 256))
        ek.ek_service_learn(service, ns, False)
        assert (service.mean, service.nr) == (expected, min(nr, 256))
        if nr == 1:
            assert service.mean == ns, "the first request without a flush replaces the estimate"
        seen += [ns, *flushed]
        for other in flushed:
            known = service.mean
            ek.ek_service_learn(service, other, True)
            assert service.nr == min(nr, 256)
            if nr >= 16:
                assert service.mean == known, "requests during a flush no longer count"
        assert min(seen) - 1 <= service.mean <= max(seen) + 1


AIM = 1014


def rounds(ek: ctypes.CDLL, spare: int, slope: float, lag: int, count: int) -> list[tuple[int, float]]:
    """Simulate the search on a device that can take `spare` requests more than the rule allows.

    With that bonus, a round takes AIM permille of its ideal time. Each further request adds `slope`
    permille, each missing one saves as much, down to 1000. A bonus also affects the `lag` rounds after its
    own, because the scheduler makes up for late requests. Returns (bonus, permille) of each round.
    """
    search = Search(first=True)
    seen: list[tuple[int, float]] = []
    recent = [0] * (lag + 1)
    for _ in range(count):
        recent = [*recent[1:], search.bonus]
        bonus = sum(recent) / len(recent)
        permille = max(1000.0, AIM + slope * (bonus - spare))
        seen.append((search.bonus, permille))
        ek.ek_search_round(search, round(permille), True)
    return seen


@given(spare=st.integers(-20, 100), slope=st.floats(0.5, 6), lag=st.integers(0, 2))
def test_the_search_settles_at_its_aim(ek: ctypes.CDLL, spare: int, slope: float, lag: int) -> None:
    settled = rounds(ek, spare, slope, lag, 400)[200:]
    found = [bonus for bonus, _ in settled]
    assert max(found) - min(found) <= 2
    assert abs(sum(permille for _, permille in settled) / len(settled) - AIM) <= 1.5


@given(outcomes=st.lists(st.tuples(st.integers(0, 10000), st.booleans()), max_size=300))
def test_the_search_stays_in_range_and_never_rises_if_no_request_was_held_back(
    ek: ctypes.CDLL, outcomes: list[tuple[int, bool]]
) -> None:
    search = Search(first=True)
    for permille, held in outcomes:
        before = search.bonus
        ek.ek_search_round(search, permille, held)
        assert abs(search.bonus) <= 128
        assert abs(search.bonus - before) <= 4
        assert held or search.bonus <= before


def test_the_search_carries_over_what_one_step_cannot_correct(ek: ctypes.CDLL) -> None:
    search = Search(bonus=50)
    ek.ek_search_round(search, AIM + 160, True)
    assert search.bonus == 46
    for _ in range(10):
        ek.ek_search_round(search, AIM, True)
    assert search.bonus == 40


@pytest.mark.parametrize(
    ("percent", "others", "allowed"),
    # Cases of Nagao et al., *Implementation and Evaluation of I/O Performance Regulating Method to Suppress
    # Decrease in I/O Throughput*: one group at 20 %; two, four and five at 10 %. Then the limits: at least 1.
    [(20, 0, 4), (10, 1, 8), (10, 3, 6), (10, 4, 5), (100, 0, 1), (50, 1, 1), (1, 0, 99)],
)
def test_the_cap_is_that_of_the_paper(ek: ctypes.CDLL, percent: int, others: int, allowed: int) -> None:
    assert ek.ek_fixed_allowed(percent, others) == allowed


@given(mean=st.integers(1, 2**50), percent=st.integers(1, 100))
def test_the_ideal_time_is_that_of_a_slower_device(ek: ctypes.CDLL, mean: int, percent: int) -> None:
    assert ek.ek_fixed_ideal(mean, percent) == min(mean * 100 // percent, 5 * 10**9)


@given(actual=st.integers(0, 2**42), ideal=st.integers(0, 2**42))
def test_the_accuracy_is_a_ratio_in_permille(ek: ctypes.CDLL, actual: int, ideal: int) -> None:
    assert ek.ek_permille(actual, ideal) == (min(actual * 1000 // ideal, 10000) if ideal else 1000)


@given(wanted=st.integers(1, 64), tags=st.integers(1, 10240), cpus=st.integers(1, 512))
def test_the_batches_of_all_cpus_take_at_most_a_quarter_of_the_tags(
    ek: ctypes.CDLL, wanted: int, tags: int, cpus: int
) -> None:
    batch = ek.ek_batch(wanted, tags, cpus)
    assert 1 <= batch <= min(wanted, 8)
    assert batch == 1 or batch * cpus <= tags // 4
