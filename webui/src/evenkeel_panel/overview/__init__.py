# SPDX-License-Identifier: Apache-2.0
"""The overview, the first page: whether everything is fine, and if not, what to do."""

from .views import NAV, blueprint

__all__ = ["NAV", "blueprint"]
