# SPDX-License-Identifier: Apache-2.0
"""The file of a backup: makes it, reads it, and compares two sets of settings. Pure.

A file has a version and a checksum. The checksum is SHA-256 of everything else, as JSON with sorted keys and without
whitespace: so an editor may change the layout of the file, but no value.

Version 1 has neither network settings nor priority directories. Versions 1 and 2 have the wear limit in a text of the
panel, which is empty if ekctl made the file. A restore leaves the settings that a file does not have.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from evenkeel_api import errors
from evenkeel_api.features.alerts import SetAlerts
from evenkeel_api.features.network import NetworkSettings
from evenkeel_api.features.system import ZONE, BoardName, Servers
from evenkeel_api.features.wear import WearLimit
from evenkeel_api.messages import Message
from evenkeel_api.roles import ADMIN, Role
from msgspec import Meta

from . import registry
from .network import changes
from .network_config import BadConfig, checked, interface_name

FORMAT = "evenkeel-backup"
VERSION = 3
WITH_WEAR_LIMIT = 3  # the first version that has a wear limit of its own
NO_ZONE = rf"{ZONE}|^$(?!\n)"  # or empty
App = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$(?!\n)")]
# A hash may have up to 65536 KiB, 5 passes and 4 lanes, which includes the recommendations of RFC 9106 and OWASP. The agent
# computes it at each log-in: it must not take all memory, nor longer than a call may take.
_KIB = "[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-6]"
HASH = (
    rf"^\$argon2id\$v=19\$m=({_KIB}),t=[1-5],p=[1-4]\$[A-Za-z0-9+/]{{11,86}}\$[A-Za-z0-9+/]{{22,86}}$(?!\n)"
)
TOTP = r"^(([A-Z2-7]{8}){2,8})?$(?!\n)"  # only whole groups of 8 characters are sure to be base32
YEAR_9999 = 253_402_300_799  # its end: Python cannot show a later time


class User(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user with a password. HASH: argon2id. TOTP: the secret of the authenticator app; "" without one."""

    name: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_-]{0,31}$(?!\n)")]
    role: Role
    hash: Annotated[str, Meta(pattern=HASH)]
    must_change: bool
    totp: Annotated[str, Meta(pattern=TOTP)]


class Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings that a backup has.

    - ZONE: "" if it was not known.
    - USERS: empty if no user had a password.
    - APPS: the files of the added apps, by name.
    - DIRECTORIES: the priority directories that somebody has chosen, by app; None: not part of the backup.
    - WEAR_LIMIT: in percent, 0: none; None: not part of the backup.
    - NETWORK: the confirmed settings, by interface; None: not part of the backup.
    """

    name: BoardName
    zone: Annotated[str, Meta(max_length=64, pattern=NO_ZONE)]
    servers: Servers
    weights: Annotated[dict[App, Annotated[int, Meta(ge=1, le=10000)]], Meta(max_length=1000)]
    fixed_shares: Annotated[dict[App, Annotated[int, Meta(ge=1, le=100)]], Meta(max_length=1000)]
    alerts: SetAlerts
    users: Annotated[list[User], Meta(max_length=32)]
    apps: Annotated[dict[App, Annotated[str, Meta(max_length=10_000)]], Meta(max_length=registry.ADDED_LIMIT)]
    directories: (
        Annotated[
            dict[App, Annotated[list[str], Meta(max_length=registry.DIRECTORY_LIMIT)]], Meta(max_length=1000)
        ]
        | None
    ) = None
    network: Annotated[dict[str, NetworkSettings], Meta(max_length=64)] | None = None
    wear_limit: WearLimit | None = None


class File(msgspec.Struct, frozen=True):
    format: str
    version: int
    made_at: Annotated[int, Meta(ge=0, le=YEAR_9999)]
    content: Content


def _checksum(found: dict[str, Any]) -> str:
    rest = {key: value for key, value in found.items() if key != "checksum"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def dump(content: Content, made_at: int) -> str:
    """The file with CONTENT."""
    found: dict[str, Any] = msgspec.to_builtins(File(FORMAT, VERSION, made_at, content))
    return json.dumps({**found, "checksum": _checksum(found)}, indent=1, ensure_ascii=False) + "\n"


def load(text: str) -> File:
    """The file TEXT. Raises InvalidArgument with the reason."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise errors.InvalidArgument("backup-unknown")
    version = found.get("version")
    if type(version) is not int or version < 1:
        raise errors.InvalidArgument("backup-damaged")
    if version > VERSION:
        raise errors.InvalidArgument("backup-newer", version=version, known=VERSION)
    try:
        if found.get("checksum") != _checksum(found):
            raise errors.InvalidArgument("backup-damaged")
        if version < WITH_WEAR_LIMIT:
            _move_wear_limit(found)
        file = msgspec.convert(found, File, strict=True)
    except (msgspec.ValidationError, RecursionError, UnicodeError) as error:
        raise errors.InvalidArgument("backup-invalid", reason=str(error)) from error
    content = file.content
    names = [user.name for user in content.users]
    if len(set(names)) < len(names) or "root" in names:
        raise errors.InvalidArgument("backup-invalid", reason="a user is there twice, or is called root")
    if names and not any(user.role == ADMIN for user in content.users):
        raise errors.InvalidArgument("backup-invalid", reason="it has no administrator")
    if sum(content.fixed_shares.values()) > 100:
        raise errors.InvalidArgument(
            "backup-invalid", reason="all fixed shares together have more than 100 %"
        )
    for name, text in content.apps.items():
        try:
            app = registry.parse(name, text.encode("utf-8", "replace"))
        except registry.AppError as error:
            raise errors.InvalidArgument("backup-invalid", reason=f"app {name}: {error}") from error
        if app.stats:
            # Only the owner of a board may name a file that the agent reads.
            raise errors.InvalidArgument("backup-invalid", reason=f"app {name}: stats is not allowed")
    for name, paths in (content.directories or {}).items():
        if bad := next(filter(None, map(registry.directory_problem, paths)), None):
            raise errors.InvalidArgument("backup-invalid", reason=f"app {name}: {bad}")
    try:
        for name, found in (content.network or {}).items():
            interface_name(name)
            checked(found.mode, found.address, found.gateway, found.dns)
    except BadConfig as error:
        raise errors.InvalidArgument("backup-invalid", reason=str(error)) from error
    if content.name.lower() == "localhost":
        raise errors.InvalidArgument("name-localhost")
    return file


