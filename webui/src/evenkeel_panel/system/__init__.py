# SPDX-License-Identifier: Apache-2.0
"""The page of the system: name, clock, journal, restart and switching off."""

from .views import NAV, blueprint

__all__ = ["NAV", "blueprint"]
