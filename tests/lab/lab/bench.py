# SPDX-License-Identifier: Apache-2.0
"""Runs all experiments with their baselines; writes results.json and a page; judges targets and the papers' results."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from pathlib import Path

from evenkeel_report import compare as comparison
from evenkeel_report import page
from evenkeel_report.lookup import Wanted
from evenkeel_report.row import RowError
from evenkeel_report.verdict import Verdict
from evenkeel_report.verdict import judge as judge_shapes

from lab import experiments, provenance, sight, targets
from lab import options as common_options
from lab.kernels import TOP
from lab.model import Experiment, Figure, LabError, Row
from lab.report import headline
from lab.runner import Job, Result, run_all, utc
from lab.targets import Targets

# The seeds with which an experiment that has a promise may run. The worst value of the seeds that ran is judged.
SEEDS = (1, 2, 3, 4, 5)
# Fields of a row in results.json that describe the bench: the kernel release that the row's guest reported, this project's
# revision, QEMU's version, and the time at which the file was written. Only `release` differs from row to row.
ORIGIN = ("release", "revision", "qemu", "made")


def options(parser: argparse.ArgumentParser) -> None:
    part = parser.add_mutually_exclusive_group()
    part.add_argument(
        "--quick", action="store_true", help="only the quick bench, which takes less than 10 minutes"
    )
    part.add_argument(
        "--deep",
        action="store_true",
        help="also the slow experiments (hours of recording, power cuts, other numbers of groups) and more baselines",
    )
    parser.add_argument(
        "--baselines", action="store_true",
        help="with --quick: all baselines of the full bench for the table of the README; needs the kernel variant `lab`",
    )  # fmt: skip
    parser.add_argument(
        "--out",
        type=Path,
        default=TOP / "build/bench",
        metavar="DIR",
        help="output folder (default %(default)s)",
    )
    parser.add_argument(
        "--only", action="append", metavar="PATTERN", help="only experiments that match; may be repeated"
    )
    parser.add_argument(
        "--kernel", action="append", metavar="VERSION", help="only guests with this kernel (default: all)"
    )
    parser.add_argument(
        "--without-host-clock",
        action="store_true",
        help="omit experiments on the host's clock, which a busy host disturbs",
    )


def row(job: Job, f: Figure, measured: str | None = None) -> Row:
    """The row of one figure. Its target from targets.toml and its baselines are added later (rows_of, merge)."""
    e = job.experiment
    whose = e.figures_of if e.figures_of and job.scheduler == e.subject else job.scheduler
    return Row(
        f"{e.name}.{f.metric}", f.value, f.unit, f.better, f.target, f.paper,
        e.clock, job.kernel, whose, f.must, measured=measured,
    )  # fmt: skip


def rows_of(result: Result, wanted: Targets) -> list[Row]:
    """The rows of one guest with their targets. Raises LabError."""
    listed = [row(result.job, f, result.measured) for f in result.figures()]
    return wanted.give(listed, result.job.experiment.name)


def first(e: Experiment, subject: str | None) -> str:
    """The scheduler whose figures become the values of the rows.

    It is the experiment's own subject, unless that is evenkeel and `subject` is given: then it is `subject`.
    """
    return subject if subject and e.subject == "evenkeel" else e.subject


def sampled(chosen: Iterable[Experiment], seed: int) -> list[Experiment]:
    """All experiments outside pools, and the experiments that `seed` draws from each pool, in the same order."""
    listed = list(chosen)
    pools: dict[str, list[str]] = {}
    for e in listed:
        if e.pool:
            pools.setdefault(e.pool[0], []).append(e.name)
    sizes = {e.pool[0]: e.pool[1] for e in listed if e.pool}
    kept = {
        name
        for pool, names in pools.items()
        for name in random.Random(f"{seed} {pool}").sample(sorted(names), min(sizes[pool], len(names)))  # noqa: S311
    }
    return [e for e in listed if not e.pool or e.name in kept]


def drawn_seeds(e: Experiment, seed: int, wanted: Targets, *, deep: bool) -> list[int | None]:
    """The seeds with which an experiment runs, one guest each; None stands for the lab's own seed.

    Without a promise, or on the host's clock, this is only the lab's own seed. With a promise, the deep bench runs all of
    SEEDS, and the full bench draws one of them. It draws two if a target is for a maximum, because a maximum depends
    on the phase in which the load begins. Baselines run only with the first seed of the list.
    """
    if e.clock != "virtual" or not wanted.promised(e.name):
        return [None]
    order = random.Random(f"{seed} {e.name}").sample(SEEDS, len(SEEDS))  # noqa: S311
    return list(order if deep else order[: 2 if wanted.maximum(e.name) else 1])


def plan(
    chosen: Iterable[Experiment], *, quick: bool, deep: bool = False, subject: str | None = None, seed: int = 1,
    sample: bool = True, wanted: Targets | None = None, wide: bool = False,
) -> list[Job]:  # fmt: skip
    """All jobs of a bench: each chosen experiment on its kernels, with its subject and its baselines.

    `seed` draws the experiments of a pool, unless `sample` is false, and the seeds of promises. The quick bench runs only
    the baseline `none`, and only if it is among an experiment's quick baselines. With `wide`, it runs all quick baselines,
    and the experiments of the README's table with all their baselines.
    """
    wanted = targets.load() if wanted is None else wanted
    jobs: dict[str, Job] = {}
    listed = list(chosen)
    for e in listed if deep or quick or not sample else sampled(listed, seed):
        if (quick and not e.quick) or (e.deep and not deep):
            continue
        seeds = [None] if quick else drawn_seeds(e, seed, wanted, deep=deep)
        for kernel in e.kernels[:1] if quick else e.kernels:
            if quick and not wide:
                baselines = tuple(b for b in e.quick_baselines if b == "none")
            elif quick and e.name not in headline.EXPERIMENTS:
                baselines = e.quick_baselines
            elif kernel == e.kernels[0]:
                baselines = (*e.baselines, *(e.deep_baselines if deep else ()))
            else:
                baselines = e.later_baselines
            own = first(e, subject)
            for job in [
                *(Job(e, kernel, own, s) for s in (seeds if kernel == e.kernels[0] else seeds[:1])),
                *(Job(e, kernel, scheduler, seeds[0]) for scheduler in baselines),
            ]:
                jobs.setdefault(job.name, job)
    return list(jobs.values())


def worse(a: Row, b: Row) -> Row:
    """Of two rows, the row whose value is further from its target; without a target, the row with the worse value.

    If both are equally bad: `a`.
    """

    def badness(r: Row) -> float:
        match r.target:
            case (low, high):
                return max(low - r.value, r.value - high)
            case float() | int() as bound:
                return r.value - bound if r.better == "lower" else bound - r.value
        return {"lower": r.value, "higher": -r.value}.get(r.better or "", 0.0)

    return b if badness(b) > badness(a) else a


def merge(results: Sequence[Result], subject: str | None = None, wanted: Targets | None = None) -> list[Row]:
    """One row for each id and kernel: the subject's figure with its baselines. A row ID-of-BASELINE follows its row ID.

    If a scheduler ran with several seeds, its worst value counts. This holds for the subject and for each baseline.
    """
    wanted = targets.load() if wanted is None else wanted
    own: dict[tuple[str, str], Row] = {}
    shares: dict[tuple[str, str], tuple[str, ...]] = {}
    others: dict[tuple[str, str], dict[str, Row]] = {}
    names: dict[tuple[str, str], str] = {}
    for result in results:
        promised = first(result.job.experiment, subject)
        share_of = {f.metric: f.share_of for f in result.figures()}
        for r in rows_of(result, wanted):
            key = r.id, r.kernel
            if result.job.scheduler == promised:
                own[key] = worse(own[key], r) if key in own else r
                names[key] = result.job.experiment.name
                shares[key] = share_of[r.id.removeprefix(f"{names[key]}.")]
            else:
                known = others.setdefault(key, {})
                name = result.job.scheduler
                known[name] = worse(known[name], r) if name in known else r
    rows = []
    for key, r in own.items():
        r.baselines.update({name: other.value for name, other in others.get(key, {}).items()})
        rows.append(r)
        found = [share for b in shares[key] if (share := r.as_share_of(b))]
        rows += wanted.give(found, names[key])
    return rows


def absent(
    results: Sequence[Result], rows: Sequence[Row], wanted: Targets, subject: str | None = None
) -> list[str]:
    """The figures that have a target, but for which the experiments of these results wrote no row."""
    missing: list[str] = []
    written = {r.id for r in rows}
    for e in {r.job.experiment.name: r.job.experiment for r in results}.values():
        have = {r.job.scheduler for r in results if r.job.experiment.name == e.name}
        if (own := first(e, subject)) in have:
            figures = [i.removeprefix(f"{e.name}.") for i in written if i.startswith(f"{e.name}.")]
            missing += wanted.unmatched(e.name, figures, have - {own})
    return missing


def judge(rows: Sequence[Row]) -> tuple[list[Row], list[Row], list[Row]]:
    """The rows with a target, in three lists: held, missed (a promise), open (another target that is not met)."""
    held = [r for r in rows if r.holds() is True]
    missed = [r for r in rows if r.holds() is False and r.must]
    still = [r for r in rows if r.holds() is False and not r.must]
    return held, missed, still


def read(path: Path | str) -> list[Row]:
    """The rows of a results.json. Raises LabError."""
    return read_with_origin(path)[0]


def read_with_origin(path: Path | str) -> tuple[list[Row], list[dict[str, str]]]:
    """The rows of a results.json, and for each row those of the fields ORIGIN that it has. Raises LabError."""
    try:
        listed = json.loads(Path(path).read_text())
    except OSError as error:
        hint = sight.hint(path) if isinstance(error, FileNotFoundError) else ""
        raise LabError(f"cannot read {path}: {error.strerror}{hint}") from error
    except (ValueError, RecursionError) as error:
        raise LabError(f"{path} is not JSON: {error}") from error
    if not isinstance(listed, list):
        raise LabError(f"{path} is not a list of rows")
    rows = []
    origins = []
    for count, fields in enumerate(listed, 1):
        if not isinstance(fields, dict):
            raise LabError(f"{path}, row {count} is no object")
        origins.append({k: str(v) for k, v in fields.items() if k in ORIGIN and v is not None})
        try:
            rows.append(Row.from_json({k: v for k, v in fields.items() if k not in ORIGIN}))
        except RowError as error:
            raise LabError(f"{path}, row {count}: {error}") from None
    return rows, origins


def compare(before: str, after: str) -> int:
    """Print what changed. Returns 1 if a figure became worse."""
    text, regressions = comparison.render(read(before), read(after), by_kernel=True)
    print(text)
    return 1 if regressions else 0


def distributions(results: Sequence[Result], subject: str | None = None) -> page.Curves:
    """The distributions by case and kernel, the subject's first. Raises LabError."""
    found: dict[tuple[str, str], dict[str, Sequence[tuple[float, float]]]] = {}
    # a stable sort puts the subject first and keeps the baselines in the order of the plan
    for result in sorted(results, key=lambda r: r.job.scheduler != first(r.job.experiment, subject)):
        for case, points in _curves(result).items():
            found.setdefault((case, result.job.kernel), {})[result.job.scheduler] = points
    return found


