# SPDX-License-Identifier: Apache-2.0
"""Command line of `ek-recorder bench --paper`. Exit status 1: it failed; 2: wrong usage, or nothing can be measured here."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import types
from pathlib import Path

from . import board, boxplot, paper, rows
from .paper import Case
from .table import table

# seconds per write of a set, with the pauses between sets
SECONDS_A_WRITE = 0.005


def say(message: str) -> None:
    print(f"ek-recorder bench: {message}", file=sys.stderr, flush=True)


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="ek-recorder bench --paper",
        description="Runs the cases of Okabe and Toyama, 'Reducing File Write Latency for Real-Time Data Recording', on"
        " this board: 16 KB every 5 ms by write(), and by a recorder of its own. Prints the paper's figures next to the"
        " measured ones.",
        epilog="Stop the board's recorder first: the measurement needs the partition for itself, and leaves nothing on"
        " it. Cases without the flusher change sysctls (vm.dirty_*) while they run, and need root.",
    )
    p.add_argument("--recorder", default="ek-recorder", help=argparse.SUPPRESS)
    p.add_argument(
        "--directory",
        type=Path,
        default=board.PARTITION,
        help="directory on the medium to measure (default /recorder)",
    )
    p.add_argument(
        "--cases", metavar="NAME,...", help="run only these cases, such as none,all-bgall (default: all 14)"
    )
    p.add_argument(
        "--writes",
        type=positive,
        default=paper.WRITES,
        metavar="N",
        help="number of writes in a set (default 10000)",
    )
    p.add_argument(
        "--sets",
        type=positive,
        default=paper.SETS,
        metavar="N",
        help="number of sets; the worst counts (default 5)",
    )
    p.add_argument(
        "--rows",
        type=Path,
        metavar="FILE",
        help="write the figures to FILE, as rows of the lab's results.json",
    )
    p.add_argument("--plot", type=Path, metavar="FILE", help="write a box plot to FILE, as SVG")
    p.add_argument(
        "--from", type=Path, dest="source", metavar="FILE", help="measure nothing; show the rows of FILE"
    )
    return p


def positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 10_000_000:
        raise argparse.ArgumentTypeError(f"must be a number from 1 to 10000000, not {text}")
    return int(text)


def chosen(names: str | None) -> list[Case]:
    """Raises ValueError."""
    known = {case.name: case for case in paper.cases()}
    wanted = names.lower().split(",") if names else list(known)
    if wrong := [name for name in wanted if name not in known]:
        raise ValueError(f"--cases: unknown case {wrong[0]}; use {', '.join(known)}")
    return [case for name, case in known.items() if name in wanted]


def replace(path: Path, text: str) -> None:
    """Write the file completely or not at all."""
    new = path.with_name(path.name + ".new")
    try:
        new.write_text(text)
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupted(_number: int, _frame: types.FrameType | None) -> None:
    # a second signal must not interrupt the cleanup
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def minutes(cases: list[Case], args: argparse.Namespace) -> float:
    runs = len(cases) + len({case.recorder_case for case in cases})
    return float(runs * args.sets * args.writes * SECONDS_A_WRITE / 60)


def results(cases: list[Case], args: argparse.Namespace) -> list[rows.Row]:
    if args.source:
        return rows.load(args.source)
    say(f"takes about {minutes(cases, args):.0f} minutes; Ctrl-C ends it and removes its files")
    settings = board.Settings(args.directory.resolve(), args.recorder, args.writes, args.sets, say)
    return board.measure(cases, settings)


def show(cases: list[Case], found: list[rows.Row], args: argparse.Namespace) -> None:
    known = rows.values(found)
    kernel = found[0].get("kernel", "")
    where = "lab (virtual clock)" if found[0].get("clock") == "virtual" else os.uname().nodename
    print(f"16 KB every 5 ms, worst set, µs. Paper: eMMC 5.0, Linux 4.4. Here: {where}, Linux {kernel}\n")
    print(table(cases, known))
    if args.rows and not args.source:
        replace(args.rows, json.dumps(found, indent=1) + "\n")
    if args.plot:
        about = (
            "write() in the paper and here, and submission to ek-recorder by ring.\n"
            "Line: shortest to longest. Box: middle half, median. Dot: average.\n"
            f"Paper: eMMC 5.0, Linux 4.4. Here: {where}, {kernel}."
        )
        replace(args.plot, boxplot.draw(cases, known, "How long a writer waits, 16 KB every 5 ms", about))


def main(argv: list[str] | None = None) -> int:
    args = parser().parse_args(argv)
    for number in ENDING:
        signal.signal(number, interrupted)
    try:
        cases = chosen(args.cases)
        show(cases, results(cases, args), args)
    except board.BoardError as error:
        say(str(error))
        return 2 if isinstance(error, board.RefusedError) else 1
    except KeyboardInterrupt:
        say("interrupted; its files were removed")
        return 1
    except (ValueError, OSError) as error:
        say(str(error))
        return 2 if isinstance(error, ValueError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
