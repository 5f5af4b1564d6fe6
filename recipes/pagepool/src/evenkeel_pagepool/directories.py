# SPDX-License-Identifier: Apache-2.0
"""Which priority directories the apps have: those of their files, unless others are saved.

The saved ones are in a JSON file, {"APP": ["DIRECTORY", ...], ...}. evenkeel_common.files.replace guarantees that it is
complete at any moment. It keeps the directories of apps that are no longer listed.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping

from evenkeel_agent.registry import DIRECTORY_LIMIT, NAME, App, directory_problem
from evenkeel_api import errors
from evenkeel_api.messages import Message
from evenkeel_common.files import read_small, replace, why

FILE_LIMIT = 16 << 20  # bytes: more than 64 added apps with the longest paths
DAMAGED = ".damaged"


def _parse(content: bytes) -> dict[str, list[str]]:
    return _checked(json.loads(content.decode("utf-8")))


def _checked(table: object) -> dict[str, list[str]]:
    """TABLE, if it can be the saved directories. Raises ValueError."""
    if type(table) is not dict:
        raise ValueError("not an object")
    for name, paths in table.items():
        if not NAME.fullmatch(name) or type(paths) is not list:
            raise ValueError(f"{name!r:.60} is no app with a list")
        if any(type(path) is not str or directory_problem(path) for path in paths):
            raise ValueError(f"{name} has a bad path")
        if len(paths) > DIRECTORY_LIMIT:
            raise ValueError(f"{name} has more than {DIRECTORY_LIMIT} directories")
    return table


def checked(path: str) -> str:
    """PATH, if it can be a priority directory. Raises AgentError."""
    if bad := directory_problem(path):
        raise errors.InvalidArgument(bad.code, **bad.parameters)
    return path


class Directories:
    """The saved directories in the file PATH. The constructor reads the file; it never fails."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.problem: Message | None = None
        self._saved: dict[str, list[str]] = {}
        try:
            self._saved = _parse(read_small(path, FILE_LIMIT))
        except FileNotFoundError:
            if os.path.exists(path + DAMAGED):  # noqa: PTH110
                self.problem = Message("directories-damaged", path=path + DAMAGED)
        except OSError as error:
            self.problem = Message("directories-unreadable", path=path, reason=why(error))
        except (ValueError, RecursionError):
            self.problem = Message("directories-damaged", path=path + DAMAGED)
            with contextlib.suppress(OSError):
                os.replace(path, path + DAMAGED)

    def of(self, app: App) -> list[str]:
        """The priority directories of APP."""
        return self._saved.get(app.name, list(app.directories))

    def all(self, apps: Mapping[str, App]) -> list[tuple[str, str]]:
        """The pairs of app and directory of APPS."""
        return [(name, path) for name, app in apps.items() for path in self.of(app)]

    def add(self, app: App, path: str) -> None:
        """Save PATH as a directory of APP. On an AgentError nothing has changed."""
        present = self.of(app)
        if checked(path) in present:
            raise errors.Conflict("directory-listed", path=path, app=app.name)
        if len(present) >= DIRECTORY_LIMIT:
            raise errors.Conflict("directories-full", app=app.name, limit=DIRECTORY_LIMIT)
        self._save_of(app, [*present, path])

    def remove(self, app: App, path: str) -> None:
        """Save that PATH is no directory of APP. On an AgentError nothing has changed."""
        present = self.of(app)
        if path not in present:
            raise errors.Conflict("directory-not-listed", path=path, app=app.name)
        self._save_of(app, [other for other in present if other != path])

    def saved(self) -> dict[str, list[str]]:
        """The saved directories, by app. An app without an entry has the directories of its file."""
        return dict(self._saved)

    def restore(self, table: object) -> None:
        """Save TABLE in place of all saved directories. On a ValueError or AgentError nothing has changed."""
        self._save(_checked(table))

    def forget(self, name: str) -> None:
        """Remove the saved directories of the app NAME. On an AgentError nothing has changed."""
        if name in self._saved:
            self._save({other: paths for other, paths in self._saved.items() if other != name})

    def _save_of(self, app: App, paths: list[str]) -> None:
        saved = {**self._saved, app.name: paths}
        if paths == list(app.directories):
            del saved[app.name]  # so a later change of the app's file counts again
        self._save(saved)

    def _save(self, saved: dict[str, list[str]]) -> None:
        try:
            replace(self._path, json.dumps(saved, sort_keys=True, indent=1).encode() + b"\n")
        except OSError as error:
            raise errors.Failed("directories-not-saved", path=self._path, reason=why(error)) from error
        self._saved, self.problem = saved, None
        with contextlib.suppress(OSError):
            os.unlink(self._path + DAMAGED)  # noqa: PTH108
