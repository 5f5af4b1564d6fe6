# SPDX-License-Identifier: Apache-2.0
"""Log-in, log-out, and the page of the user's own account: password, code, sessions and API tokens."""

from .views import NAV, blueprint

__all__ = ["NAV", "blueprint"]
