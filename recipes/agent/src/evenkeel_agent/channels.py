# SPDX-License-Identifier: Apache-2.0
"""Finds out which addresses of a flash device share a channel (or die), from the times of pairs of reads.

Two reads that are issued at once take about twice as long if they need the same channel, and hardly longer
if they do not. plan() chooses the pairs to measure, verdict() evaluates their times. This module does not
access a device. ek-pairs measures the times; in the lab and in tests, models of a device give them.

Blocks have 4 KiB, times are in ns. A map divides the device's addresses into `ranges` equal ranges. In each
range, `chunk` consecutive blocks are on one channel, the next `chunk` blocks on the next, over `stripes`
channels in turn. Two blocks share a channel if they are in the same range and on the same stripe. A pair
collides if it takes longer than a threshold.

The plan has two passes. Each pass alone gives a map:

1. Distances are odd * 2^i blocks: multiples of every period whose odd part is at most MAX_ODD. The median time at a
   distance is high if most pairs at that distance share a channel. The widest gaps between medians are
   tried as the threshold.
2. The period is the shortest distance whose multiples have high medians too. Its divisors are the possible
   chunks; the map has the chunk with the highest likelihood of all single pairs. Pairs far apart give the
   ranges in the same way.
3. The map is tested with the pairs of the other pass. `sure` is the part of the pairs that the map predicts
   correctly, among those for which the map and a rival differ. The lowest value over all rivals counts.
   Map.rivals() has the rivals, such as half or twice the channels. Both passes must give the same map.
"""

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

BLOCK = 4096  # bytes of a read: at most one flash page
MAX_CHANNELS = 64  # the maximum of the scheduler's tunable
ENOUGH = 0.8  # a result with a lower `sure` is not applied
MIN_BLOCKS = (64 << 20) // BLOCK  # smaller devices are too small for the distances
MAX_DISTANCE = (
    128 << 20
) // BLOCK  # longest distance for stripes: two periods of 64 channels with 1 MiB each
MAX_ODD = 63
MIN_SAMPLES, MAX_SAMPLES = 8, 24  # per distance and pass
WARM = 256  # 1 MiB: a device reads the mapping table for at least this many blocks at once

# Smallest gap between medians, as a part of a pair's time. A smaller gap is not a wait for flash cells. It comes
# from a bus, or from parts of the mapping table that displace each other in the device's cache.
MIN_GAP = 0.2
# gain in log likelihood that justifies ranges: a factor of 20,000
RANGES_NATS = 10
# Two reads in sequence take twice the time of one read, minus the overlap of the host's part.
IN_TURN = 1.7
# Flash always reads 4 KiB faster than this. A rotating disk is slower on average.
DISK_NS = 2_000_000


@dataclass(frozen=True, slots=True)
class Probe:
    """One read at block `a`, or two at once at `a` and `b` if `b` is not -1.

    Kinds: single; near (a distance of distances()), loose (any distance up to MAX_DISTANCE), far (any distance),
    repeat (the same pairs in both passes); warm (see plan()).
    """

    kind: str
    pass_number: int  # 0 or 1
    a: int
    b: int = -1


