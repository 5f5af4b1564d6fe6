# SPDX-License-Identifier: Apache-2.0
"""The page of wear: how much of the flash's life is used, who writes how much, and how long the flash lasts."""

from .views import NAV, blueprint

__all__ = ["NAV", "blueprint"]
