# SPDX-License-Identifier: Apache-2.0
"""The file of a backup: makes it, reads it, and compares two sets of settings. Pure.

A file has a version and a checksum. The checksum is SHA-256 of everything else, as JSON with sorted keys and without
whitespace: so an editor may change the layout of the file, but no value.

Version 1 has neither network settings nor priority directories. Versions 1 and 2 have the wear limit in a text of the
panel, which is empty if ekctl made the file. Versions 1 to 3 have neither API tokens nor channels of the recorder. A restore
leaves the settings that a file does not have.
"""

import hashlib
import json
import time
from collections import Counter
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
from msgspec.structs import astuple
from msgspec.structs import replace as replace_fields

from . import recorder_config, registry
from .network import changes
from .network_config import BadConfig, checked, interface_name
from .recorder_config import BadFile, Recorder

FORMAT = "evenkeel-backup"
UNDO = "evenkeel-undo"
VERSION = 4
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
MAX_USERS, MAX_TOKENS = 32, 32  # tokens: of a user
UserName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_-]{0,31}$(?!\n)")]
Time = Annotated[int, Meta(ge=0, le=YEAR_9999)]


class User(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user with a password. HASH: argon2id. TOTP: the secret of the authenticator app; "" without one."""

    name: UserName
    role: Role
    hash: Annotated[str, Meta(pattern=HASH)]
    must_change: bool
    totp: Annotated[str, Meta(pattern=TOTP)]


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An API token. DIGEST: SHA-256 of the secret, which has 240 random bits, so nobody finds it. EXPIRES_AT: 0: never."""

    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]
    name: Annotated[str, Meta(max_length=64)]
    user: UserName
    role: Role
    created_at: Time
    expires_at: Time


class Signed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The certificate of the panel that an authority has signed: which one it is. A backup has no private key."""

    subject: Annotated[str, Meta(max_length=1000)]
    issuer: Annotated[str, Meta(max_length=1000)]
    fingerprint: Annotated[str, Meta(max_length=100)]


class Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings that a backup has.

    - ZONE: "" if it was not known.
    - USERS: empty if no user had a password.
    - APPS: the files of the added apps, by name.
    - DIRECTORIES: the priority directories that somebody has chosen, by app; None: not part of the backup.
    - WEAR_LIMIT: in percent, 0: none; None: not part of the backup.
    - RECORDER: the configuration of the recorder; None: not part of the backup, because it had none.
    - CERTIFICATE: only named, so that a restore can say which one is to be installed; None: that of the board itself.
    - TOKENS: of these users, in the order of their digests; None: not part of the backup.
    - NETWORK: the confirmed settings, by interface; None: not part of the backup.
    """

    name: BoardName
    zone: Annotated[str, Meta(max_length=64, pattern=NO_ZONE)]
    servers: Servers
    weights: Annotated[dict[App, Annotated[int, Meta(ge=1, le=10000)]], Meta(max_length=1000)]
    fixed_shares: Annotated[dict[App, Annotated[int, Meta(ge=1, le=100)]], Meta(max_length=1000)]
    alerts: SetAlerts
    users: Annotated[list[User], Meta(max_length=MAX_USERS)]
    apps: Annotated[dict[App, Annotated[str, Meta(max_length=10_000)]], Meta(max_length=registry.ADDED_LIMIT)]
    directories: (
        Annotated[
            dict[App, Annotated[list[str], Meta(max_length=registry.DIRECTORY_LIMIT)]], Meta(max_length=1000)
        ]
        | None
    ) = None
    network: Annotated[dict[str, NetworkSettings], Meta(max_length=64)] | None = None
    wear_limit: WearLimit | None = None
    tokens: Annotated[list[Token], Meta(max_length=MAX_USERS * MAX_TOKENS)] | None = None
    recorder: Recorder | None = None
    certificate: Signed | None = None


