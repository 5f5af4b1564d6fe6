# SPDX-License-Identifier: Apache-2.0
"""Which addresses of a flash device share a channel (or die): from the times of pairs of reads.

Two reads that are issued at once take about twice as long if they meet on a channel, and hardly longer
if they do not. `plan()` says which pairs to time, `verdict()` draws the conclusion. Nothing here touches
a device: ek-pairs measures, and a lab or a test may do so in its place.

Blocks are of 4 KiB, times in ns. A map has `chunk` blocks on a channel before the next, over `stripes`
channels, in each of `ranges` equal ranges of the device's addresses; those who meet are equal in both.

How the map is found, in each of two passes by itself:

1. Distances are odd * 2^i blocks, so that with each period there are its multiples. The median time at a
   distance is high if most pairs there meet. The widest gaps between medians are tried as the threshold.
2. The period is the least distance whose multiples have high medians as well; with it, the chunk is the
   divisor under which the single pairs are most likely. Pairs far apart tell ranges in the same way.
3. What one pass says is held against the pairs of the other. `sure` is the share of pairs that it says
   right, of those on which it and its nearest rival differ (half or twice the channels, half or twice the
   chunk, another first address, one range more or less, no map at all); the worst rival counts. Both passes must say the same.
"""

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

BLOCK = 4096  # bytes of a read: no more than a flash page
MOST = 64  # channels that the scheduler can be told
ENOUGH = 0.8  # less sure than that is not sure
LEAST_BLOCKS = (64 << 20) // BLOCK  # smaller devices have no room for the distances
FAR_BLOCKS = (128 << 20) // BLOCK  # the longest distance for stripes: 64 channels of 1 MiB, twice
ODD_MOST = 63
LEAST_SAMPLES, MOST_SAMPLES = 8, 24  # per distance and pass
WARM = 256  # blocks of a part of the mapping table that the device surely reads at once: 1 MiB

# of a pair's time: less is no wait for cells, but for a bus, or for parts of the mapping table that displace each other
LEAST_GAP = 0.2
# what ranges must add to the log likelihood: a factor of 20,000
RANGES_NATS = 10
# two reads one after the other take 2, less what the host's part of them overlaps
IN_TURN = 1.7
# no flash takes that long for 4 KiB, no disk is faster on average
DISK_NS = 2_000_000


@dataclass(frozen=True, slots=True)
class Probe:
    """Reads to issue at once at block `a` and, unless -1, at `b`. Kinds: single, near, loose, far, again, warm."""

    kind: str
    turn: int  # the pass, 0 or 1
    a: int
    b: int = -1


