# SPDX-License-Identifier: Apache-2.0
"""The promise: no group gets less than its share of what it would get alone, on any device.

A Case states who competes, where and with which weights. Script, figures and rows follow from it.

- *part*: a group's throughput together with the others, divided by its throughput alone. Alone, it runs the
  same job on the same device without a scheduler.
- *share*: its weight divided by the sum of weights. In a tree it is the product of the levels.
- `least` is the smallest part divided by its share, over all groups. `sum` is the sum of the parts: how well
  the device is used.

One guest measures everything: each job alone, then all jobs together, then each job that writes alone once more.
Writes change a device: they use up a fast cache, or garbage collection begins. Where jobs write, the guest
first writes the device until it has changed (RESERVE). Otherwise it would change in the middle of the window,
and no throughput alone would match. A device may still change a little. So the throughput alone of a job that
writes is the mean of two measurements, before and after the window. The lower of the two would make the part
look too large; the higher would demand what the device can no longer do. `drift` is their difference in
percent. Reads change no device here, so jobs that read are measured alone only once, before the window.

`wait` is the longest wait of any I/O divided by its limit. A job that keeps `qd` I/Os outstanding waits
qd x size / throughput for each of them (Little's law). Its weight entitles it to a throughput of alone x
share. The limit is 1.5 times the wait at this throughput, but at least 2 s.

A light reader starts when the window has ended, while all jobs go on. It sends 50 reads of 4 KiB a second,
in a group of its own with weight 100.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lab.competing import Load, Served, fio, fio_job, need_any, tree
from lab.experiments import latency
from lab.model import Device, Experiment, Figure, Output

# A job alone: guest seconds to settle, and guest seconds of the window in which it is counted.
ALONE_SETTLE, ALONE = 2.0, 4.0
# All jobs together: the same two times. They settle longer, because BFQ raises the weight of a new group for some seconds.
SETTLE, WINDOW = 6.0, 10.0
# the light reader: its run time in s, its reads per second, and the number of threads that share these reads
LIGHT, RATE, READERS = 12, 50, 4
# the first seconds, in which its reads do not count
LIGHT_SETTLE = 0.25
# the fewest samples of the light reader that must lie beyond its p99
BEYOND = 5
# The limit of the longest wait: WAIT_S seconds, or WAIT_TIMES times the wait that the weight implies if that is longer.
WAIT_S, WAIT_TIMES = 2.0, 1.5
LIGHT_WEIGHT = 100
# preset -> MiB of writes after which a new device has changed: its fast cache or its reserve is used up
RESERVE = {"emmc51": 2048, "emmc50-slow": 512, "sd-uhs3": 256, "ufs31": 4096}
# memory of a guest in MiB, not counting the buffers of its jobs
MEMORY = 768


@dataclass(frozen=True)
class Job:
    """One competitor: a fio job in a group of its own.

    - `rw`: fio's pattern. `bs`: size of an I/O. `qd`: I/Os outstanding.
    - `weight`: of its group. `inside`: path of the group that contains it, empty for the root.
    - `buffered`: through the page cache. `dsync`: each write is durable (O_DSYNC).
    - `pause`: ms that the job pauses after each I/O.
    - `copies`: the number of such groups. Each has a job of its own.
    """

    name: str
    rw: str
    bs: str
    qd: int = 1
    weight: int = 100
    inside: str = ""
    buffered: bool = False
    dsync: bool = False
    pause: int = 0
    copies: int = 1

    @property
    def writes(self) -> bool:
        return "write" in self.rw

    @property
    def size(self) -> int:
        """Bytes of an I/O."""
        return int(self.bs[:-1]) * {"k": 1 << 10, "m": 1 << 20}[self.bs[-1]]

    def names(self) -> list[str]:
        return [self.name] if self.copies == 1 else [f"{self.name}{i}" for i in range(self.copies)]

    def group(self, name: str) -> str:
        return f"{self.inside}/{name}" if self.inside else name


@dataclass(frozen=True)
class Case:
    """A promise. `inner` maps groups that contain others to their weights, the outer ones first.

    `heavy` names a job for which a figure shows its share of all bytes; it needs jobs that are alike. `light`: the
    light reader runs, too. `settle`, `seconds`: guest seconds for which all jobs together settle and are counted.
    `alone`: guest seconds for which a job that writes is counted alone.
    """

    name: str
    device: Device
    jobs: tuple[Job, ...]
    inner: Mapping[str, int] = field(default_factory=dict)
    heavy: str = ""
    light: bool = True
    settle: float = SETTLE
    seconds: float = WINDOW
    alone: float = ALONE

    @property
    def parts(self) -> int:
        """Slices of the device: one for each job, and one more for the light reader."""
        return self.device.slices or (8 if sum(j.copies for j in self.jobs) < 8 else 64)

    def groups(self) -> dict[str, int]:
        """All groups with their weights, the outer ones first."""
        leaves = {job.group(name): job.weight for job in self.jobs for name in job.names()}
        return {**self.inner, **leaves}

    def about(self) -> str:
        weights = ":".join(str(j.weight) if j.copies == 1 else f"{j.copies}x{j.weight}" for j in self.jobs)
        return f"{' : '.join(map(described, self.jobs))}, weights {weights}, {self.device.about}"


def described(job: Job) -> str:
    order = "random " if job.rw.startswith("rand") else ""
    how = ("buffered " if job.buffered else "") + ("durable " if job.dsync else "")
    size = f"{job.bs[:-1]} {'KiB' if job.bs.endswith('k') else 'MiB'}"
    pause = f" with pauses of {job.pause} ms" if job.pause else ""
    return f"{how}{order}{'writes' if job.writes else 'reads'} {size} QD{job.qd}{pause}"


def shares(groups: Mapping[str, int], leaves: Sequence[str]) -> dict[str, float]:
    """The share of each leaf: the product, over its levels, of weight / sum of the weights of siblings that contain a load."""
    active = {leaf.rsplit("/", n)[0] for leaf in leaves for n in range(leaf.count("/") + 1)}
    found = {}
    for leaf in leaves:
        share = 1.0
        for n in range(leaf.count("/") + 1):
            one = leaf.rsplit("/", n)[0]
            parent = one.rpartition("/")[0]
            siblings = [g for g in active if g.rpartition("/")[0] == parent]
            share *= groups[one] / sum(groups[g] for g in siblings)
        found[leaf] = share
    return found


@dataclass(frozen=True)
class Runner:
    """One group's job, in its slice of the device."""

    job: Job
    name: str
    slice_: int

    @property
    def group(self) -> str:
        return self.job.group(self.name)

    def load(self, device: Device, parts: int, runtime: int = 0, ramp: float = 0) -> Load:
        extra = (
            " --thread"
            + (f" --ramp_time={ramp:g}" if ramp else "")
            + (" --sync=dsync" if self.job.dsync else "")
            + (f" --thinktime={self.job.pause}ms --thinktime_blocks=1" if self.job.pause else "")
        )
        if self.job.rw.startswith("rand"):
            extra += " --norandommap"
        return fio(
            self.name, rw=self.job.rw, bs=self.job.bs, qd=self.job.qd, slice_=self.slice_, device=device,
            group=self.group, runtime=runtime, direct=not self.job.buffered, extra=extra.strip(),
            engine="psync" if self.job.buffered else "libaio", report="terse", parts=parts,
        )  # fmt: skip


