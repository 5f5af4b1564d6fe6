# SPDX-License-Identifier: Apache-2.0
"""The apps of the board: the throughput, weight and fixed share of each."""

from .views import blueprint

__all__ = ["blueprint"]
