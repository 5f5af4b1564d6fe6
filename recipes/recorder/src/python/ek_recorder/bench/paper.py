# SPDX-License-Identifier: Apache-2.0
"""The cases of the paper, read from paper.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources

RECORD, EVERY_MS, WRITES, SETS = 16384, 5, 10000, 5


@dataclass(frozen=True)
class Case:
    """One column of the paper's tables; times in µs, `reader_keeps` in percent. paper.toml explains the fields."""

    name: str
    allocate: str
    sync: str
    flusher: bool
    beside: tuple[str, ...]
    min: float
    max: float
    avg: float
    recorder_case: str
    reader_keeps: float | None = None

    @property
    def row(self) -> str:
        """Prefix of the row ids of write()."""
        return f"rec.base.{self.name}"

    @property
    def recorder_row(self) -> str:
        """Prefix of the row ids of the recorder."""
        return f"rec.ek.{self.recorder_case}"


def cases() -> list[Case]:
    """Return all cases in the paper's order."""
    text = resources.files(__package__).joinpath("paper.toml").read_text()
    return [
        Case(
            name,
            **{"beside": (), **values, **({"beside": tuple(values["beside"])} if "beside" in values else {})},
        )
        for name, values in tomllib.loads(text)["case"].items()
    ]
