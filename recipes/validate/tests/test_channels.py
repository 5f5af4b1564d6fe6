# SPDX-License-Identifier: Apache-2.0
"""The evaluation of pairs of reads, on simulated devices whose map is known."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from evenkeel_validate import channels
from evenkeel_validate.channels import BLOCK, Map, Probe, Verdict
from hypothesis import given, settings
from hypothesis import strategies as st

BLOCKS = (32 << 30) // BLOCK
SAMPLES = 12
US = 1000


@dataclass(frozen=True)
class Noise:
    """`spread`: relative standard deviation of the times. `late`: share of reads with a delay of 100 us on average."""

    spread: float = 0.02
    late: float = 0.02


QUIET, USUAL, LOUD = Noise(0, 0), Noise(), Noise(0.06, 0.06)


def timed(
    probes: list[Probe], ns: Callable[[Probe], float], noise: Noise = USUAL, seed: int = 5
) -> list[int]:
    pick = random.Random(seed)  # noqa: S311
    times = []
    for probe in probes:
        time = ns(probe) * (1 + pick.gauss(0, noise.spread))
        times.append(int(time + (pick.expovariate(1 / (100 * US)) if pick.random() < noise.late else 0)))
    return times


def device(
    shares: Callable[[int, int], bool], single: int = 100, apart: int = 110, together: int = 185
) -> Callable[[Probe], float]:
    """A device with these times in us: single reads, and pairs on different channels and on the same channel."""
    return lambda p: US * (single if p.b < 0 else together if shares(p.a, p.b) else apart)


def judged(
    ns: Callable[[Probe], float], noise: Noise = USUAL, *, blocks: int = BLOCKS, samples: int = SAMPLES,
    seed: int = 1, tags: int = 32,
) -> Verdict:  # fmt: skip
    probes = channels.plan(blocks, samples, seed)
    return channels.verdict(probes, timed(probes, ns, noise, seed), blocks, tags=tags)


def found(m: Map, noise: Noise = USUAL, *, blocks: int = BLOCKS, seed: int = 1) -> Verdict:
    return judged(device(m.shares_channel(blocks)), noise, blocks=blocks, seed=seed)


# --- the plan ----------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(st.integers(channels.MIN_BLOCKS, 1 << 28), st.integers(1, 4), st.integers(0, 1 << 32))
def test_a_plan_stays_on_the_device_and_pairs_are_two_requests(blocks: int, samples: int, seed: int) -> None:
    for p in channels.plan(blocks, samples, seed):
        assert 0 <= p.a < blocks
        assert -1 <= p.b < blocks
        # The kernel would merge neighbours into one request.
        assert p.b < 0 or abs(p.a - p.b) > 1


def test_each_measured_pair_follows_reads_near_it() -> None:
    probes = channels.plan(BLOCKS, 2, 1)
    for warm, pair in zip(probes[::2], probes[1::2], strict=True):
        assert warm.kind == "warm"
        assert pair.kind != "warm"
        assert warm.a // channels.WARM == pair.a // channels.WARM
        assert warm.b < 0 or warm.b // channels.WARM == pair.b // channels.WARM


def test_the_seed_determines_the_plan() -> None:
    assert channels.plan(BLOCKS, 1, 7) == channels.plan(BLOCKS, 1, 7)
    first, second = ({p.a for p in channels.plan(BLOCKS, 1, seed)} for seed in (7, 8))
    assert len(first & second) < len(first) / 10


def test_passes_are_one_after_the_other() -> None:
    turns = [p.pass_number for p in channels.plan(BLOCKS, 1, 1)]
    assert turns == sorted(turns)
    assert set(turns) == {0, 1}


def test_distances_have_two_multiples_of_each_usual_period() -> None:
    usual = channels.distances(BLOCKS)
    for kib in (4, 8, 16, 32, 64, 128, 256, 512, 1024):
        for n in range(2, channels.MAX_CHANNELS):
            period = kib // 4 * n
            assert sum(d % period == 0 for d in usual) >= 2, (kib, n)


# --- devices with a map ------------------------------------------------------

noises = st.sampled_from([QUIET, USUAL])


@settings(max_examples=10, deadline=None)
@given(
    st.sampled_from([1, 2, 4, 8, 16, 32, 64, 128, 256]), st.integers(2, 64), noises, st.integers(0, 1 << 32)
)
def test_stripes_are_found(chunk: int, stripes: int, noise: Noise, seed: int) -> None:
    got = found(Map(chunk, stripes), noise, seed=seed)
    assert (got.kind, got.channels, got.chunk_kb) == ("stripes", stripes, chunk * 4)
    assert got.sure >= channels.ENOUGH


def test_most_stripes_are_found_in_loud_noise() -> None:
    """The other maps are reported as unsure, which changes no setting. None is reported as a wrong map."""
    pick = random.Random(5)  # noqa: S311
    maps = [Map(1 << pick.randrange(9), pick.randint(2, 64)) for _ in range(10)]
    got = [(m, found(m, LOUD, seed=seed)) for seed, m in enumerate(maps)]
    usable = [(m, v) for m, v in got if v.usable]
    assert [(v.channels, v.chunk_kb) for _, v in usable] == [(m.stripes, m.chunk * 4) for m, _ in usable]
    assert len(usable) >= 7


@settings(max_examples=8, deadline=None)
@given(st.integers(3, 64), noises, st.integers(0, 1 << 32))
def test_ranges_are_found(ranges: int, noise: Noise, seed: int) -> None:
    got = found(Map(0, 1, ranges), noise, seed=seed)
    assert (got.kind, got.channels, got.chunk_kb) == ("ranges", ranges, 0)


def test_most_pairs_of_ranges_are_found() -> None:
    """With two ranges, half of all pairs collide. Up to one plan in ten is unsure. None names a wrong map."""
    got = [found(Map(0, 1, 2), noise, seed=seed) for noise in (QUIET, USUAL) for seed in range(20)]
    assert {(v.kind, v.channels) for v in got} <= {("ranges", 2), ("unsure", 1)}
    assert sum(v.kind == "ranges" for v in got) >= 36


@pytest.mark.parametrize("m", [Map(3, 7), Map(6, 12), Map(12, 5), Map(24, 16)])
def test_chunks_need_not_be_powers_of_two(m: Map) -> None:
    got = found(m)
    assert (got.kind, got.channels, got.chunk_kb) == ("stripes", m.stripes, m.chunk * 4)


def test_of_ranges_with_stripes_the_larger_number_of_channels_is_reported() -> None:
    got = found(Map(8, 2, 8))
    assert (got.kind, got.channels, got.chunk_kb, got.map) == ("ranges", 8, 0, Map(8, 2, 8))
    assert "each has 2 parts, 32 KiB each in turn" in got.sentence()
    got = found(Map(4, 16, 2))
    assert (got.kind, got.channels, got.chunk_kb) == ("stripes", 16, 16)
    assert "in each of 2 equal ranges" in got.sentence()


def test_dies_are_reported_if_they_cost_more_than_their_shared_channels() -> None:
    die, channel = Map(4, 16).shares_channel(BLOCKS), Map(4, 8).shares_channel(BLOCKS)

    def ns(p: Probe) -> float:
        return US * (100 if p.b < 0 else 185 if die(p.a, p.b) else 125 if channel(p.a, p.b) else 110)

    got = judged(ns)
    assert (got.kind, got.channels, got.chunk_kb) == ("stripes", 16, 16)


def test_stripes_are_found_although_one_page_serves_two_reads() -> None:
    die = Map(4, 16).shares_channel(BLOCKS)
    got = judged(device(lambda a, b: a // 4 != b // 4 and die(a, b)))
    assert (got.kind, got.channels, got.chunk_kb) == ("stripes", 16, 16)


def test_a_small_device_is_enough() -> None:
    got = found(Map(4, 8), blocks=channels.MIN_BLOCKS)
    assert (got.kind, got.channels, got.chunk_kb) == ("stripes", 8, 16)


# --- devices without a map ---------------------------------------------------


@settings(max_examples=8, deadline=None)
@given(st.floats(0, 0.5), st.floats(0, 0.6), st.sampled_from([110, 150, 199]), st.integers(0, 1 << 32))
def test_noise_is_never_a_map(spread: float, late: float, apart: int, seed: int) -> None:
    got = judged(device(lambda a, b: False, apart=apart), Noise(spread, late), seed=seed)
    assert not got.usable


@settings(max_examples=8, deadline=None)
@given(
    st.integers(1, 256), st.integers(2, 64), st.floats(0.1, 0.6), st.floats(0.1, 0.6), st.integers(0, 1 << 32)
)
def test_a_map_that_is_found_in_noise_is_correct(
    chunk: int, n: int, spread: float, late: float, seed: int
) -> None:
    got = found(Map(chunk, n), Noise(spread, late), seed=seed)
    assert not got.usable or (got.channels, got.chunk_kb) == (n, chunk * 4)


def test_pairs_that_never_collide() -> None:
    got = judged(device(lambda a, b: False, apart=150))
    assert (got.kind, got.channels, got.chunk_kb) == ("none", 1, 0)
    assert got.sentence().startswith("no channels found: pairs of reads never collide")


def test_one_at_a_time() -> None:
    got = judged(device(lambda a, b: True, together=198))
    assert got.kind == "one"
    assert got.sentence() == "the device takes one request at a time, so it has no channels to choose from"
    assert judged(device(Map(4, 16).shares_channel(BLOCKS)), tags=2).kind == "one"
    assert judged(device(Map(4, 16).shares_channel(BLOCKS)), tags=3).kind == "stripes"


def test_a_disk() -> None:
    pick = random.Random(1)  # noqa: S311
    got = judged(lambda p: US * pick.uniform(4000, 20000))
    assert got.kind == "disk"
    assert got.sentence() == "a rotating disk: it has no channels"


@pytest.mark.parametrize("n", [4, 16, 32])
def test_a_map_that_is_not_by_address(n: int) -> None:
    def channel(block: int) -> int:
        return random.Random(block).randrange(n)  # noqa: S311

    got = judged(device(lambda a, b: channel(a) == channel(b)), samples=24)
    assert got.kind == "scattered"
    assert 0.5 * n <= got.channels <= 2 * n
    assert not got.usable


def test_a_cached_mapping_table_is_no_map() -> None:
    """The device has no DRAM. A pair within 4 MiB needs one part of its mapping table, other pairs need two parts."""
    got = judged(device(lambda a, b: a // 1024 != b // 1024, apart=150, together=190))
    assert not got.usable


def test_a_mapping_table_whose_parts_displace_each_other_is_no_map() -> None:
    """The cache of the device has 16 places. Each part of the mapping table can be in one place only.

    The first device works on one request at a time, the second on several.
    """
    conflict = Map(1024, 16).shares_channel(BLOCKS)

    def displaced(a: int, b: int) -> bool:
        return a // 1024 != b // 1024 and conflict(a, b)

    assert judged(device(displaced, apart=196, together=240)).kind == "one"
    assert judged(device(displaced, apart=150, together=175)).kind == "none"


def test_a_map_that_changes_between_the_passes_is_not_sure() -> None:
    first, second = Map(4, 16).shares_channel(BLOCKS), Map(4, 8).shares_channel(BLOCKS)
    probes = channels.plan(BLOCKS, SAMPLES, 1)
    times = timed(probes, lambda p: device(second if p.pass_number else first)(p))
    got = channels.verdict(probes, times, BLOCKS)
    assert got.kind == "unsure"
    assert got.sentence().startswith("not sure")


@pytest.mark.parametrize("wrong", [Map(4, 32), Map(4, 8), Map(8, 8), Map(2, 32), Map(8, 16), Map(2, 16)])
def test_a_nearly_correct_map_is_not_sure(wrong: Map) -> None:
    """Such a map predicts almost all pairs correctly, because most pairs are on different channels in both maps."""
    probes = channels.plan(BLOCKS, SAMPLES, 1)
    seen, _ = channels._passes(probes, timed(probes, device(Map(4, 16).shares_channel(BLOCKS))))
    assert channels._sure(Map(4, 16), 147 * US, seen, BLOCKS) > 0.9
    assert channels._sure(wrong, 147 * US, seen, BLOCKS) < channels.ENOUGH / 2


@settings(max_examples=8, deadline=None)
@given(st.sampled_from([2, 4, 8, 16]), st.integers(2, 64), st.floats(0.25, 0.75))
def test_stripes_that_do_not_begin_at_address_0_are_not_applied(chunk: int, n: int, part: float) -> None:
    offset = max(1, int(chunk * part))
    assert not judged(device(Map(chunk, n, 1, offset).shares_channel(BLOCKS))).usable


def test_other_load_is_reported() -> None:
    assert "other load" not in found(Map(4, 8)).sentence()
    got = found(Map(4, 8), Noise(0.02, 0.4))
    assert got.slow > 0.1
    assert "of single reads were slow: other load on the device" in got.sentence()


def test_sentences() -> None:
    assert found(Map(4, 16), QUIET).sentence() == "16 channels, 16 KiB each in turn (sure: 0.99)"
    assert found(Map(0, 1, 8), QUIET).sentence() == "equal ranges of addresses, 8 channels (sure: 0.99)"
