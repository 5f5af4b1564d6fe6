# SPDX-License-Identifier: Apache-2.0
"""The promises of Evenkeel, each with a verdict and the rows that it rests on. No I/O here."""

from collections.abc import Mapping, Sequence
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


SCHEDULER = "evenkeel"
PAGE_POOL = "ek-pool"
RECORDER = "ek-recorder"
# (title, patterns of the ids of its rows, who promises it)
PROMISES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("Bandwidth follows the weights", ("fair.*.ratio", "fair.*.share-*"), SCHEDULER),
    ("No group gets less than its share of what it gets alone", ("promise.*.least",), SCHEDULER),
    ("A group with a fixed share gets this share", ("regulate.*.accuracy",), SCHEDULER),
    ("A video player never stops", ("stall.*.count",), SCHEDULER),
    ("A light reader waits only briefly for reads and writes", ("latency.beside.[rw]*.p99",), SCHEDULER),
    ("A light reader waits only briefly for flushes", ("latency.beside.flushes*.p99",), SCHEDULER),
    ("A light reader waits only briefly for discards", ("latency.beside.discards*.p99",), SCHEDULER),
    (
        "The recorder loses no record, and none is late",
        ("rec.ek.*.late", "rec.ek.*.lost", "rec.ek.*.durable-max"),
        RECORDER,
    ),
    ("Files of a priority directory stay in the page cache", ("pool.*.kept",), PAGE_POOL),
)
MOST_SHOWN = 4


def judge(rows: Sequence[Row], subject: str, skipped: Mapping[str, str] | None = None) -> list[Promise]:
    """A verdict for each promise. Another scheduler than evenkeel promises nothing, so it is not judged.

    SKIPPED: why a case was not measured, by its name.
    """
    return [_judge(*promise, rows, subject, skipped or {}) for promise in PROMISES]


def _judge(
    title: str,
    patterns: Sequence[str],
    by: str,
    rows: Sequence[Row],
    subject: str,
    skipped: Mapping[str, str],
) -> Promise:
    measured = [r for r in rows if any(fnmatchcase(r.id, pattern) for pattern in patterns)]
    judged = [r for r in measured if r.target is not None]
    cases = {pattern.rpartition(".")[0] for pattern in patterns}
    absent = [
        name for name in skipped if any(fnmatchcase(name, case) for case in cases) and " on " not in name
    ]
    if not measured:
        return Promise(title, None, "Not judged, because none of its cases was measured.", "")
    if not judged and by == PAGE_POOL:
        return Promise(title, None, "Not judged, because the page pool was smaller than its files.", "")
    if not judged and by == SCHEDULER and subject != SCHEDULER:
        return Promise(title, None, f"Not judged: {_other(subject)}", "")
    if not judged:
        return Promise(title, None, "Not judged. The notes say why.", "")
    missed = [r for r in judged if not r.holds()]
    held: bool | None = not missed
    if by == SCHEDULER and subject != SCHEDULER:
        held = None
        words = f"Not judged: {_other(subject)} {_of(len(judged) - len(missed), len(judged))} within the bounds of {SCHEDULER}."
    elif held:
        words = f"Held: {_of(len(judged), len(judged))} within the bounds."
    else:
        words = f"Broken: {_of(len(missed), len(judged))} outside the bounds."
    open_ = len(measured) - len(judged)
    rest = [
        *([f"{_count(open_, 'figure')} could not be judged"] if open_ else []),
        *(
            [f"{_count(len(absent), 'case')} {'was' if len(absent) == 1 else 'were'} not measured"]
            if absent
            else []
        ),
    ]
    if rest:
        words += f" {' and '.join(rest)}."
    shown = [*missed, *(r for r in judged if r.holds())][:MOST_SHOWN]
    evidence = "; ".join(f"{r.id} is {with_unit(r.value, r.unit)}, bound {wanted(r)}" for r in shown)
    more = f"; and {len(judged) - len(shown)} more" if len(judged) > len(shown) else ""
    return Promise(title, held, words, evidence + more)


def _other(subject: str) -> str:
    return f"this device has the scheduler {subject}, which promises nothing."


def _of(part: int, judged: int) -> str:
    return f"{part} of {_count(judged, 'figure')} {'is' if 1 in (part, judged) else 'are'}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
