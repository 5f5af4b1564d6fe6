# SPDX-License-Identifier: Apache-2.0
"""Every experiment with its peers: results.json and one page, and what it says about the targets."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path

from lab import experiments, peers, provenance, settings, sight
from lab.experiments import tune
from lab.kernels import TOP
from lab.model import Experiment, Figure, LabError, Row
from lab.report import compare as comparison
from lab.report import page
from lab.report import tuning as tuning_page
from lab.report.rows import Wanted
from lab.report.verdict import Verdict
from lab.report.verdict import judge as judge_shapes
from lab.runner import Job, Result, run_all, utc

# what each row of results.json says of where it comes from, beside the row itself
ORIGIN = ("release", "revision", "qemu", "made")


def options(parser: argparse.ArgumentParser) -> None:
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--quick", action="store_true", help="the part that runs in under 10 minutes")
    part.add_argument(
        "--deep",
        action="store_true",
        help="and what takes long: hours of recording (the guest's), power cuts, other numbers of groups",
    )
    parser.add_argument("--out", type=Path, default=TOP / "build/bench", help="default %(default)s")
    parser.add_argument("--only", action="append", metavar="PATTERN", help="only these experiments")
    parser.add_argument(
        "--without-host-clock", action="store_true", help="leave out what a busy host disturbs"
    )


def row(job: Job, f: Figure, measured: str | None = None) -> Row:
    """A figure as a row of its own, without peers."""
    e = job.experiment
    whose = e.figures_of if e.figures_of and job.scheduler == e.subject else job.scheduler
    return Row(
        f"{e.name}.{f.metric}", f.value, f.unit, f.better, f.target, f.paper,
        e.clock, job.kernel, whose, f.must, measured=measured,
    )  # fmt: skip


def first(e: Experiment, subject: str | None) -> str:
    """Whose figures the rows carry: `subject` takes the place of evenkeel where that is the experiment's."""
    return subject if subject and e.subject == "evenkeel" else e.subject


def plan(
    chosen: Iterable[Experiment], *, quick: bool, deep: bool = False, subject: str | None = None
) -> list[Job]:
    """All jobs."""
    jobs: dict[str, Job] = {}
    for e in chosen:
        if (quick and not e.quick) or (e.deep and not deep):
            continue
        for kernel in e.kernels[:1] if quick else e.kernels:
            beside = e.quick_peers if quick else e.peers if kernel == e.kernels[0] else e.later_peers
            for scheduler in (first(e, subject), *beside):
                job = Job(e, kernel, scheduler)
                jobs.setdefault(job.name, job)
    return list(jobs.values())


def merge(results: Sequence[Result], subject: str | None = None) -> list[Row]:
    """One row an id and kernel: the subject's figure, the others' beside it; after it, its share of a peer's."""
    own: dict[tuple[str, str], Row] = {}
    shares: dict[tuple[str, str], tuple[str, float]] = {}
    others: dict[tuple[str, str], dict[str, float]] = {}
    for result in results:
        promised = first(result.job.experiment, subject)
        for f in result.figures():
            r = row(result.job, f, result.measured)
            if result.job.scheduler == promised:
                own[r.id, r.kernel] = r
                if f.share_of:
                    shares[r.id, r.kernel] = f.share_of
            else:
                others.setdefault((r.id, r.kernel), {})[result.job.scheduler] = r.value
    rows = []
    for key, r in own.items():
        r.peers.update(others.get(key, {}))
        rows.append(r)
        if key in shares and (share := r.as_share_of(*shares[key])):
            rows.append(share)
    return rows


def judge(rows: Sequence[Row]) -> tuple[list[Row], list[Row], list[Row]]:
    """Rows with a target: held, missed although they must hold, still open."""
    held = [r for r in rows if r.holds() is True]
    missed = [r for r in rows if r.holds() is False and r.must]
    still = [r for r in rows if r.holds() is False and not r.must]
    return held, missed, still


def read(path: Path | str) -> list[Row]:
    """Rows of a results.json. Raises LabError."""
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
    for count, fields in enumerate(listed, 1):
        if not isinstance(fields, dict):
            raise LabError(f"{path}, row {count} is no object")
        try:
            rows.append(Row.from_json({k: v for k, v in fields.items() if k not in ORIGIN}))
        except LabError as error:
            raise LabError(f"{path}, row {count}: {error}") from None
    return rows


def compare(before: str, after: str) -> int:
    """Print what changed; 1 when something got worse."""
    text, regressions = comparison.render(read(before), read(after))
    print(text)
    return 1 if regressions else 0


