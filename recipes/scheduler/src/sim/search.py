#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Search for a device and a mix of groups where the policy core breaks its promise.

    search.py EK_SIM [--draws N] [--seed N] [--only N] [--jobs N] [--no-light]

Each draw is a random device and a random mix of groups. ek-sim runs it, and reports shares, waits and the
latency of a light reader. The script shrinks the first draw that fails: it looks for the smallest case that
still fails in the same way. It prints this case as an ek-sim command, and as an entry of the lab's table of
promises. The cases in cases.txt failed once and are mended; they run before the draws.

The exit status is 0 if no case fails, and if part / share is at least LEAST_MOST in the part MOST of the cases.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shlex
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

CASES = Path(__file__).with_name("cases.txt")
# The promise: the least part / share of all groups that never pause is at least LEAST_ALL in every case, and
# at least LEAST_MOST in the fraction MOST of the cases.
LEAST_ALL, LEAST_MOST, MOST = 0.90, 0.95, 0.99
# The least sum of parts, as a fraction of the sum without a scheduler.
SUM = 0.95
# A run of ek-sim fails after this time, in seconds.
TIMEOUT = 120
PRESETS = ("emmc51", "emmc50-slow", "sd-uhs3", "ufs31", "sata-mlc-8ch")
# A case that needs a longer window (seconds) is skipped: a group gets next to nothing of a slow device.
WINDOW_MAX = 60.0


@dataclass(frozen=True)
class Job:
    """A group with one job. `size` is in bytes, `think` in us. `parent`: number and weight of the parent group."""

    weight: int = 100
    write: bool = False
    random: bool = True
    sync: bool = False
    size: int = 4096
    depth: int = 1
    think: int = 0
    parent: tuple[int, int] | None = None

    def text(self) -> str:
        """The job as an argument of ek-sim."""
        words = [f"weight={self.weight}", "w" if self.write else "r", "rand" if self.random else "seq"]
        words += [
            f"bs={self.size >> 10}k" if self.size % 1024 == 0 else f"bs={self.size}",
            f"qd={self.depth}",
        ]
        if self.sync:
            words.append("sync")
        if self.think:
            words.append(f"think={self.think}")
        if self.parent:
            words.append(f"in={self.parent[0]}/{self.parent[1]}")
        return ",".join(words)


@dataclass(frozen=True)
class Case:
    device: str
    jobs: tuple[Job, ...]

    def command(self) -> str:
        return shlex.join(["ek-sim", "--light", self.device, *(job.text() for job in self.jobs)])


@dataclass
class Judged:
    """The result of a case. `least`: the least part / share of a group that never pauses."""

    case: Case
    name: str
    least: float = math.inf
    failures: list[str] = field(default_factory=list)
    detail: str = ""
    skipped: bool = False


def log_uniform(r: random.Random, low: float, high: float) -> float:
    """A number between `low` and `high` whose logarithm is uniformly distributed."""
    return low * (high / low) ** r.random()


def draw_link(r: random.Random) -> str:
    bandwidth, command = log_uniform(r, 5, 500), log_uniform(r, 5, 4000)
    asymmetry = r.choice([1.0, log_uniform(r, 1, 10)])
    slower = r.choice([1.0, asymmetry])
    return (
        f"pipe:link_read_mbps={int(bandwidth)},link_write_mbps={max(1, int(bandwidth / asymmetry))},"
        f"cmd_us={int(command)},cmd_write_us={int(command * slower)},depth={2 ** r.randrange(8)}"
    )


