# SPDX-License-Identifier: Apache-2.0
"""A row of results: the format that the bench (results.json) and ek-validate (report.json) share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Target = float | tuple[float, float]
Better = Literal["lower", "higher"]
Clock = Literal["virtual", "host"]


class RowError(ValueError):
    """The fields of a row are not valid. The message is one line."""


@dataclass(frozen=True)
class Figure:
    """One measured figure of an experiment or case, without kernel and scheduler.

    `paper` is what the paper or the data sheet reports for the same case. A figure
    without `better` and without a target is for information only. The lab's targets are in
    tests/lab/targets.toml (lab.targets). Only the experiments that lab.targets.MOVING
    lists set `target` and `must` here; ek-validate always does. `must`: the target is a promise.
    Each baseline in `share_of` adds a row ID-of-BASELINE: the value in percent of the
    baseline's value, if the baseline was measured. The name `best` stands for the
    baseline with the highest value.
    """

    metric: str
    value: float
    unit: str = ""
    better: Better | None = None
    target: Target | None = None
    paper: float | None = None
    must: bool = False
    share_of: tuple[str, ...] = ()


def _number(value: object) -> bool:
    """Whether VALUE can be a figure. JSON may have whole numbers of any length, which no float can hold."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not abs(value) > 1e300


@dataclass(frozen=True)
class Row:
    """One row of results.json: a figure of one subject, with the same figure of its baselines.

    `id` is `topic.case….metric`. `subject` names what `value` was measured on.
    `baselines` maps other schedulers to their values; one that could not be
    measured is absent. In results.json this field is called `peers`.
    `measured` is when the subject's guest started (UTC), which may be long before
    the file was written. Rows of older files have None.
    """

    id: str
    value: float
    unit: str
    better: Better | None
    target: Target | None
    paper: float | None
    clock: Clock
    kernel: str
    subject: str
    must: bool = False
    baselines: dict[str, float] = field(default_factory=dict)
    measured: str | None = None

    def holds(self) -> bool | None:
        """Whether the target is met; None without a target."""
        match self.target:
            case None:
                return None
            case (low, high):
                return bool(low <= self.value <= high)
            case float() | int() as bound:
                return self.value <= bound if self.better == "lower" else self.value >= bound
        return None

    def as_share_of(self, baseline: str) -> Row | None:
        """All values in percent of a baseline's value, as row `ID-of-BASELINE`, without a target.

        `best` is the highest value of all baselines. None if the baseline was not
        measured, or measured 0.
        """
        base = (
            max(self.baselines.values(), default=0.0) if baseline == "best" else self.baselines.get(baseline)
        )
        if not base:
            return None
        baselines = {n: round(100 * v / base, 2) for n, v in self.baselines.items()}
        return Row(
            f"{self.id}-of-{baseline}", round(100 * self.value / base, 2), "%", "higher", None, None,
            self.clock, self.kernel, self.subject, False, baselines, self.measured,
        )  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        """The row in the format of results.json."""
        return {"peers" if k == "baselines" else k: v for k, v in asdict(self).items()}

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> Row:
        """The inverse of as_json(). Raises RowError when a field is missing, unknown or of the wrong type."""
        if "baselines" in fields:
            raise RowError("not a row of results: unknown field baselines")
        renamed = {"baselines" if k == "peers" else k: v for k, v in fields.items()}
        try:
            row = Row(**renamed)
        except TypeError as error:
            raise RowError(f"not a row of results: {error}") from None
        target, baselines = row.target, row.baselines
        for name, right in {
            **{n: isinstance(fields[n], str) for n in ("id", "unit", "kernel", "subject")},
            "value": _number(row.value),
            "better": row.better in (None, "lower", "higher"),
            "target": target is None
            or _number(target)
            or (isinstance(target, list | tuple) and len(target) == 2 and all(map(_number, target))),
            "paper": row.paper is None or _number(row.paper),
            "clock": row.clock in ("virtual", "host"),
            "must": isinstance(row.must, bool),
            "measured": isinstance(row.measured, str | None),
            "peers": isinstance(baselines, dict) and all(map(_number, baselines.values())),
        }.items():
            if not right:
                raise RowError(f"not a row of results: {name} is {fields[name]!r}")
        return Row(**{**renamed, "target": tuple(target)}) if isinstance(target, list) else row
