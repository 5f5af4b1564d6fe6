# SPDX-License-Identifier: Apache-2.0
"""What a validation will do: its cases, the bytes and the time that they take, and the budget that ends it. No I/O here."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from . import cases, discards, fio
from .cases import GROUPS, MB, Case, Need
from .errors import Stopped

GB = 10**9
# A block of flash endures about 3,000 erase cycles (typical of MLC and TLC; consumer QLC: 1,000). No eMMC reports its rating.
RATED_CYCLES = 3000
# a file that the player plays: 41.9 MB in 60 s (Hasegawa et al.)
MOVIE = 42 * MB
# the recording and the two files that disturb it, of 100 MB each (recipes/loads/README.md)
RECORD_SPACE = 3 * 100 * 10**6
# Space that stays free in the file system of the test file: a full data partition would stop the board's services.
KEPT_FREE = 64 * MB
# Rate of writes that the estimate assumes, bytes per second. On a slower device, the last steps are left out.
GUESS = {"mmc": 40e6, "scsi": 200e6, "nvme": 500e6, "other": 100e6}
# the same for small random writes
GUESS_RANDOM = {"mmc": 4e6, "scsi": 40e6, "nvme": 200e6, "other": 20e6}
# the same for large reads
GUESS_READ = {"mmc": 80e6, "scsi": 250e6, "nvme": 800e6, "other": 100e6}


@dataclass(frozen=True)
class Profile:
    """`seconds`: the run ends after this time. `written`: the most bytes that it writes. `file`: size of the test file.

    `compares`: it also measures the kernel's other schedulers.
    """

    name: str
    about: str
    seconds: int
    written: int
    file: int
    cases: Callable[[], list[Case]]
    compares: bool = True


PROFILES = {
    p.name: p
    for p in (
        Profile("quick", "an overview in two minutes", 120, GB, 160 * MB, cases.quick, compares=False),
        Profile("full", "all cases of the papers", 45 * 60, 64 * GB, 1024 * MB, cases.full),
        Profile("soak", "all cases, and again after long streams of writes", 8 * 3600, 256 * GB, 2048 * MB, cases.soak),
    )
}  # fmt: skip


def chosen(profile: Profile, only: Sequence[str] = ()) -> list[Case]:
    """The cases of PROFILE whose names begin with one of ONLY; all cases if it is empty.

    The cases on which their bounds rest are added, or a promise could not be judged.
    """
    found = profile.cases()
    named = [c for c in found if not only or c.name.startswith(tuple(only))]
    names = {c.name for c in named}.union(*map(basis, named))
    return [c for c in found if c.name in names]


def basis(case: Case) -> set[str]:
    """Names of the cases that the bound of CASE rests on (measure.light_bound)."""
    loads = case.jobs[1:] if case.kind == "latency" else ()
    limits = {f"device.sequential-{job.rw}.1m.qd1" for job in loads if not job.stops_all}
    return limits | {"latency.alone"} if loads else set()


def space(profile: Profile, only: Sequence[str] = ()) -> int:
    """Bytes of the files that exist at the same time in the folder of the test file. ONLY: as of chosen()."""
    found = chosen(profile, only)
    movie = MOVIE if any(c.kind == "stall" for c in found) else 0
    # the recorder runs alongside the same programs
    records = RECORD_SPACE if any(c.kind in ("record", "recorder") for c in found) else 0
    trims = discards.BYTES if any("discard" in c.needs for c in found) else 0
    priority = cases.PRIORITY_BYTES if any(c.kind == "cache" for c in found) else 0
    recorder = cases.RECORDER_BYTES if any(c.kind == "recorder" for c in found) else 0
    return profile.file + movie + records + trims + priority + recorder


@dataclass(frozen=True)
class Step:
    """A case on one scheduler."""

    case: Case
    scheduler: str


@dataclass(frozen=True)
class Plan:
    """`skipped`: name of a case → why it is left out. `prepared`: bytes of the files that are written first.

    `subject`: the scheduler that is validated. `proven`: earlier runs have shown what this device can write in the time of each
    case.
    """

    profile: Profile
    subject: str
    proven: bool
    steps: tuple[Step, ...]
    skipped: Mapping[str, str]
    prepared: int
    written: int
    seconds: int

    @property
    def total(self) -> int:
        """Bytes that the validation writes."""
        return self.prepared + self.written


def full_name(case: str, scheduler: str, subject: str) -> str:
    """The name of a step in a report: the case CASE on SCHEDULER. SUBJECT: the scheduler that is validated."""
    return case if scheduler == subject else f"{case} on {scheduler}"


def no_time(profile: Profile) -> str:
    return f"the profile {profile.name} has no time left for it"


def missing(case: Case, have: Iterable[Need], reasons: Mapping[Need, str], size: int) -> str:
    """Why the case cannot run with a test file of SIZE bytes; "" if it can."""
    if lacking := sorted(case.needs - set(have)):
        return "; ".join(reasons.get(need, f"{need} is missing") for need in lacking)
    part = fio.areas(Path(), size, max(len(case.jobs), 1))[0].size
    large = next((job.bs for job in case.jobs if job.size > part), "")
    return f"an I/O of {large} does not fit into its part of the test file, {part >> 20} MiB" if large else ""


def make(
    profile: Profile, *, subject: str, others: Sequence[str], have: Iterable[Need], reasons: Mapping[Need, str], kind: str,
    only: Sequence[str] = (), budget: int | None = None, reached: Mapping[str, int] = MappingProxyType({}),
) -> Plan:  # fmt: skip
    """The plan. The cases run on the scheduler SUBJECT; those that are compared run on the OTHERS, too.

    Order: the cases of SUBJECT, then the deciding cases on each other scheduler, then the rest. Steps that do not fit into the
    budget or into the time of the profile are left out, the last ones first. ONLY: as of chosen().

    REACHED: bytes that this device can write in the time of a case, by name, as earlier runs measured it. A case that wants
    more gets these bytes, so that a slow device writes what is announced, and it takes all its time.
    """
    wanted = chosen(profile, only)
    on_device = "file system" not in have
    skipped = {c.name: why for c in wanted if (why := missing(c, have, reasons, profile.file))}
    runnable = [c for c in wanted if c.name not in skipped]
    needs_movie = any(c.kind == "stall" for c in runnable)
    prepared = (profile.file + (MOVIE if needs_movie else 0)) if any(c.jobs for c in runnable) else 0
    steps: list[Step] = []
    limit = profile.written if budget is None else budget
    written, seconds = 0, prepared / GUESS[kind] + 5
    rounds = [(subject, runnable)]
    for when in ("first", "later"):
        rounds += [(other, [c for c in runnable if c.compared == when]) for other in others]
    for scheduler, of_round in rounds:
        for wanted_case in of_round:
            name = full_name(wanted_case.name, scheduler, subject)
            case = replace(
                wanted_case, written=min(wanted_case.written, reached.get(name, wanted_case.written))
            )
            again = relaid(case, profile.file) if on_device else 0
            slow = case.written < wanted_case.written
            took = (case.longest if slow else estimate(case, kind, profile.file)) + again / GUESS[kind]
            wants = case.written + again
            if prepared > limit:
                why = (
                    f"before the first case, {prepared / 1e6:.0f} MB are written for the loads to read, which exceeds the"
                    f" budget of {limit / 1e6:.0f} MB; allow more"
                )
            elif prepared + written + wants > limit:
                why = (
                    f"it would write {wants / 1e6:.0f} MB, and the budget of {limit / 1e6:.0f} MB is used up"
                )
            elif seconds + took > profile.seconds:
                why = no_time(profile)
            else:
                steps.append(Step(case, scheduler))
                written, seconds = written + wants, seconds + took
                continue
            skipped[name] = why
    proven = all(
        full_name(s.case.name, s.scheduler, subject) in reached or not may_be_slow(s.case) for s in steps
    )
    return Plan(profile, subject, proven, tuple(steps), skipped, prepared, written, math.ceil(seconds))


def may_be_slow(case: Case) -> bool:
    """Whether CASE writes less on a slow device. The others write at a fixed rate, or all their bytes."""
    return bool(case.written and case.jobs) and case.kind != "cache"


def relaid(case: Case, size: int) -> int:
    """Bytes that are written again after a case, on a partition or a device with an area of SIZE bytes.

    A case that discards leaves its half of the area without data, and later cases must not read that.
    """
    return fio.areas(Path(), size, 2)[1].size if "discard" in case.needs else 0


def deciding(plan: Plan) -> list[Step]:
    """The steps on which the comparison with other schedulers rests: a case on each of them, and on the one validated."""
    found = {s.case.name for s in plan.steps if s.scheduler != plan.subject and s.case.compared == "first"}
    return [s for s in plan.steps if s.case.name in found]


def estimate(case: Case, kind: str, file: int, rate: float = math.inf) -> float:
    """Seconds that a case will take, with a test file of FILE bytes.

    RATE: of writes on this device, bytes per second, as soon as it is known.
    """
    slower = min(rate / GUESS[kind], 1.0)
    if case.kind == "cache":
        one = file / (GUESS_READ[kind] * slower)
        growth = cases.GROWTH_PASSES * (one + cases.GROWTH_S)
        return min(one + growth + 2 * max(one, cases.CACHE_S) + case.parts, case.longest)
    if not case.written or case.kind in ("record", "recorder"):
        return case.longest
    small = all(job.rw == "randwrite" for job in case.jobs if job.writes)
    rate = (GUESS_RANDOM if small else GUESS)[kind] * slower
    took = case.before + case.written / rate + case.parts
    if case.kind == "promise":
        # while loads that write settle, they write a part of their bytes
        took += (cases.ALONE_SETTLE_S + cases.ALONE_S) * sum(not job.writes for job in case.jobs)
    else:
        took += case.parts * case.settle
    return min(took, case.longest)


def endurance(written: int, capacity: int, cycles: int = RATED_CYCLES) -> float:
    """Share of the rated endurance that WRITTEN bytes use, in percent. The device itself may write more than the host."""
    return 100 * written / (capacity * cycles) if capacity else math.nan


# of a device without an earlier run
UNPROVEN = (
    ", or less if the device turns out to be too slow for that; the next run of the same profile will know"
)


def announcement(
    plan: Plan, *, where: str, capacity: int, exclusive: bool = False, destroys: str = ""
) -> list[str]:
    """What the user must know before the start, a sentence each. DESTROYS: a device that loses its data."""
    share = endurance(plan.total, capacity)
    lines = [
        f"{where}: {len(plan.steps)} measurements of the profile {plan.profile.name}.",
        *([f"ALL DATA ON {destroys} IS LOST."] if destroys else []),
        f"They write {plan.total / 1e6:,.0f} MB{'' if plan.proven else UNPROVEN}. This is {share:.2g} % of the endurance, if"
        f" each block endures {RATED_CYCLES:,} erase cycles.",
        f"They take about {duration(plan.seconds)}, and at most {duration(plan.profile.seconds)}.",
    ]
    if exclusive:
        lines.append(
            f"All apps are paused for up to {duration(plan.profile.seconds)}. Meanwhile they do not answer, and can be neither"
            " started nor stopped. Updates and backups are slower."
        )
    elif has_groups(plan):
        lines.append(
            "Meanwhile the validation is one group alongside the apps, with the weight 100. Apps keep their share, but the"
            " device is busy: updates, backups and apps without a weight are slower."
        )
    if discards_space(plan):
        lines.append(
            f"{'Space of the target' if destroys else 'Free space of the target, which holds no file,'} is discarded again"
            " and again. On an eMMC, apps may stall for tens of milliseconds."
        )
    if evicts(plan):
        lines.append(
            "A file that is larger than the page cache is read through it. Afterwards, programs must read their files from the"
            " flash again."
        )
    schedulers = schedulers_of(plan)
    if len(schedulers) > 1:
        lines.append(
            f"The scheduler of the device changes for a while ({', '.join(schedulers)}). While another one than evenkeel is"
            " active, weights and fixed shares of the apps are not enforced, and the board reports this as a problem."
        )
    if others := compared(plan):
        counts = ", ".join(f"{count} on {name}" for name, count in others.items())
        lines.append(f"For comparison, cases run on other schedulers, too: {counts}.")
    lines += [f"Left out: {name}, because {why}." for name, why in plan.skipped.items()]
    return lines


def schedulers_of(plan: Plan) -> list[str]:
    """The schedulers that the device has meanwhile. What a load gets alone is measured with `none`."""
    found = [step.scheduler for step in plan.steps]
    if any(step.case.kind in ("promise", "fixed") for step in plan.steps):
        found.append("none")
    return list(dict.fromkeys(found))


def compared(plan: Plan) -> dict[str, int]:
    """How many cases each other scheduler has."""
    found = [step.scheduler for step in plan.steps]
    return {name: found.count(name) for name in dict.fromkeys(found) if name != plan.subject}


def has_groups(plan: Plan) -> bool:
    """Whether the validation competes with the apps, as a group."""
    return any(step.case.needs & GROUPS for step in plan.steps)


def discards_space(plan: Plan) -> bool:
    return any("discard" in step.case.needs for step in plan.steps)


def evicts(plan: Plan) -> bool:
    """Whether files of other programs lose their place in the page cache."""
    return any(step.case.kind == "cache" for step in plan.steps)


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Budget:
    """Bytes that the run may still write. It ends the run at the announced bytes plus SLACK."""

    # The last load is stopped when it has written its bytes. What is in flight then is more than its bytes.
    SLACK = 0.01

    def __init__(self, total: int) -> None:
        self.total = total
        self.written = 0

    @property
    def left(self) -> int:
        return max(self.total - self.written, 0)

    def spend(self, written: int) -> None:
        self.written += written

    def limit(self, wanted: int) -> int:
        """Bytes that a case which wants to write WANTED may write. Raises Stopped if nothing is left."""
        if not wanted:
            return 0
        # A case that would get less than half of its bytes has no figures that could be compared.
        if self.left < wanted / 2:
            raise Stopped(f"the budget of {self.total / 1e6:,.0f} MB is used up")
        return min(wanted, self.left)
