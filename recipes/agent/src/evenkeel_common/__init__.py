# SPDX-License-Identifier: Apache-2.0
"""Code that the agent, evenkeel-history and the panel share.

It reads the scheduler's counters and small files, and it notifies the service manager.
"""
