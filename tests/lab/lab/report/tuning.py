# SPDX-License-Identifier: Apache-2.0
"""docs/tuning.md: what each setting of conf/ buys, and what it costs."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from lab.model import Row
from lab.report.names import natural, number, title, with_unit, words

# a smaller difference is of no use, even where it is certain
LEAST = 0.01
# the draws' ranges, as peers of a row
RANGE = ("min", "max", "default-min", "default-max")

HEAD = """# Tuning, with evidence

What each value that `conf/` sets for I/O buys, and what it costs. Generated from the bench's rows `tune.*` (`lab tuning`, see
[the lab](lab.md)); edit the experiments, not this page.

Each figure was measured three times with our value and three times with the kernel's default, in turn, in one guest, on
the model of an eMMC 5.1 with ext4 and 2 GiB, all other values as in `conf/`; that of `vm.vfs_cache_pressure` has 320 MiB,
so that memory can be short. Each time is a new device and file system, other random numbers, and another moment to begin.
The tables show medians, and ranges where the three differ. *gain* is how much better our median is, by the direction that
is better for the figure; it is *none* where the ranges overlap, and below 1 %. *Left in memory* is how long a change of
those who do not sync can be lost to a power cut.

| case | what it is |
|---|---|
| copy, sync, player | a copy without end; beside it a recorder that syncs each 16 KB, and a player |
| burst of 150 mb | 150 MB written at once on a board that is quiet: when write() returns |
| hot pages, overwrite 100 files, rename 4 files a second | for 30 to 60 s small changes: 64 pages; 100 files; new names |
| data, metadata | one change on a quiet board, until the device is given it |
| read 1000 files | files read once |
| walk 4000 files | a tree walked, a large file read in between; then the same with 140 of 320 MiB in use by an application |
| read again 64m | after that, a file that was read twice before the large one |
| buffered read, appstart, randwrite qd128 | alone: a file read through the cache; 400 small files; 128 random writes at once |
| stream on … | one process reads 4 MB at a time, direct, from a card that takes one command at a time; measured once |
| light beside … | random reads of 4 KiB, 500 a second, beside a load; times from when each was planned |
"""

# as a reader would say it
METRICS = {
    "ms": "time", "mbps": "bandwidth", "iops": "IOPS", "written_mb": "written to the device", "risk": "left in memory",
    "read_max": "longest read of a draw", "p50": "median", "mean": "mean", "max": "longest", "stalls": "stalls",
    "write_mean": "mean write()", "cold": "first time", "warm": "second time", "after": "after a large file was read",
    "short": "after that with memory in use", "kept": "inodes left in memory then",
}  # fmt: skip
# what rows cannot tell
NOTES = {
    "commit": "Measured is the value of `/data`; that of `/recorder` costs a power cut nothing, for the recorder syncs"
    " what it needs.",
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
) -> str:
    """The page. Rows are `tune.SETTING.CASE.metric`: `value` is with our setting, the peer `default` without, both medians.

    The peers of RANGE are the ends of what the draws gave; a row without them
    was measured once.

    SETTING is the setting's name, or the name with all but letters and digits
    made `_`, whole or from its last dot or slash on. `tried` are values that
    are not set, with the reason why not. Rows of what nobody listed come last,
    so that nothing measured is lost.
    """
    tune = [r for r in rows if r.id.startswith("tune.") and r.id.count(".") >= 2]
    tune.sort(key=lambda r: (natural(r.id), natural(r.kernel)))
    left = {id(r) for r in tune}
    parts = [HEAD]
    summary: list[str] = []
    for setting in (Setting(*s) for s in settings):
        found = [(r, rest) for r in tune if id(r) in left for rest in [_rest(r.id, setting.name)] if rest]
        left -= {id(r) for r, _ in found}
        told = _sentence(found)
        short = _sentence(found, 2)
        summary.append(
            f"| `{_cell(setting.name)}` | {_cell(_size(setting))} | {_cell(setting.default)} | {short} |"
        )
        note = f" {NOTES[setting.name]}" if setting.name in NOTES else ""
        parts.append(
            f"## `{setting.name}`\n\n{_line(setting.reason)} Set in `{setting.where}` to {_size(setting)}; "
            f"the kernel's default is {setting.default}.{note}\n\n{_table(found)}{told}\n"
        )
    if summary:
        heading = "| setting | ours | default | what it does |\n|---|---|---|---|\n"
        parts.insert(1, heading + "\n".join(summary) + "\n")
    for setting in tried:
        found = [(r, rest) for r in tune if id(r) in left for rest in [_rest(r.id, setting.name)] if rest]
        if found:
            left -= {id(r) for r, _ in found}
            parts.append(
                f"## `{setting.name}`: not set\n\nTried with {setting.ours}; the kernel's default is {setting.default}. "
                f"{_line(setting.reason)}\n\n{_table(found)}{_sentence(found)}\n"
            )
    others: dict[str, list[tuple[Row, tuple[str, ...]]]] = {}
    for row in tune:
        if id(row) in left:
            _, name, *rest = row.id.split(".")
            others.setdefault(name, []).append((row, tuple(rest)))
    for name, found in others.items():
        parts.append(
            f"## `{name}`\n\nMeasured, and not among the settings.\n\n{_table(found)}{_sentence(found)}\n"
        )
    return "\n".join(parts)


def gain(row: Row) -> float | None:
    """How much better than the default, as a share of it, 0 where the ranges overlap; None where that says nothing."""
    default = row.peers.get("default")
    if default is None or row.better is None or not (math.isfinite(default) and math.isfinite(row.value)):
        return None
    low, high, default_low, default_high = (row.peers.get(p, math.nan) for p in RANGE)
    # comparisons with what is not known are false
    if default == row.value or (low <= default_high and default_low <= high):
        return 0.0
    if default == 0:
        return None
    change = (row.value - default) / abs(default)
    return -change if row.better == "lower" else change


def _rest(row_id: str, name: str) -> tuple[str, ...] | None:
    """Case and metric of a row of that setting."""
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
        return ""
    values = sorted({p for r, _ in found for p in r.peers if p not in ("default", *RANGE)}, key=natural)
    kernels = len({r.kernel for r, _ in found}) > 1
    head = ["case", "figure", *(["kernel"] if kernels else []), "with", "default", *values, "gain"]
    lines = [head, ["---"] * 2 + (["---"] if kernels else []) + ["---:"] * (3 + len(values))]
    for row, rest in found:
        metric = f"{_metric(rest)}, {row.unit}" if row.unit not in ("", _metric(rest)) else _metric(rest)
        cells = [_title(rest) or "–", metric, *([row.kernel] if kernels else [])]
        cells += [_ranged(row.value, row, "min", "max")]
        cells += [_ranged(row.peers.get("default"), row, "default-min", "default-max")]
        cells += [number(row.peers[p]) if p in row.peers else "–" for p in values]
        lines.append([*cells, _percent(gain(row))])
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines) + "\n\n"


def _ranged(value: float | None, row: Row, low: str, high: str) -> str:
    """A figure, and its range where there is one."""
    if value is None:
        return "–"
    low_, high_ = (number(row.peers.get(end, value)) for end in (low, high))
    return number(value) if low_ == high_ else f"{number(value)} ({low_} to {high_})"


def _percent(share: float | None) -> str:
    if share is None:
        return "–"
    return "none" if abs(share) <= LEAST else f"{_rounded(100 * share)} %"


def _rounded(percent: float) -> str:
    text = number(round(percent, 1) if abs(percent) < 10 else round(percent))
    return text if percent < 0 else f"+{text}"


def _sentence(found: Sequence[tuple[Row, tuple[str, ...]]], most: int | None = None) -> str:
    """What the setting buys and costs, the most first; of each at most so many."""
    if not found:
        return "Not measured."
    gains = [(g, row, rest) for row, rest in found for g in [gain(row)] if g is not None]
    kernels = len({r.kernel for r, _ in found}) > 1
    buys = sorted((x for x in gains if x[0] > LEAST), key=lambda x: -x[0])
    costs = sorted((x for x in gains if x[0] < -LEAST), key=lambda x: x[0])
    same = len(gains) - len(buys) - len(costs)

    def each(some: Sequence[tuple[float, Row, tuple[str, ...]]]) -> str:
        listed = [
            f"{_case(row, rest, kernels)} {number(row.value)} instead of {with_unit(row.peers['default'], row.unit)}"
            for _, row, rest in some[:most]
        ]
        return "; ".join([*listed, f"{len(some) - len(listed)} more"] if len(some) > len(listed) else listed)

    told = [f"better: {each(buys)}"] if buys else ["buys nothing that could be measured"] if gains else []
    if costs:
        told.append(f"worse: {each(costs)}")
    if same and (buys or costs):
        told.append(f"no difference on {same} {'other' if same == 1 else 'others'}")
    if unclear := len(found) - len(gains):
        told.append(f"{unclear} without a share of the default to tell")
    return _cell(" ".join(f"{text[0].upper()}{text[1:]}." for text in told))


def _title(rest: tuple[str, ...]) -> str:
    return title(rest[:-1]).replace("-", " ")


def _metric(rest: tuple[str, ...]) -> str:
    return METRICS.get(rest[-1], words(rest[-1]))


def _size(setting: Setting) -> str:
    """The value, bytes as MiB too."""
    whole = setting.name.endswith("_bytes") and setting.ours.isdigit() and int(setting.ours) % 2**20 == 0
    return f"{setting.ours} ({int(setting.ours) // 2**20} MiB)" if whole else setting.ours


def _case(row: Row, rest: tuple[str, ...], kernels: bool) -> str:
    name = _title(rest)
    return f"{name} ({_metric(rest)})" + (f" on {row.kernel}" if kernels else "") if name else _metric(rest)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _line(reason: str) -> str:
    """As a sentence."""
    text = " ".join(reason.split())
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) or not text else f"{text}."
