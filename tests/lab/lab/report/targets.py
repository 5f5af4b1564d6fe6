# SPDX-License-Identifier: Apache-2.0
"""docs/reference/targets.md: the target of each row, whether it is a promise, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from evenkeel_report import names
from evenkeel_report.names import Name, natural

from lab.model import Experiment, Row
from lab.report.markdown import DASH, table
from lab.report.results import DISPLAY, Split
from lab.report.source import Source

# experiment, figure → why it has its target
Reason = Callable[[str, str], str]

HEAD = """# Targets

`make docs` generates this page from the rows of the bench and from the reasons in `tests/lab/targets.toml`.
Do not edit it. A target without a reason is declared in the code of its experiment.

{source}

- A *promise* is what users may rely on: the bench fails (exit status 1) if it is missed.
- An *aim* is ahead of this version or beyond the device: the bench shows a miss as open and does not fail.
- Of a promise that ran with several seeds, the worst is judged.
- Some targets are computed from a measurement in the same guest, such as twice the time of one request.
  They differ a little from bench to bench.
- *Bench* is the smallest bench that measures the row: [quick, full or deep](lab.md).
"""


def render(
    rows: Sequence[Row], known: Mapping[str, Experiment], split: Split, source: Source, reason: Reason
) -> str:
    """The page. `known` are all experiments, by name. `reason` gives the reason of an experiment's figure."""
    merged: dict[tuple[str, ...], list[str]] = {}
    by_topic: dict[str, list[tuple[str, ...]]] = {}
    for row in sorted(rows, key=lambda r: (natural(r.id), natural(r.kernel))):
        if row.target is None:
            continue
        experiment, figure = split(row.id)
        ((_, [shown])) = names.readable([row])
        target = f"{names.wanted(shown)} {shown.unit}".strip()
        kind = "promise" if row.must else "aim"
        subject = DISPLAY.get(row.subject, row.subject)
        line = (
            f"`{experiment}`",
            figure,
            subject,
            target,
            kind,
            reason(experiment, figure),
            _bench(known.get(experiment)),
        )
        if line not in merged:
            by_topic.setdefault(Name.of(row).topic, []).append(line)
        merged.setdefault(line, []).append(row.kernel)
    topics = [*(t for t in names.TOPICS if t in by_topic), *sorted(set(by_topic) - set(names.TOPICS))]
    head = ["experiment", "figure", "subject", "target", "kind", "reason", "bench", "kernel"]
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
