# SPDX-License-Identifier: Apache-2.0
"""The users of the panel and their roles; for administrators."""

from .views import NAV, blueprint

__all__ = ["NAV", "blueprint"]
