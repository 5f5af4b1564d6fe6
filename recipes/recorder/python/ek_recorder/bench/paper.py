# SPDX-License-Identifier: Apache-2.0
"""The paper's cases, from paper.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources

RECORD, EVERY_MS, WRITES, SETS = 16384, 5, 10000, 5


@dataclass(frozen=True)
class Case:
    """One column of the paper's tables; times in µs, `reader_keeps` in percent."""

    name: str
    allocate: str
    sync: str
    flusher: bool
    beside: tuple[str, ...]
    min: float
    max: float
    avg: float
    ours: str
    reader_keeps: float | None = None

    @property
    def row(self) -> str:
        """What ids of rows of write() begin with."""
        return f"rec.base.{self.name}"

    @property
    def ours_row(self) -> str:
        """And those of the recorder."""
        return f"rec.ek.{self.ours}"


def cases() -> list[Case]:
    """In the paper's order."""
    text = resources.files(__package__).joinpath("paper.toml").read_text()
    return [
        Case(
            name,
            **{"beside": (), **values, **({"beside": tuple(values["beside"])} if "beside" in values else {})},
        )
        for name, values in tomllib.loads(text)["case"].items()
    ]
