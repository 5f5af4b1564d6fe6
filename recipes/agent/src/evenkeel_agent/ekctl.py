# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH100
"""ekctl: the command line of the agent.

Exit status: 0 done, 1 refused or failed (one line on stderr says why), 2 wrong usage. `preseed` exits with 3 if the
file has an error, or cannot be read, and with 4 if the board is not new. With --json, ekctl prints the D-Bus answer as JSON.
"""

import argparse
import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, get_args

from dbus_fast.unpack import unpack_variants
from evenkeel_api import interface
from evenkeel_api.features import validation
from evenkeel_api.features.backup import MAX_BYTES
from evenkeel_api.features.certificate import MAX_PEM
from evenkeel_api.features.preseed import MAX_BYTES as MAX_PRESEED
from evenkeel_api.roles import ROLES
from evenkeel_common.files import read_small, why
from evenkeel_common.packets import PACKET_BYTES, End, Truncated, parse

from . import __version__, fixed_share, weight
from .bus import Bus, CallError

# how long ekctl waits for an answer: longer than the agent waits for a unit to start or stop (20 s)
TIMEOUT_S = 30.0
# longer than the agent waits until the reset is ordered
RESET_S = 45.0
# The same for a bundle, which RAUC may read from a server, for a certificate, which is tried out, and for a restore and a
# preseed file, which give orders to several services.
INSPECT_S = 90.0
# longer than the agent waits for ek-validation, which a validation slows down
VALIDATE_S = 50.0
PACKET_S = 60.0  # time to wait for a part of a support bundle or of a report
POLL_S = 1.0  # between two questions about the progress of an installation


