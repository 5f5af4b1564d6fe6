# SPDX-License-Identifier: Apache-2.0
"""The page of a report: one file without scripts, fonts or pictures from elsewhere. No measurement here."""

from collections.abc import Sequence
from pathlib import Path

from evenkeel_common import files
from evenkeel_report import page
from evenkeel_report.markup import Markup, el, join
from evenkeel_report.names import TOPICS, number, with_unit
from evenkeel_report.plots import Lines, Palette

from .report import Report, is_earlier
from .summary import sentences

# Earlier reports of the same device that the page shows next to the figures of a report, at most.
MOST_EARLIER = 5
TOPICS.setdefault("device", "The device: limits of sequential and random I/O")


def save(report: Report, folder: Path, earlier: Sequence[Report]) -> None:
    files.replace(str(folder / "report.html"), html(report, earlier).encode(), 0o644)


def html(report: Report, earlier: Sequence[Report] = ()) -> str:
    """The page as text. EARLIER: other reports, of any time and device, the latest first."""
    curves = {(case, report.kernel): points for case, points in report.curves.items()}
    meta = {
        "device": " of ".join(filter(None, (str(report.target.get(key, "")) for key in ("where", "model")))),
        "state": report.state if not report.reason else f"{report.state.upper()}: {report.reason}",
        "profile": report.profile,
        "scheduler": report.subject,
        "kernel": report.kernel,
        "started": report.started,
        "ended": report.ended or "not ended",
        "written": f"{report.written / 1e6:,.0f} MB of {report.announced.get('written', 0) / 1e6:,.0f} MB announced",
    }
    text = page.render(report.rows, title=f"Validation {report.id}", meta=meta, verdicts=(), curves=curves)
    before, summary, after = text.partition('<section id="summary">')
    return before + _own(report, earlier) + summary + after


def _own(report: Report, earlier: Sequence[Report]) -> Markup:
    """The sections that only a validation has."""
    return join(
        _partial(report), _promises(report), _streams(report), _facts(report), _earlier(report, earlier), _notes(report),
        _skipped(report),
    )  # fmt: skip


def _partial(report: Report) -> Markup | None:
    lost = [
        el("p", el("b", f"Not restored: {line}. Run `ek-validate restore` as root."))
        for line in report.not_restored
    ]
    if report.state == "complete" and not lost:
        return None
    why = report.reason or "the run has not ended"
    head = (
        el("p", el("b", "This report is partial: "), f"{why}. The figures below are valid.")
        if report.state != "complete"
        else None
    )
    return el("section", head, *lost)


SIGNS = {True: "✓ ", False: "✗ ", None: "○ "}


def _promises(report: Report) -> Markup:
    items = [
        el("li", el("h3", f"{SIGNS[p.held]}{p.title}"), el("p", p.verdict), el("p", p.evidence, class_="faint"),
           class_={True: "ok", False: "missed", None: "open"}[p.held])
        for p in report.promises()
    ]  # fmt: skip
    return el(
        "section",
        el("h2", "In short"),
        *(el("p", line) for line in sentences(report)),
        el("h2", "Promises"),
        el("ul", *items, class_="shapes"),
        id="promises",
    )


def _streams(report: Report) -> Markup | None:
    if not report.series:
        return None
    figures = [
        el("figure", el("figcaption", el("b", case)),
           Lines("Throughput over time", "s", "MB/s", {report.subject: points}, report.subject, zero=True,
                 x_log=False).draw(Palette()))
        for case, points in report.series.items()
    ]  # fmt: skip
    return el("section", el("h2", "Throughput over time"), el("div", *figures, class_="plots"), id="streams")


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> Markup:
    return el(
        "div",
        el(
            "table",
            el("thead", el("tr", *(el("th", h, scope="col") for h in head))),
            el("tbody", *(el("tr", *(el("td", cell) for cell in line)) for line in lines)),
        ),
        class_="scroll",
    )


def _facts(report: Report) -> Markup:
    lines = [[f["title"], f["value"], f["source"]] for f in report.facts if f["value"]]
    missing: dict[str, list[str]] = {}
    for fact in report.facts:
        if not fact["value"]:
            missing.setdefault(fact["reason"], []).append(fact["title"])
    items = [el("li", f"{', '.join(titles)}: {reason}") for reason, titles in missing.items()]
    return el(
        "section",
        el("h2", "What the device reports"),
        _table(("fact", "value", "source"), lines),
        el("details", el("summary", f"Not known: {sum(map(len, missing.values()))}"), el("ul", *items))
        if items
        else None,
        id="facts",
    )


def _earlier(report: Report, earlier: Sequence[Report]) -> Markup | None:
    """The promised figures and the limits of earlier runs of the same device."""
    runs = [e for e in earlier if is_earlier(e, report)][:MOST_EARLIER]
    shown = [r for r in report.rows if r.target is not None or r.id.startswith("device.")]
    if not runs or not shown:
        return None
    lines = []
    for row in shown:
        old = [next((r for r in e.rows if r.id == row.id), None) for e in runs]
        if any(old):
            lines.append(
                [row.id, with_unit(row.value, row.unit), *(number(r.value) if r else "–" for r in old)]
            )
    head = ("figure", "now", *(e.started[:16].replace("T", " ") for e in runs))
    return (
        el("section", el("h2", "Earlier validations of this device"), _table(head, lines), id="earlier")
        if lines
        else None
    )


def _notes(report: Report) -> Markup | None:
    if not report.notes:
        return None
    items = [el("li", el("code", name), f" {note}") for name, note in report.notes.items()]
    return el("section", el("h2", "Notes"), el("ul", *items), id="notes")


def _skipped(report: Report) -> Markup | None:
    if not report.skipped:
        return None
    items = [el("li", el("code", name), f" {why}") for name, why in report.skipped.items()]
    return el("section", el("h2", "Not measured"), el("ul", *items), id="skipped")
