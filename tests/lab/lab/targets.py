# SPDX-License-Identifier: Apache-2.0
"""The targets of all rows: tests/lab/targets.toml. Only the experiments in MOVING declare targets in their own code.

An entry has these keys:

- `experiment`, `figure`: patterns, or lists of patterns. The entry holds for each matching figure of each
  matching experiment. Figures `NAME-of-BASELINE` count as figures, too.
- `bound`: `<= X`, `>= X`, or `X .. Y`. X and Y are numbers, or expressions of `+ - * / max() min()` with
  `[figure]`, a figure of the same guest, and `[paper]`, what the paper or the data sheet reports for the row.
- `kind`: `promise` (a miss fails the bench) or `aim` (the bench shows a miss as open).
- `why`: the reason, and the source of the bound.
- `except` (optional): patterns of row ids to which the entry does not apply.
- `maximum` (optional): true if the figure is the longest of many times. Such a figure depends on chance. So
  the full bench runs two seeds, and with each seed the load begins at another phase.

No figure may match two entries. When the file is read, each pattern of experiments must match at least one
experiment. After a bench has run an experiment, each figure that an entry names must have a row. Of the figure
patterns of an entry, at least one must match a row.
"""

from __future__ import annotations

import ast
import functools
import operator
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from lab.kernels import TOP
from lab.model import Better, LabError, Row, Target