def runners_of(case: Case) -> list[Runner]:
    named = [(job, name) for job in case.jobs for name in job.names()]
    return [Runner(job, name, i) for i, (job, name) in enumerate(named)]


def _first(case: Case) -> list[Runner]:
    """The first copy of each job. Only this copy is measured alone, because copies are alike."""
    found: dict[str, Runner] = {}
    for r in runners_of(case):
        found.setdefault(r.job.name, r)
    return list(found.values())


# The guest function `count NAME` reports what each group has got so far, in the format of `counters` (guest.sh).
# True: the device counts by slice. False: it does not, so the counts come from each group's io.stat. The kernel updates
# io.stat at submission, so these counts include requests that are still outstanding.
COUNT = {
    True: 'count() { counters "$1"; }',
    False: """count() {
	{
		cut -d' ' -f1 /proc/uptime
		echo group
		i=0
		for g in $LEAVES; do
			awk -v i=$i 'BEGIN { RS = "[ \\n]"; FS = "=" } { v[$1] += $2 }
				END { print i, v["rios"] + 0, v["rbytes"] + 0, 0, v["wios"] + 0, v["wbytes"] + 0, 0 }' "/cg/$g/io.stat"
			i=$((i + 1))
		done
	} | report "$1"
}""",
}

# The guest function `over PID...` ends all loads and waits until their last I/O has completed.
OVER = """over() {
	killall -9 fio
	wait "$@" 2> /dev/null
	sync
	echo 3 > /proc/sys/vm/drop_caches
}"""


