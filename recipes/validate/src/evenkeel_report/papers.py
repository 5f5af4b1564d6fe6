# SPDX-License-Identifier: Apache-2.0
"""The papers whose results the lab repeats. docs/explanation/papers.md cites them in full."""

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
