# SPDX-License-Identifier: Apache-2.0
"""ek-validate: measures a flash device and its scheduler, and compares both with what was promised.

Exit status: 0 done, 1 failed (one line on stderr says why), 2 wrong usage, 3 the report is partial, 4 a promise is
broken, also if the report is partial. A probe that finds no channels exits with 0, and with --apply it exits with 1. With
--json, the commands print JSON.
"""

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evenkeel_common.files import why
from evenkeel_report import compare as comparison

from . import (
    guard,
    lock,
    model,
    plan,
    probe,
    report,
    report_page,
    runs,
    session,
    summary,
    target,
    version,
    whatif,
)
from .cases import MB
from .errors import ValidateError
from .loads import Launcher, Scopes, Ungrouped
from .plan import Profile
from .report import Report
from .runs import Places
from .session import Request, Session
from .target import Target

PARTIAL, BROKEN = 3, 4
# MiB of the smallest test file: some cases divide it among four loads
LEAST_FILE = 16
MOST_MB = 10**9
# each load multiplies it by 1,000, and ek-light-reader takes 32 bits
MOST_SEED = 4_000_000


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print JSON")
    parser = argparse.ArgumentParser(
        prog="ek-validate", description="Measures a flash device and its scheduler."
    )
    parser.add_argument("--version", action="version", version=version())
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", parents=[common], help="run a validation")
    run.add_argument("--profile", choices=plan.PROFILES, default="quick", help="default: quick")
    where = run.add_mutually_exclusive_group()
    where.add_argument(
        "--folder", type=Path, metavar="DIR",
        help="folder of the test file, which is removed at the end (default: /data)",
    )  # fmt: skip
    where.add_argument(
        "--device", type=Path, metavar="/dev/X", help="a blank partition instead of a test file"
    )
    run.add_argument(
        "--destroy", type=Path, action="append", default=[], metavar="/dev/X",
        help="overwrite this partition or whole device; give it twice",
    )  # fmt: skip
    run.add_argument(
        "--only", action="append", default=[], metavar="NAME",
        help="only cases whose names begin with NAME, and those on which their bounds rest; may be repeated",
    )  # fmt: skip
    compared = run.add_mutually_exclusive_group()
    compared.add_argument(
        "--compare-with",
        action="append",
        metavar="SCHEDULER",
        help="another scheduler to measure; may be repeated",
    )
    compared.add_argument(
        "--no-compare", action="store_true", help="measure no other scheduler for comparison"
    )
    run.add_argument(
        "--budget", type=_whole(1, MOST_MB), metavar="MB", help="write at most this much (default: of the profile)"
    )  # fmt: skip
    run.add_argument(
        "--file", type=_whole(LEAST_FILE, MOST_MB), metavar="MIB", help="size of the test file (default: of the profile)"
    )  # fmt: skip
    run.add_argument(
        "--exclusive", action="store_true", help="pause all apps meanwhile, so that the figures are those of the device alone"
    )  # fmt: skip
    run.add_argument(
        "--seed", type=_whole(0, MOST_SEED), default=1, metavar="N",
        help=f"seed of the loads' random addresses, 0 to {MOST_SEED} (default: 1)",
    )  # fmt: skip
    run.add_argument("--dry-run", action="store_true", help="only print what the run would do")
    run.add_argument(
        "--no-guard",
        action="store_true",
        help="start no process that restores everything if this one is killed",
    )
    run.add_argument("--yes", action="store_true", help="start without a question")
    commands.add_parser("list", parents=[common], help="list the validations of this board")
    show = commands.add_parser(
        "show", parents=[common], help="print a report, or the progress of the one that runs"
    )
    show.add_argument("report", nargs="?", metavar="ID|FILE", help="default: the latest")
    show.add_argument("--html", type=Path, metavar="FILE", help="write the report as a page instead")
    commands.add_parser(
        "cancel", parents=[common], help="stop the validation that runs; its report stays, marked partial"
    )
    compare = commands.add_parser(
        "compare", help="compare two reports: two devices, or two versions of firmware"
    )
    compare.add_argument("before", metavar="A")
    compare.add_argument("after", metavar="B")
    undo = commands.add_parser("restore", help="undo what a validation that was killed has changed")
    undo.add_argument(
        "--forget", action="store_true", help="give up the test files on file systems that are not mounted"
    )
    channels = commands.add_parser(
        "channels", parents=[common], help="find the flash channels of a disk; it only reads the disk"
    )
    channels.add_argument("device", metavar="DEVICE", help="a whole disk, for example /dev/mmcblk0")
    channels.add_argument(
        "--seconds", type=_whole(1, probe.MAX_SECONDS), default=probe.SECONDS, metavar="N",
        help=f"approximate time limit, 1 to {probe.MAX_SECONDS} (default {probe.SECONDS})",
    )  # fmt: skip
    channels.add_argument(
        "--apply", action="store_true", help="if the result is sure, set the tunables of evenkeel until the next boot"
    )  # fmt: skip
    fit = commands.add_parser(
        "model", parents=[common],
        help="fit the flash model to a report; runs in a clone of the project, not on the board",
    )  # fmt: skip
    fit.add_argument("report", metavar="FILE")
    fit.add_argument("--name", default="measured", help="name of the preset (default: measured)")
    fit.add_argument(
        "--flashsim", type=Path, default=Path("tests/flashsim"), metavar="DIR",
        help="the flash model (default: tests/flashsim)",
    )  # fmt: skip
    fit.add_argument(
        "--preset", type=Path, metavar="FILE", help="write the preset into FILE (default: print it)"
    )
    ask = commands.add_parser(
        "what-if", parents=[common],
        help="say what apps would get on a fitted device; runs in a clone of the project, not on the board",
    )  # fmt: skip
    ask.add_argument("preset", type=Path, metavar="FILE", help="a preset of `ek-validate model`")
    ask.add_argument(
        "jobs", nargs="+", metavar="JOB",
        help="what an app does, in the words of ek-sim, such as weight=200,r,seq,bs=128k,qd=2",
    )  # fmt: skip
    ask.add_argument(
        "--sim", type=Path, default=Path("recipes/scheduler/src/sim"), metavar="DIR",
        help="the source of ek-sim (default: recipes/scheduler/src/sim)",
    )  # fmt: skip
    return parser


