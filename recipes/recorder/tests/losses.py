#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The one table of losses, losses.toml, in the documents and in the code.

losses.py write    write the tables of the documents
losses.py check    exit status 1, and the names, if a table or src/format.h is not up to date
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

RECIPE = Path(__file__).resolve().parents[1]
DOCS = RECIPE.parents[1] / "docs"
# documents and the parts that each has between `<!-- generated: PART -->` and `<!-- end -->`
DOCUMENTS = {
    DOCS / "reference/recorder.md": ("losses", "gap reasons"),
    DOCS / "explanation/recorder.md": ("losses in short",),
}


def table(head: tuple[str, ...], *cells: tuple[str, ...]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (head, *cells)]
    lines.insert(1, "|" + "---|" * len(head))
    return "".join(line.replace("|  |", "| |") + "\n" for line in lines)


def tables(source: dict[str, Any]) -> dict[str, str]:
    losses, reasons = source["loss"], source["reason"]
    return {
        "losses": table(
            ("Event", "Lost", "Reported as"),
            *((loss["event"], loss["lost"], loss["reported"]) for loss in losses),
        ),
        "losses in short": table(
            ("Event", "Lost"),
            *((loss["event"], loss["lost"]) for loss in losses if loss.get("brief")),
        ),
        "gap reasons": table(
            ("Reason", "Meaning"),
            *(
                (f"`{reason['name']}`", "; ".join(filter(None, (reason["meaning"], reason.get("more")))))
                for reason in reasons
            ),
        ),
    }


def renewed(text: str, parts: tuple[str, ...], made: dict[str, str]) -> str:
    for part in parts:
        pattern = re.compile(rf"(<!-- generated: {part} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, count = pattern.subn(lambda match, part=part: f"{match[1]}{made[part]}{match[2]}", text)
        if count != 1:
            raise ValueError(f"expected one part '<!-- generated: {part} -->', found {count}")
    return text


def enum(source: dict[str, Any]) -> set[str]:
    """The lines of enum ekr_gap_reason."""
    return {
        f"EKR_GAP_{reason['name'].upper()} = {reason['number']}, /* {reason['meaning']} */"
        for reason in source["reason"]
    }


def stale(source: dict[str, Any]) -> list[str]:
    made = tables(source)
    found = [
        f"{document}: run {Path(__file__).name} write"
        for document, parts in DOCUMENTS.items()
        if renewed(text := document.read_text(), parts, made) != text
    ]
    header = (RECIPE / "src/format.h").read_text()
    (body,) = re.findall(r"enum ekr_gap_reason \{\n(.*?)\};", header, re.DOTALL)
    if {" ".join(line.split()) for line in body.splitlines()} != enum(source):
        found.append("src/format.h: enum ekr_gap_reason differs from losses.toml")
    names = set(re.findall(r"\[EKR_GAP_\w+\] = \"(\w+)\"", header))
    if names != {reason["name"] for reason in source["reason"]}:
        found.append("src/format.h: EKR_GAP_NAMES differs from losses.toml")
    return found


def main() -> int:
    source = tomllib.loads((RECIPE / "tests/losses.toml").read_text())
    if sys.argv[1:] == ["write"]:
        for document, parts in DOCUMENTS.items():
            document.write_text(renewed(document.read_text(), parts, tables(source)))
        return 0
    if sys.argv[1:] != ["check"]:
        print(__doc__, file=sys.stderr)
        return 2
    found = stale(source)
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
