# SPDX-License-Identifier: Apache-2.0
"""Tables of the verdicts on the papers' results."""

from __future__ import annotations

from collections.abc import Sequence

from evenkeel_report.papers import PAPERS
from evenkeel_report.verdict import Verdict

from lab.report.markdown import DASH, UNMEASURED, table


def overview(verdicts: Sequence[Verdict], left_out: Sequence[str]) -> str:
    """A table of all verdicts, without their explanations."""
    lines = [[PAPERS[v.paper].short if v.paper else DASH, v.claim, v.word] for v in verdicts]
    text = table(["paper", "result", "here"], lines) if lines else f"{UNMEASURED}\n"
    if left_out:
        text += "\nNot judged, because this bench lacks their rows:\n\n"
        text += "".join(f"- {name}\n" for name in left_out)
    return text


def of_paper(paper: str, verdicts: Sequence[Verdict]) -> str:
    """The verdicts on one paper, with evidence and cause."""
    lines = [[v.claim, v.word, v.why, v.cause or DASH] for v in verdicts if v.paper == paper]
    head = ["result of the paper", "here", "measured here", "cause of the difference"]
    return table(head, lines) if lines else f"{UNMEASURED}\n"
