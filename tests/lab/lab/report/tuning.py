# SPDX-License-Identifier: Apache-2.0
"""docs/reference/tuning.md: what each setting of conf/ gains, and what it costs."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from evenkeel_report.names import natural, number, title, with_unit, words

from lab.model import Row
from lab.report.markdown import DASH, UNMEASURED, table
from lab.report.source import Source

# The least difference, as a share of the default, that counts as a gain or a cost. A smaller one is of no use, even if certain.
LEAST = 0.01
# the baselines of a row that have the minimum and maximum of its repetitions, with our value and with the default
RANGE = ("min", "max", "default-min", "default-max")

HEAD = """# Tuning: the effect of each setting

This page shows the values that `conf/` sets for I/O, and some that it leaves at the kernel's default. For the values that the
last bench measured, it shows what each gains and what it costs. `make docs` generates the page from the rows `tune.*` of the
bench ([the lab](lab.md)). The text is in `tests/lab/lab/report/tuning.py` and in the experiments.
{source}
How the figures are made:

- One guest measures three times with our value and three times with the kernel's default, alternating.
- Each of the three repetitions has a new device and file system, other random numbers, and another start time.
- The device is the model of an eMMC 5.1 with ext4. The guest has 2 GiB, or 320 MiB for `vm.vfs_cache_pressure`, so that
  memory can run short. All other values are those of `conf/`.
- The tables show medians, with the range if the three repetitions differ.
- *Gain* is how much better our median is. It is *none* if the ranges overlap or the difference is below 1 %.
- *Left in memory* is the time in which a power cut can still lose a change, if the program does not sync.