def draw_station(r: random.Random) -> str:
    """Servers behind a link: 5 MB/s to 3 GB/s, commands of 5 us to 20 ms, up to 256 servers."""
    bandwidth, servers, asymmetry = log_uniform(r, 5, 3000), 2 ** r.randrange(9), log_uniform(r, 1, 10)
    command = min(log_uniform(r, 5e3, 20e6), 1e9 / servers)
    if command * asymmetry > 40e6:
        asymmetry = 1
    max_kb = 128 << r.randrange(3)
    link = 1024e3 / bandwidth
    server = link * min(servers, 16) * r.random()
    if server * asymmetry * max_kb > 4e7:
        server = 0
    return (
        f"station:depth={2 ** r.randrange(11)},servers={servers},max_kb={max_kb},cmd_r_ns={int(command)},"
        f"cmd_w_ns={int(command * r.choice([1, asymmetry]))},kb_r_ns={int(server)},"
        f"kb_w_ns={int(server * asymmetry)},link_r_ns={int(link)},link_w_ns={int(link * asymmetry)}"
    )


def draw_flash(r: random.Random) -> str:
    bandwidth, depth, command = log_uniform(r, 50, 2000), 2 ** r.randrange(7), log_uniform(r, 5, 300)
    buffer = 512 << r.randrange(4) if r.random() < 0.67 else 0
    return (
        f"emmc51:depth={depth},active={r.choice([1, depth])},link_read_mbps={int(bandwidth)},"
        f"link_write_mbps={int(bandwidth / log_uniform(r, 1, 3))},channels={2 ** r.randrange(4)},"
        f"dies={2 ** r.randrange(4)},t_r_us={int(log_uniform(r, 25, 200))},"
        f"t_prog_us={int(log_uniform(r, 300, 3000))},cmd_us={int(command)},"
        f"cmd_write_us={int(command * log_uniform(r, 1, 4))},buffer_kb={buffer},"
        f"gc_after_kb={r.choice([0, 1])},gc_valid_pct={r.randrange(80)},suspend_us={r.choice([0, 20])}"
    )


def draw_preset(r: random.Random) -> str:
    return f"{r.choice(PRESETS)}:{r.choice(['gc_after_kb=1', 'depth=32'])}"


def draw_job(r: random.Random, crowd: bool, parents: list[int]) -> Job:
    size = 4096 << r.randrange(14) if r.randrange(12) else 100 << 20
    depth = 2 ** r.randrange(9)
    if crowd and size * depth > 4 << 20:
        size, depth = min(size, 1 << 20), min(depth, 4)
    while size * depth > 1 << 30:
        depth //= 2
    write = r.random() < 0.5
    parent = r.randrange(1, len(parents) + 1) if parents and r.random() < 0.7 else 0
    return Job(
        weight=round(log_uniform(r, 5, 70)) * 10,
        write=write,
        random=r.random() < 0.5,
        sync=write and r.random() < 0.1,
        size=size,
        depth=depth,
        think=int(log_uniform(r, 100, 50000)) if r.random() < 0.1 else 0,
        parent=(parent, parents[parent - 1]) if parent else None,
    )


def draw(seed: int) -> Case:
    r = random.Random(seed)  # noqa: S311 -- a draw must be repeatable
    device = r.choice([draw_preset, draw_link, draw_station, draw_flash])(r)
    count = r.choice([2, 3]) if r.randrange(8) else int(log_uniform(r, 2, 200))
    parents = [round(log_uniform(r, 50, 700)) for _ in range(r.randrange(1, 4))] if r.random() < 0.2 else []
    jobs = [draw_job(r, count > 8, parents) for _ in range(count)]
    if all(job.think or job.sync for job in jobs):
        jobs[0] = replace(jobs[0], think=0, sync=False)
    return Case(device, tuple(jobs))


