# SPDX-License-Identifier: Apache-2.0
"""The cases of a validation, as a table: which loads run, for how long, and how much they may write. No I/O here.

A case that writes ends when it has written its bytes, not after a time. So the wear that is announced is the wear that
is done. `seconds` bounds its time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from evenkeel_report.papers import RATIOS, STALLS

KB, MB = 1 << 10, 1 << 20
# How a case is measured, and so which figures it has (measure.py).
Kind = Literal[
    "limit",
    "sustained",
    "latency",
    "ratio",
    "shares",
    "promise",
    "stall",
    "record",
    "recorder",
    "fixed",
    "channels",
    "cache",
]
# Whether the other schedulers run a case, too: "first" the cases that decide, and "later" the others if time is left.
Compared = Literal["", "first", "later"]
# What a case needs. A case whose needs are not met is skipped, and the report says why.
Need = Literal[
    "groups",
    "evenkeel",
    "file system",
    "discard",
    "ek-player",
    "ek-light-reader",
    "ek-writer",
    "ek-pairs",
    "ek-pool",
    "ek-recorder",
    "large file",
]


@dataclass(frozen=True)
class Job:
    """A load in a group of its own. fio runs it, or ek-light-reader, if its reads are planned.

    - `rw`: fio's pattern. `bs`: size of an I/O, as 4k or 1m. `depth`: I/Os outstanding.
    - `weight`: of its group. `fixed`: its fixed share in percent; 0: none.
    - `buffered`: through the page cache. `sync`: "fsync" after each I/O, or "".
    - `per_second`: number of planned reads; 0: as many as possible.
    - `cached`: the pages of its file stay in the cache at its start; fio would remove them.

    If the target is a file, a third program runs a job that discards (discards.py).
    """

    name: str
    rw: str
    bs: str
    depth: int = 1
    weight: int = 100
    fixed: int = 0
    buffered: bool = False
    sync: str = ""
    per_second: int = 0
    cached: bool = False

    @property
    def writes(self) -> bool:
        return "write" in self.rw

    @property
    def size(self) -> int:
        """Bytes of an I/O."""
        return int(self.bs[:-1]) * {"k": KB, "m": MB}[self.bs[-1]]

    @property
    def stops_all(self) -> bool:
        """Whether a device may serve nothing else during an I/O of the job: a discard or a flush."""
        return self.rw == "trim" or bool(self.sync)


@dataclass(frozen=True)
class Case:
    """One measurement.

    - `settle`, `seconds`: before the window in which I/O is counted, and the longest window.
    - `written`: bytes that the case writes, all its parts together.
    - `compared`: when the other schedulers run it, too.
    """

    name: str
    kind: Kind
    about: str
    jobs: tuple[Job, ...] = ()
    settle: float = 1.0
    seconds: float = 4.0
    written: int = 0
    needs: frozenset[Need] = frozenset()
    compared: Compared = ""
    paper: Mapping[str, float] = field(default_factory=dict)

    @property
    def parts(self) -> int:
        """How often loads run at most: a promise also runs each job alone, and each job that writes three times."""
        if self.kind == "promise":
            return len(self.jobs) + 1 + 2 * sum(job.writes for job in self.jobs)
        if self.kind == "cache":
            return CACHE_PARTS
        return len(self.jobs) + 1 if self.kind == "fixed" else 1

    @property
    def longest(self) -> float:
        """Seconds that the case takes at most, with the start and the end of its programs."""
        return self.before + self.parts * (self.settle + self.seconds + 1.0)

    @property
    def before(self) -> float:
        """Seconds in which the load of `stopping` runs alone."""
        return ONE_SETTLE_S + ONE_S + 1.0 if self.stopping else 0.0

    @property
    def stopping(self) -> Job | None:
        """The load whose single I/O is timed alone first: the bound of a light reader rests on it."""
        return next((job for job in self.jobs if job.stops_all and self.kind == "latency"), None)


# The window of a job of a promise that is measured alone and only reads. Reads end after a time.
ALONE_S = 8.0
# the time before the window of a job of a promise that is measured alone and only reads
ALONE_SETTLE_S = 2.0
# the longest time before the window of a promise in which jobs write
WRITING_SETTLE_S = 12.0
# The window in which a flush or a discard is timed alone, and the time before it
ONE_S, ONE_SETTLE_S = 1.5, 0.5
# The longest window of a promise in which jobs write
CONTENDED_S = 40.0
# The files of a priority directory, in bytes together: less than the 30 % of the cache that the page pool always gives to
# protected files, if the cache has at least 112 MB.
PRIORITY_BYTES = 32 * MB
# Passes over the test file before the page pool has the size that the files need, at most: its controller decides after as many
# accesses as the cache has pages.
GROWTH_PASSES = 3
# ek-pool runs its controller every 5 s. So this many seconds pass after each of these passes.
GROWTH_S = 6
# The shortest window of a measurement of the cache: it has about 300 planned reads.
CACHE_S = 20.0
# and a pass that fills the memory, and one measurement each with and without the page pool
CACHE_PARTS = GROWTH_PASSES + 3

# pattern -> bytes that one of its cases writes
Patterns = Mapping[str, int]


def _limits(patterns: Patterns, sizes: Sequence[str], depths: Sequence[int], seconds: float) -> list[Case]:
    """Throughput of one load by pattern, size and depth."""
    found = []
    for rw, written in patterns.items():
        for bs in sizes:
            for depth in depths:
                job = Job("job", rw, bs, depth)
                order = "random" if rw.startswith("rand") else "sequential"
                what = "writes" if job.writes else "reads"
                found.append(
                    Case(
                        f"device.{order}-{what[:-1]}.{bs}.qd{depth}", "limit", f"{order} {what}, {bs}, depth {depth}",
                        (job,), settle=0.5,
                        seconds=20 if job.writes else seconds, written=written,
                    )
                )  # fmt: skip
    return found


READER = Job("reader", "randread", "4k", per_second=100)
READS: frozenset[Need] = frozenset({"ek-light-reader"})
GROUPS: frozenset[Need] = frozenset({"groups"})


# A stream of writes. Few bytes are outstanding, so each write shows whether the device paused meanwhile; the reader shows what
# other programs notice of it. Each request waits for at most one write, whatever the scheduler.
STREAM = (Job("job", "write", "512k"), Job("reader", "randread", "4k", per_second=50))


def _latencies(seconds: float, written: int, reading: float) -> list[Case]:
    """A light reader alone, and alongside a load. Flushes and discards are loads, too.

    READING: the window alongside reads, s. Reads wear nothing, so it may be long. In 15 s, chance changes p50 by 3 %.
    """
    loads: dict[str, tuple[str, Job, frozenset[Need]]] = {
        "reads": ("reads of 1 MiB", Job("load", "read", "1m", 4), GROUPS),
        "writes": ("writes of 1 MiB", Job("load", "write", "1m", 4), GROUPS),
        "flushes": ("writes of 4 KiB, each with fsync", Job("load", "randwrite", "4k", sync="fsync"), GROUPS),
        "discards": ("discards of free space", Job("load", "trim", "1m"), GROUPS | {"discard"}),
    }
    compared: dict[str, Compared] = {"reads": "later", "writes": "first"}
    settle = 2.0 if seconds > 5 else 0.5
    alone = Case(
        "latency.alone",
        "latency",
        "4 KiB reads alone",
        (READER,),
        settle=settle,
        seconds=seconds,
        needs=READS,
    )
    contended = [
        Case(
            f"latency.beside.{name}", "latency", f"4 KiB reads alongside {what}", (READER, load), settle=settle,
            seconds=reading if name == "reads" else seconds, needs=needs | READS,
            written={"writes": written, "flushes": written // 8}.get(name, 0),
            compared=compared.get(name, ""),
        )
        for name, (what, load, needs) in loads.items()
    ]  # fmt: skip
    return [alone, *contended]


def _ratio(direction: str, mb: int, seconds: float, written: int = 0, compared: Compared = "") -> Case:
    """Two loads with weights 2:1 (Hasegawa et al., tables 4 and 5).

    Flash that collects garbage stands still for tenths of a second, in the turn of one load or the other. So writes need a
    long window: on the model of an eMMC 5.1, chance changes the ratio for 100 MB by up to 2 % in 26 s, and by 1 % in 60 s.
    """
    jobs = (Job("a", direction, f"{mb}m", 1, 200), Job("b", direction, f"{mb}m", 1, 100))
    paper = RATIOS[direction].get(mb)
    return Case(
        f"fair.{direction}.{mb}m", "ratio", f"weights 2:1, direct {direction}s of {mb} MB", jobs,
        settle=5 if written > 2000 * MB else 2, seconds=seconds, written=written, needs=GROUPS, compared=compared,
        paper={} if paper is None else {"ratio": paper},
    )  # fmt: skip


# Weights of the cases of shares, in the order of the groups
THREE_TWO, THREE_TWO_TWO_ONE = (300, 200), (300, 200, 200, 100)


def _shares(weights: Sequence[int], mb: int, seconds: float, settle: float = 3, written: int = 0) -> Case:
    """Direct I/O of groups with WEIGHTS: reads, or WRITTEN bytes of writes.

    The paper has reads of 100 MB. Their name has no size, as in the lab.
    """
    direction = "write" if written else "read"
    name = "-".join(str(w // 100) for w in weights)
    jobs = tuple(
        Job(group, direction, f"{mb}m", 1, weight) for group, weight in zip("abcd", weights, strict=False)
    )
    of_paper = (direction, mb) == ("read", 100)
    return Case(
        f"fair.shares.{name}" if of_paper else f"fair.shares.{direction}.{mb}m.{name}", "shares",
        f"weights {name.replace('-', ':')}, direct {direction}s of {mb} MB", jobs, settle=settle, seconds=seconds,
        written=written, needs=GROUPS, compared="later" if of_paper else "",
    )  # fmt: skip


def _promises(seconds: float, written: int) -> list[Case]:
    """Unequal competitors (lab/experiments/promise.py, the cases that were first stated).

    A group that writes may have a sixth of a slow device. So the cases with writes may take CONTENDED_S. They settle for
    WRITING_SETTLE_S, or for a quarter of their bytes. Before a load begins, the device was idle for a second, and collected
    garbage for some hundred megabytes. Without this time, these would count.
    """
    small = Job("small", "randread", "4k", 8)
    return [
        Case("promise.small-medium", "promise", "4 KiB reads at depth 8 alongside 1 MiB reads",
             (small, Job("medium", "read", "1m", 2)), settle=2, seconds=seconds, needs=GROUPS, compared="later"),
        Case("promise.read-write", "promise", "16 KiB reads alongside 512 KiB writes",
             (Job("read", "randread", "16k", 4), Job("write", "write", "512k", 8)),
             settle=WRITING_SETTLE_S, seconds=CONTENDED_S, written=written, needs=GROUPS),
        Case("promise.three", "promise", "reads of 16 KiB and 4 MiB, and writes of 1 MiB, weights 3:2:1",
             (Job("small", "randread", "16k", 8, 300), Job("medium", "read", "4m", 2, 200),
              Job("write", "write", "1m", 4, 100)),
             settle=WRITING_SETTLE_S, seconds=CONTENDED_S, written=written, needs=GROUPS),
    ]  # fmt: skip


def _stall(how: str, direction: str, mb: int, seconds: float, written: int, compared: Compared = "") -> Case:
    """A video player alongside a load (Hasegawa et al., table 3)."""
    load = Job("load", direction, f"{mb}m", 1, 100, buffered=how == "buffered")
    return Case(
        f"stall.{how}.{direction}.{mb}m", "stall", f"a video player alongside {how} {direction}s of {mb} MB", (load,), settle=3,
        seconds=seconds, written=written if load.writes else 0, needs=GROUPS | {"file system", "ek-player"}, compared=compared,
        paper={"stalled": float(STALLS[how, direction, mb])},
    )  # fmt: skip


# (name, worst write() of the paper in µs, disturbing programs): Okabe and Toyama, ALL, ALL-BGTRUNC, ALL-BGALL, and ALL with a
# sequential read in the background
RECORDINGS = (
    ("quiet", 309, ()),
    ("truncate", 9178, ("truncate",)),
    ("allocate", 12482, ("truncate", "allocate")),
    ("read", 418, ("read",)),
)
RECORD_BYTES = 16 * KB
RECORD_EVERY_S = 0.005


def _records(seconds: float) -> list[Case]:
    return [
        Case(
            f"rec.{name}", "record", f"16 KB every 5 ms, {' and '.join(programs) or 'nothing'} in the background",
            settle=0, seconds=seconds, written=int(seconds / RECORD_EVERY_S) * RECORD_BYTES,
            needs=frozenset({"file system", "ek-writer"}), paper={"max": worst},
        )
        for name, worst, programs in RECORDINGS
    ]  # fmt: skip


# The recorder of Evenkeel alongside the same programs. At its start it writes its segments, RECORDER_BYTES together.
RECORDERS = ("quiet", "allocate", "read")
RECORDER_S = 20
RECORDER_RETAIN, RECORDER_SEGMENT = 16 * MB, MB
RECORDER_BYTES = RECORDER_RETAIN + RECORDER_SEGMENT
# The recorder has to write for each record: the record, its head, and the zeros that fill up a batch
RECORDER_EACH = RECORD_BYTES * 1.02


def _recorders() -> list[Case]:
    writes = int(RECORDER_S / RECORD_EVERY_S)
    return [
        Case(
            f"rec.ek.{name}", "recorder",
            f"ek-recorder, 16 KB every 5 ms, {' and '.join(_programs(name)) or 'nothing'} in the background",
            settle=0, seconds=RECORDER_S + 10, written=RECORDER_BYTES + int(writes * RECORDER_EACH),
            needs=GROUPS | {"file system", "ek-recorder", "ek-writer"},
        )
        for name in RECORDERS
    ]  # fmt: skip


def _programs(name: str) -> Sequence[str]:
    return next(programs for recording, _, programs in RECORDINGS if recording == name)


def disturbances(case: Case) -> Sequence[str]:
    """The programs that run in the background of a recording."""
    return _programs(case.name.rpartition(".")[2])


def _fixed(percent: int, seconds: float) -> Case:
    jobs = (Job("fixed", "randread", "8k", 1, fixed=percent), Job("rest", "randread", "8k", 8))
    return Case(
        f"regulate.{percent}", "fixed", f"a fixed share of {percent} % alongside 8 KiB reads at depth 8", jobs, settle=2,
        seconds=seconds, needs=GROUPS | {"evenkeel"},
    )  # fmt: skip


def _channels(seconds: float) -> Case:
    return Case(
        "channel.probe", "channels", "flash channels, by pairs of reads", settle=0, seconds=seconds,
        needs=frozenset({"ek-pairs"}),
    )  # fmt: skip


def _directory(seconds: float) -> Case:
    """Reads of priority files alongside a stream that is larger than the cache.

    Each of the 512 parts of the files is read twice a minute. So the kernel alone evicts most of them.
    """
    reader = Job("reader", "randread", "64k", per_second=16, buffered=True, cached=True)
    stream = Job("stream", "read", "1m", buffered=True, cached=True)
    return Case(
        "pool.directory", "cache", "files of a priority directory while a file larger than the cache is read", (reader, stream),
        settle=0, seconds=seconds, written=PRIORITY_BYTES, needs=GROUPS | READS | {"file system", "ek-pool", "large file"},
    )  # fmt: skip


def quick() -> list[Case]:
    return [
        *_limits({"read": 0, "write": 64 * MB}, ("1m",), (1, 4), 1.5),
        *_limits({"randread": 0, "randwrite": 8 * MB}, ("4k",), (1, 32), 1.5),
        *_latencies(2.2, 60 * MB, 2.2),
        _ratio("read", 1, 4, compared="later"), _ratio("read", 30, 5, compared="first"),
        _ratio("write", 8, 15, 120 * MB, compared="later"),
        _shares(THREE_TWO, 1, 2, settle=1), _shares(THREE_TWO_TWO_ONE, 10, 2, settle=1),
        _promises(2, 0)[0],
        _stall("direct", "read", 100, 8, 0),
    ]  # fmt: skip


SIZES = ("4k", "16k", "64k", "256k", "1m", "4m")


# Alongside which loads the player also runs on other schedulers. Large direct writes stop it longest.
COMPARED_STALLS: Mapping[tuple[str, str, int], Compared] = {
    ("direct", "write", 100): "first",
    ("direct", "read", 100): "later",
}


def full() -> list[Case]:
    """Ratios are compared at 1, 30 and 100 MB. They decide at 100 MB, where the kernel's schedulers keep them least."""
    ratios: dict[int, Compared] = {1: "later", 30: "later", 100: "first"}
    reads, writes = sorted(RATIOS["read"]), sorted(RATIOS["write"])
    return [
        *_limits({"read": 0, "randread": 0, "write": 128 * MB, "randwrite": 24 * MB}, SIZES, (1, 4, 32), 3),
        Case("device.sustained", "sustained", "one stream of writes, past the fast cache, and 4 KiB reads meanwhile", STREAM,
             settle=0, seconds=240, written=4096 * MB, needs=READS),
        *_latencies(15, 512 * MB, 60),
        *(_ratio("read", mb, 12 if mb == 1 else 20, compared=ratios.get(mb, "")) for mb in reads),
        *(_ratio("write", mb, 60, 1200 * MB, compared="later" if mb == 8 else "") for mb in writes if mb < 100),
        _ratio("write", 100, 140, 6000 * MB),
        _shares(THREE_TWO, 1, 8), _shares(THREE_TWO, 10, 8), _shares(THREE_TWO, 100, 20),
        _shares(THREE_TWO_TWO_ONE, 1, 10), _shares(THREE_TWO_TWO_ONE, 10, 10), _shares(THREE_TWO_TWO_ONE, 100, 25),
        *_promises(8, 3300 * MB),
        *(_stall(*p, 30, 2048 * MB, COMPARED_STALLS.get(p, "")) for p in STALLS),
        *_records(20),
        *_recorders(),
        _fixed(10, 8), _fixed(30, 8),
        _directory(90),
        _channels(30),
    ]  # fmt: skip


def soak() -> list[Case]:
    """The cases of `full`, then long streams of writes, each followed by the cases that change when flash is worn or full.

    The writes of more than two groups come first, before the streams wear the flash.
    """
    found = [*full(), *(_shares(w, 10, 90, written=2400 * MB) for w in (THREE_TWO, THREE_TWO_TWO_ONE))]
    for turn in range(1, 5):
        stream = Case(
            f"device.sustained.turn{turn}", "sustained", f"stream of writes, turn {turn}", STREAM,
            settle=0, seconds=3600, written=16384 * MB, needs=READS,
        )  # fmt: skip
        again = [
            *_latencies(60, 2048 * MB, 60)[:3],
            _ratio("read", 100, 30),
            _ratio("write", 8, 60, 576 * MB),
        ]
        found += [stream, *(replace(case, name=f"{case.name}.turn{turn}", compared="") for case in again)]
    return found


def writes(cases: Iterable[Case]) -> int:
    return sum(case.written for case in cases)
