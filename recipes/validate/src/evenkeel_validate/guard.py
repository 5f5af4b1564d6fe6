# SPDX-License-Identifier: Apache-2.0
"""Restores the board after a validation in a shell was killed: a second process, which waits for the end of the first.

systemd does this for a validation from the panel (ExecStopPost=). The guard has the reading end of a pipe, and the run has
the only writing end. At its end, the run writes a byte. If the pipe ends without it, the run was killed. The guard is in a
session of its own, so what ends the terminal or the process group of the run does not end the guard.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence

ENDED = b"."
COMMAND = ("/usr/bin/ek-validate", "restore", "--after")


@contextlib.contextmanager
def watching(command: Sequence[str] = COMMAND) -> Iterator[None]:
    """Start the guard, and end it after what runs inside. Without it, the run goes on: a boot restores the board, too."""
    reading, writing = os.pipe()
    try:
        with contextlib.suppress(OSError):
            subprocess.Popen(command, stdin=reading, stdout=subprocess.DEVNULL, start_new_session=True)
        os.close(reading)
        yield
    finally:
        # also if what runs inside has raised an exception: it has restored the board
        with contextlib.suppress(OSError):
            os.write(writing, ENDED)
        os.close(writing)


def killed() -> bool:
    """Wait for the end of the run whose pipe is standard input. Returns whether it was killed."""
    return os.read(0, 1) != ENDED
