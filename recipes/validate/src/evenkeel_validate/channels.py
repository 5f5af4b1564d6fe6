# SPDX-License-Identifier: Apache-2.0
"""Finds out which addresses of a flash device share a channel (or die), from the times of pairs of reads.

Two reads that are issued at once take about twice the time of one read if they need the same channel. If they need
different channels, they take hardly longer than one read. plan() chooses the pairs to measure; verdict() evaluates
their times. This module does not access a device: ek-pairs measures the times. In the lab and in tests, models of a
device supply them.

A block has 4 KiB. Times are in ns. A map divides the device's addresses into `ranges` equal ranges. In each range,
`chunk` consecutive blocks are on one channel and the next `chunk` blocks on the next channel. After `stripes`
channels, the first one follows again; so the period is `chunk` * `stripes` blocks. Two blocks share a channel if they
are in the same range and on the same stripe. A pair collides if it takes longer than a threshold.

The plan measures two passes. Each pass alone gives a map, in three steps:

1. Find thresholds. The plan has pairs at distances of odd * 2^i blocks. Every period whose odd part is at most MAX_ODD
   has multiples among them. The median time at a distance is high if most pairs at that distance share a channel.
   Each of the widest gaps between medians is tried as the threshold.
2. Find the map. A period is a short distance that collides and whose multiples collide, too. Its divisors are the
   possible chunks. The map has the period and chunk with the highest likelihood, given whether each pair collided. The
   number of ranges is chosen by likelihood, too, from pairs at any distance.
3. Test the map with the pairs of the other pass. A rival is a similar map, such as half or twice the channels (see
   Map.rivals()). For each rival, take the pairs for which the map and the rival predict different results. `sure` is the
   part of these pairs that the map predicts correctly, for the rival with the lowest part.

Both passes must give the same map.
"""

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

BLOCK = 4096  # bytes of a read: at most one flash page
MAX_CHANNELS = 64  # the maximum of the scheduler's tunable `channels`
ENOUGH = 0.8  # the lowest `sure` of a result that may be applied
MIN_BLOCKS = (64 << 20) // BLOCK  # the smallest device: on a smaller one, too few distances fit
# the longest distance of pairs that serve to find stripes: two periods of 64 channels with chunks of 1 MiB
MAX_DISTANCE = (128 << 20) // BLOCK
MAX_ODD = 63  # the largest odd factor of a distance
MIN_SAMPLES, MAX_SAMPLES = 8, 24  # number of pairs per distance and pass
# A warm probe reads a block in the same aligned group of this many blocks (1 MiB). For at least such a group, a device
# loads the entries of its mapping table at once.
WARM = 256

# The smallest gap between medians that counts, as a part of a pair's time. A smaller gap does not come from waiting
# for flash cells. It comes from a bus, or from parts of the mapping table that displace each other in the
# device's cache.
MIN_GAP = 0.2
# A map with ranges must have a log likelihood that is higher by this than without: it is e^10 = 22,000 times likelier.
RANGES_NATS = 10
# A device works on one request at a time if even fast pairs take this many times as long as one read. The factor is
# below 2, because the host's part of the two reads overlaps.
IN_TURN = 1.7
# If a single read takes longer than this (median), the device is a rotating disk: flash reads 4 KiB faster.
DISK_NS = 2_000_000


@dataclass(frozen=True, slots=True)
class Probe:
    """One measurement: a read of block `a`, or reads of `a` and `b` at once if `b` is not -1.

    Kinds: `single` is one read. Pairs are `near` (at a distance of distances()), `loose` (at any distance up to
    MAX_DISTANCE), `far` (at any distance), or `repeat` (both passes measure the same ones). `warm`: see plan().
    """

    kind: str
    pass_number: int  # 0 or 1
    a: int
    b: int = -1


