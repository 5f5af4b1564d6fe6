# SPDX-License-Identifier: Apache-2.0
"""The panel as the service of a board runs it."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from .app import create_app
from .history import warm

if TYPE_CHECKING:
    from flask import Flask


def panel() -> Flask:
    """The application, with what only a process that serves it needs."""
    app = create_app()
    warm.start(app)
    # A page makes some ten thousand objects, which live until it is sent. Python would look for cycles among them ten times,
    # which takes an eighth of the processor time of a page. Objects of the loaded panel stay, so they are not looked at.
    # With a higher threshold, more garbage would wait.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)
    return app
