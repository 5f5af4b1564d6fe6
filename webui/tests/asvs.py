#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The requirements of OWASP ASVS, asvs.toml, as tables in docs/security.md.

asvs.py write    write the tables
asvs.py check    exit status 1, and the reasons, if a table is old or if the data is incomplete or names a missing test
"""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

COMPONENT = Path(__file__).resolve().parents[1]
TOP = COMPONENT.parent
DATA = Path(__file__).with_suffix(".toml")
PAGE = TOP / "docs/security.md"
VERSION = "5.0.0"

# The numbers of the requirements by level. They are the same in all copies of this version.
NUMBERS = {
    1: """
    1.2.1 1.2.2 1.2.3 1.2.4 1.2.5 1.3.1 1.3.2 1.5.1 2.1.1 2.2.1 2.2.2 2.3.1 3.2.1 3.2.2 3.3.1 3.4.1 3.4.2 3.5.1 3.5.2 3.5.3
    4.1.1 4.4.1 5.2.1 5.2.2 5.3.1 5.3.2 6.1.1 6.2.1 6.2.2 6.2.3 6.2.4 6.2.5 6.2.6 6.2.7 6.2.8 6.3.1 6.3.2 6.4.1 6.4.2 7.2.1
    7.2.2 7.2.3 7.2.4 7.4.1 7.4.2 8.1.1 8.2.1 8.2.2 8.3.1 9.1.1 9.1.2 9.1.3 9.2.1 10.4.1 10.4.2 10.4.3 10.4.4 10.4.5 11.3.1
    11.3.2 11.4.1 12.1.1 12.2.1 12.2.2 13.4.1 14.2.1 14.3.1 15.1.1 15.2.1 15.3.1
    """.split(),  # noqa: SIM905
    2: """
    1.1.1 1.1.2 1.2.6 1.2.7 1.2.8 1.2.9 1.3.3 1.3.4 1.3.5 1.3.6 1.3.7 1.3.8 1.3.9 1.3.10 1.3.11 1.4.1 1.4.2 1.4.3 1.5.2
    2.1.2 2.1.3 2.2.3 2.3.2 2.3.3 2.3.4 2.4.1 3.3.2 3.3.3 3.3.4 3.4.3 3.4.4 3.4.5 3.4.6 3.5.4 3.5.5 3.7.1 3.7.2 4.1.2 4.1.3
    4.2.1 4.3.1 4.3.2 4.4.2 4.4.3 4.4.4 5.1.1 5.2.3 5.4.1 5.4.2 5.4.3 6.1.2 6.1.3 6.2.9 6.2.10 6.2.11 6.2.12 6.3.3 6.3.4
    6.4.3 6.4.4 6.5.1 6.5.2 6.5.3 6.5.4 6.5.5 6.6.1 6.6.2 6.6.3 6.8.1 6.8.2 6.8.3 6.8.4 7.1.1 7.1.2 7.1.3 7.3.1 7.3.2 7.4.3
    7.4.4 7.4.5 7.5.1 7.5.2 7.6.1 7.6.2 8.1.2 8.2.3 8.4.1 9.2.2 9.2.3 9.2.4 10.1.1 10.1.2 10.2.1 10.2.2 10.3.1 10.3.2
    10.3.3 10.3.4 10.4.6 10.4.7 10.4.8 10.4.9 10.4.10 10.4.11 10.5.1 10.5.2 10.5.3 10.5.4 10.5.5 10.6.1 10.6.2 10.7.1
    10.7.2 10.7.3 11.1.1 11.1.2 11.2.1 11.2.2 11.2.3 11.3.3 11.4.2 11.4.3 11.4.4 11.5.1 11.6.1 12.1.2 12.1.3 12.3.1 12.3.2
    12.3.3 12.3.4 13.1.1 13.2.1 13.2.2 13.2.3 13.2.4 13.2.5 13.3.1 13.3.2 13.4.2 13.4.3 13.4.4 13.4.5 14.1.1 14.1.2 14.2.2
    14.2.3 14.2.4 14.3.2 14.3.3 15.1.2 15.1.3 15.2.2 15.2.3 15.3.2 15.3.3 15.3.4 15.3.5 15.3.6 15.3.7 16.1.1 16.2.1 16.2.2
    16.2.3 16.2.4 16.2.5 16.3.1 16.3.2 16.3.3 16.3.4 16.4.1 16.4.2 16.4.3 16.5.1 16.5.2 16.5.3 17.1.1 17.2.1 17.2.2 17.2.3
    17.2.4 17.3.1 17.3.2
    """.split(),  # noqa: SIM905
}
CHAPTERS = {
    1: "encoding, injection",
    2: "validation, business logic",
    3: "browser",
    4: "API, HTTP",
    5: "files",
    6: "authentication",
    7: "sessions",
    8: "authorization",
    9: "self-contained tokens",
    10: "OAuth, OpenID Connect",
    11: "cryptography",
    12: "communication",
    13: "configuration",
    14: "data protection",
    15: "coding, architecture",
    16: "logs, errors",
    17: "WebRTC",
}
STATES = {"met": "met", "partly": "partly met", "no": "not met", "does-not-apply": "does not apply"}


@dataclass(frozen=True)
class Requirement:
    number: str
    level: int
    state: str
    how: str
    tests: tuple[str, ...] = field(default=())
    docs: str = ""

    @property
    def order(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.number.split("."))

    @property
    def chapter(self) -> int:
        return self.order[0]


def read(text: str) -> list[Requirement]:
    """All requirements of asvs.toml, in order. Raises ValueError, which names each fault."""
    source: dict[str, Any] = tomllib.loads(text)
    level = {number: each for each, numbers in NUMBERS.items() for number in numbers}
    faults, found = [], []
    if source["version"] != VERSION:
        faults.append(f"the version is {source['version']}, and the list of numbers is of {VERSION}")
    rows = [
        (number, {"state": "does-not-apply", "how": group["how"]})
        for group in source["does-not-apply"]
        for number in group["numbers"]
    ]
    rows += [*source["requirement"].items()]
    for number, row in rows:
        one = Requirement(
            number,
            level.get(number, 0),
            row["state"],
            row["how"],
            tuple(row.get("tests", ())),
            row.get("docs", ""),
        )
        found.append(one)
        if not one.level:
            faults.append(f"{number} is no requirement of the levels 1 and 2")
        if one.state not in STATES or (number in source["requirement"] and one.state == "does-not-apply"):
            faults.append(f"{number} has the state {one.state}")
        if one.state == "met" and not (one.tests or one.docs):
            faults.append(f"{number} is met, but names neither a test nor a document")
    numbers = [one.number for one in found]
    faults += [f"{number} is there twice" for number in sorted(set(numbers)) if numbers.count(number) > 1]
    faults += [f"{number} is missing" for number in level if number not in numbers]
    if faults:
        raise ValueError("\n".join(faults))
    return sorted(found, key=lambda one: one.order)


def missing(requirements: list[Requirement], top: Path = TOP) -> list[str]:
    """The tests and places in documents that do not exist."""
    found = []
    for one in requirements:
        for test in one.tests:
            path, _, name = test.partition("::")
            file = top / path
            if not file.is_file() or not re.search(
                rf"^ *(async )?def {re.escape(name)}\(", file.read_text(), re.MULTILINE
            ):
                found.append(f"{one.number}: there is no test {test}")
        if one.docs:
            path, _, anchor = one.docs.partition("#")
            file = top / path
            if not file.is_file() or anchor not in anchors(file.read_text()):
                found.append(f"{one.number}: there is no {one.docs}")
    return found


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a Markdown text, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def table(head: tuple[str, ...], *rows: tuple[str, ...]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    lines.insert(1, "|" + "---|" * len(head))
    return "".join(re.sub(r"(?<=\|)  (?=\|)", " ", line) + "\n" for line in lines)


def _shown(one: Requirement) -> str:
    """The evidence: each test below the name of its file, or a link to the document."""
    if one.docs:
        path, _, anchor = one.docs.partition("#")
        return f"[{anchor.replace('-', ' ')}]({path.removeprefix('docs/')}#{anchor})"
    parts = []
    for path, tests in groupby(sorted(one.tests), key=lambda test: test.partition("::")[0]):
        names = ", ".join(f"`{test.partition('::')[2]}`" for test in tests)
        parts.append(f"`{path}`: {names}")
    return "; ".join(parts)


def parts(requirements: list[Requirement]) -> dict[str, str]:
    """The generated parts of the page, by name."""
    counts = []
    for chapter, name in (*CHAPTERS.items(), (0, "all")):
        of = [one for one in requirements if chapter in (0, one.chapter)]
        numbers = (str(sum(one.state == state for one in of) or "") for state in STATES)
        counts.append((f"V{chapter}" if chapter else "", name, *numbers))
    exceptions = [
        (one.number, str(one.level), STATES[one.state], one.how)
        for one in requirements
        if one.state in ("partly", "no")
    ]
    by_chapter = "\n".join(
        f"### V{chapter}: {name}\n\n"
        + table(
            ("number", "level", "state", "how", "shown by"),
            *(
                (one.number, str(one.level), STATES[one.state], one.how, _shown(one))
                for one in requirements
                if one.chapter == chapter
            ),
        )
        for chapter, name in CHAPTERS.items()
    )
    return {
        "asvs summary": table(("chapter", "topic", *STATES.values()), *counts),
        "asvs exceptions": table(("number", "level", "state", "what is missing, and why"), *exceptions),
        "asvs requirements": by_chapter,
    }


def renewed(text: str, made: dict[str, str]) -> str:
    """The page TEXT with the parts MADE."""
    for part, content in made.items():
        begin, end = f"<!-- generated: {part} -->\n", "<!-- end -->"
        if text.count(begin) != 1:
            raise ValueError(f"expected one part '{begin.strip()}', found {text.count(begin)}")
        before, rest = text.split(begin)
        text = before + begin + content + end + rest.partition(end)[2]
    return text


def faults(data: str, page: str) -> list[str]:
    """What is wrong with the data, or with the page that was made from it."""
    try:
        requirements = read(data)
    except ValueError as error:
        return str(error).splitlines()
    old = renewed(page, parts(requirements)) != page
    return missing(requirements) + (["docs/security.md is old; run 'make docs'"] if old else [])


def main() -> int:
    if sys.argv[1:] == ["write"]:
        PAGE.write_text(renewed(PAGE.read_text(), parts(read(DATA.read_text()))))
        return 0
    if sys.argv[1:] != ["check"]:
        print(__doc__, file=sys.stderr)
        return 2
    found = faults(DATA.read_text(), PAGE.read_text())
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
