# SPDX-License-Identifier: Apache-2.0
"""evenkeel-history: samples the scheduler's counters and keeps their history for two years. The panel reads the history."""

from evenkeel_agent import __version__

__all__ = ["__version__"]
