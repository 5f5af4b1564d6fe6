# SPDX-License-Identifier: Apache-2.0
"""Rows of results.json (docs/reference/lab.md), each with one figure, and the figures that a box is drawn from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Row = dict[str, Any]


class RowsError(ValueError):
    """A file has no usable rows. The message is one sentence."""


@dataclass(frozen=True)
class Times:
    """Times of all writes of a set, µs. Quartiles are None if only minimum, average and maximum are known."""

    min: float
    avg: float
    max: float
    p25: float | None = None
    p50: float | None = None
    p75: float | None = None


def row(id_: str, value: float, unit: str, kernel: str, subject: str, **more: object) -> Row:
    """Return a row in the lab's form. Times on a board are those of its own clock."""
    return {
        "id": id_, "value": value, "unit": unit, "better": None, "target": None, "paper": None,
        "clock": "host", "kernel": kernel, "subject": subject, "must": False, "peers": {}, **more,
    }  # fmt: skip


def load(path: Path) -> list[Row]:
    """Raises RowsError and OSError."""
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise RowsError(f"{path}: invalid JSON: {error}") from None
    if not isinstance(found, list) or not all(
        isinstance(r, dict) and isinstance(r.get("id"), str) and isinstance(r.get("value"), int | float)
        for r in found
    ):
        raise RowsError(f"{path}: not a list of rows")
    rows = [r for r in found if r["id"].startswith("rec.")]
    if not rows:
        raise RowsError(f"{path}: no rows of the recorder (rec.*)")
    # the lab writes rows for several kernels; the first kernel is the one with targets
    kernel = rows[0].get("kernel")
    return [r for r in rows if r.get("kernel") == kernel]


def values(rows: list[Row]) -> dict[str, float]:
    return {r["id"]: float(r["value"]) for r in rows}


def times(known: Mapping[str, float], prefix: str) -> Times | None:
    """Return the times of a case; None: it was not measured."""
    least, mean, most = (known.get(f"{prefix}.{m}") for m in ("min", "avg", "max"))
    if least is None or mean is None or most is None:
        return None
    return Times(least, mean, most, *(known.get(f"{prefix}.{m}") for m in ("p25", "p50", "p75")))
