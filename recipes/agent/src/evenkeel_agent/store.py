# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH104, PTH108, PTH110, PTH118
"""Saved settings of apps: one number per app, in a file of /var/lib/evenkeel-agent: {"APP": NUMBER, ...}.

Guarantee: at any moment, also after a power cut, the file is absent or contains one complete set. After
save() has returned, that set is on the medium. A temporary file, fsync, rename and fsync of the directory
are sufficient, because one process writes: the agent, one call at a time. The cost is two flushes for each
change by a person. SQLite would cost more flushes, and more time at startup.
"""

import contextlib
import json
import logging
import os
from collections.abc import Callable

from .files import read_small, why
from .registry import NAME

FILE_LIMIT = 1024 * 1024
_log = logging.getLogger(__name__)


class StoreError(Exception):
    """A number could not be saved. The message contains the reason."""


def _parse(content: bytes, check: Callable[[object], str | None]) -> dict[str, int]:
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
    """The saved numbers by app. Numbers of apps that are not installed are kept.

    NOUN names one number in messages, and the file. CHECK returns why a value is not acceptable, or None.
    FALLBACK ends messages about an unusable file: it says which values apply then.
    """

    def __init__(
        self, directory: str, noun: str, check: Callable[[object], str | None], fallback: str
    ) -> None:
        """Reads the file. Blocks."""
        self._directory = directory
        self._noun = noun
        self._path = os.path.join(directory, f"{noun.replace(' ', '-')}s.json")
        self._corrupt_path = self._path + ".corrupt"
        self._fallback = fallback
        self._problem = ""
        self._numbers = self._load(check)

    def _damaged(self, reason: str = "") -> str:
        return (
            f"the saved {self._noun}s were damaged{reason} and are kept in {self._corrupt_path};"
            f" {self._fallback}; set the {self._noun}s again"
        )

    def _load(self, check: Callable[[object], str | None]) -> dict[str, int]:
        try:
            content = read_small(self._path, FILE_LIMIT)
        except FileNotFoundError:
            if os.path.exists(self._corrupt_path):
                self._problem = self._damaged()
            return {}
        except OSError as error:
            self._problem = f"{self._path} cannot be read, so {self._fallback}: {why(error)}"
            return {}
        try:
            return _parse(content, check)
        except (ValueError, RecursionError) as error:
            self._problem = self._damaged(f" ({error})")
        try:
            os.rename(self._path, self._corrupt_path)
        except OSError as error:
            self._problem += f" (renaming the file failed: {why(error)})"
        return {}

    @property
    def problem(self) -> str:
        """Why the saved numbers are not in use; "" if they are. The next successful save() clears it."""
        return self._problem

    def get(self, name: str) -> int | None:
        return self._numbers.get(name)

    def save(self, name: str, value: int | None) -> None:
        """Save VALUE for NAME; None removes it. Blocks for two flushes. On StoreError nothing has changed."""
        if self._numbers.get(name) == value:
            return
        numbers = {**self._numbers}
        if value is None:
            del numbers[name]
        else:
            numbers[name] = value
        temporary = self._path + ".new"
        try:
            fd = os.open(
                temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, mode=0o600
            )
            try:
                content = json.dumps(numbers, sort_keys=True, indent=1).encode() + b"\n"
                while content:
                    content = content[os.write(fd, content) :]
                os.fsync(fd)
            finally:
                os.close(fd)
            os.rename(temporary, self._path)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise StoreError(
                f"the {self._noun} cannot be saved in {self._directory}: {why(error)}"
            ) from error
        self._numbers = numbers
        self._problem = ""
        try:
            fd = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            # The new file is in place. A power cut may still bring back the old one.
            _log.warning("%s is saved, but a power cut may undo it: %s", self._path, why(error))
