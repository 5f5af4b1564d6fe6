# SPDX-License-Identifier: Apache-2.0
"""The options that `run` and `bench` share."""

from __future__ import annotations

import argparse
from pathlib import Path

from lab import schedulers, sight
from lab.model import LabError
from lab.runner import Lab


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", type=Path, metavar="FILE.c", help="a scheduler to build and measure")
    parser.add_argument(
        "--module",
        type=Path,
        action="append",
        metavar="FILE.ko",
        help="takes the place of the module of that name",
    )
    parser.add_argument("--fresh", action="store_true", help="ignore cached reports and replace them")
    parser.add_argument("--parallel", type=int, metavar="N", help="guests at a time (default: one per CPU)")
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N",
        help="seed of all randomness on the virtual clock (default %(default)s)",
    )  # fmt: skip


def lab(args: argparse.Namespace) -> tuple[Lab, str | None]:
    """The lab for these options, and the name of the scheduler that --source names, if any. Raises LabError."""
    extra = {}
    name = None
    if args.parallel is not None and args.parallel < 1:
        raise LabError(f"--parallel must be at least 1, not {args.parallel}")
    if not 0 <= args.seed < 1 << 32:
        raise LabError(f"--seed must be 0 to {(1 << 32) - 1}, not {args.seed}")
    if args.source:
        scheduler = schedulers.from_source(args.source)
        name = scheduler.name
        extra[name] = scheduler
    for file in args.module or ():
        if not file.is_file() or file.suffix != ".ko":
            raise LabError(f"no kernel module {file}{sight.hint(file)}")
    modules = {file.stem: file.resolve() for file in args.module or ()}
    variant = getattr(args, "variant", "board")
    return Lab(extra=extra, fresh=args.fresh, variant=variant, seed=args.seed, modules=modules), name
