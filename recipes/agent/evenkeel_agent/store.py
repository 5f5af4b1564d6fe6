# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH104, PTH108, PTH110, PTH118
"""What somebody has set for apps, a number each, kept in a file of /var/lib/evenkeel: {"APP": NUMBER, ...}.

Guarantee: at any moment, also after a power cut, the file is absent or holds one whole set, and a set that
save() returned from is on the medium. It suffices that one process writes (the agent, which serialises its
callers): temporary file, fsync, rename, fsync of the directory. The cost is two flushes for each change by
a person, none otherwise. SQLite would cost more of both and of start-up time.
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
    """A number could not be kept; the message says why."""


def _parse(content: bytes, check: Callable[[object], str | None]) -> dict[str, int]:
    table = json.loads(content.decode("utf-8"))
    if type(table) is not dict:
        raise ValueError("not an object")
    for name, value in table.items():
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r:.60} is no app's name")
        if bad := check(value):
            raise ValueError(f"{name}: {bad}")
    return table


class Store:
    """The numbers by app, as they are on disk; those of apps that are not installed (any more) are kept.

    NOUN names one of them in messages, OTHERWISE what is so without any; CHECK says why a value is none.
    """

    def __init__(
        self, directory: str, noun: str, check: Callable[[object], str | None], otherwise: str
    ) -> None:
        self._directory = directory
        self._noun = noun
        self._path = os.path.join(directory, f"{noun}s.json")
        self._aside = self._path + ".corrupt"
        self._otherwise = otherwise
        self._problem = ""
        self._numbers = self._load(check)

    def _damaged(self, why: str = "") -> str:
        return f"the saved {self._noun}s were damaged{why} and are kept in {self._aside}; {self._otherwise}"

    def _load(self, check: Callable[[object], str | None]) -> dict[str, int]:
        try:
            content = read_small(self._path, FILE_LIMIT)
        except FileNotFoundError:
            if os.path.exists(self._aside):
                self._problem = self._damaged()
            return {}
        except OSError as error:
            self._problem = f"{self._path} cannot be read: {why(error)}; {self._otherwise}"
            return {}
        try:
            return _parse(content, check)
        except (ValueError, RecursionError) as error:
            self._problem = self._damaged(f" ({error})")
        try:
            os.rename(self._path, self._aside)
        except OSError as error:
            self._problem += f" (moving the file failed: {why(error)})"
        return {}

    @property
    def problem(self) -> str:
        """Why nothing that was set is in use, "" if all is well; over once something has been saved again."""
        return self._problem

    def get(self, name: str) -> int | None:
        return self._numbers.get(name)

    def save(self, name: str, value: int | None) -> None:
        """Keep VALUE for NAME; None: nothing. Blocks for two flushes; on StoreError nothing has changed."""
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
            # the new file is in place: what is lost is only the promise that it outlives a power cut
            _log.warning("%s may not survive a power cut: %s", self._path, why(error))