def _whole(least: int, most: int) -> Callable[[str], int]:
    """A type of an argument: a whole number from LEAST to MOST."""

    def number(text: str) -> int:
        if not text.isascii() or not text.isdigit() or len(text) > 12 or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r:.40} is not a whole number from {least} to {most}")
        return int(text)

    return number


def _launcher() -> tuple[Launcher, bool]:
    """How loads are started, and whether they can have weights."""
    if os.geteuid() == 0 and Path("/run/systemd/system").is_dir():
        return Scopes(Path("/sys/fs/cgroup")), True
    return Ungrouped(), False


def _profile(args: argparse.Namespace) -> Profile:
    profile = plan.PROFILES[args.profile]
    return profile if args.file is None else replace(profile, file=args.file * MB)


def _target(args: argparse.Namespace, places: Places) -> Target:
    destroy = tuple(str(path) for path in args.destroy)
    if destroy and args.folder:
        raise ValidateError("--folder and --destroy name two targets; give only one of them")
    device = args.device or (args.destroy[0] if args.destroy else None)
    if device is None:
        size = plan.space(_profile(args), args.only)
        # The journal names the files. A later restore may run in another folder.
        return target.of_folder(places.sys, (args.folder or Path("/data")).absolute(), size)
    mounts = _text(places.proc / "self/mountinfo")
    # A kernel without swap, as the board's, does not have this file.
    swaps = _text(places.proc / "swaps") if (places.proc / "swaps").exists() else ""
    return target.of_device(
        places.sys, device, _profile(args).file, destroy=destroy, mounts=mounts, swaps=swaps
    )


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        # Without this list, a mounted device could be taken for a free one.
        raise ValidateError(f"cannot read {path}: {why(error)}. Nothing was written") from error


def _run(args: argparse.Namespace, places: Places) -> int:
    launcher, grouped = _launcher()
    if not args.dry_run:
        # What a killed validation has left would take its space, and be measured.
        _undone(session.restore(places, launcher, name=lock.FIRST))
    request = Request(
        _profile(args), _target(args, places), args.only,
        [] if args.no_compare else args.compare_with, None if args.budget is None else args.budget * 10**6, args.seed,
        args.exclusive,
    )  # fmt: skip
    say = _nothing if args.json else _say
    run = Session(places, launcher, request, version(), say, grouped)
    made = run.make_plan()
    if not made.steps:
        raise ValidateError(f"no case can run. {_grouped(made.skipped) or 'No case has such a name'}")
    announced = plan.announcement(
        made, where=request.target.where, capacity=request.target.capacity, exclusive=args.exclusive,
        destroys=str(args.destroy[0]) if args.destroy else "",
    )  # fmt: skip
    if args.dry_run:
        _print(args, {**_announced(made), "announcement": announced}, announced)
        return 0
    # On standard output, --json allows only the report.
    print("\n".join(announced), file=sys.stderr if args.json else sys.stdout, flush=True)
    if not args.yes and not _confirmed():
        print("ek-validate: nothing was started", file=sys.stderr)
        return 1
    with contextlib.nullcontext() if args.no_guard else guard.watching():
        found = run.run(made)
    end = f"The report is in {places.runs / found.id}."
    _print(args, found.as_json(), ["", *_shown(found), f"NOT SAVED: {run.unsaved}." if run.unsaved else end])
    if run.unsaved:
        print(f"ek-validate: {run.unsaved}", file=sys.stderr)
        return 1
    return _status(found)


