#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Read mk/components, the list of components, for tests and documents.

tests/components.py write        write the table of components in the documents
tests/components.py check        exit with status 1 if the table in a document is not up to date
tests/components.py packages     print the folders of Python packages, for the type checker
tests/components.py modules      print the folders of kernel modules
tests/components.py user-space   print the folders of components that are not kernel modules
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
LIST = "mk/components"
# documents with a table of components between `<!-- generated: components -->` and `<!-- end -->`
DOCUMENTS = ("README.md",)
PART = re.compile(r"(<!-- generated: components -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Component:
    name: str
    folder: str
    unit: str  # how `make unit` tests it: pytest, meson, or "-"
    recipe: str  # its recipe in meta-iosched, or "-"
    image: str  # meson options for the Debian image, "yes" without any, or "-"
    top: Path

    @property
    def path(self) -> Path:
        return self.top / self.folder

    @property
    def summary(self) -> str:
        """SUMMARY from the first heading of the component's README, `# NAME: SUMMARY`."""
        readme = self.path / "README.md"
        heading = re.search(r"^# (.*)$", readme.read_text(), re.MULTILINE) if readme.is_file() else None
        found = re.fullmatch(rf"{re.escape(self.name)}: (.+)", heading[1]) if heading else None
        if not found:
            raise ValueError(f"{self.folder}/README.md must begin with the heading '# {self.name}: SUMMARY'")
        return found[1].removesuffix(".")


def components(top: Path = TOP) -> list[Component]:
    """All components in the order of the list. Raises ValueError, which names the line, if a line is wrong."""
    found: list[Component] = []
    for number, line in enumerate((top / LIST).read_text().splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 5:
            raise ValueError(f"{LIST}, line {number}: expected NAME FOLDER UNIT RECIPE IMAGE, not: {line}")
        name, folder, unit, recipe, image = words
        if any(name == other.name or folder == other.folder for other in found):
            raise ValueError(f"{LIST}, line {number}: {name} or {folder} is there twice")
        found.append(Component(name, folder, unit, recipe, image, top))
    return found


def recipes(top: Path = TOP) -> dict[str, str]:
    """Recipe of the Yocto layer → folder of its component. Only components that the Debian image installs by meson."""
    return {c.recipe: c.folder for c in components(top) if c.image != "-"}


def table(top: Path = TOP) -> str:
    """The components as a Markdown table."""
    rows = [f"| [{c.name}]({c.folder}/README.md) | {c.summary} |" for c in components(top)]
    return "\n".join(["| component | what it is |", "|---|---|", *rows, ""])


def renewed(text: str, top: Path = TOP) -> str:
    """A document's text with an up-to-date table."""
    return PART.sub(lambda match: f"{match[1]}{table(top)}{match[2]}", text)


def packages(top: Path = TOP) -> list[str]:
    """Folders of the outermost Python packages of all components."""
    inits = sorted(path.parent for c in components(top) for path in c.path.glob("src/**/__init__.py"))
    return [str(folder.relative_to(top)) for folder in inits if folder.parent not in inits]


def modules(top: Path = TOP) -> list[str]:
    """Folders of the components that are kernel modules."""
    return [c.folder for c in components(top) if (c.path / "src/Kbuild").is_file()]


def user_space(top: Path = TOP) -> list[str]:
    """Folders of the components that are not kernel modules."""
    return [c.folder for c in components(top) if not (c.path / "src/Kbuild").is_file()]


def documents(write: bool) -> int:
    """Write or check the tables. Returns the number of tables that were not up to date."""
    stale = [name for name in DOCUMENTS if renewed(text := (TOP / name).read_text()) != text]
    for name in stale:
        if write:
            (TOP / name).write_text(renewed((TOP / name).read_text()))
            print(f"{name}: the table of components was renewed")
        else:
            print(f"{name}: the table of components is not up to date; run 'make docs'")
    return len(stale)


def main(arguments: list[str]) -> int:
    lists = {"packages": packages, "modules": modules, "user-space": user_space}
    match arguments:
        case ["write"]:
            documents(write=True)
        case ["check"]:
            return 1 if documents(write=False) else 0
        case [which] if which in lists:
            print("\n".join(lists[which]()))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
