# SPDX-License-Identifier: Apache-2.0
"""Times as the panel writes them: always UTC. The argument is in seconds since 1970."""

from __future__ import annotations

import time


def day(at: float) -> str:
    """2026-11-26"""
    return time.strftime("%Y-%m-%d", time.gmtime(at))


def moment(at: float) -> str:
    """2026-11-26 10:00:00"""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))


def iso(at: float) -> str:
    """2026-11-26T10:00:00Z, as the agent takes it"""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