def _grouped(skipped: Mapping[str, str]) -> str:
    """Why cases cannot run, each reason once."""
    names: dict[str, list[str]] = {}
    for name, reason in skipped.items():
        names.setdefault(reason, []).append(name)
    return "; ".join(f"{', '.join(of_reason)}: {reason}" for reason, of_reason in names.items())


def _undone(failed: Sequence[str]) -> None:
    """Raises ValidateError if something of an earlier validation could not be restored."""
    if failed:
        raise ValidateError(f"an earlier validation left something behind: {'; '.join(failed)}")


def _announced(made: plan.Plan) -> dict[str, Any]:
    return {
        "profile": made.profile.name,
        "cases": [{"case": s.case.name, "about": s.case.about, "scheduler": s.scheduler} for s in made.steps],
        "written": made.total,
        "seconds": made.seconds,
        "most_seconds": made.profile.seconds,
        "skipped": dict(made.skipped),
    }


def _confirmed() -> bool:
    if not sys.stdin.isatty():
        raise ValidateError("there is no terminal to ask on; if you want to start, give --yes")
    try:
        return input("Start? [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        print()
        return False


def _say(line: str) -> None:
    print(line, flush=True)


def _nothing(line: str) -> None:
    pass


def _print(args: argparse.Namespace, content: Any, lines: Sequence[str]) -> None:
    print(json.dumps(content, indent=1) if args.json else "\n".join(lines))


def _status(found: Report) -> int:
    if found.not_restored:
        return 1
    if any(r.must and r.holds() is False for r in found.rows):
        return BROKEN
    return 0 if found.state == "complete" else PARTIAL


def _shown(found: Report) -> list[str]:
    """A report for a terminal."""
    state = found.state if not found.reason else f"{found.state.upper()}: {found.reason}"
    lines = [f"Validation {found.id}, {found.profile}, {found.target.get('where', '')}: {state}", ""]
    lines += summary.sentences(found)
    lines.append("")
    for promise in found.promises():
        sign = {True: "ok  ", False: "MISS", None: "-   "}[promise.held]
        lines.append(f"{sign} {promise.title}. {promise.verdict}")
        if promise.evidence and not promise.held:
            lines.append(f"     {promise.evidence}")
    lines.append(
        f"Written: {found.written / 1e6:,.0f} MB of {found.announced.get('written', 0) / 1e6:,.0f} MB announced."
    )
    lines += [f"Left out: {name}: {why_}" for name, why_ in found.skipped.items()]
    lines += [f"Note on {name}: {note}" for name, note in found.notes.items()]
    lines += [f"NOT RESTORED: {line}. Run `ek-validate restore` as root." for line in found.not_restored]
    return lines


def _load(text: str, places: Places) -> Report:
    """The report with the id or the file name TEXT."""
    if runs.RUN_ID.fullmatch(text):
        return runs.settled(report.read(runs.find(places, text)), places)
    return runs.settled(report.read(Path(text)), places)


def _show(args: argparse.Namespace, places: Places) -> int:
    running = runs.progress(places)
    if args.report is None and running and not args.html and "ending" in running:
        _print(args, running, ["The validation has ended, and what it changed is being restored."])
        return 0
    if args.report is None and running and not args.html and not runs.RUN_ID.fullmatch(running["id"]):
        if not args.json:
            print(f"The command `ek-validate {running['id']}` is running. The latest report:")
    elif args.report is None and running and not args.html:
        left = plan.duration(running["seconds_left"]) if "seconds_left" in running else "some time"
        count = f"{running.get('index', 0) + 1} of {running.get('count', '?')}"
        about = running.get("about", "preparing")
        _print(
            args, running, [f"Validation {running['id']} is running: {count}, {about}. About {left} left."]
        )
        return 0
    found: Report
    if args.report is None:
        all_reports = runs.reports(places)
        if not all_reports:
            raise ValidateError("this board has no validation yet; start one with `ek-validate run`")
        found = all_reports[0]
    else:
        found = _load(args.report, places)
    if args.html:
        args.html.write_text(report_page.html(found, runs.reports(places)))
        return 0
    _print(args, found.as_json(), _shown(found))
    return 0


def _list(args: argparse.Namespace, places: Places) -> int:
    found = runs.reports(places)
    lines = [
        f"{r.id}  {r.profile:5}  {r.state:8}  {r.subject:11}  {r.target.get('where', '')}" for r in found
    ]
    content = [
        {"id": r.id, "profile": r.profile, "state": r.state, "reason": r.reason, "subject": r.subject, "started": r.started,
         "ended": r.ended, "where": r.target.get("where", "")}
        for r in found
    ]  # fmt: skip
    _print(args, content, lines or ["This board has no validation yet."])
    return 0


def _compare(args: argparse.Namespace, places: Places) -> int:
    before, after = (_load(text, places) for text in (args.before, args.after))
    for which, found in (("First", before), ("Second", after)):
        print(f"{which} report: {found.id}, {found.target.get('model', '')}, {found.target.get('where', '')}")
        if found.state != "complete":
            print(f"Note: the report {found.id} is {found.state}: {found.reason}")
    for line in report.differences(before, after):
        print(f"Note: {line}")
    text, worse = comparison.render(before.rows, after.rows, by_kernel=False)
    print(text, end="")
    return 1 if worse else 0


def _restore(args: argparse.Namespace, places: Places) -> int:
    launcher, _ = _launcher()
    there = places.journal.exists()
    failed = session.restore(places, launcher, forget=args.forget)
    for line in failed:
        print(f"ek-validate: {line}", file=sys.stderr)
    if not failed:
        print(
            "Everything that a validation had changed is restored."
            if there
            else "There was nothing to restore."
        )
    return 1 if failed else 0


def _channels(args: argparse.Namespace, places: Places) -> int:
    # Probe and validation would disturb each other, and a validation restores the tunables at its end.
    with lock.held(places.lock, "channels"):
        found = probe.run(args.device, seconds=args.seconds, apply_result=args.apply)
    _print(args, found, [f"{found['finding']}{'; applied' if found['applied'] else ''}"])
    if args.apply and not found["applied"]:
        print("ek-validate: nothing was applied, because the result is not usable", file=sys.stderr)
        return 1
    return 0


def _model(args: argparse.Namespace) -> int:
    model.check_name(args.name)
    fitted = model.fit_report(report.read(Path(args.report)), args.flashsim)
    text = model.preset(fitted, args.name)
    if args.preset:
        args.preset.write_text(text + "\n")
    _print(args, fitted.as_json(), [*([] if args.preset else [text, ""]), *fitted.lines()])
    if fitted.median > model.MOST_ERROR:
        print(
            f"ek-validate: the model is too inaccurate: its median error is {100 * fitted.median:.0f} %, and at most"
            f" {100 * model.MOST_ERROR:.0f} % are allowed. Measure the device again, with nothing else running",
            file=sys.stderr,
        )
        return 1
    return 0


def _what_if(args: argparse.Namespace) -> int:
    found = whatif.ask(whatif.read(args.preset), args.jobs, args.sim)
    _print(args, found, whatif.lines(found))
    return 0


def main(arguments: Sequence[str] | None = None, places: Places | None = None) -> int:
    args = _parser().parse_args(arguments)
    places = places or Places()
    try:
        match args.command:
            case "run":
                return _run(args, places)
            case "list":
                return _list(args, places)
            case "show":
                return _show(args, places)
            case "cancel":
                id_ = lock.stop(places.lock)
                line = f"The validation {id_} ends now. Its report will be marked partial."
                if not runs.RUN_ID.fullmatch(id_):
                    line = f"The command `ek-validate {id_}` ends now."
                _print(args, {"id": id_}, [line])
                return 0
            case "compare":
                return _compare(args, places)
            case "restore":
                return _restore(args, places)
            case "channels":
                return _channels(args, places)
            case "what-if":
                return _what_if(args)
            case _:
                return _model(args)
    except ValidateError as error:
        print(f"ek-validate: {error}", file=sys.stderr)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"ek-validate: {where}{why(error)}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
