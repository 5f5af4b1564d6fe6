# SPDX-License-Identifier: Apache-2.0
"""Reads the history before a user asks for it, so that the first chart of a span comes as fast as the next ones.

The reader keeps what it computed from rows (evenkeel_history.reader). Without this, the first user of a span waits for it.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from . import model
from .views import reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from evenkeel_history.reader import Reader
    from flask import Flask

FIRST_S = 60  # after the start of the panel, when the board has booted
EVERY_S = 600  # ten rows are new in this time
PAUSE_S = 2  # between two spans, so that users wait for at most one
# A span of seconds or minutes needs rows in RAM for each request, so there is little to prepare.
SPANS = [seconds for seconds, _ in model.SPANS.values() if seconds > 900]


def once(source: Reader, now: int, pause: Callable[[float], object] = time.sleep) -> None:
    """Read each span that ends NOW (seconds since 1970)."""
    for seconds in SPANS:
        source.read(max(now - seconds, 0), now)
        pause(PAUSE_S)


def start(app: Flask) -> None:
    """Start a thread that reads the history again and again, until the process ends."""
    with app.app_context():
        source = reader()

    def run() -> None:
        time.sleep(FIRST_S)
        while True:
            once(source, int(time.time()) + 1)
            time.sleep(EVERY_S)

    threading.Thread(target=run, name="history", daemon=True).start()
