# SPDX-License-Identifier: Apache-2.0
"""One validation at a time: a lock that the kernel releases when its holder ends, however it ends."""

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from .errors import ValidateError

# A process that a killed validation was just starting has the lock until its exec().
PATIENCE_S = 1.0
RESTORE = "restore"  # name of the holder that undoes what a validation has left
FIRST = "run"  # name of the holder that does this before it runs a validation itself
BUSY = "{what} is running; wait for its end, or stop it with `ek-validate cancel`"


@contextlib.contextmanager
def held(path: Path, name: str) -> Iterator[None]:
    """Hold the lock PATH. It has the id of this process and NAME. Raises ValidateError if another process holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise ValidateError(BUSY.format(what=_what(path))) from error
                time.sleep(0.02)
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()} {name}\n".encode(), 0)
        yield
    finally:
        os.close(fd)


def _what(path: Path) -> str:
    """What runs: a validation, whose name is its time, or another command of ek-validate."""
    found = holder(path)
    return f"`ek-validate {found[1]}`" if found and found[1].isalpha() else "a validation"


def holder(path: Path) -> tuple[int, str] | None:
    """(id of the process, name) of the validation that runs, or None."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            pid, _, name = os.pread(fd, 200, 0).decode("utf-8", "replace").strip().partition(" ")
            return (int(pid), name) if pid.isdigit() else None
        return None
    finally:
        os.close(fd)


def stop(path: Path) -> str:
    """Ask the validation that runs to end, and return its name. Raises ValidateError if none runs.

    What restores the settings of the board is left alone.
    """
    found = holder(path)
    if found is None:
        raise ValidateError("no validation is running")
    if found[1] == RESTORE:
        raise ValidateError("the validation has ended, and what it changed is being restored")
    try:
        fd = os.pidfd_open(found[0])
    except ProcessLookupError as error:
        raise ValidateError("the validation has just ended") from error
    try:
        # The pidfd stays with this process even if its number is given to another one. So the number is checked once more.
        if holder(path) != found:
            raise ValidateError("the validation has just ended")
        signal.pidfd_send_signal(fd, signal.SIGTERM)
    finally:
        os.close(fd)
    return found[1]