def _curves(result: Result) -> dict[str, list[tuple[float, float]]]:
    if result.job.experiment.curves is None:
        return {}
    try:
        return result.job.experiment.curves(result.output)
    except Exception as error:
        raise LabError(f"{result.job.name}: the guest's distributions cannot be read: {error!r}") from error


def older(results: Iterable[Result], made: str) -> dict[str, str]:
    """For the page: the time of the oldest guest, if it ran more than a day before `made`."""
    oldest = min((r.measured for r in results if r.measured), default=made)
    before = datetime.fromisoformat(made) - timedelta(days=1)
    return {"oldest guest": oldest} if datetime.fromisoformat(oldest) < before else {}


def checked(outcome: Result | LabError) -> Result | LabError:
    """The result, or the LabError if its figures cannot be read or another kernel ran than the one asked for."""
    if isinstance(outcome, LabError):
        return outcome
    try:
        provenance.release(outcome)
        outcome.figures()
        _curves(outcome)
    except LabError as error:
        return error
    return outcome


def expected(jobs: Iterable[Job], known: Iterable[str]) -> Callable[[Wanted], bool]:
    """A function that says whether these jobs were meant to measure a value.

    A value that no experiment writes counts as expected, so that a wrong id is noticed.
    """
    planned = {(j.experiment.name, j.kernel, j.scheduler) for j in jobs}
    some = {(name, kernel) for name, kernel, _ in planned}
    names = list(known)

    def check(wanted: Wanted) -> bool:
        owner = experiments.owner(names, wanted.id)
        if owner is None:
            return True
        if wanted.scheduler is None:
            return (owner, wanted.kernel) in some
        return (owner, wanted.kernel, wanted.scheduler) in planned

    return check


