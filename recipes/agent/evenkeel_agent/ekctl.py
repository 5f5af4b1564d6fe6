# SPDX-License-Identifier: Apache-2.0
"""ekctl: the agent's verbs on the command line, and probe, which needs no agent.

Exit status: 0 done, 1 refused or failed (one line on stderr says why), 2 wrong usage. With --json the
answer is the D-Bus one, as JSON. A probe that finds no channels is done; with --apply it has failed.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

from dbus_fast.unpack import unpack_variants

from . import __version__, interface, performance, probe, weight
from .bus import Bus, CallError

# longer than the agent waits for a unit
TIMEOUT_S = 30.0


class Refused(Exception):
    """Ends ekctl with status 1; the message is the line on stderr."""


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print the answer as JSON")
    common.add_argument("--bus", default=argparse.SUPPRESS, help="D-Bus address (default: the system bus)")
    parser = argparse.ArgumentParser(prog="ekctl", description="Look at and steer an Evenkeel board.")
    parser.add_argument("--version", action="version", version=__version__)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("status", parents=[common], help="is the board healthy, and what does it run")
    verbs.add_parser("apps", parents=[common], help="the apps: weight, performance, state, rates, latency")
    show = verbs.add_parser("weight", parents=[common], help="show an app's weight, or set it")
    show.add_argument("app", metavar="APP")
    show.add_argument("weight", metavar="W", nargs="?", help=weight.RULE)
    regulate = verbs.add_parser(
        "performance",
        parents=[common],
        help="show an app's regulated performance, or set it",
        description="An app with a regulated performance gets the same from flash whether it is idle or busy: at"
        " most this part of each device. The others share by weight what is left.",
    )
    regulate.add_argument("app", metavar="APP")
    regulate.add_argument(
        "performance",
        metavar="P%",
        nargs="?",
        help=f"{performance.RULE.replace('%', '%%')}, or off: by weight",
    )
    for verb in ("start", "stop"):
        verbs.add_parser(verb, parents=[common], help=f"{verb} an app").add_argument("app", metavar="APP")
    find = verbs.add_parser("probe", parents=[common], help="find the flash channels of a disk; only reads")
    find.add_argument("device", metavar="DEVICE", help="a whole disk, as in /dev/mmcblk0")
    find.add_argument(
        "--seconds",
        type=_seconds,
        default=probe.SECONDS,
        metavar="N",
        help=f"about how long it may take, 1 to {probe.MOST_SECONDS} (default {probe.SECONDS})",
    )
    find.add_argument(
        "--apply", action="store_true", help="tell evenkeel, if it is sure, until the next boot"
    )
    return parser


def _seconds(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= probe.MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {probe.MOST_SECONDS}")
    return int(text)


async def _call(address: str | None, member: str, *body: Any) -> Any:
    try:
        bus = await Bus.connect(address)
    except OSError as error:
        raise Refused(str(error)) from error
    try:
        signature = interface.METHODS[member].signature
        answer = await bus.call(
            interface.NAME, interface.PATH, interface.NAME, member, signature, body, timeout_s=TIMEOUT_S
        )
    except CallError as error:
        kind = error.name.rpartition(".")[2]
        if error.name.startswith(interface.NAME):
            raise Refused(error.text) from error
        if kind in ("ServiceUnknown", "NameHasNoOwner", "NoReply") or "Spawn" in error.name:
            raise Refused(f"the agent (evenkeeld) does not answer: {error}") from error
        raise Refused(f"{error} ({error.name})") from error
    finally:
        bus.close()
    return unpack_variants(answer[0]) if answer else None


async def _find(address: str | None, name: str) -> dict[str, Any]:
    for app in await _call(address, "ListApps"):
        if app["name"] == name:
            found: dict[str, Any] = app
            return found
    raise Refused(f"there is no app {name!r} in apps.d")


async def run(given: argparse.Namespace) -> Any:
    """Do what was asked; the answer is what --json prints."""
    address = getattr(given, "bus", None)
    if given.verb == "probe":
        try:
            return probe.run(given.device, seconds=given.seconds, told=given.apply)
        except probe.ProbeError as error:
            raise Refused(str(error)) from error
    if given.verb == "status":
        return await _call(address, "GetStatus")
    if given.verb == "apps":
        return await _call(address, "ListApps")
    if given.verb == "start":
        await _call(address, "StartApp", given.app)
        return {"name": given.app, "started": True}
    if given.verb == "stop":
        await _call(address, "StopApp", given.app)
        return {"name": given.app, "stopped": True}
    if given.verb == "performance":
        return await _performance(address, given.app, given.performance)
    if given.weight is None:
        return await _find(address, given.app)
    value = weight.from_text(given.weight)
    if value is None:
        raise Refused(f"weight must be {weight.RULE}, not {given.weight!r}")
    if value >= 1 << 32:  # what the D-Bus type cannot carry the agent cannot refuse
        raise Refused(str(weight.problem(value)))
    return await _call(address, "SetWeight", given.app, value)


async def _performance(address: str | None, app: str, text: str | None) -> Any:
    if text is None:
        return await _find(address, app)
    percent = performance.from_text(text)
    if percent is None:
        raise Refused(f"performance must be {performance.RULE}, or off, not {text!r}")
    return await _call(address, "SetPerformance", app, percent)


def _rate(bps: float) -> str:
    return f"{bps / 1e6:.1f}"


def _table(apps: list[dict[str, Any]]) -> str:
    rows = [("APP", "STATE", "WEIGHT", "PERF", "IN FORCE", "READ MB/s", "WRITE MB/s", "SHARE", "P99 ms")]
    for app in apps:
        p99 = "-" if app["p99_us"] < 0 else f"{app['p99_us'] / 1000:.1f}"
        perf = f"{app['performance']}%" if app["performance"] else "-"
        in_force = "yes" if app["applied"] and app["performance_applied"] else "no"
        share = f"{app['share'] * 100:.0f}%"
        rates = (_rate(app["read_bps"]), _rate(app["write_bps"]))
        rows.append(
            (app["name"], app["active_state"], str(app["weight"]), perf, in_force, *rates, share, p99)
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column in (0, 1, 4) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _status(status: dict[str, Any]) -> str:
    lines = [
        f"health     {status['health']}",
        *(f"           {problem}" for problem in status["problems"]),
        f"scheduler  {status['scheduler']}",
        f"kernel     {status['kernel']}",
        f"slot       {status['slot']}",
        f"version    {status['version']}",
        f"demo       {'on' if status['demo'] else 'off'}",
        f"up         {status['uptime_s']} s",
    ]
    for device in status["devices"]:
        size = f"{device['size_bytes'] / 1e9:.1f} GB"
        lines.append(
            f"device     {' '.join((device['name'], device['scheduler'], size, device['model'])).rstrip()}"
        )
    return "\n".join(lines)


def _regulated(app: dict[str, Any]) -> str:
    running = app["active_state"] in ("active", "reloading")
    text = f"{app['name']} {app['performance']}%" if app["performance"] else f"{app['name']} off"
    if not app["performance_applied"]:
        note = app["performance_problem"] or "not in force yet" if running else "in force when the app starts"
        return f"{text} ({note})"
    if not app["performance"] or app["performance_used"] < 0:
        return text
    keeps = (
        f"the scheduler is behind: {app['performance_late'] * 100:.0f}% of the requests are late"
        if app["performance_behind"]
        else "the scheduler keeps up"
    )
    return f"{text}, {app['performance_used'] * 100:.0f}% of it used; {keeps}"


def _words(given: argparse.Namespace, answer: Any) -> str:
    if given.verb == "status":
        return _status(answer)
    if given.verb == "apps":
        return _table(answer) if answer else "no apps are listed in apps.d"
    if given.verb == "weight":
        running = answer["active_state"] in ("active", "reloading")
        note = (
            "" if answer["applied"] else " (not in force)" if running else " (in force when the app starts)"
        )
        return f"{answer['name']} {answer['weight']}{note}"
    if given.verb == "performance":
        return _regulated(answer)
    if given.verb == "probe":
        return f"{answer['finding']}{'; applied' if answer['applied'] else ''}"
    return ""


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    try:
        answer = asyncio.run(run(given))
    except Refused as error:
        print(f"ekctl: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("ekctl: interrupted", file=sys.stderr)
        return 130
    text = json.dumps(answer, indent=1, ensure_ascii=False) if given.json else _words(given, answer)
    if text:
        print(text)
    if given.verb == "probe" and given.apply and not answer["applied"]:
        print("ekctl: nothing was applied", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
