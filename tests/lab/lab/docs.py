# SPDX-License-Identifier: Apache-2.0
"""Writes the generated pages, blocks and pictures of the documentation from a results.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from evenkeel_report.papers import PAPERS
from evenkeel_report.verdict import Verdict, judge

from lab import bench, experiments, settings
from lab import targets as declared
from lab.experiments import stall, tune
from lab.kernels import TOP
from lab.model import Experiment, LabError, Row
from lab.report import headline, markdown, misses, picture, results, shapes, tables, targets, tuning
from lab.report.source import Source

# pages that are generated as a whole
RESULTS, TARGETS, TUNING = (f"docs/reference/{name}.md" for name in ("results", "targets", "tuning"))


def _source(
    rows: Sequence[Row], origins: Sequence[Mapping[str, str]], known: Mapping[str, Experiment]
) -> Source:
    """The bench that the rows come from. If there is a row of a deep experiment, it was a deep bench."""
    names = {name for r in rows if (name := experiments.owner(known, r.id))}
    have = [known[name] for name in names]
    part = "deep" if any(e.deep for e in have) else "quick" if all(e.quick for e in have) else "full"
    parts = {
        "quick": [e for e in known.values() if e.quick],
        "full": [e for e in known.values() if not e.deep],
        "deep": list(known.values()),
    }
    revision, qemu, made = (origins[0].get(name, "unknown") for name in ("revision", "qemu", "made"))
    releases = {o.get("release", r.kernel) for r, o in zip(rows, origins, strict=True)}
    wide = part == "quick" and any("iocost" in r.baselines for r in rows)
    return Source(part, len(have), len(parts[part]), revision, qemu, made, tuple(sorted(releases)), wide)


def _load(path: str) -> tuple[list[Row], list[dict[str, str]]]:
    rows, origins = bench.read_with_origin(path)
    if not rows:
        raise LabError(f"{path} has no rows")
    return rows, origins


def pages(path: str, top: Path = TOP) -> dict[str, str]:
    """The text of each generated page, and of each page with generated blocks, by its path below `top`.

    Raises LabError.
    """
    rows, origins = _load(path)
    known = experiments.load()
    source = _source(rows, origins, known)
    verdicts, left_out = judge(experiments.shapes(), rows, lambda _: False)

    def split(row_id: str) -> tuple[str, str]:
        experiment = experiments.owner(known, row_id) or row_id.rpartition(".")[0]
        return experiment, row_id.removeprefix(f"{experiment}.")

    whole = {
        RESULTS: results.render(
            rows, split, source, verdicts=verdicts, left_out=left_out, notes=experiments.notes()
        ),
        TARGETS: targets.render(rows, known, split, source, _reason),
        TUNING: tuning.render(settings.fold(rows), settings.read(), _tried(), source),
    }
    generated = _blocks(rows, source, verdicts)
    texts = dict(whole)
    for page in [top / "README.md", *sorted((top / "docs").glob("**/*.md"))]:
        name = str(page.relative_to(top))
        if name not in whole and page.is_file():
            before = page.read_text()
            if (after := markdown.fill(before, generated)) != before:
                texts[name] = after
    return texts


def _blocks(rows: Sequence[Row], source: Source, verdicts: Sequence[Verdict]) -> dict[str, str]:
    """The generated blocks, by the name in their marker."""
    return {
        "headline": headline.render(rows, source),
        "misses": misses.render(rows),
        "bench-source": f"{source.text()}\n",
        "ratios": tables.ratios(rows),
        "stalls": tables.stalls(rows, stall.PAPER),
        "controllers": tables.controllers(rows),
        "writers": tables.writers(rows),
        **{f"shapes-{paper}": shapes.of_paper(paper, verdicts) for paper in PAPERS},
    }


def _reason(experiment: str, figure: str) -> str:
    entry = declared.load().entry(experiment, figure)
    return entry.why if entry else markdown.DASH


def _tried() -> list[tuning.Setting]:
    """Settings that conf/ does not have, with the value that was measured."""
    return [
        tuning.Setting(name, "", value, settings.DEFAULTS[name], why)
        for name, (value, why) in tune.TRIED.items()
    ]


def write(path: str, top: Path = TOP) -> int:
    """Write the pages that changed, and print their names. Raises LabError."""
    for name, text in pages(path, top).items():
        page = top / name
        if not page.is_file() or page.read_text() != text:
            _replace(page, text)
            print(f"renewed {name}")
    return 0


def draw(path: str, file: Path) -> int:
    """Draw docs/images/ratio.svg. Raises LabError."""
    rows, origins = _load(path)
    releases = {
        o.get("release", r.kernel) for r, o in zip(rows, origins, strict=True) if r.kernel == picture.KERNEL
    }
    text = picture.draw(
        rows, revision=origins[0].get("revision", "unknown"), release=min(releases, default=picture.KERNEL)
    )
    _replace(file, text)
    print(f"drew {file}: {len(text.encode()) / 1000:.0f} KB")
    return 0


def _replace(file: Path, text: str) -> None:
    part = file.with_name(f"{file.name}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            part.write_text(text)
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise LabError(f"cannot write {file}: {error.strerror}") from error
