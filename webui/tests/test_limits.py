# SPDX-License-Identifier: Apache-2.0
"""A client over its limit gets one audit row per window, not one per request."""

from __future__ import annotations

import time

from evenkeel_panel.auth import limits


def test_one_row_for_each_client_and_window() -> None:
    limits._audited.clear()
    until = time.time() + 60
    assert limits.should_audit("192.0.2.1", until)
    assert not any(limits.should_audit("192.0.2.1", until) for _ in range(100))
    assert limits.should_audit("192.0.2.2", until)
    limits._audited["192.0.2.1"] = time.time() - 1
    assert limits.should_audit("192.0.2.1", until)


def test_many_clients_do_not_fill_the_memory() -> None:
    for n in range(1000):
        limits.should_audit(f"2001:db8:{n:x}::/64", time.time() + 60)
    assert len(limits._audited) <= 257
