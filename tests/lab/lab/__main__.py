# SPDX-License-Identifier: Apache-2.0
"""python -m lab list | run EXPERIMENT… [--scheduler NAME]… [--kernel VERSION]"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import time
from pathlib import Path

from lab import experiments, runner
from lab.qemu import GuestError


def main() -> int:
    parser = argparse.ArgumentParser(prog="lab", description="I/O experiments on a virtual clock")
    sub = parser.add_subparsers(dest="command", required=True)
    sub.add_parser("list", help="what there is to run")
    run = sub.add_parser("run", help="run experiments and print their rows")
    run.add_argument("experiment", nargs="+", help="name or pattern, as in 'fair.read.*'")
    run.add_argument("--scheduler", action="append", choices=list(runner.SCHEDULERS))
    run.add_argument("--kernel", default="6.12", help="version under build/ (default %(default)s)")
    run.add_argument("--variant", default="board", help="kernel variant (default %(default)s)")
    run.add_argument("--json", action="store_true", help="rows as JSON lines")
    args = parser.parse_args()

    known = experiments.load()
    if args.command == "list":
        for e in known.values():
            print(f"{e.name:32} {e.about}")
        return 0
    chosen = [e for p in args.experiment for n, e in known.items() if fnmatch.fnmatch(n, p)]
    if not chosen:
        print(f"lab: nothing matches {' '.join(args.experiment)}; 'lab list' names all", file=sys.stderr)
        return 2
    build = runner.TOP / "build" / args.kernel
    bench = runner.Bench(build, runner.TOP / "build/lab", args.variant)
    failed = False
    for e in chosen:
        for scheduler in args.scheduler or ["evenkeel"]:
            begin = time.monotonic()
            try:
                rows = runner.run(bench, e, scheduler)
            except (GuestError, runner.LabError, FileNotFoundError) as error:
                print(f"lab: {error}", file=sys.stderr)
                failed = True
                continue
            for row in rows:
                if args.json:
                    print(json.dumps(row.as_json()), flush=True)
                else:
                    verdict = {True: "ok", False: "MISSED", None: ""}[row.holds()]
                    print(f"{row.id:44} {scheduler:12} {row.value:>10} {row.unit:5} {verdict}", flush=True)
            if not args.json:
                print(f"  {e.name} on {scheduler}: {time.monotonic() - begin:.0f} s of host time", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    # `python -m lab` from anywhere: this folder's parent is on the path already
    assert Path(__file__).parent.name == "lab"
    raise SystemExit(main())
