# SPDX-License-Identifier: Apache-2.0
"""python -m lab list | run EXPERIMENT… | compare A B | docs | picture | bench"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from lab import bench, docs, experiments, options, targets
from lab.kernels import TOP
from lab.model import Experiment, LabError
from lab.runner import Job, Result, run_all


def _listing(known: dict[str, Experiment]) -> int:
    for e in known.values():
        marks = ("quick " if e.quick else "deep " if e.deep else "") + e.clock
        print(f"{e.name:36} {marks:14} {','.join(e.kernels):9} {e.about}")
    return 0


def _run(args: argparse.Namespace, known: dict[str, Experiment]) -> int:
    lab, subject = options.lab(args)
    chosen = experiments.matching(known, args.experiment)
    jobs = []
    for e in chosen:
        for kernel in args.kernel or e.kernels[:1]:
            named = args.scheduler or ([] if subject else [e.subject])
            jobs += [Job(e, kernel, s) for s in [*named, *([subject] if subject else [])]]
    failed = missed = 0
    wanted = targets.load()

    def done(job: Job, outcome: Result | LabError) -> None:
        nonlocal failed, missed
        outcome = bench.checked(outcome)
        if isinstance(outcome, LabError):
            failed += 1
            print(f"lab: {outcome}", file=sys.stderr, flush=True)
            return
        # Targets apply to the subject, not to baselines.
        promised = job.scheduler == bench.first(job.experiment, subject)
        try:
            rows = bench.rows_of(outcome, wanted)
        except LabError as error:
            failed += 1
            print(f"lab: {error}", file=sys.stderr, flush=True)
            return
        for row in rows:
            verdict = {True: "ok", False: "MISSED" if row.must else "open", None: ""}[row.holds()]
            verdict = verdict if promised else ""
            missed += verdict == "MISSED"
            print(f"{row.id:52} {job.kernel:5} {job.scheduler:14} {row.value:>12} {row.unit:6} {verdict}")
        kept = " (cached)" if outcome.cached else ""
        print(f"  {job.name}: {outcome.seconds:.0f} s of host time{kept}", flush=True)

    # a job that is named twice runs once
    run_all(lab, list({j.name: j for j in jobs}.values()), done, args.parallel)
    return 1 if failed or missed else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="lab", description="I/O experiments on a virtual clock")
    sub = parser.add_subparsers(dest="command", required=True)
    sub.add_parser("list", help="list all experiments")
    run = sub.add_parser("run", help="run experiments and print their figures")
    run.add_argument("experiment", nargs="+", help="name or pattern, as in 'fair.read.*'")
    run.add_argument("--scheduler", action="append", metavar="NAME", help="default: the experiment's subject")
    run.add_argument("--kernel", action="append", metavar="VERSION", help="default: the experiment's first")
    run.add_argument("--variant", default="board", help="kernel variant (default %(default)s)")
    options.add(run)
    compare = sub.add_parser("compare", help="print what changed by more than 1 %% between two results.json")
    compare.add_argument("before")
    compare.add_argument("after")
    pages = sub.add_parser("docs", help="write the generated pages and tables of docs/ and README.md")
    picture = sub.add_parser("picture", help="draw the ratio of weights 2:1 by block size")
    for made in (pages, picture):
        made.add_argument(
            "results", nargs="?", default=str(TOP / "build/bench/results.json"),
            help="figures of a bench (default %(default)s)",
        )  # fmt: skip
    picture.add_argument(
        "file", nargs="?", type=Path, default=TOP / "docs/images/ratio.svg", help="default %(default)s"
    )
    whole = sub.add_parser("bench", help="run all experiments with their baselines: results.json and a page")
    bench.options(whole)
    options.add(whole)
    args = parser.parse_args()
    try:
        known = experiments.load()
        match args.command:
            case "list":
                return _listing(known)
            case "run":
                return _run(args, known)
            case "compare":
                return bench.compare(args.before, args.after)
            case "docs":
                return docs.write(args.results)
            case "picture":
                return docs.draw(args.results, args.file)
            case _:
                return bench.main(args, known)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("lab: interrupted; finished experiments stay in the cache", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader has closed the pipe, as in 'lab list | head'. Otherwise Python would report that again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


if __name__ == "__main__":
    # SIGTERM and SIGHUP are handled like ^C: the lab kills its guests and leaves no file behind.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)
    raise SystemExit(main())
