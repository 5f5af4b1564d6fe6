# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH104, PTH110, PTH118
"""Saved settings of apps: one number per app, as {"APP": NUMBER, ...} in a JSON file of /var/lib/evenkeel-agent.

Guarantee: at any moment, also after a power cut, the file is absent or contains one complete set of numbers. After
save() has returned, the new set is on the medium.

evenkeel_common.files.replace gives this guarantee. It is sufficient, because one process writes: the agent, one call at
a time. Each change by a person costs two flushes. SQLite would cost more flushes, and more time at startup.
"""

import json
import os
from collections.abc import Callable

from evenkeel_api.messages import Message
from evenkeel_common.files import read_small, replace, why

from .registry import NAME

FILE_LIMIT = 1024 * 1024


class StoreError(Exception):
    """A number could not be saved. MESSAGE has the reason."""

    def __init__(self, message: Message) -> None:
        super().__init__(str(message))
        self.message = message


def _parse(content: bytes, check: Callable[[object], Message | None]) -> dict[str, int]:
    table = json.loads(content.decode("utf-8"))
    if type(table) is not dict:
        raise ValueError("not an object")
    for name, value in table.items():
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r:.60} is not a name of an app")
        if bad := check(value):
            raise ValueError(f"{name}: {bad}")
    return table


class Store:
    """The saved numbers by app. The file keeps the numbers of apps that are no longer installed.

    KIND is "weight" or "fixed-share"; it is part of the file's name and of message codes. CHECK returns why a value
    is not acceptable, or None.
    """

    def __init__(self, directory: str, kind: str, check: Callable[[object], Message | None]) -> None:
        """Read the file. Blocks."""
        self._directory = directory
        self._kind = kind
        self._path = os.path.join(directory, f"{kind}s.json")
        self._corrupt_path = self._path + ".corrupt"
        self._problem: Message | None = None
        self._numbers = self._load(check)

    def _damaged(self, reason: str = "") -> Message:
        return Message(f"{self._kind}s-damaged", reason=reason, path=self._corrupt_path)

    def _load(self, check: Callable[[object], Message | None]) -> dict[str, int]:
        try:
            content = read_small(self._path, FILE_LIMIT)
        except FileNotFoundError:
            if os.path.exists(self._corrupt_path):
                self._problem = self._damaged()
            return {}
        except OSError as error:
            self._problem = Message(f"{self._kind}s-unreadable", path=self._path, reason=why(error))
            return {}
        try:
            return _parse(content, check)
        except (ValueError, RecursionError) as error:
            self._problem = self._damaged(f" ({error})")
        try:
            os.rename(self._path, self._corrupt_path)
        except OSError as error:
            self._problem = Message("rename-failed", problem=self._problem, reason=why(error))
        return {}

    @property
    def problem(self) -> Message | None:
        """Why the saved numbers could not be read; None if they could. The next successful save() clears the problem."""
        return self._problem

    def get(self, name: str) -> int | None:
        return self._numbers.get(name)

    def save(self, name: str, value: int | None) -> None:
        """Save VALUE for the app NAME; None removes the saved value. Blocks for two flushes.

        On StoreError nothing has changed.
        """
        if self._numbers.get(name) == value:
            return
        numbers = {**self._numbers}
        if value is None:
            del numbers[name]
        else:
            numbers[name] = value
        self.save_all(numbers)

    def all(self) -> dict[str, int]:
        """All saved numbers by app."""
        return {**self._numbers}

    def save_all(self, numbers: dict[str, int]) -> None:
        """Save NUMBERS in place of all saved ones. Blocks for two flushes. On StoreError nothing has changed."""
        try:
            replace(self._path, json.dumps(numbers, sort_keys=True, indent=1).encode() + b"\n")
        except OSError as error:
            message = Message(f"{self._kind}-not-saved", folder=self._directory, reason=why(error))
            raise StoreError(message) from error
        self._numbers = {**numbers}
        self._problem = None