def write(
    out: Path, rows: Sequence[Row], meta: Mapping[str, str], *, origin: Mapping[str, str],
    releases: Mapping[str, str], verdicts: Sequence[Verdict], curves: page.Curves,
) -> None:  # fmt: skip
    """Write results.json, shapes.json, curves.json and index.html.

    `releases` maps the kernel version asked for to the release that guests reported.
    Raises LabError when writing fails.
    """
    listed = [{**r.as_json(), "release": releases.get(r.kernel), **origin} for r in rows]
    drawn = [{"case": c, "kernel": k, "unit": "us", "curves": known} for (c, k), known in curves.items()]
    texts = {
        "results.json": json.dumps(listed, indent=1) + "\n",
        "shapes.json": json.dumps([asdict(v) for v in verdicts], indent=1) + "\n",
        "curves.json": json.dumps(drawn) + "\n",
        "index.html": page.render(rows, title="Evenkeel bench", meta=meta, verdicts=verdicts, curves=curves),
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            part = out / f"{name}.part"
            try:
                part.write_text(text)
                part.replace(out / name)
            finally:
                part.unlink(missing_ok=True)
    except OSError as error:
        raise LabError(f"cannot write to {out}: {error.strerror}") from error


def _check_out(out: Path) -> None:
    """Raises LabError when no file can be created in the folder. Called before the first guest, so that no work is lost."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out) as probe:
            probe.write(b"-")
    except OSError as error:
        raise LabError(f"cannot write to {out}: {error.strerror}") from error


def main(args: argparse.Namespace, known: Mapping[str, Experiment]) -> int:
    """Run the chosen experiments and write the files. Returns 0 if everything was measured and no promise is missed."""
    begin = time.monotonic()
    lab, subject = common_options.lab(args)
    chosen = experiments.matching(known, args.only) if args.only else list(known.values())
    if args.without_host_clock:
        chosen = [e for e in chosen if e.clock == "virtual"]
    # --only also selects deep experiments, and no draw leaves out a selected experiment of a pool.
    named = [e if not args.only else replace(e, deep=False, pool=None) for e in chosen]
    jobs = plan(
        named, quick=args.quick, deep=args.deep, subject=subject, seed=args.seed, sample=not args.only,
        wide=args.baselines,
    )  # fmt: skip
    if args.kernel:
        jobs = [job for job in jobs if job.kernel in args.kernel]
        if not jobs:
            raise LabError(f"nothing to run: no chosen experiment runs on kernel {' or '.join(args.kernel)}")
    if not jobs:
        lacks = "is on the virtual clock" if not chosen else "is part of the quick bench"
        raise LabError(f"nothing to run: none of the chosen experiments {lacks}")
    _check_out(args.out)
    targets.load()
    print(
        f"{len(jobs)} guests; {sum(j.experiment.clock == 'host' for j in jobs)} of them are on the host's clock and run"
        f" alone. Seed {args.seed} draws the samples",
        flush=True,
    )
    failed: list[LabError] = []
    # jobs with a usable result → the kernel release that the guest reported
    sound: dict[str, str | None] = {}
    count = 0
    guest_seconds = 0.0

    def done(job: Job, outcome: Result | LabError) -> None:
        nonlocal count, guest_seconds
        count += 1
        outcome = checked(outcome)
        if isinstance(outcome, LabError):
            failed.append(outcome)
            print(f"[{count}/{len(jobs)}] lab: {outcome}", flush=True)
            return
        sound[job.name] = provenance.release(outcome)
        guest_seconds += outcome.seconds
        what = "cached" if outcome.cached else f"{outcome.seconds:.0f} s"
        print(f"[{count}/{len(jobs)}] {job.name}: {what}", flush=True)

    results = [r for r in run_all(lab, jobs, done, args.parallel) if r.job.name in sound]
    wanted = targets.load()
    rows = merge(results, subject, wanted)
    nowhere = absent(results, rows, wanted, subject)
    curves = distributions(results, subject)
    verdicts, left_out = judge_shapes(experiments.shapes(), rows, expected(jobs, known))
    origin = {
        "revision": provenance.revision(),
        "qemu": provenance.emulator(),
        "made": utc(time.time()),
    }
    ran = {j.kernel: release for j in jobs if (release := sound.get(j.name))}
    meta = {
        **origin,
        "part": "quick" if args.quick else "deep" if args.deep else "full",
        **({"only": ", ".join(args.only)} if args.only else {}),
        "seed": str(args.seed),
        "guests": f"{len(results)} of {len(jobs)}",
        **older(results, origin["made"]),
        "run time of all guests": f"{guest_seconds / 60:.1f} min",
        "kernels": ", ".join(sorted({ran.get(r.kernel, r.kernel) for r in rows})),
        "cores": str(os.cpu_count()),
    }
    write(args.out, rows, meta, origin=origin, releases=ran, verdicts=verdicts, curves=curves)
    for v in verdicts:
        print(v.line(), file=sys.stderr if v.reproduced is None else sys.stdout)
    if left_out:
        print(f"left out, because their experiments are not part of this run: {', '.join(left_out)}")
    unjudged = sum(v.reproduced is None for v in verdicts)
    held, missed, still = judge(rows)
    for r in still:
        print(f"open: {r.id} ({r.kernel}): {r.value} {r.unit}, target {r.target}")
    for r in missed:
        print(
            f"MISSED: {r.id} ({r.kernel}, {r.subject}): {r.value} {r.unit}, target {r.target}",
            file=sys.stderr,
        )
    for name in nowhere:
        print(f"NO ROW: {name} has a target in {targets.FILE.name}, but was not written", file=sys.stderr)
    print(
        f"{len(rows)} rows; targets: {len(held)} held, {len(missed)} missed, {len(still)} open;"
        f" {len(failed)} of {len(jobs)} guests failed, {unjudged} of {len(verdicts)} shapes not judged;"
        f" {(time.monotonic() - begin) / 60:.1f} min ({guest_seconds / 60:.1f} min of guests); {args.out}/index.html"
    )
    return 1 if failed or missed or unjudged or nowhere else 0
