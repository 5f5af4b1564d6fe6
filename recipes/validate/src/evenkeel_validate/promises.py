# SPDX-License-Identifier: Apache-2.0
"""The promises of Evenkeel, each with a verdict and the rows that it rests on. No I/O here."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from evenkeel_report.names import wanted, with_unit
from evenkeel_report.row import Row


@dataclass(frozen=True)
class Promise:
    """`held` is None if the promise was not judged. `verdict` says why."""

    title: str
    held: bool | None
    verdict: str
    evidence: str


# (title, pattern of the ids of its rows, who promises it)
SCHEDULER = "evenkeel"
PAGE_POOL = "ek-pool"
RECORDER = "ek-recorder"
PROMISES = (
    ("Bandwidth follows the weights", "fair.*", SCHEDULER),
    ("No group gets less than its share of what it gets alone", "promise.*.least", SCHEDULER),
    ("A group with a fixed share gets this share", "regulate.*.accuracy", SCHEDULER),
    ("A video player never stops", "stall.*.count", SCHEDULER),
    ("A light reader waits only briefly for reads and writes", "latency.beside.[rw]*.p99", SCHEDULER),
    ("A light reader waits only briefly for flushes", "latency.beside.flushes*.p99", SCHEDULER),
    ("A light reader waits only briefly for discards", "latency.beside.discards*.p99", SCHEDULER),
    ("The recorder loses no record, and none is late", "rec.ek.*", RECORDER),
    ("Files of a priority directory stay in the page cache", "pool.*.kept", PAGE_POOL),
)
MOST_SHOWN = 4


def judge(rows: Sequence[Row], subject: str) -> list[Promise]:
    """A verdict for each promise. Another scheduler than evenkeel promises nothing, so it is not judged."""
    return [_judge(title, pattern, by, rows, subject) for title, pattern, by in PROMISES]


def _judge(title: str, pattern: str, by: str, rows: Sequence[Row], subject: str) -> Promise:
    measured = [r for r in rows if fnmatchcase(r.id, pattern)]
    judged = [r for r in measured if r.target is not None]
    if not measured:
        return Promise(title, None, "Not judged, because none of its cases was measured.", "")
    if not judged and by == PAGE_POOL:
        return Promise(title, None, "Not judged, because the page pool was smaller than its files.", "")
    if not judged:
        return Promise(title, None, "Not judged, because none of the measured figures has a bound.", "")
    missed = [r for r in judged if not r.holds()]
    count = f"{len(judged) - len(missed)} of {len(judged)} figures are within"
    held: bool | None = not missed
    if by == SCHEDULER and subject != SCHEDULER:
        held = None
        words = (
            f"Not judged: this device has the scheduler {subject}, which promises nothing."
            f" {count} the bounds of {SCHEDULER}."
        )
    else:
        words = f"Held: {count} their bounds." if held else f"Broken: only {count} their bounds."
    shown = [*missed, *(r for r in judged if r.holds())][:MOST_SHOWN]
    evidence = "; ".join(f"{r.id} is {with_unit(r.value, r.unit)}, bound {wanted(r)}" for r in shown)
    more = f"; and {len(judged) - len(shown)} more" if len(judged) > len(shown) else ""
    return Promise(title, held, words, evidence + more)