def _alone(r: Runner, case: Case, section: str) -> list[str]:
    seconds = case.alone if r.job.writes else ALONE
    return [
        f"in_group {r.group} {r.load(case.device, case.parts).command} > /tmp/{r.name}.log 2>&1 & pid=$!",
        f"sleep {ALONE_SETTLE:g}; count {section}.{r.job.name}.begin; sleep {seconds:g}; count {section}.{r.job.name}.end",
        f'kill -0 $pid || fail "{r.name} has ended: $(tail -n 1 /tmp/{r.name}.log)"',
        "over $pid",
    ]


def _light(name: str, case: Case, slice_: int, seconds: int) -> str:
    reader = latency.planned(
        f"/dev/{case.device.name}", name=name, rate=RATE, readers=READERS, settle=LIGHT_SETTLE, seconds=seconds,
        area=latency.on_slice(case.device, slice_, parts=case.parts), offset=slice_,
    )  # fmt: skip
    return f"in_group reader {reader} | report {name}"


def _largest(case: Case, slice_: int) -> str:
    """The fio command that measures the largest request of the mix, one at a time.

    It ignores the first second, in which writes fill the write buffer.
    """
    job = max(case.jobs, key=lambda j: (min(j.size, 512 << 10), j.writes))
    bs = f"{min(job.size, 512 << 10) >> 10}k"
    rw = job.rw.removeprefix("rand")
    return fio(
        "one",
        rw=rw,
        bs=bs,
        device=case.device,
        slice_=slice_,
        runtime=2,
        extra="--ramp_time=1",
        parts=case.parts,
    ).command


def script(case: Case) -> str:
    """The guest's script."""
    runners = runners_of(case)
    free = len(runners)
    groups = {**case.groups(), "reader": LIGHT_WEIGHT}
    loads = [r.load(case.device, case.parts) for r in runners]
    lines = [
        "uname -r | report kernel", "device",
        # the weight files exist once the scheduler's module is loaded
        'scheduler "$DEV"', *tree(groups, loads), f"LEAVES='{' '.join(r.group for r in runners)}'",
        COUNT[case.device.slices > 0], OVER, 'scheduler "$DEV" none',
    ]  # fmt: skip
    if case.light:
        lines += [
            _light("reader-alone", case, free, 3),
            f"in_group reader {_largest(case, free)} > /tmp/one.log 2>&1 || fail 'fio failed'",
            "report one < /tmp/one.json",
        ]
    # Jobs that write are measured after those that read: while reads run alone, the device would recover from writes.
    firsts = _first(case)
    for r in [r for r in firsts if not r.job.writes]:
        lines += _alone(r, case, "before")
    lines += _fill(case, free)
    for r in [r for r in firsts if r.job.writes]:
        lines += _alone(r, case, "before")
    lines += ['scheduler "$DEV"']
    rest = case.seconds + (LIGHT if case.light else 0) + 1
    lines += [
        f"in_group {r.group} {r.load(case.device, case.parts, round(rest), case.settle).command} > /tmp/{r.name}.log 2>&1 &"
        f" pid_{r.name}=$!"
        for r in runners
    ]
    lines += [f"sleep {case.settle:g}; count begin; sleep {case.seconds:g}; count end_"]
    if case.light:
        lines.append(_light("reader", case, free, LIGHT))
    lines += [
        f'wait "$pid_{r.name}" || fail "{r.name} failed: $(tail -n 1 /tmp/{r.name}.log)"' for r in runners
    ]
    lines.append(f"cat {' '.join(f'/tmp/{r.name}.json' for r in runners)} | report jobs")  # noqa: S108
    lines += ["over", 'scheduler "$DEV" none']
    for r in firsts:
        if r.job.writes:
            lines += _alone(r, case, "after")
    return "\n".join(lines) + "\n"


def _fill(case: Case, slice_: int) -> list[str]:
    """Commands that use up a new device's fast cache and reserve (RESERVE)."""
    mb = RESERVE.get(case.device.about, 0) * 9 // 8 if any(j.writes for j in case.jobs) else 0
    part = case.device.capacity_mb // case.parts
    return [
        f"fio --name=fill --filename=/dev/$DEV --direct=1 --ioengine=libaio --rw=write --bs=1m --iodepth=4"
        f" --offset={part * slice_}m --size={part}m --io_size={mb}m --zero_buffers --output=/dev/null || fail 'fio failed'"
    ] * (mb > 0)


def _rate(out: Output, section: str, slice_: int) -> float:
    """MB/s of one slice between two counts."""
    served = Served.between(out.results[f"{section}.begin"], out.results[f"{section}.end"])
    return served.mbps(slice_)


