# SPDX-License-Identifier: Apache-2.0
"""The page of the system: name, clock, journal, backup, restart and switching off."""

from . import backup  # its routes belong to the same blueprint
from .views import NAV, blueprint

__all__ = ["NAV", "backup", "blueprint"]
