# SPDX-License-Identifier: Apache-2.0
"""The agent: the one root service of the board, D-Bus org.evenkeel.Agent1, and its command line ekctl."""

__version__ = "0.1.0"
