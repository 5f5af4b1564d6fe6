# SPDX-License-Identifier: Apache-2.0
"""Does the lab show what a paper reports?"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """One shape of a paper (who wins, where the knee is) and whether it is reproduced.

    `claim` is the paper's, in words; `why` the measured evidence, or, where it
    is not reproduced, the cause.
    """

    name: str
    claim: str
    reproduced: bool
    why: str