def tuning(results: str) -> str:
    """The page about what each setting of conf/ buys. Raises LabError when no row is about one."""
    rows = settings.fold(read(results))
    if not rows:
        raise LabError(f"{results} has no row tune.*; the full bench has")
    tried = [
        tuning_page.Setting(name, "", value, settings.DEFAULTS[name], why)
        for name, (value, why) in tune.TRIED.items()
    ]
    return tuning_page.render(rows, settings.read(), tried)


def distributions(results: Sequence[Result], subject: str | None = None) -> page.Curves:
    """Of the experiments that have them, by case and kernel: the subject's first. Raises LabError."""
    found: dict[tuple[str, str], dict[str, Sequence[tuple[float, float]]]] = {}
    # stable, so that peers stay in the order of the plan
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
    """For the page: when the oldest guest ran, if that is not of the day before `made` or later."""
    oldest = min((r.measured for r in results if r.measured), default=made)
    before = datetime.fromisoformat(made) - timedelta(days=1)
    return {"the oldest ran": oldest} if datetime.fromisoformat(oldest) < before else {}


def checked(outcome: Result | LabError) -> Result | LabError:
    """A result from which all can be read, and of the kernel that was asked for; else the error."""
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
    """Was this value to be measured by these jobs? What no experiment writes is expected, so that it is noticed."""
    planned = {(j.experiment.name, j.kernel, j.scheduler) for j in jobs}
    some = {(name, kernel) for name, kernel, _ in planned}
    names = sorted(known, key=len, reverse=True)

    def check(wanted: Wanted) -> bool:
        owner = next((n for n in names if wanted.id.startswith(f"{n}.")), None)
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
    """results.json, shapes.json, curves.json and index.html.

    `releases` are what guests reported as their kernel, by the version that was asked for.
    Raises LabError when the disk refuses.
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
    """Raises LabError when no file can be made there: known before the first guest, not after the last."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out) as probe:
            probe.write(b"-")
    except OSError as error:
        raise LabError(f"cannot write to {out}: {error.strerror}") from error


def main(args: argparse.Namespace, known: Mapping[str, Experiment]) -> int:
    """Run what is asked for. 0: all is measured and judged, and no target that must hold is missed."""
    begin = time.monotonic()
    lab, subject = peers.lab(args)
    chosen = experiments.matching(known, args.only) if args.only else list(known.values())
    if args.without_host_clock:
        chosen = [e for e in chosen if e.clock == "virtual"]
    jobs = plan(chosen, quick=args.quick, deep=args.deep or bool(args.only), subject=subject)
    if not jobs:
        left = "is on the virtual clock" if not chosen else "is part of the quick bench"
        raise LabError(f"nothing to run: none of the chosen experiments {left}")
    _check_out(args.out)
    print(
        f"{len(jobs)} guests, {sum(j.experiment.clock == 'host' for j in jobs)} of them alone, on the host's clock",
        flush=True,
    )
    failed: list[LabError] = []
    # jobs whose result can be used, with the kernel that the guest reported
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
        what = "kept" if outcome.cached else f"{outcome.seconds:.0f} s"
        print(f"[{count}/{len(jobs)}] {job.name}: {what}", flush=True)

    results = [r for r in run_all(lab, jobs, done, args.parallel) if r.job.name in sound]
    rows = merge(results, subject)
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
        "guests": f"{len(results)} of {len(jobs)}",
        **older(results, origin["made"]),
        "guests ran for": f"{guest_seconds / 60:.1f} min in all",
        "kernels": ", ".join(sorted({ran.get(r.kernel, r.kernel) for r in rows})),
        "cores": str(os.cpu_count()),
    }
    write(args.out, rows, meta, origin=origin, releases=ran, verdicts=verdicts, curves=curves)
    for v in verdicts:
        print(
            f"{v.word}: {v.name}: {v.claim}: {v.why}", file=sys.stderr if v.reproduced is None else sys.stdout
        )
    if left_out:
        print(f"left out, as their experiments are no part of this run: {', '.join(left_out)}")
    unjudged = sum(v.reproduced is None for v in verdicts)
    held, missed, still = judge(rows)
    for r in still:
        print(f"open: {r.id} ({r.kernel}): {r.value} {r.unit}, target {r.target}")
    for r in missed:
        print(
            f"MISSED: {r.id} ({r.kernel}, {r.subject}): {r.value} {r.unit}, target {r.target}",
            file=sys.stderr,
        )
    print(
        f"{len(rows)} rows; targets: {len(held)} held, {len(missed)} missed, {len(still)} open;"
        f" {len(failed)} of {len(jobs)} guests failed, {unjudged} of {len(verdicts)} shapes not judged;"
        f" {(time.monotonic() - begin) / 60:.1f} min (guests ran for {guest_seconds / 60:.1f}); {args.out}/index.html"
    )
    return 1 if failed or missed or unjudged else 0
