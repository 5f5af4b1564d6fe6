# SPDX-License-Identifier: Apache-2.0
"""Tables and generated blocks of Markdown pages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

# a cell without a figure
DASH = "–"
# instead of a table that would be empty
UNMEASURED = "Not measured in this bench."

# the text between these lines is generated
_BLOCK = re.compile(
    r"(?P<begin><!-- generated: (?P<name>[\w.-]+) -->\n)(?P<text>.*?)(?P<end><!-- end -->)", re.S
)


def cell(text: str) -> str:
    """Text that cannot end a cell or a row."""
    return text.replace("|", "\\|").replace("\n", " ")


def table(head: Sequence[str], lines: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """A table, with a line break at its end. `right` are the columns that are aligned to the right."""
    rule = ["---:" if i in right else "---" for i in range(len(head))]
    rows = [list(map(cell, head)), rule, *(list(map(cell, line)) for line in lines)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def blocks(page: str) -> dict[str, str]:
    """The generated blocks of a page: name -> text."""
    return {found["name"]: found["text"] for found in _BLOCK.finditer(page)}


def fill(page: str, generated: Mapping[str, str]) -> str:
    """The page with its blocks renewed. Blocks of other generators stay as they are."""
    return _BLOCK.sub(
        lambda found: (
            f"{found['begin']}{generated[found['name']]}{found['end']}"
            if found["name"] in generated
            else found[0]
        ),
        page,
    )