class Search:
    """Runs cases through ek-sim. With `light`, each run also measures the latency of a light reader."""

    def __init__(self, sim: Path, light: bool) -> None:
        self.sim = sim
        self.light = light

    def judge(self, case: Case, name: str) -> Judged:
        done = Judged(case, name)
        args = [str(self.sim), "--json", "--window", "5", *(["--light"] if self.light else []), case.device]
        args += [job.text() for job in case.jobs]
        try:
            run = subprocess.run(args, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        except subprocess.TimeoutExpired:
            done.failures.append("time")
            return done
        if run.returncode:
            done.failures.append("error")
            done.detail = run.stderr.strip()[-300:]
            return done
        seen = json.loads(run.stdout)
        if "error" in seen:
            done.failures.append("lost")
            done.detail = seen["error"]
            return done
        if seen["window"] > WINDOW_MAX:
            done.skipped = True
            return done
        core, none = seen["core"], seen["none"]
        done.least = core["least"]
        if core["least"] < LEAST_ALL:
            done.failures.append("promise")
        if core["sum"] < SUM * none["sum"]:
            done.failures.append("sum")
        if core["wait"] > 1 and core["wait"] > none["wait"]:
            done.failures.append("wait")
        light = seen.get("light")
        if light and light["p99"] > max(light["bound"], light["none"]):
            done.failures.append("light")
        done.detail = (
            f"least {core['least']:.3f} (none {none['least']:.3f}), sum {core['sum']:.3f} ({none['sum']:.3f}), "
            f"wait {core['wait']:.2f} ({none['wait']:.2f}), ratio {' '.join(f'{x:.2f}' for x in core['ratio'][:6])}"
        )
        if light:
            done.detail += f", light {light['p99'] / 1e6:.2f} ms of {light['bound'] / 1e6:.2f}"
        return done

    def shrink(self, judged: Judged) -> Judged:
        """The smallest case found that has the first of the failures of `judged`."""
        want = judged.failures[0]
        best = judged
        progress = True
        while progress:
            progress = False
            for smaller in reductions(best.case):
                tried = self.judge(smaller, best.name)
                if want in tried.failures:
                    best, progress = tried, True
                    break
        return best


def reductions(case: Case) -> Iterator[Case]:
    """Simpler cases: fewer groups, then simpler groups, then a device with fewer changed parameters."""
    jobs = case.jobs
    if len(jobs) > 4:
        yield replace(case, jobs=jobs[: len(jobs) // 2])
        yield replace(case, jobs=jobs[len(jobs) // 2 :])
    for i in range(len(jobs) if 2 < len(jobs) <= 8 else 0):
        yield replace(case, jobs=jobs[:i] + jobs[i + 1 :])
    for i, job in enumerate(jobs[:4]):
        for change in (
            {"parent": None}, {"think": 0}, {"sync": False}, {"weight": 100}, {"random": True},
            {"depth": max(1, job.depth // 2)}, {"size": max(4096, job.size // 2)},
        ):  # fmt: skip
            plainer = replace(job, **change)
            if plainer != job:
                yield replace(case, jobs=(*jobs[:i], plainer, *jobs[i + 1 :]))
    name, _, pairs = case.device.partition(":")
    words = pairs.split(",") if pairs else []
    if name != "station":
        for i in range(len(words)):
            yield replace(case, device=f"{name}:{','.join(words[:i] + words[i + 1 :])}".rstrip(":"))


def experiment(case: Case, name: str) -> str:
    """The case as an entry of CASES in tests/lab/lab/experiments/promise.py."""
    preset, _, pairs = case.device.partition(":")
    words = [word.partition("=") for word in pairs.split(",") if word]
    device = f"flashsim({', '.join([repr(preset), *(f'{key}={value}' for key, _, value in words)])})"
    notes = [f"the lab has no station: {pairs}"] if preset == "station" else []
    notes += [
        f"the lab's jobs do not pause: g{i} thinks {job.think} us"
        for i, job in enumerate(case.jobs)
        if job.think
    ]
    jobs = []
    for i, job in enumerate(case.jobs):
        rw = ("rand" if job.random else "") + ("write" if job.write else "read")
        extra = (f', inside="p{job.parent[0]}"' if job.parent else "") + (", dsync=True" if job.sync else "")
        jobs.append(f'Job("g{i}", "{rw}", "{job.size >> 10}k", {job.depth}, {job.weight}{extra})')
    inner = {f"p{job.parent[0]}": job.parent[1] for job in case.jobs if job.parent}
    return "\n".join([
        *(f"# {note}" for note in notes), f'Case("search.{name}", {device},', "     (" + ",\n      ".join(jobs) + ",)"
        + (f", inner={inner!r}" if inner else "") + "),",
    ])  # fmt: skip


def read_cases(path: Path) -> list[tuple[str, Case]]:
    """The cases in a file, with their names. Each line is NAME: DEVICE JOB..."""
    cases = []
    for line in path.read_text().splitlines() if path.exists() else []:
        if not line.strip() or line.startswith("#"):
            continue
        name, _, rest = line.partition(": ")
        device, *jobs = shlex.split(rest)
        cases.append((name, Case(device, tuple(parse_job(job) for job in jobs))))
    return cases


def parse_job(text: str) -> Job:
    job = Job()
    for word in text.split(","):
        key, _, value = word.partition("=")
        if key in ("r", "w"):
            job = replace(job, write=key == "w")
        elif key in ("rand", "seq"):
            job = replace(job, random=key == "rand")
        elif key == "sync":
            job = replace(job, sync=True)
        elif key == "bs":
            unit = {"k": 1 << 10, "m": 1 << 20}.get(value[-1], 1)
            job = replace(job, size=int(value.rstrip("km")) * unit)
        elif key == "in":
            parent, _, weight = value.partition("/")
            job = replace(job, parent=(int(parent), int(weight)))
        else:
            job = replace(job, **{{"qd": "depth"}.get(key, key): int(value)})
    return job


def report(all_judged: list[Judged], draws: int) -> bool:
    """Print a summary. Returns whether the promise holds."""
    judged = [j for j in all_judged if not j.skipped]
    good = sum(j.least >= LEAST_MOST for j in judged)
    failed = [j for j in judged if j.failures]
    classes = {kind: sum(kind in j.failures for j in judged) for j in failed for kind in j.failures}
    print(
        f"{len(judged)} cases ({len(all_judged) - len(judged)} skipped: a window of over {WINDOW_MAX:.0f} s): "
        f"part/share >= 0.95 in {good} ({100 * good / max(1, len(judged)):.1f} %), "
        f">= 0.90 in {sum(j.least >= LEAST_ALL for j in judged)}; failures: {classes or 'none'}"
    )
    return not failed and good >= MOST * len(judged)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sim", type=Path)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=None, help="default: a random one")
    parser.add_argument("--only", type=int, default=None, help="run only draw N of the seed, in detail")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--shrink", type=int, default=1, help="number of failures to shrink (default: 1)")
    parser.add_argument("--no-light", action="store_true")
    parser.add_argument("--no-cases", action="store_true")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    print(f"seed {seed}", flush=True)
    search = Search(options.sim.resolve(), not options.no_light)
    numbers = [options.only] if options.only is not None else range(options.draws)
    cases = [(f"{seed}/{i}", draw(seed * 1_000_003 + i)) for i in numbers]
    if options.only is None and not options.no_cases:
        cases = read_cases(CASES) + cases
    judged: list[Judged] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for done in pool.map(lambda named: search.judge(named[1], named[0]), cases):
            judged.append(done)
            if done.failures or done.least < LEAST_MOST or options.only is not None:
                print(f"{done.name}: {' '.join(done.failures) or 'low'}: {done.detail}")
                print(f"    {done.case.command()}", flush=True)
    for done in [j for j in judged if j.failures][: options.shrink]:
        small = search.shrink(done)
        print(f"\n{done.name}, shrunk: {' '.join(small.failures)}: {small.detail}")
        print(f"    {small.case.command()}\n{experiment(small.case, small.name.replace('/', '-'))}")
    print()
    return 0 if report(judged, options.draws) else 1


if __name__ == "__main__":
    sys.exit(main())
