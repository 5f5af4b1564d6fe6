# SPDX-License-Identifier: Apache-2.0
"""The report of a validation: report.json, and the page that shows it. No measurement here.

report.json has the rows of the bench (docs/reference/interfaces.md) and what belongs to a device: its facts, what was
announced and written, and what was left out. It is saved after each case, so a run that ends early leaves a report.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from evenkeel_common import files
from evenkeel_report import page
from evenkeel_report.markup import Markup, el, join
from evenkeel_report.names import TOPICS, number, with_unit
from evenkeel_report.plots import Lines, Palette
from evenkeel_report.row import Figure, Row, RowError

from .errors import ValidateError
from .measure import Outcome
from .promises import Promise, judge
from .summary import sentences

FORMAT = 1
State = Literal["running", "complete", "partial"]
# Reports of an earlier version of the same device that the page shows beside the present figures.
MOST_EARLIER = 5
TOPICS.setdefault("device", "The device: limits of sequential and random I/O")


@dataclass
class Report:
    """All that is known about a run. `reason`: why it is partial. Times are UTC, "2026-01-31T12:00:00Z"."""

    id: str
    version: str
    profile: str
    started: str
    ended: str = ""
    state: State = "running"
    reason: str = ""
    target: dict[str, Any] = field(default_factory=dict)
    device: str = ""  # the same text at each validation of one device
    kernel: str = ""
    subject: str = ""
    facts: list[dict[str, str]] = field(default_factory=list)
    announced: dict[str, Any] = field(default_factory=dict)
    written: int = 0  # bytes that the validation wrote
    device_written: int = 0  # bytes that all programs wrote to the device meanwhile
    rows: list[Row] = field(default_factory=list)
    curves: dict[str, dict[str, list[tuple[float, float]]]] = field(default_factory=dict)
    series: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    not_restored: list[str] = field(default_factory=list)

    def add(self, case: str, outcome: Outcome, scheduler: str, measured: str) -> None:
        """Add what a case measured on SCHEDULER. Figures of another scheduler than the subject join the subject's rows."""
        for figure in outcome.figures:
            self._add(case, figure, scheduler, measured)
        if outcome.curve:
            self.curves.setdefault(case, {})[scheduler] = outcome.curve
        if outcome.series:
            self.series[case] = outcome.series
        if outcome.note:
            self.notes[case] = outcome.note
        self.written += outcome.written

    def _add(self, case: str, figure: Figure, scheduler: str, measured: str) -> None:
        id_ = f"{case}.{figure.metric}"
        found = next((row for row in self.rows if row.id == id_), None)
        if scheduler == self.subject:
            self.rows.append(
                Row(
                    id_, figure.value, figure.unit, figure.better, figure.target, figure.paper, "host", self.kernel, scheduler,
                    figure.must, {}, measured,
                )
            )  # fmt: skip
        elif found:
            found.baselines[scheduler] = figure.value

    def as_json(self) -> dict[str, Any]:
        content = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "rows"}
        return {"format": FORMAT, **content, "rows": [row.as_json() for row in self.rows]}

    @staticmethod
    def from_json(content: Any) -> "Report":
        """The inverse of as_json(). Raises ValidateError for content of another format."""
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            found = content.get("format") if isinstance(content, dict) else None
            raise ValidateError(
                f"the report has the format {found!r}; this version of ek-validate reads the format {FORMAT}"
            )
        fields = {k: v for k, v in content.items() if k not in ("format", "rows")}
        try:
            report = Report(**fields, rows=[Row.from_json(row) for row in content["rows"]])
        except (TypeError, LookupError, RowError) as error:
            raise ValidateError(f"the report is damaged: {error}") from error
        report.curves = {
            case: {name: [(x, y) for x, y in points] for name, points in curves.items()}
            for case, curves in report.curves.items()
        }
        report.series = {case: [(x, y) for x, y in points] for case, points in report.series.items()}
        return report

    def promises(self) -> list[Promise]:
        return judge(self.rows, self.subject)


def read(path: Path) -> Report:
    """The report in the file PATH, or in the folder PATH. Raises ValidateError."""
    file = path / "report.json" if path.is_dir() else path
    try:
        return Report.from_json(json.loads(file.read_bytes()))
    except OSError as error:
        raise ValidateError(f"cannot read {file}: {files.why(error)}") from error
    except ValueError as error:
        raise ValidateError(f"{file} is not JSON: {error}") from error
    except ValidateError as error:
        raise ValidateError(f"{file}: {error}") from error


def save(report: Report, folder: Path) -> None:
    """Write report.json. At any moment the file has a whole report, also after a power cut. Raises OSError."""
    content = json.dumps(report.as_json(), allow_nan=False).encode() + b"\n"
    files.replace(str(folder / "report.json"), content, 0o644)


def save_page(report: Report, folder: Path, earlier: Sequence[Report]) -> None:
    files.replace(str(folder / "report.html"), html(report, earlier).encode(), 0o644)


def html(report: Report, earlier: Sequence[Report] = ()) -> str:
    """The page: one file without scripts, fonts or pictures from elsewhere."""
    curves = {(case, report.kernel): points for case, points in report.curves.items()}
    meta = {
        "device": f"{report.target.get('where', '')} ({report.target.get('model', '')})",
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
        _partial(report), _promises(report), _streams(report), _facts(report), _earlier(report, earlier), _skipped(report)
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
        el("details", el("summary", f"Missing: {sum(map(len, missing.values()))} facts"), el("ul", *items))
        if items
        else None,
        id="facts",
    )


def _earlier(report: Report, earlier: Sequence[Report]) -> Markup | None:
    """The promised figures and the limits of earlier runs of the same device."""
    runs = [e for e in earlier if e.device and e.device == report.device and e.id != report.id][:MOST_EARLIER]
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


def _skipped(report: Report) -> Markup | None:
    if not report.skipped:
        return None
    items = [el("li", el("code", name), f" {why}") for name, why in report.skipped.items()]
    return el("section", el("h2", "Not measured"), el("ul", *items), id="skipped")
