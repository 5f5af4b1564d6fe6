# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH208
"""The apps of the board: one TOML file per app in /etc/evenkeel/apps.d.

A bad file is ignored and reported with its name and the reason. The other files still count.
"""

import os
import re
import tomllib
from dataclasses import dataclass, field

from . import weight
from .files import read_small, why
from .settings import APPS_SLICE

FILE_LIMIT = 64 * 1024
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]+\.(service|scope|slice)")
TITLE_LIMIT = 40
KEYS = {"title", "description", "unit", "weight", "stats"}


class AppError(ValueError):
    """A file is bad. The message ends a sentence that begins with the file's name."""


@dataclass(frozen=True, slots=True)
class App:
    """One app, as its file describes it. A saved weight takes precedence over WEIGHT."""

    name: str
    title: str
    description: str
    unit: str
    weight: int
    stats: str  # path of the app's own counters (JSON), "" if it has none


def in_apps_slice(name: str) -> bool:
    """Whether the slice NAME is below the slice of the apps. The name of a slice contains those of its parents."""
    return name.startswith("evenkeel-apps-") and name.endswith(".slice")


@dataclass(slots=True)
class Registry:
    apps: dict[str, App] = field(default_factory=dict)  # by name, sorted by name
    problems: list[str] = field(default_factory=list)


def _text(table: dict[str, object], key: str, limit: int, default: str | None = None) -> str:
    value = table.get(key, default)
    if value is None:
        raise AppError(f"{key} is missing")
    if type(value) is not str:
        raise AppError(f"{key} must be text, not {value!r:.60}")
    if not value.isprintable():
        raise AppError(f"{key} must be one line of printable text")
    if len(value) > limit:
        raise AppError(f"{key} has {len(value)} characters, at most {limit} are allowed")
    return value


def parse(name: str, content: bytes) -> App:
    """The app NAME, from the CONTENT of its file. Raises AppError."""
    if not NAME.fullmatch(name):
        raise AppError("its name must be 1 to 32 characters a-z, 0-9 or -, and must not start with -")
    try:
        table = tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise AppError("it is not UTF-8 text") from None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise AppError(f"it is not TOML: {error}") from None
    unknown = sorted(set(table) - KEYS)
    if unknown:
        raise AppError(f"unknown key {unknown[0]!r:.60}; allowed are {', '.join(sorted(KEYS))}")
    title = _text(table, "title", TITLE_LIMIT)
    if not title.strip():
        raise AppError("title is empty")
    unit = _text(table, "unit", 255)
    if not UNIT.fullmatch(unit) or "@." in unit or unit.startswith("."):
        raise AppError(f"unit must be the name of a .service, .scope or .slice, not {unit!r:.60}")
    if unit.endswith(".slice") and not in_apps_slice(unit):
        raise AppError(f"unit must be below {APPS_SLICE}, which the slice {unit} is not")
    value = table.get("weight", weight.DEFAULT)
    bad = weight.problem(value)
    if bad or not isinstance(value, int):
        raise AppError(str(bad))
    stats = _text(table, "stats", 4096, "")
    if stats and (not stats.startswith("/") or os.path.normpath(stats) != stats):
        raise AppError(f"stats must be an absolute path without '..', not {stats!r:.60}")
    return App(name, title, _text(table, "description", 1000, ""), unit, value, stats)


def load(directory: str) -> Registry:
    """Read all files NAME.toml of DIRECTORY. Raises nothing: bad files must not stop the agent."""
    registry = Registry()
    try:
        files = sorted(entry for entry in os.listdir(directory) if entry.endswith(".toml"))
    except FileNotFoundError:
        return registry
    except OSError as error:
        registry.problems.append(f"{directory} cannot be read, so no app is known: {why(error)}")
        return registry
    owners: dict[str, str] = {}
    for entry in files:
        try:
            # Symbolic links are allowed here, because only root can write this directory.
            app = parse(
                entry.removesuffix(".toml"), read_small(os.path.realpath(f"{directory}/{entry}"), FILE_LIMIT)
            )
            if app.unit in owners:
                raise AppError(f"unit {app.unit} already belongs to the app {owners[app.unit]}")
        except AppError as error:
            registry.problems.append(f"apps.d/{entry} is ignored: {error}")
        except OSError as error:
            registry.problems.append(f"apps.d/{entry} is ignored: it cannot be read: {why(error)}")
        else:
            registry.apps[app.name] = app
            owners[app.unit] = app.name
    return registry
