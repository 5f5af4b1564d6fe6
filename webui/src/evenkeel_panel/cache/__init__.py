# SPDX-License-Identifier: Apache-2.0
"""The page of the page cache: its two pools, and the priority directories of the apps."""

from .views import NAV, blueprint

__all__ = ["NAV", "blueprint"]
