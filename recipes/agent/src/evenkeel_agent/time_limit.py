# SPDX-License-Identifier: Apache-2.0
"""A time limit for a program that ek-journal runs."""

import contextlib
import subprocess
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def time_limit(process: subprocess.Popen[bytes], seconds: float) -> Iterator[threading.Event]:
    """Kill PROCESS if the block takes longer than SECONDS. The event says whether this has happened."""
    late = threading.Event()

    def stop() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(seconds, stop)
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()
