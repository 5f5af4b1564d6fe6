# SPDX-License-Identifier: Apache-2.0
"""docs/reference/targets.md: the target of each row, and whether it is a promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.model import Experiment, Row
from lab.report import names
from lab.report.markdown import DASH, table
from lab.report.names import Name, natural
from lab.report.results import DISPLAY, Split
from lab.report.source import Source

HEAD = """# Targets

`make docs` generates this page from the rows of the bench and the experiments in `tests/lab/lab/experiments`; do not edit it.

{source}

- A *promise* holds in this version: the bench fails (exit status 1) if it is missed.
- An *open* target is ahead of this version or depends on chance: the bench shows a miss and does not fail.
- Some targets are computed from a measurement in the same guest, such as twice the time of one request.
  They differ a little from bench to bench.
- *Bench* is the smallest bench that measures the row: [quick, full or deep](lab.md).
"""


def render(rows: Sequence[Row], known: Mapping[str, Experiment], split: Split, source: Source) -> str:
    """The page. `known` are all experiments, by name."""
    merged: dict[tuple[str, ...], list[str]] = {}
    by_topic: dict[str, list[tuple[str, ...]]] = {}
    for row in sorted(rows, key=lambda r: (natural(r.id), natural(r.kernel))):
        if row.target is None:
            continue
        experiment, figure = split(row.id)
        ((_, [shown])) = names.readable([row])
        target = f"{names.wanted(shown)} {shown.unit}".strip()
        kind = "promise" if row.must else "open"
        subject = DISPLAY.get(row.subject, row.subject)
        line = (f"`{experiment}`", figure, subject, target, kind, _bench(known.get(experiment)))
        if line not in merged:
            by_topic.setdefault(Name.of(row).topic, []).append(line)
        merged.setdefault(line, []).append(row.kernel)
    topics = [*(t for t in names.TOPICS if t in by_topic), *sorted(set(by_topic) - set(names.TOPICS))]
    head = ["experiment", "figure", "subject", "target", "kind", "bench", "kernel"]
    parts = [HEAD.format(source=source.text())]
    parts += [
        f"## {names.TOPICS.get(t, t)}\n\n{table(head, [[*line, ', '.join(merged[line])] for line in by_topic[t]])}"
        for t in topics
    ]
    measured = {split(r.id)[0] for r in rows}
    absent = [[f"`{e.name}`", e.about, _bench(e)] for e in known.values() if e.name not in measured]
    if absent:
        parts.append(
            "## Experiments without rows in this bench\n\nTheir targets are not listed above.\n\n"
            f"{table(['experiment', 'what it measures', 'bench'], absent)}"
        )
    return "\n".join(parts)


def _bench(experiment: Experiment | None) -> str:
    if experiment is None:
        return DASH
    return "quick" if experiment.quick else "deep" if experiment.deep else "full"
