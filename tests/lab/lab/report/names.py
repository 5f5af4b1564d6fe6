# SPDX-License-Identifier: Apache-2.0
"""Row ids taken apart, and figures put into words."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lab.model import Row, Target

# topics in the order of the page, with their headings
TOPICS = {
    "fair": "Fairness: bandwidth by weight",
    "stall": "Stalls of a player beside a load",
    "latency": "Latency",
    "cost": "What a scheduler costs",
    "scale": "Scaling",
    "channel": "Parallelism inside the flash",
    "regulate": "Regulated performance",
    "rec": "Recording with bounded write()",
    "pool": "Protected page cache",
    "panel": "Panel",
    "ota": "Updates",
    "tune": "Tuning: what each setting buys",
    "calibrate": "The flash model against its sources",
}

SIZE = re.compile(r"(\d+(?:_\d+)?)([kmg])", re.ASCII)
SIZE_IN_MB = {"k": 1 / 1024, "m": 1.0, "g": 1024.0}
NUMBERED = re.compile(r"([a-z_-]+?)(\d+)", re.ASCII)
# of segments such as qd4: what stands before the number
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
# from here on, milliseconds
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
        """Of any id: what has no case or metric gets empty ones."""
        topic, *rest = row.id.split(".")
        return Name(topic, tuple(rest[:-1]), rest[-1] if rest else "")


def size_mb(segment: str) -> float | None:
    """Of `100m`, `512k` in MB; None when the segment is no size."""
    match = SIZE.fullmatch(segment)
    return float(match[1].replace("_", ".")) * SIZE_IN_MB[match[2]] if match else None


def words(segment: str) -> str:
    """A segment as a reader would say it."""
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
    """Of p50, p999, max: the share of values at or below, 1 for max."""
    if metric in ("max", "p100"):
        return 1.0
    if re.fullmatch(r"p\d{1,2}", metric, re.ASCII):
        return int(metric[1:]) / 100
    if re.fullmatch(r"p\d{3,9}", metric, re.ASCII):
        return float(f"0.{metric[1:]}")
    return None


def natural(text: str) -> tuple[tuple[int, float, str], ...]:
    """Sorting key: 8m before 10m, 6.12 before 7.3."""
    parts = re.findall(r"\d+|\D+", text, re.ASCII)
    return tuple((0, float(p), "") if p.isdigit() else (1, 0.0, p) for p in parts)


def number(value: float) -> str:
    """Four significant digits, thousands set apart; powers of ten where digits would not help."""
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
    """(factor, rows) as a reader wants those that are shown together: microseconds as ms where one has five digits.

    A metric that says its unit by its name (`mean_us`) keeps it.
    """
    values = [abs(v) for r in rows for v in (r.value, *r.peers.values()) if math.isfinite(v)]
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
        peers={n: v * factor for n, v in row.peers.items()},
    )  # fmt: skip


def with_unit(value: float, unit: str) -> str:
    return f"{number(value)} {unit}" if unit else number(value)


def wanted(row: Row) -> str:
    """The target in signs; empty without one."""
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
    """`ok`, `missed` (it must hold), `open` (it shall hold one day) or empty without a target."""
    held = row.holds()
    if held is None:
        return ""
    return "ok" if held else "missed" if row.must else "open"
