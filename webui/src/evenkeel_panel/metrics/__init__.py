# SPDX-License-Identifier: Apache-2.0
"""/metrics: the state of the board and counters of its I/O, for Prometheus and other programs that monitor boards."""

from .views import blueprint

__all__ = ["blueprint"]
