# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH208
"""The apps of the board: one TOML file per app, in /etc/evenkeel/apps.d or, if it was added by AddApp, in
/var/lib/evenkeel-apps.

The agent ignores a bad file and reports its name and the reason. The other files still count.
"""

import json
import os
import re
import tomllib
from dataclasses import dataclass, field, replace

from evenkeel_api.messages import Message
from evenkeel_common.files import read_small, why

from . import weight
from .settings import APPS_SLICE

FILE_LIMIT = 64 * 1024
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]+\.(service|scope|slice)")
TITLE_LIMIT = 40
PATH_LIMIT = 4095  # bytes of a path, as the kernel limits it
ADDED_LIMIT = 64  # the maximum number of added apps
DIRECTORY_LIMIT = 32  # the maximum number of priority directories of an app
KEYS = {"title", "description", "unit", "weight", "stats", "priority_directories"}


class AppError(ValueError):
    """A file is bad. MESSAGE says why; it continues the sentence "apps.d/FILE is ignored: ..."."""

    def __init__(self, message: Message) -> None:
        super().__init__(str(message))
        self.message = message


@dataclass(frozen=True, slots=True)
class App:
    """One app, as its file describes it. A saved weight takes precedence over WEIGHT."""

    name: str
    title: str
    description: str
    unit: str
    weight: int
    stats: str  # path of the app's own counters (JSON), "" if it has none
    added: bool = False  # whether AddApp has listed it
    # the priority directories (see the component pagepool); saved ones take precedence
    directories: tuple[str, ...] = ()


def in_apps_slice(name: str) -> bool:
    """Whether the slice NAME is below the slice of the apps: the name of a slice begins with the name of its parent."""
    return name.startswith("evenkeel-apps-") and name.endswith(".slice")


@dataclass(slots=True)
class Registry:
    apps: dict[str, App] = field(default_factory=dict)  # by name, sorted by name
    problems: list[Message] = field(default_factory=list)


def _text(table: dict[str, object], key: str, limit: int, default: str | None = None) -> str:
    value = table.get(key, default)
    if value is None:
        raise AppError(Message("app-key-missing", key=key))
    if type(value) is not str:
        raise AppError(Message("app-key-not-text", key=key, value=repr(value)))
    if not value.isprintable():
        raise AppError(Message("app-key-not-a-line", key=key))
    if len(value) > limit:
        raise AppError(Message("app-key-too-long", key=key, length=len(value), limit=limit))
    return value


def directory_problem(path: str) -> Message | None:
    """Why PATH cannot be a priority directory; None if it can. The directory need not exist."""
    if len(path.encode("utf-8", "surrogatepass")) > PATH_LIMIT:
        return Message("directory-too-long", limit=PATH_LIMIT)
    # normpath() keeps two slashes at the beginning
    if (
        not path.startswith("/")
        or path.startswith("//")
        or os.path.normpath(path) != path
        or not path.isprintable()
    ):
        return Message("directory-path", path=path)
    return None


def _directories(table: dict[str, object]) -> tuple[str, ...]:
    value = table.get("priority_directories", [])
    if type(value) is not list or any(type(path) is not str for path in value):
        raise AppError(Message("app-directories", value=repr(value)[:60]))
    if len(value) > DIRECTORY_LIMIT:
        raise AppError(Message("app-directories-many", count=len(value), limit=DIRECTORY_LIMIT))
    for path in value:
        if bad := directory_problem(path):
            raise AppError(bad)
    return tuple(dict.fromkeys(value))


