# SPDX-License-Identifier: Apache-2.0
"""docs/reference/results.md: the figures of a bench, by topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatch

from evenkeel_report import names
from evenkeel_report.names import Name, natural, number, state
from evenkeel_report.verdict import Verdict

from lab.model import Row
from lab.report import shapes
from lab.report.markdown import DASH, table
from lab.report.source import Source

KERNEL = "6.12"
# topics that have a page of their own
ELSEWHERE = {"tune": "tuning.md"}
# schedulers with a column of their own; the others share one column
COLUMNS = ("none", "mq-deadline", "kyber", "bfq", "iocost")
DISPLAY = {"evenkeel": "Evenkeel", "bfq": "BFQ"}
WORDS = {"ok": "held", "missed": "MISSED", "open": "open", "": DASH}
# (experiment, figure) of a row's id
Split = Callable[[str], tuple[str, str]]

HEAD = """# Results of the bench

`make docs` generates this page from `build/bench/results.json`; do not edit it.

{source}

[The lab](lab.md) explains the words *held*, *MISSED* and *open*, the rows and the devices. The page of the bench,
`build/bench/index.html`, has the same rows as plots, and the rows of other kernels. To print a row again, run its experiment:

```sh
cd tests/lab
../../toolroot/enter python3 -m lab run EXPERIMENT --kernel {kernel} --scheduler evenkeel --scheduler bfq
```
"""


def render(
    rows: Sequence[Row], split: Split, source: Source, *, verdicts: Sequence[Verdict], left_out: Sequence[str],
    notes: Mapping[str, str],
) -> str:  # fmt: skip
    """The page. `notes` say why rows miss their targets, by the pattern of their ids."""
    by_topic: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda r: (natural(r.id), natural(r.kernel))):
        by_topic.setdefault(Name.of(row).topic, []).append(row)
    topics = [*(t for t in names.TOPICS if t in by_topic), *sorted(set(by_topic) - set(names.TOPICS))]
    parts = [
        HEAD.format(source=source.text(), kernel=KERNEL),
        f"## Summary\n\n{_summary(topics, by_topic)}",
        f"## Promises not met\n\n{_unmet(rows, 'missed', notes)}",
        f"## Open targets\n\n{_unmet(rows, 'open', notes)}",
        f"## Results of the papers\n\n[The papers](../explanation/papers.md) has the evidence.\n\n"
        f"{shapes.overview(verdicts, left_out)}",
        *(_topic(t, by_topic[t], split) for t in topics),
    ]
    return "\n".join(parts)


def _summary(topics: Sequence[str], by_topic: Mapping[str, Sequence[Row]]) -> str:
    lines = [
        [
            names.TOPICS.get(t, t),
            *(str(sum(state(r) == s for r in by_topic[t])) for s in ("ok", "missed", "open")),
            str(len(by_topic[t])),
        ]
        for t in topics
    ]
    return table(["topic", "held", "MISSED", "open", "rows"], lines, right=range(1, 5))


def _unmet(rows: Sequence[Row], which: str, notes: Mapping[str, str]) -> str:
    lines = []
    for row in sorted(rows, key=lambda r: (natural(r.id), natural(r.kernel))):
        if state(row) == which:
            ((_, [shown])) = names.readable([row])
            note = next((text for pattern, text in notes.items() if fnmatch(row.id, pattern)), DASH)
            figure = names.with_unit(shown.value, shown.unit)
            lines.append([f"`{row.id}`", row.kernel, figure, names.wanted(shown), note])
    return (
        table(["row", "kernel", "figure", "target", "what is known of the cause"], lines)
        if lines
        else "None.\n"
    )


def _topic(topic: str, rows: Sequence[Row], split: Split) -> str:
    heading = f"## {names.TOPICS.get(topic, topic)}\n\n"
    if topic in ELSEWHERE:
        return f"{heading}[These rows have a page of their own]({ELSEWHERE[topic]}).\n"
    shown = [r for r in rows if r.kernel == KERNEL]
    others = sorted({r.kernel for r in rows} - {KERNEL}, key=natural)
    subjects = sorted({r.subject for r in shown}, key=lambda s: (s != "evenkeel", natural(s)))
    command = f"python3 -m lab run '{topic}.*'"
    text = f"{heading}All of this topic, including what only the deep bench runs: `{command}`.\n"
    if others:
        text += f"The bench also has rows of this topic on Linux {', '.join(others)}.\n"
    if not shown:
        return text
    for subject in subjects:
        what = DISPLAY.get(subject, subject)
        own = _table([r for r in shown if r.subject == subject], what, split)
        text += f"\nSubject: {'none (no I/O scheduler)' if subject == 'none' else what}.\n\n{own}"
    return text


def _table(rows: Sequence[Row], subject: str, split: Split) -> str:
    own = [s for s in COLUMNS if any(s in r.baselines for r in rows)]
    others = any(set(r.baselines) - set(COLUMNS) for r in rows)
    paper = any(r.paper is not None for r in rows)
    head = [
        "experiment", "figure", subject, "target", "verdict", *(DISPLAY.get(s, s) for s in own),
        *(["other baselines"] if others else []), *(["paper"] if paper else []),
    ]  # fmt: skip
    lines = []
    for row in rows:
        ((_, [shown])) = names.readable([row])
        experiment, figure = split(row.id)
        lines.append([
            f"`{experiment}`", f"{figure}, {shown.unit}" if shown.unit else figure, number(shown.value),
            names.wanted(shown) or DASH, WORDS[state(row)],
            *(number(shown.baselines[s]) if s in shown.baselines else DASH for s in own),
            *([_others(shown)] if others else []),
            *([DASH if shown.paper is None else number(shown.paper)] if paper else []),
        ])  # fmt: skip
    return table(head, lines, right=[2, 3, *range(5, 5 + len(own))])


def _others(row: Row) -> str:
    found = sorted((s for s in row.baselines if s not in COLUMNS), key=natural)
    return ", ".join(f"{s} {number(row.baselines[s])}" for s in found) or DASH