| case | what it is |
|---|---|
| copy, sync, player | an endless copy; alongside it a recorder that syncs each 16 KB, and a player |
| burst of 150 mb | 150 MB written at once on an otherwise idle board: the time until write() returns |
| hot pages, overwrite 100 files, rename 4 files a second | 30 to 60 s of small changes: 64 pages, 100 files, new names |
| data, metadata | one change on an otherwise idle board: the time until the device receives it |
| read 1000 files | files read once |
| walk 4000 files | a tree walked, with a large file read in between; then the same while an application uses 140 of 320 MiB |
| read again 64m | after a large file was read: a file that was read twice before it |
| buffered read, appstart, randwrite qd128 | alone: a file read through the cache; 400 small files; 128 random writes at once |
| stream on … | one process reads 4 MB at a time, direct, from a card that takes one command at a time; measured once |
| light beside … | random reads of 4 KiB, 500 a second, alongside a load; each time counts from the planned start of the read |
"""

# metrics in words
METRICS = {
    "ms": "time", "mbps": "bandwidth", "iops": "IOPS", "written_mb": "written to the device", "risk": "left in memory",
    "read_max": "longest read of a repetition", "p50": "median", "mean": "mean", "max": "longest", "stalls": "stalls",
    "write_mean": "mean write()", "cold": "first time", "warm": "second time", "after": "after a large file was read",
    "short": "after that with memory in use", "kept": "inodes left in memory then",
}  # fmt: skip
# facts that no row contains
NOTES = {
    "commit": "The rows measure the value of `/data`. The value of `/recorder` costs nothing in a power cut: the recorder"
    " syncs what it needs.",
}


class Setting(NamedTuple):
    """A value that conf/ sets: `where` is the file, `reason` one line."""

    name: str
    where: str
    ours: str
    default: str
    reason: str


def render(
    rows: Sequence[Row],
    settings: Sequence[Setting | tuple[str, str, str, str, str]],
    tried: Sequence[Setting] = (),
    source: Source | None = None,
) -> str:
    """The page. Rows are `tune.SETTING.CASE.metric`.

    `value` is the median with our setting, the baseline `default` the median
    without. The baselines of RANGE are the minimum and maximum of the
    repetitions; a row without them was measured once.

    SETTING is the setting's name, or the name with every character but letters
    and digits replaced by `_`: all of it, or the part after its last dot or
    slash. `tried` are values that conf/ does not set, with the reason. Rows of
    other settings come last, so that the page has every measured row.
    """
    tune = [r for r in rows if r.id.startswith("tune.") and r.id.count(".") >= 2]
    tune.sort(key=lambda r: (natural(r.id), natural(r.kernel)))
    left = {id(r) for r in tune}
    parts = [HEAD.format(source=f"\n{source.text()}\n" if source else "")]
    summary: list[list[str]] = []
    for setting in (Setting(*s) for s in settings):
        found = [(r, rest) for r in tune if id(r) in left for rest in [_rest(r.id, setting.name)] if rest]
        left -= {id(r) for r, _ in found}
        summary.append([f"`{setting.name}`", _size(setting), setting.default, _sentence(found, 2)])
        note = f" {NOTES[setting.name]}" if setting.name in NOTES else ""
        parts.append(
            f"## `{setting.name}`\n\n{_line(setting.reason)} Set in `{setting.where}` to {_size(setting)}; "
            f"the kernel's default is {setting.default}.{note}\n\n{_table(found)}"
        )
    if summary:
        parts.insert(1, table(["setting", "ours", "default", "effect"], summary))
    for setting in tried:
        found = [(r, rest) for r in tune if id(r) in left for rest in [_rest(r.id, setting.name)] if rest]
        left -= {id(r) for r, _ in found}
        parts.append(
            f"## `{setting.name}`: not set\n\nTried with {setting.ours}; the kernel's default is {setting.default}. "
            f"{_line(setting.reason)}\n\n{_table(found)}"
        )
    others: dict[str, list[tuple[Row, tuple[str, ...]]]] = {}
    for row in tune:
        if id(row) in left:
            _, name, *rest = row.id.split(".")
            others.setdefault(name, []).append((row, tuple(rest)))
    for name, found in others.items():
        parts.append(f"## `{name}`\n\nMeasured, and not among the settings.\n\n{_table(found)}")
    return "\n".join(parts)


def gain(row: Row) -> float | None:
    """How much better than the default, as a share of it.

    0 if the ranges overlap, None if a share is not meaningful.
    """
    default = row.baselines.get("default")
    if default is None or row.better is None or not (math.isfinite(default) and math.isfinite(row.value)):
        return None
    low, high, default_low, default_high = (row.baselines.get(p, math.nan) for p in RANGE)
    # comparisons with NaN are false
    if default == row.value or (low <= default_high and default_low <= high):
        return 0.0
    if default == 0:
        return None
    change = (row.value - default) / abs(default)
    return -change if row.better == "lower" else change


def _rest(row_id: str, name: str) -> tuple[str, ...] | None:
    """Case and metric of a row, if it is a row of that setting."""
    last = re.split(r"[./]", name)[-1]
    for candidate in (name, _slug(name), last, _slug(last)):
        prefix = f"tune.{candidate}."
        if row_id.startswith(prefix):
            return tuple(row_id.removeprefix(prefix).split("."))
    return None


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")


def _table(found: Sequence[tuple[Row, tuple[str, ...]]]) -> str:
    if not found:
        return f"{UNMEASURED}\n"
    values = sorted({p for r, _ in found for p in r.baselines if p not in ("default", *RANGE)}, key=natural)
    kernels = len({r.kernel for r, _ in found}) > 1
    head = ["case", "figure", *(["kernel"] if kernels else []), "with", "default", *values, "gain"]
    lines = []
    for row, rest in found:
        metric = f"{_metric(rest)}, {row.unit}" if row.unit not in ("", _metric(rest)) else _metric(rest)
        cells = [_title(rest) or DASH, metric, *([row.kernel] if kernels else [])]
        cells += [_ranged(row.value, row, "min", "max")]
        cells += [_ranged(row.baselines.get("default"), row, "default-min", "default-max")]
        cells += [number(row.baselines[p]) if p in row.baselines else DASH for p in values]
        lines.append([*cells, _percent(gain(row))])
    text = 3 if kernels else 2
    return table(head, lines, right=range(text, len(head)))


def _ranged(value: float | None, row: Row, low: str, high: str) -> str:
    """A figure, and its range if there is one."""
    if value is None:
        return DASH
    low_, high_ = (number(row.baselines.get(end, value)) for end in (low, high))
    return number(value) if low_ == high_ else f"{number(value)} ({low_} to {high_})"


def _percent(share: float | None) -> str:
    if share is None:
        return DASH
    return "none" if abs(share) <= LEAST else f"{_rounded(100 * share)} %"


def _rounded(percent: float) -> str:
    text = number(round(percent, 1) if abs(percent) < 10 else round(percent))
    return text if percent < 0 else f"+{text}"


def _sentence(found: Sequence[tuple[Row, tuple[str, ...]]], most: int | None = None) -> str:
    """What the setting gains and costs, the largest differences first; at most `most` of each."""
    if not found:
        return UNMEASURED
    gains = [(g, row, rest) for row, rest in found for g in [gain(row)] if g is not None]
    kernels = len({r.kernel for r, _ in found}) > 1
    better = sorted((x for x in gains if x[0] > LEAST), key=lambda x: -x[0])
    worse = sorted((x for x in gains if x[0] < -LEAST), key=lambda x: x[0])
    same = len(gains) - len(better) - len(worse)

    def each(some: Sequence[tuple[float, Row, tuple[str, ...]]]) -> str:
        listed = [
            f"{_case(row, rest, kernels)} {number(row.value)} instead of {with_unit(row.baselines['default'], row.unit)}"
            for _, row, rest in some[:most]
        ]
        return "; ".join([*listed, f"{len(some) - len(listed)} more"] if len(some) > len(listed) else listed)

    parts = [f"better: {each(better)}"] if better else ["no measurable gain"] if gains else []
    if worse:
        parts.append(f"worse: {each(worse)}")
    if same and (better or worse):
        parts.append(f"no difference on {same} {'other' if same == 1 else 'others'}")
    if unclear := len(found) - len(gains):
        parts.append(f"{unclear} without a default to compare with")
    return " ".join(f"{text[0].upper()}{text[1:]}." for text in parts)


def _title(rest: tuple[str, ...]) -> str:
    return title(rest[:-1]).replace("-", " ")


def _metric(rest: tuple[str, ...]) -> str:
    return METRICS.get(rest[-1], words(rest[-1]))


def _size(setting: Setting) -> str:
    """The value; bytes also in MiB."""
    whole = setting.name.endswith("_bytes") and setting.ours.isdigit() and int(setting.ours) % 2**20 == 0
    return f"{setting.ours} ({int(setting.ours) // 2**20} MiB)" if whole else setting.ours


def _case(row: Row, rest: tuple[str, ...], kernels: bool) -> str:
    name = _title(rest)
    return f"{name} ({_metric(rest)})" + (f" on {row.kernel}" if kernels else "") if name else _metric(rest)


def _line(reason: str) -> str:
    """A reason as a sentence."""
    text = " ".join(reason.split())
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) or not text else f"{text}."
