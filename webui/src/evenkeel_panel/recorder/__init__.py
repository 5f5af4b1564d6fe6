# SPDX-License-Identifier: Apache-2.0
"""The recorder page: what each channel records and has lost, how far back it reaches, and the download of a range."""

from .views import NAV, blueprint

__all__ = ["NAV", "blueprint"]
