# SPDX-License-Identifier: Apache-2.0
"""What the panel reads in advance is what a chart of a span needs."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING

from evenkeel_history.schema import FILE
from evenkeel_history.testing import fill
from evenkeel_history.tiers import DAY, TIERS, slot
from evenkeel_panel.history import model, warm
from evenkeel_panel.history.views import reader

if TYPE_CHECKING:
    from pathlib import Path

    from evenkeel_history.store import Store
    from evenkeel_panel.testing import Browser


def test_a_chart_needs_no_row_that_was_read_before(page: Browser, store: Store, folder: Path) -> None:
    """The rows are damaged between both. So the charts must come from what the panel kept."""
    now = slot(int(time.time()), 4 * DAY)
    fill(store, now, ["player", "loader"], kinds=3)
    store.close()
    with page.client.application.app_context():
        source = reader()
        pauses: list[float] = []
        warm.once(source, now, pauses.append)
        assert len(pauses) == len(warm.SPANS)
        with sqlite3.connect(folder / FILE) as db:
            for tier in TIERS:
                db.execute(f"UPDATE {tier.table} SET data = x'00'")  # noqa: S608  (a constant)
        db.close()
        for seconds, _ in model.SPANS.values():
            if seconds > 900:
                read = source.read(now - seconds, now)
                assert read.spots
                assert read.unreadable == 0
