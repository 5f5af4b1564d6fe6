# SPDX-License-Identifier: Apache-2.0
"""The apps of the board: the throughput, weight and fixed share of each."""

from .views import NAV, blueprint

__all__ = ["NAV", "blueprint"]
