# SPDX-License-Identifier: Apache-2.0
"""Who is over the limit writes one audit row a window, not one a request."""

from __future__ import annotations

import time

from evenkeel_panel.auth import limits


def test_one_row_for_each_client_and_window() -> None:
    limits._told.clear()
    until = time.time() + 60
    assert limits.worth_a_row("192.0.2.1", until)
    assert not any(limits.worth_a_row("192.0.2.1", until) for _ in range(100))
    assert limits.worth_a_row("192.0.2.2", until)
    limits._told["192.0.2.1"] = time.time() - 1
    assert limits.worth_a_row("192.0.2.1", until)


def test_many_clients_do_not_fill_the_memory() -> None:
    for n in range(1000):
        limits.worth_a_row(f"2001:db8:{n:x}::/64", time.time() + 60)
    assert len(limits._told) <= 257