def _longest(out: Output) -> dict[str, float]:
    """The longest wait of an I/O of each job, in s. Raises ValueError for a job that failed."""
    found = {}
    for line in out.results["jobs"].splitlines():
        words = line.split(";")
        # fio's terse format 3: error, then 41 fields for reads and 41 for writes; lat: min, max, mean, deviation
        if len(words) < 88 or words[0] != "3":
            continue
        if words[4] != "0":
            raise ValueError(f"{words[2]} ended with error {words[4]}")
        found[words[2]] = max(float(words[38]), float(words[79])) / 1e6
    return found


def figures(case: Case, out: Output) -> list[Figure]:
    runners = runners_of(case)
    window = Served.between(out.results["begin"], out.results["end_"])
    need_any(sum(window.read) + sum(window.written), window.seconds)
    alone: dict[str, float] = {}
    drift = 0.0
    for r in _first(case):
        rates = [
            _rate(out, f"{when}.{r.job.name}", r.slice_) for when in ("before", "after")[: 1 + r.job.writes]
        ]
        if not min(rates):
            raise ValueError(f"{r.name} alone was not served")
        alone[r.job.name] = sum(rates) / len(rates)
        drift = max(drift, 100 * (max(rates) / min(rates) - 1))
    share = shares(case.groups(), [r.group for r in runners])
    parts = {r.name: window.mbps(r.slice_) / alone[r.job.name] for r in runners}
    fair = {r.name: parts[r.name] / share[r.group] for r in runners}
    longest = _longest(out)
    if set(longest) != set(parts):
        raise ValueError(f"fio's reports are of {', '.join(longest)}")
    limit = {
        r.name: max(WAIT_S, WAIT_TIMES * r.job.qd * r.job.size / (1e6 * alone[r.job.name] * share[r.group]))
        for r in runners
    }
    total = sum(window.mbps(r.slice_) for r in runners)
    rows = [
        Figure("least", round(min(fair.values()), 3), "", "higher"),
        Figure("sum", round(100 * sum(parts.values()), 1), "%", "higher", share_of=("best", "none")),
        Figure("wait", round(max(longest[n] / limit[n] for n in longest), 3), "", "lower"),
        Figure("wait-s", round(max(longest.values()), 2), "s", "lower"),
        Figure("total", round(total, 2), "MB/s", "higher", share_of=("none",)),
        Figure("drift", round(drift, 1), "%"),
    ]
    for job in case.jobs:
        own = [parts[name] for name in job.names()]
        # of several copies, the smallest part
        rows.append(Figure(f"part-{job.name}", round(100 * min(own), 1), "%", "higher"))
    if case.heavy:
        got = sum(window.mbps(r.slice_) for r in runners if r.job.name == case.heavy)
        rows.append(Figure("heavy", round(100 * got / total, 2), "%"))
    if case.light:
        rows += _light_figures(out)
    return rows


def _light_figures(out: Output) -> list[Figure]:
    def p99(section: str) -> float:
        times = latency.reads(out.results[section])
        return latency.percentile(times, "p99", beyond=BEYOND if section == "reader" else 0)

    quiet = latency.reads(out.results["reader-alone"])
    one = fio_job(out.results["one"])
    side = one["write"] if one["write"]["total_ios"] else one["read"]
    if not side["lat_ns"]["N"]:
        raise ValueError("no large request was measured")
    return [
        Figure("light-p99", round(p99("reader"), 1), "us", "lower"),
        Figure("light-alone-p50", round(latency.percentile(quiet, "p50"), 1), "us"),
        Figure("light-alone-p99", round(p99("reader-alone"), 1), "us"),
        Figure("largest", round(side["lat_ns"]["mean"] / 1000, 1), "us"),
    ]


def experiment(case: Case, **more: object) -> Experiment:
    """The experiment of a case."""
    buffers = sum(j.copies * (0 if j.buffered else j.qd) * j.size for j in case.jobs) >> 20
    total = 30 + case.settle + case.seconds + 2 * len(case.jobs) * (ALONE_SETTLE + ALONE + 10)
    return Experiment(
        f"promise.{case.name}", case.about(), script(case), lambda out: figures(case, out), device=case.device,
        programs=("fio", "ek-light-reader") if case.light else ("fio",),
        memory=MEMORY + buffers + 4 * sum(j.copies for j in case.jobs), limit=4 * total, **more,  # type: ignore[arg-type]
    )  # fmt: skip
