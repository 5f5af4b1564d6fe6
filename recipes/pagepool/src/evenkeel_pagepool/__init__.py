# SPDX-License-Identifier: Apache-2.0
"""The controller of the page pool, and a simulator that replays traces with it."""
