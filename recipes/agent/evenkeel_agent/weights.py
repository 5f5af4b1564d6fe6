# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH104, PTH108, PTH110, PTH118
"""The weights that somebody has set, kept in /var/lib/evenkeel/weights.json: {"APP": WEIGHT, ...}.

Guarantee: at any moment, also after a power cut, the file is absent or holds one whole set of weights, and
a set that save() returned from is on the medium. It suffices that one process writes (the agent, which
serialises its callers): temporary file, fsync, rename, fsync of the directory. The cost is two flushes for
each change by a person, none otherwise. SQLite would cost more of both and of start-up time.
"""

import contextlib
import json
import logging
import os

from . import weight
from .files import read_small, why
from .registry import NAME

FILE_LIMIT = 1024 * 1024
_log = logging.getLogger(__name__)


class WeightsError(Exception):
    """The weights could not be kept; the message says why."""


def _parse(content: bytes) -> dict[str, int]:
    table = json.loads(content.decode("utf-8"))
    if type(table) is not dict:
        raise ValueError("not an object")
    for name, value in table.items():
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r:.60} is no app's name")
        if bad := weight.problem(value):
            raise ValueError(f"{name}: {bad}")
    return table


class Weights:
    """The weights by app, as they are on disk; those of apps that are not installed (any more) are kept."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._path = os.path.join(directory, "weights.json")
        self._aside = self._path + ".corrupt"
        self._problem = ""
        self._weights = self._load()

    def _load(self) -> dict[str, int]:
        try:
            content = read_small(self._path, FILE_LIMIT)
        except FileNotFoundError:
            if os.path.exists(self._aside):
                self._problem = (
                    f"the saved weights were damaged and are kept in {self._aside}; defaults are in use"
                )
            return {}
        except OSError as error:
            self._problem = f"{self._path} cannot be read: {why(error)}; default weights are in use"
            return {}
        try:
            return _parse(content)
        except (ValueError, RecursionError) as error:
            self._problem = (
                f"the saved weights were damaged ({error}) and are kept in {self._aside}; defaults are in use"
            )
        try:
            os.rename(self._path, self._aside)
        except OSError as error:
            self._problem += f" (moving the file failed: {why(error)})"
        return {}

    @property
    def problem(self) -> str:
        """Why defaults are in use, "" if all is well; over once weights have been saved again."""
        return self._problem

    def get(self, name: str) -> int | None:
        return self._weights.get(name)

    def save(self, name: str, value: int) -> None:
        """Keep VALUE as the weight of NAME. Blocks for two flushes; on WeightsError nothing has changed."""
        if self._weights.get(name) == value:
            return
        weights = {**self._weights, name: value}
        temporary = self._path + ".new"
        try:
            fd = os.open(
                temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, mode=0o600
            )
            try:
                content = json.dumps(weights, sort_keys=True, indent=1).encode() + b"\n"
                while content:
                    content = content[os.write(fd, content) :]
                os.fsync(fd)
            finally:
                os.close(fd)
            os.rename(temporary, self._path)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise WeightsError(f"the weight cannot be saved in {self._directory}: {why(error)}") from error
        self._weights = weights
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
