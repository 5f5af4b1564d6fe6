# SPDX-License-Identifier: Apache-2.0
"""Restores the board after a validation in a shell was killed: a second process, which waits for the end of the first.

systemd does this for a validation from the panel (ExecStopPost=), so such a run has no guard. The guard has the reading end
of a pipe, and the run has the only writing end. At its end, the run writes a line. If the pipe ends without it, the run was
killed.

The guard is a shell, which needs little memory. It has a session of its own, and neither the name nor the command line of the
run. So what ends the terminal, the process group or all processes of that name does not end the guard.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator

PROGRAM = "/usr/bin/ek-validate"
# `read` fails at the end of the pipe.
WAIT = 'read -r ended || exec "$GUARDED" restore'


@contextlib.contextmanager
def watching() -> Iterator[None]:
    """Start the guard, and end it after what runs inside. Without a guard, the run goes on: a boot restores the board, too."""
    reading, writing = os.pipe()
    try:
        if os.access(PROGRAM, os.X_OK):
            with contextlib.suppress(OSError):
                subprocess.Popen(
                    ("sh", "-c", WAIT), stdin=reading, stdout=subprocess.DEVNULL, start_new_session=True,
                    env={**os.environ, "GUARDED": PROGRAM},
                )  # fmt: skip
        os.close(reading)
        yield
    finally:
        # also if what runs inside has raised an exception: it has restored the board
        with contextlib.suppress(OSError):
            os.write(writing, b"ended\n")
        os.close(writing)
