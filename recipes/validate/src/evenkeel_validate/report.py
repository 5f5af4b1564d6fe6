# SPDX-License-Identifier: Apache-2.0
"""The report of a validation, report.json. report_page.py has the page that shows it. No measurement here.

report.json has the rows of the bench (docs/reference/interfaces.md) and what belongs to a device: its facts, what was
announced and written, and what was left out. It is saved after each case, so a run that ends early leaves a report.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evenkeel_common import files
from evenkeel_report.row import Figure, Row, RowError

from .errors import ValidateError
from .promises import Promise, judge

if TYPE_CHECKING:
    from .measure import Outcome

FORMAT = 1
# what follows the name of a case in the name of the curve of its reads
READS = ".read"
FIRMWARE = "firmware revision"
State = Literal["running", "complete", "partial"]


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
    # Bytes that a case can write in its time, by name, if the device is too slow for what the profile wants
    reached: dict[str, int] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    curves: dict[str, dict[str, list[tuple[float, float]]]] = field(default_factory=dict)
    series: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    not_restored: list[str] = field(default_factory=list)
    exclusive: bool = False  # apps were paused meanwhile

    def add(self, case: str, outcome: "Outcome", scheduler: str, measured: str) -> None:
        """Add what a case measured on SCHEDULER. Figures of another scheduler than the subject join the subject's rows."""
        for figure in outcome.figures:
            self._add(case, figure, scheduler, measured)
        for suffix, curve in (("", outcome.curve), (READS, outcome.reads)):
            if curve:
                self.curves.setdefault(case + suffix, {})[scheduler] = curve
        if outcome.series:
            self.series[case] = outcome.series
        if outcome.note:
            self.notes[case if scheduler == self.subject else f"{case} on {scheduler}"] = outcome.note
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
        # A newer version may have further fields, here and in rows.
        fields = {k: v for k, v in content.items() if k in Report.__dataclass_fields__ and k != "rows"}
        try:
            _check_types(fields)
            known = {*Row.__dataclass_fields__, "peers"} - {"baselines"}
            rows = [{k: v for k, v in row.items() if k in known} for row in content["rows"]]
            report = Report(**fields, rows=[Row.from_json(row) for row in rows])
            report.curves = {
                case: {name: _points(points) for name, points in curves.items()}
                for case, curves in report.curves.items()
            }
            report.series = {case: _points(points) for case, points in report.series.items()}
        except (TypeError, ValueError, LookupError, AttributeError, OverflowError, RowError) as error:
            raise ValidateError(f"the report is damaged: {error}") from error
        return report

    def has(self, case: str) -> bool:
        """Whether CASE gave a figure."""
        return any(row.id.rpartition(".")[0] == case for row in self.rows)

    def promises(self) -> list[Promise]:
        return judge(self.rows, self.subject, self.skipped)


def _check_types(fields: dict[str, Any]) -> None:
    """Raises TypeError for the first of FIELDS that is not what Report has."""
    example = Report("", "", "", "")
    for name, value in fields.items():
        wanted = type(getattr(example, name))
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            raise TypeError(f"{name} is {value!r:.40}")
    for name, kind in (
        ("notes", str),
        ("skipped", str),
        ("announced", int | float),
        ("reached", int | float),
    ):
        if not all(isinstance(one, kind) for one in fields.get(name, {}).values()):
            raise TypeError(f"{name} has an entry that is of another type")
    for fact in fields.get("facts", []):
        if not all(isinstance(fact[key], str) for key in ("title", "value", "source", "reason")):
            raise TypeError(f"facts has the entry {fact!r:.40}")


def _points(points: Any) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in points]


def order(id_: str) -> tuple[str, int]:
    """What the validations of a board are sorted by: the time in the id, then the number that may follow it."""
    time, number = id_[:15], id_[16:]
    return time, int(number) if number.isdecimal() else 1


def is_earlier(one: Report, found: Report) -> bool:
    """Whether ONE is an earlier validation of the device of FOUND."""
    return bool(found.device) and one.device == found.device and order(one.id) < order(found.id)


def differences(before: Report, after: Report) -> list[str]:
    """How the conditions of two validations differ, in plain sentences. Figures may differ for these reasons, too."""
    found = [
        f"The {what} is {one or 'not known'} in the first report, and {other or 'not known'} in the second one."
        for what, one, other in (
            ("model", _named(before), _named(after)),
            ("target", _text(before, "kind"), _text(after, "kind")),
            ("kernel", before.kernel, after.kernel),
            ("scheduler", before.subject, after.subject),
            ("profile", before.profile, after.profile),
            ("size of the test file", _span(before), _span(after)),
        )
        if one != other
    ]
    if before.exclusive != after.exclusive:
        found.append(
            f"Apps were paused during the {'first' if before.exclusive else 'second'} validation only."
        )
    return found


def _text(found: Report, key: str) -> str:
    return str(found.target.get(key, ""))


def _named(found: Report) -> str:
    """The model of the device, and the version of its firmware if that is known."""
    firmware = next((f["value"] for f in found.facts if f["title"] == FIRMWARE and f["value"]), "")
    return " with firmware ".join(filter(None, (_text(found, "model"), firmware)))


def _span(found: Report) -> str:
    """Size of the test file, or of the part of a device that was measured; "" if the report does not have it."""
    span = found.target.get("span")
    return f"{span / 1e6:,.0f} MB" if isinstance(span, int) else ""


def read(path: Path) -> Report:
    """The report in the file PATH, or in the folder PATH. Raises ValidateError."""
    file = path / "report.json" if path.is_dir() else path
    try:
        return Report.from_json(json.loads(file.read_bytes()))
    except OSError as error:
        raise ValidateError(f"cannot read {file}: {files.why(error)}") from error
    except (ValueError, RecursionError) as error:
        raise ValidateError(f"{file} is not JSON: {error}") from error
    except ValidateError as error:
        raise ValidateError(f"{file}: {error}") from error


def save(report: Report, folder: Path) -> None:
    """Write report.json. At any moment the file has a whole report, also after a power cut. Raises OSError."""
    content = json.dumps(report.as_json(), allow_nan=False).encode() + b"\n"
    files.replace(str(folder / "report.json"), content, 0o644)