FILE = TOP / "tests/lab/targets.toml"
KINDS = ("promise", "aim")
# Experiments that may still declare targets in their code. An entry of the file replaces the code's target.
MOVING = ("channel.*", "rec.ek.*", "regulate.*")
_WILD = re.compile(r"[*?\[]")
_NAME = re.compile(r"\[([\w.-]+)\]")
_BOUND = re.compile(r"(?:(?P<sign><=|>=)\s*(?P<one>.+)|(?P<low>.+?)\s\.\.\s(?P<high>.+))")
_SIGNS: Mapping[type, Callable[[Any, Any], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_FUNCTIONS: Mapping[str, Callable[..., float]] = {"max": max, "min": min}


def calculate(text: str, known: Mapping[str, float | None]) -> float:
    """The value of an expression. Raises ValueError for any other text, and for a figure that was not measured."""
    names: list[float] = []

    def number(match: re.Match[str]) -> str:
        value = known.get(match[1])
        if value is None:
            raise ValueError(f"{text!r} needs [{match[1]}], which was not measured")
        names.append(value)
        return f"_[{len(names) - 1}]"

    def value(node: ast.expr) -> float:
        match node:
            case ast.Constant(value=bool()):
                pass
            case ast.Constant(value=int() | float() as constant):
                return constant
            case ast.Subscript(slice=ast.Constant(value=int() as index)):
                return names[index]
            case ast.UnaryOp(op=ast.USub(), operand=one):
                return -value(one)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _SIGNS:
                return _SIGNS[type(op)](value(left), value(right))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS and args:
                return _FUNCTIONS[name](*map(value, args))
        raise ValueError(f"{text!r} is no expression of numbers, [figures], + - * / max() min()")

    try:
        return value(ast.parse(_NAME.sub(number, text).strip(), mode="eval").body)
    except SyntaxError:
        raise ValueError(f"{text!r} is no expression of numbers, [figures], + - * / max() min()") from None


def _rounded(value: float) -> float:
    """The value with six significant digits: a computed bound must not show floating-point noise."""
    short = float(f"{value:.6g}")
    return int(short) if short.is_integer() else short


@dataclass(frozen=True)
class Entry:
    """One target. `experiments` and `figures` are patterns."""

    experiments: tuple[str, ...]
    figures: tuple[str, ...]
    bound: str
    promise: bool
    why: str
    but: tuple[str, ...] = ()
    maximum: bool = False

    def of(self, experiment: str) -> bool:
        return any(fnmatchcase(experiment, p) for p in self.experiments)

    def applies(self, experiment: str, figure: str) -> bool:
        if not self.of(experiment) or any(fnmatchcase(f"{experiment}.{figure}", p) for p in self.but):
            return False
        return any(fnmatchcase(figure, p) for p in self.figures)

    def target(self, known: Mapping[str, float | None]) -> tuple[Better | None, Target]:
        """The direction of the bound, None for a range, and its value. Raises ValueError."""
        found = _BOUND.fullmatch(self.bound.strip())
        if found is None:
            raise ValueError(f"{self.bound!r} is not <= X, >= X or X .. Y")
        if found["sign"]:
            return "lower" if found["sign"] == "<=" else "higher", _rounded(calculate(found["one"], known))
        return None, (_rounded(calculate(found["low"], known)), _rounded(calculate(found["high"], known)))


@dataclass(frozen=True)
class Targets:
    entries: tuple[Entry, ...]

    def entry(self, experiment: str, figure: str) -> Entry | None:
        """The entry of a figure. Raises LabError if two entries match it."""
        found = [e for e in self.entries if e.applies(experiment, figure)]
        if len(found) > 1:
            raise LabError(
                f"{experiment}.{figure} has {len(found)} targets: {', '.join(e.bound for e in found)}"
            )
        return found[0] if found else None

    def promised(self, experiment: str) -> bool:
        """Whether a figure of the experiment may be a promise."""
        return any(e.promise and e.of(experiment) for e in self.entries)

    def maximum(self, experiment: str) -> bool:
        """Whether a target of the experiment is for a maximum."""
        return any(e.maximum and e.of(experiment) for e in self.entries)

    def give(self, rows: Iterable[Row], experiment: str) -> list[Row]:
        """The rows of one guest with their targets. Raises LabError."""
        listed = list(rows)
        known: dict[str, float | None] = {r.id.removeprefix(f"{experiment}."): r.value for r in listed}
        return [self._given(r, experiment, known) for r in listed]

    def _given(self, row: Row, experiment: str, known: Mapping[str, float | None]) -> Row:
        entry = self.entry(experiment, row.id.removeprefix(f"{experiment}."))
        if row.target is not None and not any(fnmatchcase(experiment, p) for p in MOVING):
            raise LabError(f"{row.id} declares a target in its experiment: move it to {FILE.name}")
        if entry is None:
            return row
        try:
            better, target = entry.target({**known, "paper": row.paper})
        except ValueError as error:
            raise LabError(f"{row.id}: the target cannot be computed: {error}") from None
        if better and row.better and row.better != better:
            raise LabError(f"{row.id}: the target is {entry.bound}, but {row.better} is better")
        return replace(row, better=better or row.better, target=target, must=entry.promise)

    def unmatched(self, experiment: str, figures: Iterable[str], baselines: Iterable[str]) -> list[str]:
        """The figures and patterns of entries for which the experiment wrote no row.

        A figure `NAME-of-BASELINE` is missing only if that baseline was measured.
        """
        written = list(figures)
        measured = set(baselines)

        def expected(figure: str) -> bool:
            _, of, baseline = figure.partition("-of-")
            return not of or baseline in measured or (baseline == "best" and bool(measured))

        found = []
        for e in self.entries:
            if not e.of(experiment) or any(
                fnmatchcase(f"{experiment}.{f}", p) for f in e.figures for p in e.but
            ):
                continue
            names = [f for f in e.figures if not _WILD.search(f)]
            found += [f for f in names if expected(f) and f not in written]
            patterns = [f for f in e.figures if f not in names]
            if patterns and not any(fnmatchcase(w, p) for w in written for p in patterns):
                found.append(" or ".join(patterns))
        return [f"{experiment}.{f}" for f in found]


def _listed(value: object, what: str) -> tuple[str, ...]:
    found = (value,) if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not found or not all(isinstance(v, str) and v for v in found):
        raise LabError(f"{what} must be a pattern or a list of patterns, not {value!r}")
    return tuple(found)


def read(text: str, known: Iterable[str] | None = None) -> Targets:
    """The targets of a file's text. Raises LabError, also for an entry that matches none of the `known` experiments."""
    try:
        parsed = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LabError(f"targets: {error}") from None
    entries = []
    names = None if known is None else list(known)
    for count, fields in enumerate(parsed.pop("target", []), 1):
        where = f"target {count} ({fields.get('experiment')}, {fields.get('figure')})"
        if set(fields) - {"except", "maximum"} != {"experiment", "figure", "bound", "kind", "why"}:
            raise LabError(
                f"{where}: needs experiment, figure, bound, kind and why, and may have except and maximum"
            )
        if fields["kind"] not in KINDS:
            raise LabError(f"{where}: kind is {fields['kind']!r}, not promise or aim")
        if not str(fields["why"]).strip():
            raise LabError(f"{where}: why is empty")
        entry = Entry(
            _listed(fields["experiment"], f"{where}: experiment"), _listed(fields["figure"], f"{where}: figure"),
            str(fields["bound"]), fields["kind"] == "promise", " ".join(str(fields["why"]).split()),
            _listed(fields["except"], f"{where}: except") if "except" in fields else (),
            fields.get("maximum") is True,
        )  # fmt: skip
        if names is not None:
            for p in entry.experiments:
                if not any(fnmatchcase(n, p) for n in names):
                    raise LabError(f"{where}: there is no experiment {p}")
        entries.append(entry)
    if parsed:
        raise LabError(f"targets: unknown key {next(iter(parsed))}")
    return Targets(tuple(entries))


@functools.cache
def load(path: Path = FILE) -> Targets:
    """The targets of the lab. Raises LabError."""
    # imported here, because only load() needs the experiments
    from lab import experiments

    try:
        return read(path.read_text(), experiments.load())
    except OSError as error:
        raise LabError(f"cannot read {path}: {error.strerror}") from error