def _move_wear_limit(found: dict[str, Any]) -> None:
    """Make the file FOUND one of version WITH_WEAR_LIMIT. A text that is not valid has no limit."""
    content = found.get("content")
    if isinstance(content, dict):
        try:
            content["wear_limit"] = json.loads(content.pop("panel"))["wear_limit_percent"]
        except (ValueError, LookupError, TypeError, RecursionError):
            content["wear_limit"] = None


def differences(old: Content, new: Content) -> list[Message]:
    """What a restore of NEW changes on a board with OLD. Settings of the network are left out."""
    found = []
    for what in ("name", "zone"):
        before, after = getattr(old, what), getattr(new, what)
        if after and after != before:
            found.append(Message(f"restore-{what}", old=before or "?", new=after))
    if old.servers != new.servers:
        found.append(Message("restore-servers", old=_servers(old), new=_servers(new)))
    for app in sorted(old.apps.keys() | new.apps.keys()):
        if app not in old.apps:
            found.append(Message("restore-app-added", app=app))
        elif app not in new.apps:
            found.append(Message("restore-app-removed", app=app))
        elif old.apps[app] != new.apps[app]:
            found.append(Message("restore-app-changed", app=app))
    for code, before, after, none in (
        ("restore-weight", old.weights, new.weights, "the default"),
        ("restore-fixed-share", old.fixed_shares, new.fixed_shares, "off"),
    ):
        for app in sorted(before.keys() | after.keys()):
            if before.get(app) != after.get(app):
                found.append(Message(code, app=app, old=before.get(app, none), new=after.get(app, none)))
    if new.directories is not None and old.directories is not None:
        own, wanted = old.directories, new.directories
        found += [
            Message("restore-directories", app=app, old=_paths(own.get(app)), new=_paths(wanted.get(app)))
            for app in sorted(own.keys() | wanted.keys())
            if own.get(app) != wanted.get(app)
        ]
    if new.wear_limit is not None and new.wear_limit != old.wear_limit:
        before, after = (f"{limit} %" if limit else "off" for limit in (old.wear_limit, new.wear_limit))
        found.append(Message("restore-wear-limit", old=before, new=after))
    if old.alerts != new.alerts:
        found.append(Message("restore-alerts"))
    return found + _users(old.users, new.users)


def _paths(paths: list[str] | None) -> str:
    return "those of its file" if paths is None else ", ".join(paths) or "none"


def network_differences(
    old: Mapping[str, NetworkSettings], new: Mapping[str, NetworkSettings], present: Sequence[str]
) -> list[Message]:
    """What a restore of the network settings NEW changes on a board with the settings OLD and the interfaces PRESENT."""
    if old == new:
        return []
    found = [
        Message("restore-network", interface=name, new=_network(settings))
        for name, settings in changes(old, new, present).items()
    ]
    absent = sorted(new.keys() - set(present))
    return found + [Message("restore-network-absent", interface=name) for name in absent]


def _network(settings: NetworkSettings | None) -> str:
    if settings is None or settings.mode == "dhcp":
        return "automatic settings (DHCP)"
    return ", ".join(
        [
            settings.address,
            f"gateway {settings.gateway or 'none'}",
            f"DNS {' '.join(settings.dns) or 'none'}",
        ]
    )


def _servers(content: Content) -> str:
    return ", ".join(content.servers) or "those of the network"


def _users(old: list[User], new: list[User]) -> list[Message]:
    """Without users in the backup, those of the board stay."""
    if not new:
        return []
    before, after = {user.name: user for user in old}, {user.name: user for user in new}
    found = [
        Message("restore-user-added", name=name, role=after[name].role)
        for name in sorted(after.keys() - before)
    ]
    found += [Message("restore-user-removed", name=name) for name in sorted(before.keys() - after)]
    found += [
        Message("restore-user-changed", name=name, role=after[name].role)
        for name in sorted(before.keys() & after)
        if before[name] != after[name]
    ]
    return found
