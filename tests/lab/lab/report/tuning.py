# SPDX-License-Identifier: Apache-2.0
"""docs/tuning.md: what each setting of conf/ buys, and what it costs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lab.model import Row
from lab.report.names import natural, number, title, words

# less than two runs of one experiment may differ
NOISE = 0.01

HEAD = """# Tuning, with evidence

Generated from the bench's rows `tune.*` (`lab tuning`); edit the experiments, not this page.
*gain* is how much better our value is than the kernel's default, by the direction that is better for
the figure; less than 1 % is no difference, two runs of one experiment may differ by that.
"""


class Setting(NamedTuple):
    """A value that conf/ sets: `where` is the file, `reason` one line."""

    name: str
    where: str
    ours: str
    default: str
    reason: str


def render(rows: Sequence[Row], settings: Sequence[Setting | tuple[str, str, str, str, str]]) -> str:
    """The page. Rows are `tune.SETTING.CASE.metric`: `value` is with our setting, the peer `default` without.

    SETTING is the setting's name, or the name with all but letters and digits
    made `_`, whole or from its last dot on. Rows of settings that nobody
    listed come last, so that nothing measured is lost.
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
        summary.append(
            f"| `{_cell(setting.name)}` | {_cell(setting.ours)} | {_cell(setting.default)} | {told} |"
        )
        parts.append(
            f"## `{setting.name}`\n\n{_line(setting.reason)} Set in `{setting.where}` to {setting.ours}; "
            f"the kernel's default is {setting.default}.\n\n{_table(found)}{told}\n"
        )
    if summary:
        heading = "| setting | ours | default | what it does |\n|---|---|---|---|\n"
        parts.insert(1, heading + "\n".join(summary) + "\n")
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
    """How much better than the default, as a share of it; None where that says nothing."""
    default = row.peers.get("default")
    if default is None or row.better is None or not (math.isfinite(default) and math.isfinite(row.value)):
        return None
    if default == row.value:
        return 0.0
    if default == 0:
        return None
    change = (row.value - default) / abs(default)
    return -change if row.better == "lower" else change


def _rest(row_id: str, name: str) -> tuple[str, ...] | None:
    """Case and metric of a row of that setting."""
    last = name.rsplit(".", 1)[-1]
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
    values = sorted({p for r, _ in found for p in r.peers if p != "default"}, key=natural)
    kernels = len({r.kernel for r, _ in found}) > 1
    head = ["case", "figure", *(["kernel"] if kernels else []), "with", "default", *values, "gain"]
    lines = [head, ["---"] * 2 + (["---"] if kernels else []) + ["---:"] * (3 + len(values))]
    for row, rest in found:
        metric = f"{words(rest[-1])}, {row.unit}" if row.unit else words(rest[-1])
        cells = [title(rest[:-1]) or "–", metric, *([row.kernel] if kernels else []), number(row.value)]
        cells += [number(row.peers[p]) if p in row.peers else "–" for p in ("default", *values)]
        lines.append([*cells, _percent(gain(row))])
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines) + "\n\n"


def _percent(share: float | None) -> str:
    if share is None:
        return "–"
    return "none" if abs(share) <= NOISE else f"{_rounded(100 * share)} %"


def _rounded(percent: float) -> str:
    text = number(round(percent, 1) if abs(percent) < 10 else round(percent))
    return text if percent < 0 else f"+{text}"


def _sentence(found: Sequence[tuple[Row, tuple[str, ...]]]) -> str:
    """What the setting buys and costs, the most first."""
    if not found:
        return "Not measured."
    gains = [(g, row, rest) for row, rest in found for g in [gain(row)] if g is not None]
    kernels = len({r.kernel for r, _ in found}) > 1
    buys = sorted((x for x in gains if x[0] > NOISE), key=lambda x: -x[0])
    costs = sorted((x for x in gains if x[0] < -NOISE), key=lambda x: x[0])
    same = len(gains) - len(buys) - len(costs)

    def each(some: Iterable[tuple[float, Row, tuple[str, ...]]]) -> str:
        return ", ".join(
            f"{number(round(abs(100 * g), 1 if abs(g) < 0.1 else 0))} % on {_case(row, rest, kernels)}"
            for g, row, rest in some
        )

    told = [f"buys {each(buys)}"] if buys else ["buys nothing that could be measured"] if gains else []
    if costs:
        told.append(f"costs {each(costs)}")
    if same and (buys or costs):
        told.append(f"no difference on {same} {'other' if same == 1 else 'others'}")
    if unclear := len(found) - len(gains):
        told.append(f"{unclear} without a share of the default to tell")
    text = "; ".join(told)
    return _cell(f"{text[0].upper()}{text[1:]}.")


def _case(row: Row, rest: tuple[str, ...], kernels: bool) -> str:
    name = title(rest[:-1])
    metric = words(rest[-1])
    return f"{name} ({metric})" + (f" on {row.kernel}" if kernels else "") if name else metric


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _line(reason: str) -> str:
    """As a sentence."""
    text = " ".join(reason.split())
    return text if text.endswith((".", "!", "?")) or not text else f"{text}."
