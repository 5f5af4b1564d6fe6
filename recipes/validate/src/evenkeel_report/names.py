# SPDX-License-Identifier: Apache-2.0
"""Row ids split into their parts, and figures formatted for readers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from evenkeel_report.row import Row, Target

# topics in the order of the pages, with their headings
TOPICS = {
    "promise": "Promises to unequal competitors",
    "fair": "Fairness: bandwidth by weight",
    "stall": "Stalls of a video player under load",
    "latency": "Latency",
    "app": "Applications, and layers above the scheduler",
    "cost": "CPU cost of a scheduler",
    "scale": "Scaling",
    "channel": "Parallelism inside the flash",
    "regulate": "Fixed shares",
    "rec": "Recording with bounded write()",
    "pool": "Protected page cache",
    "attribution": "Who slows whom",
    "panel": "Panel",
    "ota": "Updates",
    "tune": "Tuning: the effect of each setting",
    "calibrate": "Calibration of the flash model",
}

SIZE = re.compile(r"(\d+(?:_\d+)?)([kmg])", re.ASCII)
SIZE_IN_MB = {"k": 1 / 1024, "m": 1.0, "g": 1024.0}
NUMBERED = re.compile(r"([a-z_-]+?)(\d+)", re.ASCII)
# segments such as qd4: the part before the number → words
PARAMETERS = {
    "qd": "QD {}",
    "depth": "hw depth {}",
    "g": "{} cgroups",
    "cpu": "{} CPUs",
    "cpus": "{} CPUs",
    "cap": "cap {}",
    "nr": "nr_requests {}",
    "tags": "{} tags",
}
# Times above this are shown in milliseconds.
LONG_US = 10_000
WORDS = {"g1": "1 cgroup", "cpu1": "1 CPU", "cpus1": "1 CPU"}


@dataclass(frozen=True)
class Name:
    """A row's id: `topic.case….metric`."""

    topic: str
    case: tuple[str, ...]
    metric: str

    @staticmethod
    def of(row: Row) -> Name:
        """Splits any id. A missing case or metric is empty."""
        topic, *rest = row.id.split(".")
        return Name(topic, tuple(rest[:-1]), rest[-1] if rest else "")


def size_mb(segment: str) -> float | None:
    """The size in MB of a segment such as `100m` or `512k`; None if it is not a size."""
    match = SIZE.fullmatch(segment)
    return float(match[1].replace("_", ".")) * SIZE_IN_MB[match[2]] if match else None


def words(segment: str) -> str:
    """A segment in words."""
    if segment in WORDS:
        return WORDS[segment]
    if match := SIZE.fullmatch(segment):
        return f"{match[1].replace('_', '.')} {match[2].upper()}B"
    if (match := NUMBERED.fullmatch(segment)) and match[1] in PARAMETERS:
        return PARAMETERS[match[1]].format(match[2])
    return segment


def title(segments: tuple[str, ...]) -> str:
    return ", ".join(words(s) for s in segments)


def percentile(metric: str) -> float | None:
    """The share of values at or below p50, p999 …; 1 for max, None for another metric."""
    if metric in ("max", "p100"):
        return 1.0
    if re.fullmatch(r"p\d{1,2}", metric, re.ASCII):
        return int(metric[1:]) / 100
    if re.fullmatch(r"p\d{3,9}", metric, re.ASCII):
        return float(f"0.{metric[1:]}")
    return None


def natural(text: str) -> tuple[tuple[int, float, str], ...]:
    """Sort key that orders numbers by value: 8m before 10m, 6.12 before 7.3."""
    parts = re.findall(r"\d+|\D+", text, re.ASCII)
    return tuple((0, float(p), "") if p.isdigit() else (1, 0.0, p) for p in parts)


def number(value: float) -> str:
    """Four significant digits with a thousands separator; very large and small values as powers of ten."""
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e9 or size < 1e-3:
        mantissa, exponent = f"{size:.2e}".split("e")
        text = f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    elif size >= 999.95:
        text = f"{size:,.0f}"
    else:
        text = f"{size:.{max(0, 3 - math.floor(math.log10(size)))}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"−{text}" if value < 0 else text


def readable(rows: Sequence[Row]) -> tuple[float, list[Row]]:
    """(factor, rows) for rows that are shown together: microseconds become ms where a value has five digits.

    A metric with the unit in its name (`mean_us`) is not converted.
    """
    values = [abs(v) for r in rows for v in (r.value, *r.baselines.values()) if math.isfinite(v)]
    fixed = any(r.unit not in ("us", "µs") or r.id.endswith("_us") for r in rows)
    if fixed or max(values, default=0.0) < LONG_US:
        return 1.0, list(rows)
    return 1e-3, [_times(r, 1e-3, "ms") for r in rows]


def _times(row: Row, factor: float, unit: str) -> Row:
    target = row.target
    match target:
        case (low, high):
            target = (low * factor, high * factor)
        case float() | int() as bound:
            target = bound * factor
    return replace(
        row, value=row.value * factor, unit=unit, target=target, paper=None if row.paper is None else row.paper * factor,
        baselines={n: v * factor for n, v in row.baselines.items()},
    )  # fmt: skip


def with_unit(value: float, unit: str) -> str:
    return f"{number(value)} {unit}" if unit else number(value)


def wanted(row: Row) -> str:
    """The target, as in `≤ 5`; empty without one."""
    return target_text(row.target, row.better)


def target_text(target: Target | None, better: str | None) -> str:
    match target:
        case None:
            return ""
        case (low, high):
            return f"{number(low)} … {number(high)}"
        case float() | int() as bound:
            return f"{'≤' if better == 'lower' else '≥'} {number(bound)}"
    return ""


def state(row: Row) -> str:
    """`ok`, `missed` (a promise), `open` (a target that is no promise yet); empty without a target."""
    held = row.holds()
    if held is None:
        return ""
    return "ok" if held else "missed" if row.must else "open"
