#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What happens if a constant of the policy core is halved or doubled, over a fixed set of draws.

    sweep.py [NAME...] [--draws N] [--seed N]

A constant is a `#define NAME VALUE` in src/core/*.c (not in a header), or a field of ek_core_defaults. For each
value, the script builds ek-sim from a changed copy of the sources, runs the draws and prints a line. The line
has the percentage of draws whose least part / share is at least 0.95, and at least 0.90. Then it has the number
of draws that miss their bound of the sum of parts, of the longest wait, and of the light reader's latency.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from search import LEAST_ALL, LEAST_MOST, Judged, Search, draw

REPO = Path(__file__).resolve().parents[4]
CORE = Path("recipes/scheduler/src/core")
# The folders that ek-sim is built from.
SOURCES = (Path("recipes/scheduler/src"), Path("recipes/scheduler/tests"), Path("tests/flashsim"))
DEFINE = re.compile(r"^(#define\s+(EK_\w+)\s+)(.+)$", re.M)
FIELD = re.compile(r"^(\t\.(\w+) = )(\d+)(?=,$)", re.M)
# These are not tuned: they are units, formats or limits.
FIXED = {"EK_LIMIT_MAX", "EK_DIRS", "EK_MS", "EK_US", "EK_SEC", "EK_Q", "EK_ONE"}


def constants() -> Iterator[tuple[str, Path, re.Pattern[str]]]:
    """All constants: name, file, and the pattern that finds the definition."""
    for path in sorted((REPO / CORE).glob("*.c")):
        text = path.read_text()
        patterns = [DEFINE, FIELD] if path.name == "core.c" else [DEFINE]
        for pattern in patterns:
            for found in pattern.finditer(text):
                if found[2] not in FIXED:
                    yield found[2], path.relative_to(REPO), pattern


def scaled(value: str, factor: float) -> str:
    """C text for `value` times `factor`. Of EK_PERCENT(p) with p above 100, only the part above 100 is scaled."""
    percent = re.fullmatch(r"EK_PERCENT\((\d+)\)", value)
    if percent:
        over = int(percent[1]) - 100
        return (
            f"(EK_ONE + {over * factor:g} * EK_ONE / 100)"
            if over > 0
            else f"EK_PERCENT({over + 100}) * {factor:g}"
        )
    return f"((u64)(({value}) * {factor:g}))"


def build(out: Path, name: str, path: Path | None, pattern: re.Pattern[str] | None, factor: float) -> Path:
    """Build ek-sim with the constant `name` multiplied by `factor`. Returns its path."""
    tree = out / "tree"
    for source in SOURCES:
        shutil.copytree(REPO / source, tree / source, dirs_exist_ok=True)
    if path and pattern:
        text = pattern.sub(
            lambda found: found[1] + scaled(found[3], factor) if found[2] == name else found[0],
            (tree / path).read_text(),
        )
        (tree / path).write_text(text)
    sim = out / "ek-sim"
    subprocess.run([tree / "recipes/scheduler/src/sim/build", sim], check=True)
    return sim


def line(judged: list[Judged]) -> str:
    """The figures of a line, without the constant's name."""
    seen = [j for j in judged if not j.skipped]
    share = [
        100 * sum(j.least >= bound for j in seen) / max(1, len(seen)) for bound in (LEAST_MOST, LEAST_ALL)
    ]
    failed = [sum(kind in j.failures for j in seen) for kind in ("sum", "wait", "light")]
    return f"{share[0]:8.1f} {share[1]:8.1f} {failed[0]:6} {failed[1]:6} {failed[2]:6}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="default: all")
    parser.add_argument("--draws", type=int, default=150)
    parser.add_argument("--seed", type=int, default=20)
    options = parser.parse_args()
    cases = [(f"{options.seed}/{i}", draw(options.seed * 1_000_003 + i)) for i in range(options.draws)]
    print(f"{options.draws} draws of seed {options.seed}")
    print(f"{'constant':24} {'times':>5} {'>= 0.95':>8} {'>= 0.90':>8} {'sum':>6} {'wait':>6} {'light':>6}")
    todo: list[tuple[str, Path | None, re.Pattern[str] | None, float]] = [("as it is", None, None, 1.0)]
    known = list(constants())
    unknown = set(options.names) - {name for name, _, _ in known}
    if unknown:
        print(f"sweep.py: there is no constant {', '.join(sorted(unknown))} in {CORE}", file=sys.stderr)
        return 2
    for name, path, pattern in known:
        if not options.names or name in options.names:
            todo += [(name, path, pattern, factor) for factor in (0.5, 2.0)]
    for name, path, pattern, factor in todo:
        with tempfile.TemporaryDirectory() as out:
            search = Search(build(Path(out), name, path, pattern, factor), light=True)
            print(f"{name:24} {factor:5g} {line([search.judge(case, at) for at, case in cases])}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
