# SPDX-License-Identifier: Apache-2.0
"""Code that the agent, evenkeel-history and the panel share: counters of the scheduler, files, the service manager."""