@dataclass(frozen=True, slots=True)
class Map:
    """How addresses map to channels: see the top of the file. Without stripes, `stripes` is 1 and `chunk` is 0.

    Only rivals have an `offset`: the first chunk is shorter by this many blocks.
    """

    chunk: int = 0
    stripes: int = 1
    ranges: int = 1
    offset: int = 0

    def shares_channel(self, blocks: int) -> Callable[[int, int], bool]:
        """Returns a function that says whether two blocks share a channel. The device has `blocks` blocks."""
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
        """Whether the pair can test this map. A pair within one chunk cannot: one page read may serve both reads."""
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
                # Twice the chunk and half the stripes; the first chunk begins before address 0, so it is shorter.
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
    """The result of a probe. `sure` is 0 to 1, see the top of the file.

    `channels` and `chunk_kb` are the values for the scheduler's tunables, or 1 and 0 if no channels were found.
    Kinds:

    - `stripes`, `ranges`: the channels are stripes, or ranges of addresses.
    - `none`: no pair collides.
    - `scattered`: one pair in `channels` collides, but no map fits.
    - `one`: the device takes one request at a time.
    - `disk`: a rotating disk.
    - `unsure`: the values are the best guess and must not be applied.
    """

    kind: str
    channels: int = 1
    chunk_kb: int = 0
    sure: float = 0.0
    single_us: float = 0.0  # median time of a single read
    apart_us: float = 0.0  # time of two reads on different channels
    together_us: float = 0.0  # time of two reads on the same channel; 0 if no pair collided
    slow: float = 0.0  # part of single reads that took over 1.5 times the median: a sign of other load
    # the complete map: it may have stripes within ranges, which the tunables cannot express
    map: Map = field(default_factory=Map)

    @property
    def usable(self) -> bool:
        return self.kind in ("stripes", "ranges")

    def sentence(self) -> str:
        """The result in words, with `sure` and a warning about slow reads."""
        text = self._finding()
        # no warning for a rotating disk: its times vary even without other load
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
    """The distances of near pairs, in blocks: odd * 2^i, up to MAX_DISTANCE and half of the device.

    Distance 1 is excluded, because the kernel merges reads of adjacent blocks.
    """
    most = min(MAX_DISTANCE, blocks // 2)
    found = {odd << i for odd in range(1, MAX_ODD + 1, 2) for i in range(most.bit_length())}
    return sorted(d for d in found if 1 < d <= most)


def plan(blocks: int, samples: int, seed: int) -> list[Probe]:
    """The measurements of two passes. Each has `samples` pairs per distance at random places, in random order.

    Before each measurement, a warm probe reads a block near each of its blocks. The device then has the needed
    parts of its mapping table in its cache. Otherwise, the time to load the table would hide the channels.
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
        # Pairs at any distance find the chunk. For example, a chunk of two blocks shows only at distances of one
        # block more or less than a multiple of the period.
        for _ in range(100 * samples):
            d = int(2 ** pick.uniform(1, math.log2(min(MAX_DISTANCE, blocks // 2))))
            a = pick.randrange(blocks - d)
            wanted.append(Probe("loose", pass_number, a, a + d))
        # Distances of every magnitude up to half the device find ranges. Only a pair on both sides of a border
        # shows where a range ends.
        for _ in range(40 * samples):
            d = max(2, int(blocks * 2 ** -pick.uniform(1, 8)))
            a = pick.randrange(blocks - d)
            wanted.append(Probe("far", pass_number, a, a + d))
        pick.shuffle(wanted)
        for probe in wanted:
            a = _nearby(pick, probe.a, blocks)
            b = -1 if probe.b < 0 else _nearby(pick, probe.b, blocks)
            # A warm probe reads one block only if its two blocks would be equal or adjacent.
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
    """The measured times of one pass, by kind. Near pairs are grouped by distance, repeated pairs by their blocks."""

    near: dict[int, list[_Sample]] = field(default_factory=dict)
    loose: list[_Sample] = field(default_factory=list)
    far: list[_Sample] = field(default_factory=list)
    repeated: dict[tuple[int, int], int] = field(default_factory=dict)
    single: list[int] = field(default_factory=list)

    def close(self) -> list[_Sample]:
        """The near and loose pairs: all are at most MAX_DISTANCE apart."""
        return [s for group in self.near.values() for s in group] + self.loose

    def pairs(self) -> list[_Sample]:
        return self.close() + self.far

    @property
    def low(self) -> int:
        """The time of pairs on different channels, in ns: the lower quartile of far pairs.

        It is not their median, because half of them collide on a device with two channels.
        """
        return _quantile([s.ns for s in self.far], 0.25)


@dataclass(frozen=True, slots=True)
class _Guess:
    map: Map
    threshold: float  # ns
    sure: float = 0.0


def _quantile(values: Sequence[int], part: float) -> int:
    """The quantile `part` (0 to 1). It is one of the values, never a mean of two.

    The times have two modes, with and without collision. A mean of two values could lie between them.
    """
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
    """The standard error of the medians of near pairs (ns), estimated from single reads.

    The spread of pairs cannot serve: they also differ because only some of them share a channel.
    """
    middle = _median(seen.single)
    spread = 1.48 * _median([abs(t - middle) for t in seen.single])
    samples = min(len(group) for group in seen.near.values())
    return 1.25 * spread * seen.low / middle / math.sqrt(samples)


def _thresholds(seen: _Pass) -> list[float]:
    """Up to five thresholds (ns): the middles of the widest gaps between medians, widest gap first."""
    low = seen.low
    medians = [_median([s.ns for s in group]) for group in seen.near.values()]
    steps = sorted({low, *(m for m in medians if m > low)})
    least = max(MIN_GAP * low, 4 * _noise(seen))
    gaps = [(b - a, (a + b) / 2) for a, b in itertools.pairwise(steps) if b - a >= least]
    return [middle for _, middle in sorted(gaps, reverse=True)[:5]]


def _log_likelihood(m: Map, blocks: int, samples: Sequence[_Sample], threshold: float) -> float:
    """The log likelihood of the collisions in `samples` under map `m`; -inf if the map is impossible.

    The model has three collision rates: of pairs on different channels, on the same channel, and within one chunk.
    The second rate must be higher than the first. The third may have any value.
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
    """The possible periods in blocks: up to four distances that collide and whose multiples collide too, shortest first.

    A distance collides if at least 75 % of its pairs do. `rates` has that part for each distance.
    """
    high = {d for d, rate in rates.items() if rate >= 0.75}
    found = []
    for d in sorted(high):
        multiples = [m for m in rates if m % d == 0]
        # At least two multiples must have been measured, the distance itself included. Noise may hide 15 % of them.
        if len(multiples) > 1 and sum(m in high for m in multiples) >= 0.85 * len(multiples):
            found.append(d)
    return found[:4]


def _stripes(seen: _Pass, threshold: float, blocks: int) -> Map | None:
    """The most likely map of stripes. If pairs at nearly all distances collide: a map without stripes. Else None."""
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
    # Ranges must be much more likely than no ranges: with 63 tries, one fits a little better by chance.
    best = Map(stripes.chunk, stripes.stripes, 1)
    most = _log_likelihood(best, blocks, seen.far, threshold) + RANGES_NATS
    for r in range(2, MAX_CHANNELS + 1):
        ranges = Map(stripes.chunk, stripes.stripes, r)
        if (likely := _log_likelihood(ranges, blocks, seen.far, threshold)) > most:
            best, most = ranges, likely
    return best if best != Map() else None


def _sure(guess: Map, threshold: float, test: _Pass, blocks: int) -> float:
    """`sure` of the map `guess`, from the pairs in `test`.

    For each rival, take the pairs for which `guess` and the rival differ, and the part that `guess` predicts correctly.
    The result is the lowest part, and at most the difference between the collision rates of the pairs that should
    collide and the pairs that should not. If fewer than MIN_SAMPLES pairs distinguish a rival, the result is 0.
    """
    shares = guess.shares_channel(blocks)
    pairs = test.pairs()
    # Pairs within one chunk count if most of them collide. With a long period, few other pairs should collide.
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
    """The guess with the widest gap among those with `sure` of at least ENOUGH; else the one with the highest `sure`."""
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
    """N if one repeated pair in N collides in both passes.

    0 if too few or too many pairs collide, or if mostly different pairs collide in the two passes.
    """
    # The two passes measured the repeated pairs in different orders. Both lists have the order of the first pass.
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
    # If even the faster pairs take the time of two reads in sequence, the device works on one request at a time.
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
