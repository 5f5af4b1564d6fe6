# SPDX-License-Identifier: Apache-2.0
"""The page of the system: name, clock, certificate, journal, backup, restart and switching off."""

from . import backup, certificate  # their routes belong to the same blueprint
from .views import NAV, blueprint

__all__ = ["NAV", "backup", "blueprint", "certificate"]
