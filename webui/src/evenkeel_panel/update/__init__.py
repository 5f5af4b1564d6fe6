# SPDX-License-Identifier: Apache-2.0
"""The page of updates: upload a bundle or name a URL, install it, follow the progress, restart, choose the slot."""

from .views import NAV, blueprint

__all__ = ["NAV", "blueprint"]
