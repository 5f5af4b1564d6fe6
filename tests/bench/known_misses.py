# SPDX-License-Identifier: Apache-2.0
"""Promises of the quick bench that this version breaks: row → reason.

`make bench` fails because of them, since a promise says what users may rely on. So that a new
miss is noticed meanwhile, the test of the quick bench expects exactly these: a row that is
held must leave this list in the commit that mends it.
"""

from __future__ import annotations

KNOWN_MISSES: dict[str, str] = {
    "promise.small-medium.sd-uhs3.least": "A request costs its size plus a constant, which is not this device's time.",
    "stall.emmc51.buffered.write.100m.count": "Writeback of the loader fills the device while it collects garbage.",
}