class Refused(Exception):
    """Ends ekctl with STATUS. The message is the line on stderr. KIND: of the agent's error; "" if it is not the agent's."""

    def __init__(self, text: str, kind: str = "", status: int = 1) -> None:
        super().__init__(text)
        self.kind = kind
        self.status = status


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print the answer as JSON")
    common.add_argument("--bus", default=argparse.SUPPRESS, help="D-Bus address (default: the system bus)")
    parser = argparse.ArgumentParser(prog="ekctl", description="Shows and controls an Evenkeel board.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("status", parents=[common], help="show the health of the board, and what it runs")
    commands.add_parser(
        "apps", parents=[common], help="list the apps: weight, fixed share, state, rates, latency"
    )
    set_weight = commands.add_parser("weight", parents=[common], help="show or set the weight of an app")
    set_weight.add_argument("app", metavar="APP")
    set_weight.add_argument("weight", metavar="W", nargs="?", help=weight.RULE)
    set_fixed_share = commands.add_parser(
        "fixed-share",
        parents=[common],
        help="show or set the fixed share of an app",
        description="An app with a fixed share gets the same part of each flash device, whether the device is"
        " idle or busy. The other apps share the rest by weight.",
    )
    set_fixed_share.add_argument("app", metavar="APP")
    set_fixed_share.add_argument(
        "fixed_share",
        metavar="P%",
        nargs="?",
        help=f"{fixed_share.RULE.replace('%', '%%')}, or off: the weight decides again",
    )
    wear_limit = commands.add_parser(
        "wear-limit",
        parents=[common],
        help="show or set the used part of a flash device's life from which the board warns",
    )
    wear_limit.add_argument(
        "wear_limit",
        metavar="P%",
        nargs="?",
        help=f"{fixed_share.RULE.replace('%', '%%')}, or off: the board warns only when a device runs out of spare blocks"
        " or life",
    )
    add_app = commands.add_parser(
        "add-app",
        parents=[common],
        help="list a unit as an app; without UNIT, print the units that can be added",
        description="Lists a unit in evenkeel-apps.slice as an app. The agent then keeps its weight in force.",
    )
    add_app.add_argument(
        "app", metavar="APP", nargs="?", help="a name: a-z, 0-9 and -, at most 32 characters"
    )
    add_app.add_argument("unit", metavar="UNIT", nargs="?", help="for example dashcam.service")
    add_app.add_argument("--title", metavar="TEXT", help="the name that the panel shows (default: APP)")
    add_app.add_argument("--description", metavar="TEXT", default="", help="one line of explanation")
    add_app.add_argument("--weight", metavar="W", default=str(weight.DEFAULT), help=weight.RULE)
    remove_app = commands.add_parser(
        "remove-app", parents=[common], help="remove an app that add-app has listed; its unit keeps running"
    )
    remove_app.add_argument("app", metavar="APP")
    for command in ("start", "stop"):
        commands.add_parser(command, parents=[common], help=f"{command} an app").add_argument(
            "app", metavar="APP"
        )
    commands.add_parser("update", parents=[common], help="show the slots, and the state of updates")
    inspect = commands.add_parser(
        "inspect", parents=[common], help="check a bundle and show what it contains"
    )
    install = commands.add_parser(
        "install",
        parents=[common],
        help="install a signed bundle; waits until it is installed",
        description="Installs a signed bundle into the slot that does not run. It starts at the next restart.",
    )
    for one in (inspect, install):
        one.add_argument("source", metavar="SOURCE", help="file, or http:// or https:// URL, of the bundle")
    install.add_argument(
        "--allow-older", action="store_true", help="also a bundle that is older than the version that runs"
    )
    choose = commands.add_parser("choose-slot", parents=[common], help="choose the slot for the next boot")
    choose.add_argument("slot", metavar="SLOT", choices=("A", "B"), help="A or B")
    commands.add_parser("restart", parents=[common], help="restart the board")
    reset = commands.add_parser(
        "factory-reset",
        parents=[common],
        help="restart the board without its settings, users, histories and data of apps",
        description="Restarts the board, and makes its data partition empty: all settings, users, certificates, histories and"
        " data of apps are lost. A backup keeps most settings (see 'ekctl backup --help').",
    )
    reset.add_argument("--recordings", action="store_true", help="erase the recordings as well")
    reset.add_argument("--yes", action="store_true", help="really do it")
    commands.add_parser("network", parents=[common], help="show the network interfaces and their settings")
    set_network = commands.add_parser(
        "set-network",
        parents=[common],
        help="change the settings of a network interface; undone after 60 s unless confirmed",
        description="Changes the settings of a network interface. The board undoes the change after 60 s, unless"
        " 'ekctl confirm-network' or the panel confirms it.",
    )
    set_network.add_argument("interface", metavar="INTERFACE")
    set_network.add_argument(
        "address", metavar="ADDRESS/PREFIX|dhcp", help="a fixed address with its prefix, or dhcp"
    )
    set_network.add_argument("--gateway", default="", metavar="ADDRESS", help="gateway of a fixed address")
    set_network.add_argument(
        "--dns", action="append", default=[], metavar="ADDRESS", help="DNS server; repeat it for up to three"
    )
    commands.add_parser("confirm-network", parents=[common], help="keep the change of the network settings")
    commands.add_parser(
        "revert-network", parents=[common], help="undo the change of the network settings at once"
    )
    commands.add_parser("power-off", parents=[common], help="switch the board off")
    commands.add_parser(
        "system", parents=[common], help="show the name of the board, its time and time servers"
    )
    set_name = commands.add_parser("set-name", parents=[common], help="set the host name of the board")
    set_name.add_argument("hostname", metavar="NAME", help="1 to 63 letters, digits or -")
    commands.add_parser("time-zones", parents=[common], help="list the time zones")
    set_zone = commands.add_parser("set-time-zone", parents=[common], help="set the time zone of the board")
    set_zone.add_argument("zone", metavar="ZONE", help="for example Europe/Berlin, or UTC")
    set_servers = commands.add_parser(
        "set-time-servers",
        parents=[common],
        help="set the time servers",
        description="Sets the time servers (NTP). Without SERVER, the board uses those that its network names.",
    )
    set_servers.add_argument("servers", metavar="SERVER", nargs="*", help="host name or address, at most 8")
    bundle = commands.add_parser(
        "support-bundle",
        parents=[common],
        help="save a support bundle: the state of the board, and its journal",
    )
    bundle.add_argument("file", metavar="FILE", help="name of the new file, for example support.tar.gz")
    save = commands.add_parser(
        "backup",
        parents=[common],
        help="save the settings of the board as one file, which is secret",
        description="Saves the settings of the board, without the private key of the certificate, and without other files"
        " that somebody changed in /etc. The file has the password hashes of the users and the password of the mail server:"
        " keep it secret.",
    )
    save.add_argument("file", metavar="FILE", help="name of the new file, for example backup.json")
    restore = commands.add_parser(
        "restore",
        parents=[common],
        help="make the settings of a backup those of the board",
        description="Makes the settings of a backup those of the board: all of them, or none. Network settings stay as"
        " they are, unless --network is given. Users whose password or role changes must log in again. API tokens that"
        " somebody has revoked since the backup was made are valid again: --check names them.",
    )
    restore.add_argument("file", metavar="FILE", help="the file of a backup")
    restore.add_argument("--check", action="store_true", help="only show what would change")
    restore.add_argument(
        "--network",
        action="store_true",
        help="also change the network settings; undone after 60 s unless 'ekctl confirm-network' confirms them",
    )
    preseed = commands.add_parser(
        "preseed",
        parents=[common],
        help="apply a preseed file: name, network settings, password of admin",
        description="Applies a preseed file, as the first boot does: the name of the board, the network settings of an"
        " interface, and the password of the user admin. A file with an error changes nothing.",
    )
    preseed.add_argument("file", metavar="FILE", help="for example evenkeel.toml")
    _add_validate(commands, common)
    commands.add_parser(
        "cache",
        parents=[common],
        help="show the page pool: sizes, hit ratios, priority directories",
        description="Shows the pools of the page cache, and the directories whose files keep their place in it.",
    )
    for verb, what in (
        ("add", "protect the files directly in a directory"),
        ("remove", "end the protection"),
    ):
        change = commands.add_parser(
            f"{verb}-directory", parents=[common], help=f"{what} (priority directory)"
        )
        change.add_argument("app", metavar="APP")
        change.add_argument("directory", metavar="DIR", type=os.path.abspath)
    commands.add_parser("certificate", parents=[common], help="show the certificate of the panel")
    install_certificate = commands.add_parser(
        "install-certificate",
        parents=[common],
        help="install a certificate of the panel",
        description="Installs a certificate of the panel. The FILEs have, as PEM: the certificate of the board, the"
        " intermediate certificates, and the key. The old one stays in use unless the web server accepts the new one.",
    )
    install_certificate.add_argument("files", metavar="FILE", nargs="+")
    make_certificate = commands.add_parser(
        "make-certificate", parents=[common], help="make a new self-signed certificate of the panel"
    )
    for one in (install_certificate, make_certificate):
        one.add_argument(
            "--force",
            action="store_true",
            help="also replace a certificate of an authority by a self-signed one, which browsers may refuse for a year",
        )
    commands.add_parser("users", parents=[common], help="list the users of the panel")
    add = commands.add_parser("add-user", parents=[common], help="add a user; prints a first password")
    add.add_argument("user", metavar="USER")
    role = commands.add_parser(
        "role", parents=[common], help="set the role of a user; ends the user's sessions"
    )
    role.add_argument("user", metavar="USER")
    for one in (add, role):
        one.add_argument("role", metavar="ROLE", choices=list(ROLES), help=", ".join(ROLES))
    for name, text in (
        ("reset-password", "give a user a new first password, end the sessions, and remove code and tokens"),
        ("remove-user", "remove a user with all sessions and tokens"),
    ):
        commands.add_parser(name, parents=[common], help=text).add_argument("user", metavar="USER")
    for noun in ("session", "token"):
        commands.add_parser(f"{noun}s", parents=[common], help=f"list the {noun}s of all users")
        verb = "end" if noun == "session" else "remove"
        commands.add_parser(f"{verb}-{noun}", parents=[common], help=f"{verb} a {noun}").add_argument(
            "id", metavar="ID"
        )
    commands.add_parser(
        "first-password", parents=[common], help="show the first-boot password of admin, until it is changed"
    )
    audit = commands.add_parser("audit", parents=[common], help="show the newest rows of the audit log")
    audit.add_argument("--rows", type=_rows, default=50, metavar="N", help="1 to 500 (default 50)")
    return parser


def _add_validate(commands: Any, common: argparse.ArgumentParser) -> None:
    validate = commands.add_parser(
        "validate", help="measure the flash of the board: plan, start, watch, fetch"
    )
    steps = validate.add_subparsers(dest="step", required=True, metavar="STEP")
    plan = steps.add_parser("plan", parents=[common], help="show what a validation would do and cost")
    start = steps.add_parser("start", parents=[common], help="start a validation; does not wait for its end")
    for one in (plan, start):
        one.add_argument("--profile", choices=get_args(validation.Profile), default="quick")
        one.add_argument(
            "--topic", choices=[name for name in get_args(validation.Topic) if name], default="",
            help="only the cases of this topic",
        )  # fmt: skip
        one.add_argument(
            "--no-compare", action="store_true", help="do not measure the kernel's other schedulers"
        )
        one.add_argument("--exclusive", action="store_true", help="pause all apps meanwhile")
    steps.add_parser("state", parents=[common], help="show the progress of the validation that runs")
    steps.add_parser("cancel", parents=[common], help="end the validation that runs; its report stays")
    steps.add_parser("list", parents=[common], help="list the validations of the board")
    fetch = steps.add_parser("fetch", parents=[common], help="save the report of a validation as a new file")
    fetch.add_argument("id", metavar="ID")
    fetch.add_argument(
        "file", metavar="FILE", help="for example report.html; .html is a page, any other is JSON"
    )


def _rows(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= 500:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 500")
    return int(text)


# what became of the last change of the network settings
LAST = {
    "confirmed": "the last one was confirmed",
    "expired": "the last one was undone, because nobody confirmed it in time",
    "reverted": "the last one was undone by a user",
    "restarted": "the last one was undone, because the board restarted before it was confirmed",
}
# command -> the D-Bus method, and the command-line arguments that are the method's arguments
COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "remove-app": ("RemoveApp", ("app",)),
    "users": ("ListUsers", ()),
    "add-user": ("AddUser", ("user", "role")),
    "role": ("SetRole", ("user", "role")),
    "reset-password": ("ResetPassword", ("user",)),
    "remove-user": ("RemoveUser", ("user",)),
    "sessions": ("ListSessions", ()),
    "end-session": ("EndSession", ("id",)),
    "tokens": ("ListTokens", ()),
    "remove-token": ("RemoveToken", ("id",)),
    "first-password": ("GetFirstPassword", ()),
    "cache": ("GetCache", ()),
    "add-directory": ("AddPriorityDirectory", ("app", "directory")),
    "remove-directory": ("RemovePriorityDirectory", ("app", "directory")),
    "update": ("GetUpdate", ()),
    "choose-slot": ("ChooseSlot", ("slot",)),
    "restart": ("Restart", ()),
    "network": ("GetNetwork", ()),
    "confirm-network": ("ConfirmNetwork", ()),
    "revert-network": ("RevertNetwork", ()),
    "power-off": ("PowerOff", ()),
    "certificate": ("GetCertificate", ()),
    "system": ("GetSystem", ()),
    "set-name": ("SetHostName", ("hostname",)),
    "time-zones": ("ListTimeZones", ()),
    "set-time-zone": ("SetTimeZone", ("zone",)),
    "set-time-servers": ("SetTimeServers", ("servers",)),
}


async def _call(address: str | None, member: str, *body: Any, timeout_s: float = TIMEOUT_S) -> Any:
    try:
        bus = await Bus.connect(address)
    except OSError as error:
        raise Refused(str(error)) from error
    try:
        signature = interface.METHODS[member].in_signature
        answer = await bus.call(
            interface.NAME, interface.PATH, interface.NAME, member, signature, body, timeout_s=timeout_s
        )
    except CallError as error:
        raise _refusal(error) from error
    finally:
        bus.close()
    return unpack_variants(answer[0]) if answer else None


def _refusal(error: CallError) -> Refused:
    kind = error.name.rpartition(".")[2]
    if error.name.startswith(interface.NAME):
        return Refused(error.text, kind)
    if kind in ("ServiceUnknown", "NameHasNoOwner", "NoReply") or "Spawn" in error.name:
        return Refused(f"the agent does not answer: {error}; see 'systemctl status evenkeeld'")
    return Refused(f"{error} ({error.name})")


@contextmanager
def _new_file(path: str) -> Iterator[IO[bytes]]:
    """The new file PATH, which only its owner may read. If the block fails, there is no file. Raises Refused."""
    try:
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Refused(f"{path} cannot be written: {why(error)}") from error
    try:
        with os.fdopen(target, "wb") as file:
            yield file
    except BaseException as error:
        os.unlink(path)  # noqa: PTH108
        if isinstance(error, OSError):
            raise Refused(f"{path} cannot be written: {why(error)}") from error
        raise


async def _save(address: str | None, path: str, what: str, member: str, *body: Any) -> dict[str, Any]:
    """Save WHAT, which the method MEMBER opens, as the new file PATH. If it is not complete, there is no file."""
    # Open the file first: making a support bundle takes a minute.
    with _new_file(path) as file:
        size = await _receive(address, file, what, member, *body)
    return {"file": path, "bytes": size}


async def _preseed(address: str | None, path: str) -> dict[str, Any]:
    try:
        text = _content(path, MAX_PRESEED)
    except Refused as error:
        raise Refused(str(error), status=3) from error
    try:
        await _call(address, "ApplyPreseed", text, timeout_s=INSPECT_S)
    except Refused as error:
        status = {"InvalidArgument": 3, "Conflict": 4}.get(error.kind, 1)
        raise Refused(str(error), status=status) from error
    return {"file": path, "applied": True}


async def _backup(address: str | None, path: str) -> dict[str, Any]:
    with _new_file(path) as file:
        content = (await _call(address, "GetBackup", "")).encode()
        file.write(content)
    return {"file": path, "bytes": len(content)}


async def _receive(address: str | None, file: IO[bytes], what: str, member: str, *body: Any) -> int:
    """Write the packets of WHAT into FILE. Returns the number of bytes."""
    try:
        bus = await Bus.connect(address, files=True)
    except OSError as error:
        raise Refused(str(error)) from error
    try:
        signature = interface.METHODS[member].in_signature
        descriptor = await bus.open(
            interface.NAME, interface.PATH, interface.NAME, member, signature, body, timeout_s=TIMEOUT_S
        )
    except CallError as error:
        raise _refusal(error) from error
    finally:
        bus.close()

    def copy() -> int:
        size = 0
        with socket.socket(fileno=descriptor) as connection:
            connection.settimeout(PACKET_S)
            while not isinstance(part := parse(connection.recv(PACKET_BYTES)), End):
                file.write(part)
                size += len(part)
        if part.status:
            raise Refused(f"{what} was not made: {part.text}")
        return size

    try:
        return await asyncio.to_thread(copy)
    except Truncated as error:
        raise Refused(f"{what} was not made: {error}") from error
    except OSError as error:
        raise Refused(f"{what} was not saved: {why(error)}") from error


async def _validate(address: str | None, options: argparse.Namespace) -> Any:
    if options.step in ("plan", "start"):
        order = (options.profile, options.topic, not options.no_compare, options.exclusive)
        return await _call(address, f"{options.step.title()}Validation", *order, timeout_s=VALIDATE_S)
    if options.step == "fetch":
        kind = "html" if options.file.endswith(".html") else "json"
        return await _save(address, options.file, "the report", "OpenValidation", options.id, kind)
    members = {"state": "GetValidation", "cancel": "CancelValidation", "list": "ListValidations"}
    return await _call(address, members[options.step], timeout_s=VALIDATE_S)


async def _find(address: str | None, name: str) -> dict[str, Any]:
    for app in await _call(address, "ListApps"):
        if app["name"] == name:
            found: dict[str, Any] = app
            return found
    raise Refused(f"there is no app {name!r} in apps.d; 'ekctl apps' lists the apps")


async def run(options: argparse.Namespace) -> Any:
    """Execute the command. Returns the answer that --json prints."""
    address = getattr(options, "bus", None)
    if options.command == "status":
        return await _call(address, "GetStatus")
    if options.command == "apps":
        return await _call(address, "ListApps")
    if options.command == "start":
        await _call(address, "StartApp", options.app)
        return {"name": options.app, "started": True}
    if options.command == "stop":
        await _call(address, "StopApp", options.app)
        return {"name": options.app, "stopped": True}
    if options.command in COMMANDS:
        member, names = COMMANDS[options.command]
        return await _call(address, member, *(getattr(options, name) for name in names))
    if options.command == "inspect":
        return await _call(address, "InspectBundle", _source(options.source), timeout_s=INSPECT_S)
    if options.command == "install":
        return await _install(address, _source(options.source), options.allow_older)
    if options.command == "factory-reset":
        if not options.yes:
            lost = "settings, users, histories and data of apps" + (
                ", and all recordings" if options.recordings else ""
            )
            raise Refused(f"all {lost} of this board would be lost; to do it, add --yes")
        return await _call(address, "FactoryReset", not options.recordings, "", timeout_s=RESET_S)
    if options.command == "support-bundle":
        return await _save(address, options.file, "the support bundle", "OpenSupportBundle")
    if options.command == "backup":
        return await _backup(address, options.file)
    if options.command == "restore":
        text = _content(options.file, MAX_BYTES)
        if options.check:
            return await _call(address, "CheckBackup", text)
        return await _call(address, "RestoreBackup", text, options.network, timeout_s=INSPECT_S)
    if options.command == "preseed":
        return await _preseed(address, options.file)
    if options.command == "validate":
        return await _validate(address, options)
    if options.command == "install-certificate":
        pem = "\n".join(_content(file, MAX_PEM) for file in options.files)
        return await _call(address, "InstallCertificate", pem, options.force, timeout_s=INSPECT_S)
    if options.command == "make-certificate":
        return await _call(address, "MakeCertificate", options.force, timeout_s=INSPECT_S)
    if options.command == "set-network":
        fixed = options.address != "dhcp"
        values = (
            "fixed" if fixed else "dhcp",
            options.address if fixed else "",
            options.gateway,
            options.dns,
        )
        return await _call(address, "SetNetwork", options.interface, *values)
    if options.command == "audit":
        return await _call(address, "ListAudit", 0, options.rows)
    if options.command == "wear-limit":
        return await _wear_limit(address, options.wear_limit)
    if options.command == "fixed-share":
        return await _fixed_share(address, options.app, options.fixed_share)
    if options.command == "add-app":
        if options.app and not options.unit:
            raise Refused("the unit is missing: 'ekctl add-app APP UNIT'; 'ekctl add-app' prints the units")
        if not options.app:
            return await _call(address, "ListFreeUnits")
        title = options.app if options.title is None else options.title
        about = (options.app, title, options.description, options.unit)
        return await _call(address, "AddApp", *about, _weight(options.weight))
    if options.weight is None:
        return await _find(address, options.app)
    return await _call(address, "SetWeight", options.app, _weight(options.weight))


def _weight(text: str) -> int:
    """The weight that the user typed. Raises Refused."""
    value = weight.from_text(text)
    if value is None:
        raise Refused(f"weight must be {weight.RULE}, not {text!r}")
    if value >= 1 << 32:  # ekctl itself refuses a number that D-Bus type u cannot carry to the agent
        raise Refused(str(weight.problem(value)))
    return value


def _content(path: str, limit: int) -> str:
    """The text of the file PATH, which has at most LIMIT bytes. Raises Refused."""
    try:
        text = read_small(path, limit).decode("utf-8", "replace")
    except OSError as error:
        raise Refused(f"{path} cannot be read: {why(error)}") from error
    if "\0" in text:  # dbus-daemon drops a client that sends such a string
        raise Refused(f"{path} is not text in UTF-8, because it has a NUL byte; save it in UTF-8")
    return text


def _source(text: str) -> str:
    """The bundle that the user named: a URL, or the absolute path of a file, because the agent runs elsewhere."""
    return text if text.startswith(("http://", "https://")) else os.path.abspath(text)


async def _install(address: str | None, source: str, allow_older: bool) -> Any:
    """Install the bundle and wait for the end. Returns the state of updates; raises Refused on failure."""
    await _call(address, "InstallBundle", source, allow_older)
    shown = ""
    while True:
        update = await _call(address, "GetUpdate")
        if update["state"] != "installing":
            break
        line = f"{update['progress']:3} %  {update['step']}"
        if line != shown and sys.stderr.isatty():
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        shown = line
        await asyncio.sleep(POLL_S)
    if shown and sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    # A bundle that was installed before may still wait for its start, although this one was refused.
    refused = any(note["code"] == "update-failed" for note in update["problem"])
    if refused or update["state"] != "installed":
        raise Refused(
            "; ".join(note["text"] for note in update["problem"]) or f"the state is {update['state']}"
        )
    return update


async def _wear_limit(address: str | None, text: str | None) -> Any:
    if text is None:
        return {"percent": (await _call(address, "GetStatus"))["wear_limit"]}
    percent = fixed_share.from_text(text)  # the same rule
    if percent is None or percent > 100:
        raise Refused(f"wear limit must be {fixed_share.RULE}, or off, not {text!r}")
    await _call(address, "SetWearLimit", percent)
    return {"percent": percent}


async def _fixed_share(address: str | None, app: str, text: str | None) -> Any:
    if text is None:
        return await _find(address, app)
    percent = fixed_share.from_text(text)
    if percent is None:
        raise Refused(f"fixed share must be {fixed_share.RULE}, or off, not {text!r}")
    return await _call(address, "SetFixedShare", app, percent)


def _rate(bps: float) -> str:
    return f"{bps / 1e6:.1f}"


def _apps_text(apps: list[dict[str, Any]]) -> str:
    rows = [("APP", "STATE", "WEIGHT", "FIXED", "IN FORCE", "READ MB/s", "WRITE MB/s", "SHARE", "P99 ms")]
    for app in apps:
        p99 = "-" if app["p99_us"] < 0 else f"{app['p99_us'] / 1000:.1f}"
        fixed = f"{app['fixed_share']}%" if app["fixed_share"] else "-"
        in_force = "yes" if app["applied"] and app["fixed_share_applied"] else "no"
        share = f"{app['share'] * 100:.0f}%"
        rates = (_rate(app["read_bps"]), _rate(app["write_bps"]))
        rows.append(
            (app["name"], app["active_state"], str(app["weight"]), fixed, in_force, *rates, share, p99)
        )
    return _table(rows, left=(0, 1, 4))


def _table(rows: Sequence[Sequence[str]], left: Container[int]) -> str:
    """ROWS as text. Columns whose index is in LEFT are aligned to the left, others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _time(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _list_text(rows: Sequence[dict[str, Any]]) -> str:
    """A table with a row for each of ROWS and a column for each field; "none" without rows."""
    if not rows:
        return "none"
    names = list(rows[0])

    def cell(name: str, value: Any) -> str:
        if name == "expires_at" and not value:
            return "never"
        if name in ("at", "created_at", "used_at", "changed_at", "expires_at"):
            return _time(value)
        text = ("yes" if value else "no") if isinstance(value, bool) else str(value)
        return "".join(c if c.isprintable() else "?" for c in text) or "-"

    table = [[name.removesuffix("_at").upper() for name in names]]
    return _table(table + [[cell(name, row[name]) for name in names] for row in rows], range(len(names)))


def _status_text(status: dict[str, Any]) -> str:
    lines = [
        f"health     {status['health']}",
        *(f"           {problem['text']}" for problem in status["problems"]),
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


def _update_text(update: dict[str, Any]) -> str:
    lines = [f"version  {update['version']}", f"state    {update['state']}"]
    if update["state"] == "installing":
        lines[-1] += f", {update['progress']} %  {update['step']}"
    lines += [f"         {note['text']}" for note in update["problem"]]
    for slot in update["slots"]:
        words = [
            "runs" if slot["running"] else "ready" if slot["good"] else "not usable",
            *(["next"] if slot["next"] else []),
            *([f"version {slot['version']}"] if slot["version"] else ["first image"]),
            *([f"installed {slot['installed_at']}"] if slot["installed_at"] else []),
        ]
        lines.append(f"slot {slot['name']}   {', '.join(words)}")
    return "\n".join(lines)


def _bundle_text(bundle: dict[str, Any]) -> str:
    lines = [
        f"version      {bundle['version']}{' (older than the version that runs)' if bundle['older'] else ''}"
    ]
    lines.append(f"for          {bundle['compatible']}")
    if bundle["description"]:
        lines.append(f"description  {bundle['description']}")
    return "\n".join(lines)


def _network_text(network: dict[str, Any]) -> str:
    lines = [f"name      {network['host']}", *(f"          {note['text']}" for note in network["problem"])]
    for row in network["interfaces"]:
        lines.append(f"interface {row['name']}: {row['link']}, {row['settings']['mode']}")
        for label, values in (
            ("address", row["addresses"]),
            ("gateway", row["gateways"]),
            ("dns", row["dns"]),
            ("mac", [row["mac"]]),
        ):
            lines.append(f"  {label:8}{', '.join(values) or '-'}")
    for trial in network["trial"]:
        wanted = trial["settings"]["address"] or trial["settings"]["mode"]
        lines.append(
            f"change    {trial['interface']} to {wanted}: undone in {trial['left_s']} s;"
            " to keep it, run 'ekctl confirm-network'"
        )
    if not network["trial"] and network["last"] in LAST:
        lines.append(f"change    {LAST[network['last']]}")
    return "\n".join(lines)


def _system_text(system: dict[str, Any]) -> str:
    lines = [
        f"name     {system['name']}",
        f"time     {_time(system['at'])}",
        f"zone     {system['zone'] or 'unknown'}",
        f"clock    {system['clock']}{', by ' + system['server'] if system['server'] else ''}",
        f"servers  {' '.join(system['servers']) or 'automatic'}",
    ]
    return "\n".join([*lines, *(f"         {note['text']}" for note in system["problem"])])


def _restore_text(options: argparse.Namespace, found: dict[str, Any]) -> str:
    done = not options.check
    made = f"the backup of {found['board']}, made at {_time(found['made_at'])}"
    lines = [f"{made}, is restored:" if done else f"{made}, would change:"]
    lines += [f"  {note['text']}" for note in found["changes"]] or ["  nothing"]
    if found["left_out"]:
        lines.append("left out:")
        lines += [f"  {note['text']}" for note in found["left_out"]]
    if found["network"]:
        lines.append("network settings:" if options.network else "network settings, only with --network:")
        lines += [f"  {note['text']}" for note in found["network"]]
    if done and options.network and any(note["code"] == "restore-network" for note in found["network"]):
        lines.append("The network settings are undone after 60 s; to keep them, run 'ekctl confirm-network'.")
    return "\n".join(lines)


def _fixed_share_text(app: dict[str, Any]) -> str:
    running = app["active_state"] in ("active", "reloading")
    text = f"{app['name']} {app['fixed_share']}%" if app["fixed_share"] else f"{app['name']} off"
    if not app["fixed_share_applied"]:
        reason = app["fixed_share_problem"][0]["text"] if app["fixed_share_problem"] else "not in force yet"
        note = reason if running else "in force when the app starts"
        return f"{text} ({note})"
    if not app["fixed_share"] or app["fixed_share_used"] < 0:
        return text
    delivery = (
        f"the scheduler is behind: {app['fixed_share_late'] * 100:.0f}% of the requests are late;"
        " lower the fixed shares"
        if app["fixed_share_behind"]
        else "the scheduler keeps up"
    )
    return f"{text}, {app['fixed_share_used'] * 100:.0f}% of it used; {delivery}"


def _certificate_text(found: dict[str, Any]) -> str:
    date = [time.strftime("%Y-%m-%d", time.gmtime(found[key])) for key in ("not_before", "not_after")]
    return "\n".join(
        (
            f"made for   {found['subject']}",
            f"signed by  {'the board itself' if found['own'] else found['issuer']}",
            f"names      {', '.join(found['names']) or 'none'}",
            f"valid      {date[0]} to {date[1]}",
            f"SHA-256    {found['fingerprint']}",
            f"HSTS       {'on' if found['hsts'] else 'off'}",
        )
    )


def _plan_text(plan: dict[str, Any]) -> str:
    share = plan["endurance_percent"]
    lines = [
        f"where       {plan['where']}",
        f"cases       {plan['cases']}",
        f"writes      {plan['written_bytes'] / 1e6:,.0f} MB, {f'{share:.2g} %' if share >= 0 else 'an unknown part'} of the"
        " endurance",
        f"time        about {plan['takes_s']} s, at most {plan['most_s']} s",
        f"schedulers  {' '.join(plan['schedulers'])}",
    ]
    if not plan["proven"]:
        lines.insert(
            -2, "            less if the device is slow; the next run of the profile knows the exact amount"
        )
    if plan["exclusive"]:
        lines.append(
            "meanwhile   all apps are paused: they do not answer, and can be neither started nor stopped"
        )
    elif plan["groups"]:
        lines.append(
            "meanwhile   apps keep their share; updates, backups and apps without a weight are slower"
        )
    if plan["discards"]:
        lines.append("            free space is discarded; no file loses data, but apps may stall on an eMMC")
    if len(plan["schedulers"]) > 1:
        lines.append("            while another scheduler is active, weights of apps are not enforced")
    if plan["evicts"]:
        lines.append("afterwards  programs must read their files from the flash again")
    return "\n".join([*lines, *(f"left out    {one['case']}: {one['reason']}" for one in plan["left_out"])])


def _validation_text(found: dict[str, Any]) -> str:
    if found["state"] != "running":
        return (
            "no validation is running" if found["state"] == "idle" else f"the validation is {found['state']}"
        )
    if not found["id"] and found["about"]:
        return f"the command `{found['about']}` is running, and no validation"
    done = f"{found['index'] + 1} of {found['count']}: {found['about']}" if found["count"] else "it prepares"
    paused = "; all apps are paused" if found["exclusive"] else ""
    return f"validation {found['id']} is running, {done}; about {found['left_s']} s left{paused}"


def _validations_text(options: argparse.Namespace, answer: Any) -> str:
    if options.step == "plan":
        return _plan_text(answer)
    if options.step == "list":
        shown = ("id", "profile", "state", "subject", "held", "broken", "where")
        return _list_text([{name: row[name] for name in shown} for row in answer])
    if options.step == "fetch":
        return f"{answer['file']}: {answer['bytes']} bytes"
    return _validation_text(answer)


def _cache_text(cache: dict[str, Any]) -> str:
    lines = [f"page pool  {cache['state']}", *(f"           {note['text']}" for note in cache["problem"])]
    if cache["state"] != "off":
        lines += [
            f"target     {cache['target_bytes'] / 1e6:.1f} MB, at most {cache['limit_bytes'] / 1e6:.1f} MB",
            f"size       {cache['size_bytes'] / 1e6:.1f} MB",
            f"hit ratio  {_ratio_text(cache['protected_ratio'])} of priority files,"
            f" {_ratio_text(cache['normal_ratio'])} of other files (last 15 s)",
            f"cost       {cache['cost_bytes'] / 1e6:.1f} MB of memory; other files lack"
            f" {max(cache['normal_lack'], 0):.1f} points to {cache['normal_target']:.0f} % (last 10 min)",
        ]
    lines += [f"held       {held['path']} ({held['state']}), until a program ends" for held in cache["held"]]
    return "\n".join([*lines, _list_text(cache["directories"])])


def _ratio_text(percent: float) -> str:
    return f"{percent:.1f} %" if percent >= 0 else "no accesses"


def _text(options: argparse.Namespace, answer: Any) -> str:
    if options.command in ("cache", "add-directory", "remove-directory"):
        return _cache_text(answer)
    if options.command == "validate":
        return _validations_text(options, answer)
    if options.command == "status":
        return _status_text(answer)
    if options.command == "apps":
        return _apps_text(answer) if answer else "no apps are listed in apps.d"
    if options.command == "weight":
        running = answer["active_state"] in ("active", "reloading")
        note = (
            "" if answer["applied"] else " (not in force)" if running else " (in force when the app starts)"
        )
        return f"{answer['name']} {answer['weight']}{note}"
    if options.command == "add-app":
        if options.app:
            return f"{answer['name']} is an app now, with weight {answer['weight']}"
        return "\n".join(answer) or "no unit that belongs to no app runs in evenkeel-apps.slice"
    if options.command == "fixed-share":
        return _fixed_share_text(answer)
    if options.command == "wear-limit":
        return f"{answer['percent']}%" if answer["percent"] else "off"
    if options.command in ("users", "sessions", "tokens", "audit"):
        return _list_text(answer)
    if options.command in ("update", "choose-slot"):
        return _update_text(answer)
    if options.command.endswith("network"):
        return _network_text(answer)
    if options.command in ("system", "set-name", "set-time-zone", "set-time-servers"):
        return _system_text(answer)
    if options.command in ("support-bundle", "backup"):
        return f"{answer['file']}: {answer['bytes']} bytes"
    if options.command == "restore":
        return _restore_text(options, answer)
    if options.command.endswith("certificate"):
        return _certificate_text(answer)
    if options.command == "time-zones":
        return "\n".join(answer) or "the image has no data of time zones"
    if options.command == "inspect":
        return _bundle_text(answer)
    if options.command == "install":
        return "installed; it starts at the next restart ('ekctl restart')"
    if options.command == "first-password":
        return str(answer["password"])
    if options.command in ("add-user", "reset-password"):
        return f"first password of {options.user}: {answer['password']}"
    return ""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        answer = asyncio.run(run(options))
    except Refused as error:
        print(f"ekctl: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        print("ekctl: interrupted", file=sys.stderr)
        return 130
    text = json.dumps(answer, indent=1, ensure_ascii=False) if options.json else _text(options, answer)
    if text:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
