# SPDX-License-Identifier: Apache-2.0
"""evenkeel-history: samples the counters of the scheduler and keeps them for two years. The panel reads them."""

from evenkeel_agent import __version__

__all__ = ["__version__"]
