# SPDX-License-Identifier: Apache-2.0
"""The page pool's controller, and the simulator that replays traces through it."""
