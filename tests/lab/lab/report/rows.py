# SPDX-License-Identifier: Apache-2.0
"""Rows by id and kernel, for the functions that judge a shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lab.model import Row


class Rows:
    """Look-up of measured values; None stands for what was not measured."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows: Mapping[tuple[str, str], Row] = {(r.id, r.kernel): r for r in rows}

    def row(self, id_: str, kernel: str = "6.12") -> Row | None:
        return self._rows.get((id_, kernel))

    def value(self, id_: str, scheduler: str | None = None, kernel: str = "6.12") -> float | None:
        """The subject's value, or that of the scheduler named."""
        row = self.row(id_, kernel)
        if row is None:
            return None
        return row.value if scheduler in (None, row.subject) else row.peers.get(scheduler or "")

    def by_size(self, pattern: str, sizes: Iterable[int], kernel: str = "6.12") -> dict[int, float] | None:
        """Values of ids that differ by a size; None when one is missing."""
        found = {s: self.value(pattern.format(s), None, kernel) for s in sizes}
        return {s: v for s, v in found.items() if v is not None} if None not in found.values() else None
