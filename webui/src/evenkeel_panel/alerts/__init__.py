# SPDX-License-Identifier: Apache-2.0
"""The page of alerts: where the board reports its problems."""

from .views import NAV, blueprint

__all__ = ["NAV", "blueprint"]
