# SPDX-License-Identifier: Apache-2.0
"""Orders to ek-pool (docs/reference/pagepool.md): its state, and a directory that is protected as long as this process wants.

ek-pool protects the directory while a connection is open. The kernel closes the connection when the process ends, also by a
kill. So nothing has to be undone.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from evenkeel_agent import helper
from evenkeel_api.errors import AgentError
from evenkeel_api.features.cache import Cache

from .errors import ValidateError

UNIT = "evenkeel-pool"
# ek-pool may wait 20 s for systemd before it answers
ANSWER_S = 30.0
UNREACHABLE = "pool-unreachable"


def state(path: Path) -> Cache:
    """The state of the page pool, from the socket PATH. Raises ValidateError."""
    try:
        found = asyncio.run(helper.ask(str(path), {"order": "state"}, ANSWER_S, UNREACHABLE, UNIT))
    except AgentError as error:
        raise ValidateError(str(error)) from error
    return _parsed(found)


def _parsed(answer: Any) -> Cache:
    try:
        return msgspec.convert(answer, Cache)
    except msgspec.ValidationError as error:
        raise ValidateError(f"the answer of ek-pool is not valid: {error}") from error


@contextlib.contextmanager
def held(path: Path, directory: Path) -> Iterator[None]:
    """Let ek-pool with the socket PATH protect DIRECTORY. Raises ValidateError, also if it is not protected."""
    order = {"order": "hold", "directory": str(directory)}
    try:
        connection, found = asyncio.run(helper.keep(str(path), order, ANSWER_S, UNREACHABLE, UNIT))
    except AgentError as error:
        raise ValidateError(str(error)) from error
    with connection:
        protected(_parsed(found), directory)
        yield


def protected(found: Cache, directory: Path) -> None:
    """Raises ValidateError if the state FOUND does not protect the held DIRECTORY."""
    one = next((held for held in found.held if held.path == str(directory)), None)
    if one is None:
        raise ValidateError(f"ek-pool no longer holds {directory}: it was restarted meanwhile")
    if one.state != "protected":
        reason = "; ".join([one.reason, *(note.text for note in found.problem)]).strip("; ")
        raise ValidateError(f"ek-pool does not protect {directory}: {one.state}{reason and f', {reason}'}")


def covers(found: Cache, size: int) -> bool:
    """Whether the pool promises to keep files of SIZE bytes: memory.low is in force for all that it has, and for SIZE."""
    return found.state == "on" and found.target_bytes >= size and found.cost_bytes >= found.size_bytes


def problem(path: Path) -> str:
    """Why the page pool with the socket PATH protects nothing; "" if it works. Raises no exception."""
    try:
        found = state(path)
    except ValidateError as error:
        return str(error)
    return "" if found.state != "off" else "; ".join(note.text for note in found.problem) or "it is off"
