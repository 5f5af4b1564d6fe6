# SPDX-License-Identifier: Apache-2.0
"""Log-in and log-out, and the own account: password, code, sessions and API tokens."""

from .views import NAV, blueprint

__all__ = ["NAV", "blueprint"]