@dataclass(frozen=True, slots=True)
class Map:
    """See above; chunk 0 with one stripe: no stripes. `offset` blocks of the first chunk are missing (rivals only)."""

    chunk: int = 0
    stripes: int = 1
    ranges: int = 1
    offset: int = 0

    def meeting(self, blocks: int) -> Callable[[int, int], bool]:
        """Do two blocks of a device of `blocks` meet?"""
        unit = -(-blocks // self.ranges)
        chunk, stripes, offset = max(self.chunk, 1), self.stripes, self.offset

        def meet(a: int, b: int) -> bool:
            if unit < blocks:
                if a // unit != b // unit:
                    return False
                a, b = a % unit, b % unit
            return ((a + offset) // chunk - (b + offset) // chunk) % stripes == 0

        return meet

    def tells(self, s: "_Sample") -> bool:
        """Not a pair within a chunk: a device may read a page once for both, and then they do not collide."""
        return self.stripes == 1 or s.a // self.chunk != s.b // self.chunk

    def rivals(self) -> Iterator["Map"]:
        """What it is easily mistaken for."""
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
                # the truth if stripes of twice the chunk do not begin at address 0
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
    """What was found. Kinds: stripes, ranges, none, scattered, one, disk, unsure.

    `channels` and `chunk_kb` are for the scheduler, 1 and 0 if there is nothing to tell it. Of kind
    unsure, they are the best guess, which is not to be used. `sure` is 0 to 1, see above.
    """

    kind: str
    channels: int = 1
    chunk_kb: int = 0
    sure: float = 0.0
    single_us: float = 0.0  # a read alone, median
    apart_us: float = 0.0  # two that do not meet
    together_us: float = 0.0  # two that do, 0 if none did
    slow: float = 0.0  # share of single reads that took more than half as long again: other load
    inside: Map = field(default_factory=Map)  # all that was found

    @property
    def usable(self) -> bool:
        return self.kind in ("stripes", "ranges")

    def sentence(self) -> str:
        """What was found, and how sure it is."""
        text = self._finding()
        # of a disk they vary by themselves
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
                m = self.inside
                if self.kind == "ranges" and m.stripes > 1:
                    parts = f"{m.stripes} parts, {m.chunk * BLOCK // 1024} KiB each in turn"
                    text += f"; each works as {parts}, which is more than the scheduler can be told"
                if self.kind == "stripes" and m.ranges > 1:
                    text += f"; and {m.ranges} equal ranges, which is more than the scheduler can be told"
                return text
            case "none":
                return (
                    "no channels found: pairs never collide (the host side is the limit, the blocks"
                    " were never written, or the map is not by address)"
                )
            case "scattered":
                return (
                    f"no channels found: one pair in {self.channels} collides, but not by a map of addresses"
                    " that the scheduler could be told"
                )
            case "one":
                return "the device takes one request at a time: nothing to find"
            case "disk":
                return "a rotating disk: it has no channels"
        if self.channels > 1:
            return f"not sure enough: perhaps {layout} (sure: {self.sure:.2f}, needed: {ENOUGH:.2f})"
        return "not sure: the times vary too much to tell"


# --- what to measure ------------------------------------------------------------------------------


def distances(blocks: int) -> list[int]:
    """odd * 2^i blocks up to 128 MiB, or half of a smaller device. Not 1: the kernel merges neighbours."""
    most = min(FAR_BLOCKS, blocks // 2)
    found = {odd << i for odd in range(1, ODD_MOST + 1, 2) for i in range(most.bit_length())}
    return sorted(d for d in found if 1 < d <= most)


def plan(blocks: int, samples: int, seed: int) -> list[Probe]:
    """Two passes in random order, each with `samples` pairs a distance, all at random places.

    Before each pair its two parts of the mapping table are read (warm), so that a device that
    keeps only part of it in memory does not show that in place of its channels.
    """
    pick = random.Random(seed)  # noqa: S311  places to read, no secret
    again = [_anywhere(pick, blocks) for _ in range(16 * samples)]
    probes: list[Probe] = []
    for turn in (0, 1):
        wanted = [Probe("again", turn, a, b) for a, b in again]
        wanted += [Probe("single", turn, pick.randrange(blocks)) for _ in range(12 * samples)]
        for d in distances(blocks):
            places = (pick.randrange(blocks - d) for _ in range(samples))
            wanted += [Probe("near", turn, a, a + d) for a in places]
        wanted += [Probe("far", turn, *_anywhere(pick, blocks)) for _ in range(24 * samples)]
        # any distance: a chunk of two blocks shows only at one block less or more than a period
        for _ in range(100 * samples):
            d = int(2 ** pick.uniform(1, math.log2(min(FAR_BLOCKS, blocks // 2))))
            a = pick.randrange(blocks - d)
            wanted.append(Probe("loose", turn, a, a + d))
        # distances of any size up to the device's, for the borders of ranges
        for _ in range(40 * samples):
            d = max(2, int(blocks * 2 ** -pick.uniform(1, 8)))
            a = pick.randrange(blocks - d)
            wanted.append(Probe("far", turn, a, a + d))
        pick.shuffle(wanted)
        for probe in wanted:
            a = _beside(pick, probe.a, blocks)
            b = -1 if probe.b < 0 else _beside(pick, probe.b, blocks)
            # two of the same part are one read: the second would be the first's neighbour, or itself
            probes.append(Probe("warm", turn, a, b if abs(a - b) > 1 else -1))
            probes.append(probe)
    return probes


def _anywhere(pick: random.Random, blocks: int) -> tuple[int, int]:
    while True:
        a, b = pick.randrange(blocks), pick.randrange(blocks)
        if abs(a - b) > 1:
            return a, b


def _beside(pick: random.Random, block: int, blocks: int) -> int:
    first = block - block % WARM
    return first + pick.randrange(min(WARM, blocks - first))


# --- what it means --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sample:
    a: int
    b: int
    ns: int


@dataclass(slots=True)
class _Pass:
    """The samples of one pass; near ones by distance."""

    near: dict[int, list[_Sample]] = field(default_factory=dict)
    loose: list[_Sample] = field(default_factory=list)
    far: list[_Sample] = field(default_factory=list)
    again: dict[tuple[int, int], int] = field(default_factory=dict)
    single: list[int] = field(default_factory=list)

    def close(self) -> list[_Sample]:
        """All that are at most FAR_BLOCKS apart."""
        return [s for group in self.near.values() for s in group] + self.loose

    def pairs(self) -> list[_Sample]:
        return self.close() + self.far

    @property
    def low(self) -> int:
        """Time of pairs that do not meet: with two channels, half of those far apart do."""
        return _quantile([s.ns for s in self.far], 0.25)


@dataclass(frozen=True, slots=True)
class _Guess:
    map: Map
    threshold: float  # ns
    sure: float = 0.0


def _quantile(values: Sequence[int], part: float) -> int:
    """One of the values, no mean of two: between two modes there is nothing."""
    return sorted(values)[min(int(part * len(values)), len(values) - 1)]


def _median(values: Sequence[int]) -> int:
    return sorted(values)[(len(values) - 1) // 2]


def _passes(probes: Sequence[Probe], ns: Sequence[int]) -> tuple[_Pass, _Pass]:
    found = (_Pass(), _Pass())
    for probe, time in zip(probes, ns, strict=True):
        into = found[probe.turn]
        match probe.kind:
            case "near":
                into.near.setdefault(probe.b - probe.a, []).append(_Sample(probe.a, probe.b, time))
            case "loose":
                into.loose.append(_Sample(probe.a, probe.b, time))
            case "far":
                into.far.append(_Sample(probe.a, probe.b, time))
            case "again":
                into.again[probe.a, probe.b] = time
            case "single":
                into.single.append(time)
    return found


def _noise(seen: _Pass) -> float:
    """Standard error of the medians, ns: as single reads vary, for pairs may vary because some meet."""
    middle = _median(seen.single)
    spread = 1.48 * _median([abs(t - middle) for t in seen.single])
    samples = min(len(group) for group in seen.near.values())
    return 1.25 * spread * seen.low / middle / math.sqrt(samples)


def _thresholds(seen: _Pass) -> list[float]:
    """The middles of the widest gaps between medians, the widest first."""
    low = seen.low
    medians = [_median([s.ns for s in group]) for group in seen.near.values()]
    steps = sorted({low, *(m for m in medians if m > low)})
    least = max(LEAST_GAP * low, 4 * _noise(seen))
    gaps = [(b - a, (a + b) / 2) for a, b in itertools.pairwise(steps) if b - a >= least]
    return [middle for _, middle in sorted(gaps, reverse=True)[:5]]


def _log_likelihood(m: Map, blocks: int, samples: Sequence[_Sample], threshold: float) -> float:
    """Of collisions that happen at one rate where pairs meet, at another, lower one, elsewhere, and at any in a chunk."""
    slow, count = [0, 0, 0], [0, 0, 0]
    meets = m.meeting(blocks)
    for s in samples:
        where = meets(s.a, s.b) if m.tells(s) else 2
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
    """Distances that collide, and whose multiples do; the shortest first."""
    high = {d for d, rate in rates.items() if rate >= 0.75}
    found = []
    for d in sorted(high):
        multiples = [m for m in rates if m % d == 0]
        # of a period there must be more than one to see; a few may be lost in noise
        if len(multiples) > 1 and sum(m in high for m in multiples) >= 0.85 * len(multiples):
            found.append(d)
    return found[:4]


def _stripes(seen: _Pass, threshold: float, blocks: int) -> Map | None:
    """The most likely stripes; a map without any if all neighbours meet; None if there is no period."""
    rates = {d: _rate(group, threshold) for d, group in seen.near.items()}
    if sum(rate >= 0.75 for rate in rates.values()) >= 0.95 * len(rates):
        return Map()
    candidates = [
        Map(period // n, n) for period in _periods(rates) for n in range(2, MOST + 1) if period % n == 0
    ]
    if not candidates:
        return None
    close = seen.close()
    return max(candidates, key=lambda m: _log_likelihood(m, blocks, close, threshold))


def _guess(seen: _Pass, threshold: float, blocks: int) -> Map | None:
    stripes = _stripes(seen, threshold, blocks)
    if stripes is None:
        return None
    # ranges must be much more likely than none: there are many to choose from
    best = Map(stripes.chunk, stripes.stripes, 1)
    most = _log_likelihood(best, blocks, seen.far, threshold) + RANGES_NATS
    for r in range(2, MOST + 1):
        ranges = Map(stripes.chunk, stripes.stripes, r)
        if (likely := _log_likelihood(ranges, blocks, seen.far, threshold)) > most:
            best, most = ranges, likely
    return best if best != Map() else None


def _sure(guess: Map, threshold: float, held: _Pass, blocks: int) -> float:
    """Of the pairs on which a rival differs, the share that `guess` says right; the worst rival counts."""
    meets = guess.meeting(blocks)
    pairs = held.pairs()
    # those within a chunk count where they do collide: of long periods there are few others
    if _rate([s for s in pairs if not guess.tells(s)], threshold) < 0.75:
        pairs = [s for s in pairs if guess.tells(s)]
    said = [(s, meets(s.a, s.b)) for s in pairs]
    yes = [s for s, met in said if met]
    worst = _rate(yes, threshold) - _rate([s for s, met in said if not met], threshold)
    for rival in guess.rivals():
        other = rival.meeting(blocks)
        differ = [(s, met) for s, met in said if other(s.a, s.b) != met]
        if len(differ) < LEAST_SAMPLES:
            # too few to tell them apart
            return 0.0
        worst = min(worst, sum((s.ns > threshold) == met for s, met in differ) / len(differ))
    return max(worst, 0.0)


def _best(seen: _Pass, held: _Pass, blocks: int) -> _Guess | None:
    """The guess with the widest gap that the other pass confirms, else the one that it likes best."""
    best: _Guess | None = None
    for threshold in _thresholds(seen):
        found = _guess(seen, threshold, blocks)
        if found is None:
            continue
        guess = _Guess(found, threshold, _sure(found, threshold, held, blocks))
        if guess.sure >= ENOUGH:
            return guess
        if best is None or guess.sure > best.sure:
            best = guess
    return best


def _scattered(passes: tuple[_Pass, _Pass], low: int) -> int:
    """One in how many pairs collides, the same ones in both passes; 0 if it is not always the same ones."""
    # each pass has them in an order of its own
    slow = [[seen.again[pair] > 1.25 * low for pair in passes[0].again] for seen in passes]
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
    """What the times of a plan say. `tags`: requests that the device takes at once, 0 if not known."""
    passes = _passes(probes, ns)
    singles = passes[0].single + passes[1].single
    single = _median(singles)
    low = _median([seen.low for seen in passes])
    slow = sum(t > 1.5 * single for t in singles) / len(singles)

    def say(kind: str, channels: int = 1, chunk_kb: int = 0, guess: _Guess | None = None) -> Verdict:
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
        return say("disk")
    # whatever else pairs show: if those that do not meet wait for each other, there is nothing to choose
    if 0 < tags <= 2 or low >= IN_TURN * single:
        return say("one")
    ways = (_best(passes[0], passes[1], blocks), _best(passes[1], passes[0], blocks))
    if ways[0] and ways[1]:
        agree = ways[0].map == ways[1].map
        sure = min(ways[0].sure, ways[1].sure) if agree else 0.0
        better = max(ways, key=lambda g: g.sure if g else 0.0)
        assert better
        guess = _Guess(better.map, better.threshold, sure)
        m = guess.map
        by_stripes = m.stripes >= m.ranges
        told = (m.stripes, m.chunk * BLOCK // 1024) if by_stripes else (m.ranges, 0)
        if sure >= ENOUGH:
            return say("stripes" if by_stripes else "ranges", *told, guess)
        if better.sure >= ENOUGH / 2:
            return say("unsure", *told, guess)
    if one_in := _scattered(passes, low):
        return say("scattered", one_in)
    quiet = all(4 * _noise(seen) <= LEAST_GAP * low and not _thresholds(seen) for seen in passes)
    return say("none" if quiet else "unsure")