@dataclass(frozen=True, slots=True)
class Map:
    """See the top of the file. Chunk 0 with one stripe means no stripes.

    OFFSET is used in rivals only: the first chunk is shorter by OFFSET blocks.
    """

    chunk: int = 0
    stripes: int = 1
    ranges: int = 1
    offset: int = 0

    def shares_channel(self, blocks: int) -> Callable[[int, int], bool]:
        """A function that says whether two blocks of a device with `blocks` blocks share a channel."""
        unit = -(-blocks // self.ranges)
        chunk, stripes, offset = max(self.chunk, 1), self.stripes, self.offset

        def shares(a: int, b: int) -> bool:
            if unit < blocks:
                if a // unit != b // unit:
                    return False
                a, b = a % unit, b % unit
            return ((a + offset) // chunk - (b + offset) // chunk) % stripes == 0

        return shares

    def counts(self, s: "_Sample") -> bool:
        """Whether the pair can test this map. A pair in one chunk cannot: the device may read one page for both."""
        return self.stripes == 1 or s.a // self.chunk != s.b // self.chunk

    def rivals(self) -> Iterator["Map"]:
        """The maps that are most easily mistaken for this one."""
        c, s, r = self.chunk, self.stripes, self.ranges
        if s > 1:
            yield Map(0, 1, r)
            yield Map(c, 2 * s, r)
            yield Map(2 * c, s, r)
            yield Map(c, s + 1, r)
            if s % 2 == 0:
                yield Map(c, s // 2, r) if s > 2 else Map(0, 1, r)
                yield Map(2 * c, s // 2, r) if s > 2 else Map(0, 1, r)
            if s > 2:
                yield Map(c, s - 1, r)
            if s > 2 and s % 2 == 0:
                # This is the true map if stripes with twice the chunk do not begin at address 0.
                yield Map(2 * c, s // 2, r, c)
            if c > 1:
                yield Map(c, s, r, c // 2)
            if c % 2 == 0:
                yield Map(c // 2, s, r)
                yield Map(c // 2, 2 * s, r)
        if r > 1:
            yield Map(c, s, 1)
            yield Map(c, s, r + 1)
            yield Map(c, s, 2 * r)
            if r > 2:
                yield Map(c, s, r - 1)
                yield Map(c, s, r // 2)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result. Kinds: stripes, ranges, none, scattered, one, disk, unsure.

    `channels` and `chunk_kb` are the values for the scheduler's tunables, or 1 and 0 if there are no
    channels. With kind unsure they are the best guess and must not be applied. With kind scattered, one pair
    in `channels` collides. `sure` is 0 to 1, see the top of the file.
    """

    kind: str
    channels: int = 1
    chunk_kb: int = 0
    sure: float = 0.0
    single_us: float = 0.0  # median time of a single read
    apart_us: float = 0.0  # time of two reads on different channels
    together_us: float = 0.0  # time of two reads on the same channel; 0 if no pair collided
    slow: float = 0.0  # part of single reads that took over 1.5 times the median: a sign of other load
    map: Map = field(
        default_factory=Map
    )  # the complete result, which the tunables may not be able to express

    @property
    def usable(self) -> bool:
        return self.kind in ("stripes", "ranges")

    def sentence(self) -> str:
        """The result, and how sure it is, in words."""
        text = self._finding()
        # the times of a rotating disk vary without other load
        if self.slow > 0.1 and self.kind != "disk":
            text += f"; {self.slow * 100:.0f} % of single reads were slow: other load on the device, or a busy CPU"
        return text

    def _finding(self) -> str:
        layout = (
            f"{self.channels} channels, {self.chunk_kb} KiB each in turn"
            if self.chunk_kb
            else f"equal ranges of addresses, {self.channels} channels"
        )
        match self.kind:
            case "stripes" | "ranges":
                text = f"{layout} (sure: {self.sure:.2f})"
                m = self.map
                if self.kind == "ranges" and m.stripes > 1:
                    parts = f"{m.stripes} parts, {m.chunk * BLOCK // 1024} KiB each in turn"
                    text += f"; each has {parts}, which the tunables cannot express"
                if self.kind == "stripes" and m.ranges > 1:
                    text += f"; in each of {m.ranges} equal ranges, which the tunables cannot express"
                return text
            case "none":
                return (
                    "no channels found: pairs of reads never collide (the host side is the limit, the blocks"
                    " were never written, or the map does not depend on the address)"
                )
            case "scattered":
                return (
                    f"no channels found: one pair in {self.channels} collides, but no map of addresses that the"
                    " tunables can express fits"
                )
            case "one":
                return "the device takes one request at a time, so it has no channels to choose from"
            case "disk":
                return "a rotating disk: it has no channels"
        if self.channels > 1:
            return f"not sure: perhaps {layout} (sure: {self.sure:.2f}, needed: {ENOUGH:.2f})"
        return "not sure: the times vary too much; stop other load and probe again"


# --- the plan: which reads to measure -------------------------------------------------------------


def distances(blocks: int) -> list[int]:
    """Numbers odd * 2^i up to MAX_DISTANCE or half of the device, in blocks. Not 1: the kernel merges neighbours."""
    most = min(MAX_DISTANCE, blocks // 2)
    found = {odd << i for odd in range(1, MAX_ODD + 1, 2) for i in range(most.bit_length())}
    return sorted(d for d in found if 1 < d <= most)


def plan(blocks: int, samples: int, seed: int) -> list[Probe]:
    """Two passes in random order, each with `samples` pairs per distance, all at random places.

    Each probe follows a warm probe, which reads a block near each of its blocks. The device then has the needed
    parts of its mapping table in memory. Otherwise, misses of that cache would hide the channels.
    """
    pick = random.Random(seed)  # noqa: S311  chooses places to read, not a secret
    repeated = [_anywhere(pick, blocks) for _ in range(16 * samples)]
    probes: list[Probe] = []
    for pass_number in (0, 1):
        wanted = [Probe("repeat", pass_number, a, b) for a, b in repeated]
        wanted += [Probe("single", pass_number, pick.randrange(blocks)) for _ in range(12 * samples)]
        for d in distances(blocks):
            places = (pick.randrange(blocks - d) for _ in range(samples))
            wanted += [Probe("near", pass_number, a, a + d) for a in places]
        wanted += [Probe("far", pass_number, *_anywhere(pick, blocks)) for _ in range(24 * samples)]
        # Any distance: with a chunk of two blocks, only distances of one block more or less than a period show it.
        for _ in range(100 * samples):
            d = int(2 ** pick.uniform(1, math.log2(min(MAX_DISTANCE, blocks // 2))))
            a = pick.randrange(blocks - d)
            wanted.append(Probe("loose", pass_number, a, a + d))
        # Distances of every magnitude up to half the device, for a device whose channels are ranges of addresses.
        # Only pairs on both sides of a border show where a range ends.
        for _ in range(40 * samples):
            d = max(2, int(blocks * 2 ** -pick.uniform(1, 8)))
            a = pick.randrange(blocks - d)
            wanted.append(Probe("far", pass_number, a, a + d))
        pick.shuffle(wanted)
        for probe in wanted:
            a = _nearby(pick, probe.a, blocks)
            b = -1 if probe.b < 0 else _nearby(pick, probe.b, blocks)
            # Not the same block twice, and no neighbours.
            probes.append(Probe("warm", pass_number, a, b if abs(a - b) > 1 else -1))
            probes.append(probe)
    return probes


def _anywhere(pick: random.Random, blocks: int) -> tuple[int, int]:
    while True:
        a, b = pick.randrange(blocks), pick.randrange(blocks)
        if abs(a - b) > 1:
            return a, b


def _nearby(pick: random.Random, block: int, blocks: int) -> int:
    first = block - block % WARM
    return first + pick.randrange(min(WARM, blocks - first))


# --- the evaluation of the times ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sample:
    a: int
    b: int
    ns: int


@dataclass(slots=True)
class _Pass:
    """The samples of one pass. Near ones are grouped by distance."""

    near: dict[int, list[_Sample]] = field(default_factory=dict)
    loose: list[_Sample] = field(default_factory=list)
    far: list[_Sample] = field(default_factory=list)
    repeated: dict[tuple[int, int], int] = field(default_factory=dict)
    single: list[int] = field(default_factory=list)

    def close(self) -> list[_Sample]:
        """All pairs at most MAX_DISTANCE apart."""
        return [s for group in self.near.values() for s in group] + self.loose

    def pairs(self) -> list[_Sample]:
        return self.close() + self.far

    @property
    def low(self) -> int:
        """Time of pairs on different channels. The lower quartile, because with two channels half of the pairs collide."""
        return _quantile([s.ns for s in self.far], 0.25)


@dataclass(frozen=True, slots=True)
class _Guess:
    map: Map
    threshold: float  # ns
    sure: float = 0.0


def _quantile(values: Sequence[int], part: float) -> int:
    """One of the values, never a mean of two: between the two modes of a bimodal distribution there are no times."""
    return sorted(values)[min(int(part * len(values)), len(values) - 1)]


def _median(values: Sequence[int]) -> int:
    return sorted(values)[(len(values) - 1) // 2]


def _passes(probes: Sequence[Probe], ns: Sequence[int]) -> tuple[_Pass, _Pass]:
    found = (_Pass(), _Pass())
    for probe, time in zip(probes, ns, strict=True):
        into = found[probe.pass_number]
        match probe.kind:
            case "near":
                into.near.setdefault(probe.b - probe.a, []).append(_Sample(probe.a, probe.b, time))
            case "loose":
                into.loose.append(_Sample(probe.a, probe.b, time))
            case "far":
                into.far.append(_Sample(probe.a, probe.b, time))
            case "repeat":
                into.repeated[probe.a, probe.b] = time
            case "single":
                into.single.append(time)
    return found


def _noise(seen: _Pass) -> float:
    """Standard error of the medians, ns, from single reads. The times of pairs also vary if only some pairs share a channel."""
    middle = _median(seen.single)
    spread = 1.48 * _median([abs(t - middle) for t in seen.single])
    samples = min(len(group) for group in seen.near.values())
    return 1.25 * spread * seen.low / middle / math.sqrt(samples)


def _thresholds(seen: _Pass) -> list[float]:
    """The middles of the widest gaps between medians, widest gap first."""
    low = seen.low
    medians = [_median([s.ns for s in group]) for group in seen.near.values()]
    steps = sorted({low, *(m for m in medians if m > low)})
    least = max(MIN_GAP * low, 4 * _noise(seen))
    gaps = [(b - a, (a + b) / 2) for a, b in itertools.pairwise(steps) if b - a >= least]
    return [middle for _, middle in sorted(gaps, reverse=True)[:5]]


def _log_likelihood(m: Map, blocks: int, samples: Sequence[_Sample], threshold: float) -> float:
    """The log likelihood of the collisions under map `m`.

    The model has three collision rates: pairs on different channels, pairs on the same channel (higher), and
    pairs in one chunk (any rate).
    """
    slow, count = [0, 0, 0], [0, 0, 0]
    shares = m.shares_channel(blocks)
    for s in samples:
        where = shares(s.a, s.b) if m.counts(s) else 2
        count[where] += 1
        slow[where] += s.ns > threshold
    rates = [(k + 0.5) / (n + 1) for k, n in zip(slow, count, strict=True)]
    if rates[1] <= rates[0]:
        return -math.inf
    return sum(
        k * math.log(p) + (n - k) * math.log(1 - p) for k, n, p in zip(slow, count, rates, strict=True)
    )


def _rate(samples: Sequence[_Sample], threshold: float) -> float:
    return sum(s.ns > threshold for s in samples) / len(samples) if samples else 0.0


def _periods(rates: dict[int, float]) -> list[int]:
    """Distances that collide and whose multiples collide too, shortest first."""
    high = {d for d, rate in rates.items() if rate >= 0.75}
    found = []
    for d in sorted(high):
        multiples = [m for m in rates if m % d == 0]
        # At least two multiples must have been measured. Noise may hide a few of them.
        if len(multiples) > 1 and sum(m in high for m in multiples) >= 0.85 * len(multiples):
            found.append(d)
    return found[:4]


def _stripes(seen: _Pass, threshold: float, blocks: int) -> Map | None:
    """The most likely stripes. A map without stripes if all near pairs collide; None if there is no period."""
    rates = {d: _rate(group, threshold) for d, group in seen.near.items()}
    if sum(rate >= 0.75 for rate in rates.values()) >= 0.95 * len(rates):
        return Map()
    candidates = [
        Map(period // n, n)
        for period in _periods(rates)
        for n in range(2, MAX_CHANNELS + 1)
        if period % n == 0
    ]
    if not candidates:
        return None
    close = seen.close()
    return max(candidates, key=lambda m: _log_likelihood(m, blocks, close, threshold))


def _guess(seen: _Pass, threshold: float, blocks: int) -> Map | None:
    stripes = _stripes(seen, threshold, blocks)
    if stripes is None:
        return None
    # Ranges must be much more likely than no ranges, because so many numbers of ranges are tried.
    best = Map(stripes.chunk, stripes.stripes, 1)
    most = _log_likelihood(best, blocks, seen.far, threshold) + RANGES_NATS
    for r in range(2, MAX_CHANNELS + 1):
        ranges = Map(stripes.chunk, stripes.stripes, r)
        if (likely := _log_likelihood(ranges, blocks, seen.far, threshold)) > most:
            best, most = ranges, likely
    return best if best != Map() else None


def _sure(guess: Map, threshold: float, test: _Pass, blocks: int) -> float:
    """The part of the pairs in `test` that `guess` predicts correctly, among those for which a rival differs.

    The lowest value over all rivals counts. 0 if too few pairs distinguish a rival.
    """
    shares = guess.shares_channel(blocks)
    pairs = test.pairs()
    # Pairs in one chunk count if the device makes them collide: with a long period there are few others.
    if _rate([s for s in pairs if not guess.counts(s)], threshold) < 0.75:
        pairs = [s for s in pairs if guess.counts(s)]
    predicted = [(s, shares(s.a, s.b)) for s in pairs]
    same = [s for s, collides in predicted if collides]
    worst = _rate(same, threshold) - _rate([s for s, collides in predicted if not collides], threshold)
    for rival in guess.rivals():
        rival_shares = rival.shares_channel(blocks)
        differ = [(s, collides) for s, collides in predicted if rival_shares(s.a, s.b) != collides]
        if len(differ) < MIN_SAMPLES:
            return 0.0
        worst = min(worst, sum((s.ns > threshold) == collides for s, collides in differ) / len(differ))
    return max(worst, 0.0)


def _best(seen: _Pass, test: _Pass, blocks: int) -> _Guess | None:
    """The guess with the widest gap that `test` confirms, else the guess with the highest `sure`."""
    best: _Guess | None = None
    for threshold in _thresholds(seen):
        found = _guess(seen, threshold, blocks)
        if found is None:
            continue
        guess = _Guess(found, threshold, _sure(found, threshold, test, blocks))
        if guess.sure >= ENOUGH:
            return guess
        if best is None or guess.sure > best.sure:
            best = guess
    return best


def _scattered(passes: tuple[_Pass, _Pass], low: int) -> int:
    """N if one repeated pair in N collides in both passes; 0 if too few or too many pairs collide, or others in each pass."""
    # each pass measured the repeated pairs in another order
    slow = [[seen.repeated[pair] > 1.25 * low for pair in passes[0].repeated] for seen in passes]
    both = sum(x and y for x, y in zip(slow[0], slow[1], strict=True))
    count = len(slow[0])
    by_chance = sum(slow[0]) * sum(slow[1]) / count
    most = max(sum(slow[0]), sum(slow[1]))
    if both < 4 or both < 3 * by_chance or both < most / 2 or both > 0.75 * count:
        return 0
    return round(count / both)


def verdict(
    probes: Sequence[Probe], ns: Sequence[int], blocks: int, *, rotational: bool = False, tags: int = 0
) -> Verdict:
    """Evaluate the times `ns` of a plan. `tags`: number of requests that the device accepts at once; 0: unknown."""
    passes = _passes(probes, ns)
    singles = passes[0].single + passes[1].single
    single = _median(singles)
    low = _median([seen.low for seen in passes])
    slow = sum(t > 1.5 * single for t in singles) / len(singles)

    def result(kind: str, channels: int = 1, chunk_kb: int = 0, guess: _Guess | None = None) -> Verdict:
        over = [s.ns for seen in passes for s in seen.pairs() if guess and s.ns > guess.threshold]
        return Verdict(
            kind,
            channels,
            chunk_kb,
            round(min(guess.sure, 0.99), 2) if guess else 0.0,
            single / 1000,
            low / 1000,
            _median(over) / 1000 if over else 0.0,
            slow,
            guess.map if guess else Map(),
        )

    if rotational or single > DISK_NS:
        return result("disk")
    # If even the fastest pairs wait for each other, the device works on one request at a time.
    if 0 < tags <= 2 or low >= IN_TURN * single:
        return result("one")
    guesses = (_best(passes[0], passes[1], blocks), _best(passes[1], passes[0], blocks))
    if guesses[0] and guesses[1]:
        agree = guesses[0].map == guesses[1].map
        sure = min(guesses[0].sure, guesses[1].sure) if agree else 0.0
        better = max(guesses, key=lambda g: g.sure if g else 0.0)
        assert better
        guess = _Guess(better.map, better.threshold, sure)
        m = guess.map
        by_stripes = m.stripes >= m.ranges
        tunables = (m.stripes, m.chunk * BLOCK // 1024) if by_stripes else (m.ranges, 0)
        if sure >= ENOUGH:
            return result("stripes" if by_stripes else "ranges", *tunables, guess)
        if better.sure >= ENOUGH / 2:
            return result("unsure", *tunables, guess)
    if one_in := _scattered(passes, low):
        return result("scattered", one_in)
    quiet = all(4 * _noise(seen) <= MIN_GAP * low and not _thresholds(seen) for seen in passes)
    return result("none" if quiet else "unsure")
