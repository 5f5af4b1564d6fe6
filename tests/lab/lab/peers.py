# SPDX-License-Identifier: Apache-2.0
"""Schedulers from a source file named on the command line, and the options that all runs share."""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path

from lab import kernels
from lab.kernels import TOP, digest
from lab.model import LabError
from lab.runner import Lab
from lab.schedulers import Scheduler

_ELEVATOR = re.compile(r'\.elevator_name\s*=\s*"([\w-]+)"')


def build(source: Path, version: str) -> Scheduler:
    """Build a scheduler's source file against a kernel that was built here. Raises LabError."""
    if not source.is_file():
        raise LabError(f"no scheduler source {source}")
    names = _ELEVATOR.findall(source.read_text(errors="replace"))
    if len(names) != 1:
        raise LabError(f"{source} must set .elevator_name once, as a string; it does {len(names)} times")
    kernel = kernels.find(version)
    objects = kernel.build / "board"
    if not objects.is_dir():
        raise LabError(f"kernel {version} has no objects to build {source.name} against")
    out = kernel.build / "peers" / f"{source.stem}-{digest(source)[:12]}"
    module = out / f"{source.stem.replace('-', '_')}.ko"
    if not module.is_file():
        tool = TOP / "recipes/kernel/build-module"
        done = subprocess.run(
            [tool, source.resolve(), objects.resolve(), out], capture_output=True, text=True, check=False
        )
        if done.returncode or not module.is_file():
            last = [x for x in (done.stderr + done.stdout).splitlines() if x.strip()][-8:]
            raise LabError(f"{source} does not build against {version}:\n  " + "\n  ".join(last))
    return Scheduler(names[0], names[0], module.stem, file=module)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", type=Path, metavar="FILE.c", help="a scheduler to build and to measure")
    parser.add_argument("--fresh", action="store_true", help="run again what is finished")
    parser.add_argument("--parallel", type=int, metavar="N", help="guests at a time (default: one a CPU)")


def lab(args: argparse.Namespace) -> tuple[Lab, str | None]:
    """The lab for these options, and the name of the scheduler that --source gave."""
    extra = {}
    name = None
    if args.parallel is not None and args.parallel < 1:
        raise LabError(f"--parallel must be at least 1, not {args.parallel}")
    if args.source:
        given = getattr(args, "kernel", None) or ["6.12"]
        scheduler = build(args.source, given[0])
        name = scheduler.name
        extra[name] = scheduler
    return Lab(extra=extra, fresh=args.fresh, variant=getattr(args, "variant", "board")), name
