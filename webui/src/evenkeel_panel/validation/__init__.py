# SPDX-License-Identifier: Apache-2.0
"""The page of validations: plan, start, progress, reports, and the comparison of two reports."""

from .views import NAV, blueprint

__all__ = ["NAV", "blueprint"]
