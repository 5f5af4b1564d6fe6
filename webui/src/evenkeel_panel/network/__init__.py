# SPDX-License-Identifier: Apache-2.0
"""The page of the network: the interfaces, their settings, and the confirmation of a change."""

from .views import NAV, blueprint

__all__ = ["NAV", "blueprint"]
