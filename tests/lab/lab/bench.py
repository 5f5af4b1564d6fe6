# SPDX-License-Identifier: Apache-2.0
"""Every experiment with its peers: results.json and one page, and what it says about the targets."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from lab import experiments, peers, settings
from lab.experiments import tune
from lab.kernels import TOP
from lab.model import Experiment, Figure, LabError, Row
from lab.report import compare as comparison
from lab.report import page
from lab.report import tuning as tuning_page
from lab.report.rows import Rows
from lab.runner import Job, Result, run_all


def options(parser: argparse.ArgumentParser) -> None:
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--quick", action="store_true", help="the part that runs in under 10 minutes")
    part.add_argument("--deep", action="store_true", help="what takes long, too: an hour more")
    parser.add_argument("--out", type=Path, default=TOP / "build/bench", help="default %(default)s")
    parser.add_argument("--only", action="append", metavar="PATTERN", help="only these experiments")
    parser.add_argument(
        "--without-host-clock", action="store_true", help="leave out what a busy host disturbs"
    )


def row(job: Job, f: Figure) -> Row:
    """A figure as a row of its own, without peers."""
    return Row(
        f"{job.experiment.name}.{f.metric}", f.value, f.unit, f.better, f.target, f.paper,
        job.experiment.clock, job.kernel, job.scheduler, f.must,
    )  # fmt: skip


def plan(
    chosen: Iterable[Experiment], *, quick: bool, deep: bool = False, subject: str | None = None
) -> list[Job]:
    """All jobs. `subject` takes the place of evenkeel where that is an experiment's subject."""
    jobs: dict[str, Job] = {}
    for e in chosen:
        if (quick and not e.quick) or (e.deep and not deep):
            continue
        first = subject if subject and e.subject == "evenkeel" else e.subject
        for kernel in e.kernels[:1] if quick else e.kernels:
            beside = e.quick_peers if quick else e.peers if kernel == e.kernels[0] else e.later_peers
            for scheduler in (first, *beside):
                job = Job(e, kernel, scheduler)
                jobs.setdefault(job.name, job)
    return list(jobs.values())


def merge(results: Sequence[Result], subject: str | None = None) -> list[Row]:
    """One row an id and kernel: the subject's figure, the others' beside it; after it, its share of a peer's."""
    own: dict[tuple[str, str], Row] = {}
    shares: dict[tuple[str, str], tuple[str, float]] = {}
    others: dict[tuple[str, str], dict[str, float]] = {}
    for result in results:
        e = result.job.experiment
        first = subject if subject and e.subject == "evenkeel" else e.subject
        for f in result.figures():
            r = row(result.job, f)
            if result.job.scheduler == first:
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
        raise LabError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise LabError(f"{path} is not JSON: {error}") from error
    if not isinstance(listed, list):
        raise LabError(f"{path} is not a list of rows")
    return [Row.from_json(r) for r in listed]


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


def write(out: Path, rows: Sequence[Row], meta: Mapping[str, str]) -> None:
    """results.json, shapes.json and index.html. Raises LabError when the disk refuses."""
    verdicts = [v for shape in experiments.shapes() if (v := shape(Rows(rows))) is not None]
    texts = {
        "results.json": json.dumps([r.as_json() for r in rows], indent=1) + "\n",
        "shapes.json": json.dumps([asdict(v) for v in verdicts], indent=1) + "\n",
        "index.html": page.render(rows, title="Evenkeel bench", meta=meta, verdicts=verdicts),
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            part = out / f"{name}.part"
            part.write_text(text)
            part.replace(out / name)
    except OSError as error:
        raise LabError(f"cannot write to {out}: {error.strerror}") from error
    for v in verdicts:
        print(f"{'reproduced' if v.reproduced else 'NOT reproduced'}: {v.name}: {v.claim}: {v.why}")


def main(args: argparse.Namespace, known: Mapping[str, Experiment]) -> int:
    """Run what is asked for. 0: every row is there and none that must hold is missed."""
    begin = time.monotonic()
    lab, subject = peers.lab(args)
    chosen = experiments.matching(known, args.only) if args.only else list(known.values())
    if args.without_host_clock:
        chosen = [e for e in chosen if e.clock == "virtual"]
    jobs = plan(chosen, quick=args.quick, deep=args.deep or bool(args.only), subject=subject)
    if not jobs:
        raise LabError("nothing to run: none of the chosen experiments is part of the quick bench")
    print(
        f"{len(jobs)} guests, {sum(j.experiment.clock == 'host' for j in jobs)} of them alone, on the host's clock",
        flush=True,
    )
    failed: list[LabError] = []
    count = 0
    guest_seconds = 0.0

    def done(job: Job, outcome: Result | LabError) -> None:
        nonlocal count, guest_seconds
        count += 1
        if isinstance(outcome, LabError):
            failed.append(outcome)
            print(f"[{count}/{len(jobs)}] lab: {outcome}", flush=True)
            return
        guest_seconds += outcome.seconds
        what = "kept" if outcome.cached else f"{outcome.seconds:.0f} s"
        print(f"[{count}/{len(jobs)}] {job.name}: {what}", flush=True)

    results = run_all(lab, jobs, done, args.parallel)
    rows = merge(results, subject)
    meta = {
        "made": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "part": "quick" if args.quick else "deep" if args.deep else "full",
        "guests": f"{len(results)} of {len(jobs)}",
        "guest time": f"{guest_seconds / 60:.0f} min of host CPU",
        "kernels": ", ".join(sorted({r.kernel for r in rows})),
        "cores": str(os.cpu_count()),
    }
    write(args.out, rows, meta)
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
        f" {len(failed)} of {len(jobs)} guests failed; {(time.monotonic() - begin) / 60:.1f} min"
        f" ({guest_seconds / 60:.0f} min of guests); {args.out}/index.html"
    )
    return 1 if failed or missed else 0
