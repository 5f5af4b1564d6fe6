# SPDX-License-Identifier: Apache-2.0
"""The apps page: the throughput, weight and fixed share of each app. Two more pages add and remove an app."""

from . import listing
from .views import NAV, blueprint

__all__ = ["NAV", "blueprint", "listing"]