def parse(name: str, content: bytes) -> App:
    """The app NAME, from the CONTENT of its file. Raises AppError."""
    if not NAME.fullmatch(name):
        raise AppError(Message("app-name"))
    try:
        table = tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise AppError(Message("app-not-utf8")) from None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise AppError(Message("app-not-toml", reason=str(error))) from None
    unknown = sorted(set(table) - KEYS)
    if unknown:
        raise AppError(Message("app-key-unknown", key=repr(unknown[0]), keys=sorted(KEYS)))
    title = _text(table, "title", TITLE_LIMIT)
    if not title.strip():
        raise AppError(Message("app-title-empty"))
    unit = _text(table, "unit", 255)
    if not UNIT.fullmatch(unit) or "@." in unit or unit.startswith("."):
        raise AppError(Message("app-unit", unit=unit))
    if unit.endswith(".slice") and not in_apps_slice(unit):
        raise AppError(Message("app-slice", apps=APPS_SLICE, unit=unit))
    value = table.get("weight", weight.DEFAULT)
    bad = weight.problem(value)
    if bad:
        raise AppError(bad)
    stats = _text(table, "stats", 4096, "")
    if stats and (not stats.startswith("/") or os.path.normpath(stats) != stats):
        raise AppError(Message("app-stats", path=stats))
    description, directories = _text(table, "description", 1000, ""), _directories(table)
    return App(name, title, description, unit, int(value), stats, directories=directories)


def to_toml(title: str, description: str, unit: str, weight: int) -> bytes:
    """The content of an app's file. parse() checks the values."""
    # A JSON string without escapes of surrogates is also a TOML string.
    texts = {"title": title, "description": description, "unit": unit}
    lines = [f"{key} = {json.dumps(text, ensure_ascii=False)}\n" for key, text in texts.items() if text]
    return "".join([*lines, f"weight = {weight}\n"]).encode("utf-8", "surrogatepass")


def load(directory: str, added: str = "") -> Registry:
    """Read all files NAME.toml of DIRECTORY, then those of ADDED, the folder of the added apps, if it is given.

    Raises nothing: a bad file becomes a problem and must not stop the agent. If two files have the same name or unit,
    the first one counts.
    """
    registry = Registry()
    owners: dict[str, str] = {}
    _load(registry, owners, directory, added=False)
    if added:
        _load(registry, owners, added, added=True)
    registry.apps = dict(sorted(registry.apps.items()))
    return registry


def state(directory: str, added: str = "") -> list[tuple[str, ...] | tuple[str, int, int, int]]:
    """What load() would read, without reading it: the result differs if a file was changed, added or removed.

    This costs a tenth of load(). Raises nothing: a folder or file that cannot be read counts as one without content.
    """
    found: list[tuple[str, ...] | tuple[str, int, int, int]] = []
    for folder in filter(None, (directory, added)):
        try:
            with os.scandir(folder) as entries:
                files = sorted(
                    (entry for entry in entries if entry.name.endswith(".toml")), key=lambda entry: entry.name
                )
        except OSError:
            files = []
        for entry in files:
            try:
                status = entry.stat()
            except OSError:
                found.append((entry.path,))
            else:
                found.append((entry.path, status.st_ino, status.st_size, status.st_ctime_ns))
    return found


def _load(registry: Registry, owners: dict[str, str], directory: str, *, added: bool) -> None:
    """Read the files of DIRECTORY into REGISTRY. OWNERS has the app of each unit."""
    try:
        files = sorted(entry for entry in os.listdir(directory) if entry.endswith(".toml"))
    except FileNotFoundError:
        return
    except OSError as error:
        registry.problems.append(Message("apps-unreadable", folder=directory, reason=why(error)))
        return
    for entry in files:
        try:
            path = f"{directory}/{entry}"
            # The owner may use symbolic links. In the folder of the agent, they could make the history read other files.
            content = read_small(path if added else os.path.realpath(path), FILE_LIMIT)
            app = parse(entry.removesuffix(".toml"), content)
            if app.name in registry.apps:
                raise AppError(Message("app-name-taken", app=app.name))
            if app.unit in owners:
                raise AppError(Message("app-unit-taken", unit=app.unit, app=owners[app.unit]))
        except AppError as error:
            registry.problems.append(Message("app-ignored", file=entry, reason=error.message))
        except OSError as error:
            reason = Message("app-unreadable", reason=why(error))
            registry.problems.append(Message("app-ignored", file=entry, reason=reason))
        else:
            registry.apps[app.name] = replace(app, added=added)
            owners[app.unit] = app.name