class Undo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The plan for going back after a failed restore: each field that differs has to go back from AFTER to BEFORE."""

    format: str
    before: Content
    after: Content

    def changes(self) -> dict[str, tuple[Any, Any]]:
        pairs = (
            (name, getattr(self.before, name), getattr(self.after, name))
            for name in Content.__struct_fields__
        )
        return {name: (before, after) for name, before, after in pairs if before != after}


class File(msgspec.Struct, frozen=True):
    format: str
    version: int
    made_at: Time
    content: Content


def _checksum(found: dict[str, Any]) -> str:
    rest = {key: value for key, value in found.items() if key != "checksum"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def dump(content: Content, made_at: int) -> str:
    """The file with CONTENT."""
    found: dict[str, Any] = msgspec.to_builtins(File(FORMAT, VERSION, made_at, content))
    return json.dumps({**found, "checksum": _checksum(found)}, indent=1, ensure_ascii=False) + "\n"


def dump_undo(content: Content, changes: Mapping[str, tuple[Any, Any]]) -> str:
    """The plan for taking CHANGES back: by field, the values before and after. CONTENT: all settings, which fill the rest."""
    rest = replace_fields(content, users=[], tokens=None)  # they never go back
    before = replace_fields(rest, **{field: pair[0] for field, pair in changes.items()})
    after = replace_fields(rest, **{field: pair[1] for field, pair in changes.items()})
    return msgspec.json.encode(Undo(UNDO, before, after)).decode()


def load_plan(text: str) -> Content | Undo:
    """The plan TEXT: the settings of a restore, or how to go back. Raises InvalidArgument."""
    if not text.startswith(f'{{"format":"{UNDO}"'):
        return load(text).content
    try:
        return msgspec.json.decode(text, type=Undo)
    except msgspec.DecodeError as error:
        raise errors.InvalidArgument("backup-damaged") from error


def without(before: Any, after: Any, now: Any) -> Any:
    """The value NOW without the change from BEFORE to AFTER. What somebody else has changed since then stays."""
    if isinstance(now, Recorder):
        return Recorder(*map(without, *map(astuple, (before, after, now))))
    if not isinstance(now, dict):
        return before if now == after else now
    found = {}
    for key in [*now, *(key for key in before if key not in now)]:
        source = before if now.get(key) == after.get(key) else now
        if key in source:
            found[key] = source[key]
    return found


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
    content = _with_tokens_of_users(content)
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
    try:
        if content.recorder:
            recorder_config.checked(content.recorder)
    except BadFile as error:
        raise errors.InvalidArgument("backup-invalid", reason=f"recorder: {error}") from error
    if content.name.lower() == "localhost":
        raise errors.InvalidArgument("name-localhost")
    return replace_fields(file, content=content)


def _with_tokens_of_users(content: Content) -> Content:
    """CONTENT with the tokens in order, and without those of users whom it does not have. Raises InvalidArgument."""
    if content.tokens is None:
        return content
    tokens, names = content.tokens, {user.name for user in content.users}
    if len({token.digest for token in tokens}) < len(tokens):
        raise errors.InvalidArgument("backup-invalid", reason="a token is there twice")
    for user, number in Counter(token.user for token in tokens).items():
        if number > MAX_TOKENS:
            raise errors.InvalidArgument("backup-invalid", reason=f"{user} has more than {MAX_TOKENS} tokens")
    kept = sorted((token for token in tokens if token.user in names), key=lambda token: token.digest)
    return replace_fields(content, tokens=kept)


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
    if old.recorder and new.recorder:
        found += _recorder(old.recorder, new.recorder)
    return found + _users(old.users, new.users) + _tokens(old, new)


def _recorder(old: Recorder, new: Recorder) -> list[Message]:
    """A restore names each value of a channel that changes: some let other users read its recording, or delete old records."""
    found = []
    if old.group != new.group:
        found.append(Message("restore-recorder-group", old=old.group or "none", new=new.group or "none"))
    if old.priority != new.priority:
        found.append(Message("restore-recorder-priority", old=old.priority, new=new.priority))
    for name, text in recorder_config.changes(old, new).items():
        if text is None:
            found.append(Message("restore-channel-removed", channel=name))
            continue
        after = recorder_config.parse(text)
        if name not in old.channels:
            values = [f"{key} {value or 'none'}" for key, value in after.items()]
            found.append(Message("restore-channel-added", channel=name, values=values))
            continue
        before = recorder_config.parse(old.channels[name])
        values = [
            f"{key} from {before.get(key) or 'none'} to {after.get(key) or 'none'}"
            for key in recorder_config.KEYS
            if before.get(key) != after.get(key)
        ]
        code = "restore-channel-changed" if values else "restore-channel-comments"
        found.append(Message(code, channel=name, values=values))
    return found


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


def _until(token: Token) -> str:
    if not token.expires_at:
        return "without an end"
    return time.strftime("until %Y-%m-%d", time.gmtime(token.expires_at))


def _tokens(old: Content, new: Content) -> list[Message]:
    """A token that was revoked since the backup is valid again. The tokens of a user who is removed need no sentence."""
    if not new.users or new.tokens is None:
        return []
    before = {token.digest: token for token in old.tokens or []}
    after = {token.digest: token for token in new.tokens}
    names = {user.name for user in new.users}
    found = [
        Message("restore-token-added", name=token.name, user=token.user, role=token.role, until=_until(token))
        for token in new.tokens
        if token.digest not in before
    ]
    found += [
        Message("restore-token-removed", name=token.name, user=token.user)
        for token in old.tokens or []
        if token.digest not in after and token.user in names
    ]
    found += [
        Message("restore-token-changed", name=token.name, user=token.user, role=token.role)
        for token in new.tokens
        if token.digest in before and before[token.digest] != token
    ]
    return found
