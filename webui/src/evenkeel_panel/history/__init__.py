# SPDX-License-Identifier: Apache-2.0
"""The history page: the apps' I/O over ten minutes to two years, and who slows whom."""

from .views import NAV, blueprint

__all__ = ["NAV", "blueprint"]
