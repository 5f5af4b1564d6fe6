# SPDX-License-Identifier: Apache-2.0
"""Rows by id and kernel, for functions that judge a shape or fill a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evenkeel_report.row import Row


@dataclass(frozen=True)
class Wanted:
    """A value that was asked for. If `scheduler` is None, it is the value of the row's subject."""

    id: str
    kernel: str
    scheduler: str | None = None

    def __str__(self) -> str:
        return f"{self.id} ({', '.join(filter(None, (self.kernel, self.scheduler)))})"


class Rows:
    """Look-up of measured values. A value that was not measured is None and is added to `missing`."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows: Mapping[tuple[str, str], Row] = {(r.id, r.kernel): r for r in rows}
        self.missing: list[Wanted] = []

    def row(self, id_: str, kernel: str = "6.12") -> Row | None:
        found = self._rows.get((id_, kernel))
        if found is None:
            self.missing.append(Wanted(id_, kernel))
        return found

    def value(self, id_: str, scheduler: str | None = None, kernel: str = "6.12") -> float | None:
        """The value of the named scheduler; without a name, the value of the subject."""
        row = self._rows.get((id_, kernel))
        if row is not None and scheduler in (None, row.subject):
            return row.value
        found = None if row is None else row.baselines.get(scheduler or "")
        if found is None:
            self.missing.append(Wanted(id_, kernel, scheduler))
        return found

    def by_size(self, pattern: str, sizes: Iterable[int], kernel: str = "6.12") -> dict[int, float] | None:
        """Values of ids that differ by a size; None if one of them is missing."""
        found = {s: self.value(pattern.format(s), None, kernel) for s in sizes}
        return {s: v for s, v in found.items() if v is not None} if None not in found.values() else None
