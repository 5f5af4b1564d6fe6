# SPDX-License-Identifier: Apache-2.0
"""Which bench the rows of a results.json come from, as generated pages state it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """`part` is quick, full or deep; `measured` of its `declared` experiments have rows.

    `wide`: a quick bench with all baselines of the README's table.
    """

    part: str
    measured: int
    declared: int
    revision: str
    qemu: str
    made: str
    releases: tuple[str, ...]
    wide: bool = False

    @property
    def command(self) -> str:
        quick = f"make bench QUICK=1{' BASELINES=1' * self.wide}"
        return {"quick": quick, "full": "make bench", "deep": "make bench DEEP=1"}[self.part]

    def text(self) -> str:
        """Which bench, and on which QEMU and Linux it ran, in two sentences."""
        whole = self.measured == self.declared
        some = f"all its {self.declared}" if whole else f"{self.measured} of its {self.declared}"
        return (
            f"The figures come from a {self.part} bench (`{self.command}`): {some} experiments, revision"
            f" {self.revision}, written {self.made}. It ran in QEMU {self.qemu} on Linux {', '.join(self.releases)}."
        )

    def short(self, kernel: str) -> str:
        """Which bench the rows of one kernel come from, in one sentence."""
        whole = self.measured == self.declared
        part = "" if whole else f"{self.measured} of the {self.declared} experiments of "
        releases = [r for r in self.releases if r == kernel or r.startswith((f"{kernel}.", f"{kernel}-"))]
        return (
            f"Measured by {part}a {self.part} bench (`{self.command}`) on Linux {', '.join(releases) or kernel}, revision"
            f" {self.revision}, {self.made}."
        )
