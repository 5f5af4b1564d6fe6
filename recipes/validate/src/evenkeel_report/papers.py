# SPDX-License-Identifier: Apache-2.0
"""The papers whose results the lab repeats, and their figures. docs/explanation/papers.md cites them in full."""

from __future__ import annotations

from typing import NamedTuple


class Paper(NamedTuple):
    """`short` names the authors; `title` is in English."""

    short: str
    title: str


PAPERS = {
    "hasegawa": Paper("Hasegawa et al.", "Improving responsiveness by guaranteeing storage I/O bandwidth"),
    "okabe": Paper("Okabe and Toyama", "Reducing File Write Latency for Real-Time Data Recording"),
    "tsuchiya": Paper(
        "Tsuchiya et al.",
        "Implementation and Evaluation of Partitioning Method of I/O Buffer Based on Cache Hit Ratio",
    ),
    "nagao": Paper(
        "Nagao et al.",
        "Implementation and Evaluation of I/O Performance Regulating Method to Suppress Decrease in I/O Throughput",
    ),
    "okumura": Paper("Okumura et al.", "An I/O scheduler that exploits the parallelism of SSDs"),
}

# Hasegawa et al., tables 4 and 5: block size in MB → bandwidth of A divided by that of B, at weights 2:1 with BFQ of
# Linux 5.10
RATIOS = {
    "read": {1: 1.96, 30: 1.92, 35: 1.75, 40: 1.64, 45: 1.53, 50: 1.37, 100: 1.26},
    "write": {8: 1.95, 10: 1.92, 15: 1.80, 20: 1.62, 100: 1.15},
}
# their result with their remedy, splitting in the application, at weights 3:2 and 3:2:2:1
SPLIT = {"3-2": (2.94, 2.0), "3-2-2-1": (2.47, 1.85, 2.09, 1.0)}
# table 3, BFQ of Linux 5.10: (how, direction, MB) → whether the player stalled
STALLS = {
    ("direct", "read", 1): False,
    ("direct", "read", 100): True,
    ("direct", "write", 1): False,
    ("direct", "write", 100): True,
    ("buffered", "read", 1): False,
    ("buffered", "read", 100): False,
    ("buffered", "write", 1): True,
    ("buffered", "write", 100): True,
}
