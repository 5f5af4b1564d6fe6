# SPDX-License-Identifier: Apache-2.0
"""Licences in Debian's copyright files, as SPDX expressions.

A copyright file in Debian's machine-readable format (DEP-5) names the licence of each group of files of a *source* package.
The licence of a package is the conjunction of them all. Nothing is guessed: a name that does not stand for one licence
of SPDX's list becomes a `LicenseRef-…`, with its text. So does a file in no machine-readable format, as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from .debian import paragraphs

# licences of SPDX's list that Debian calls by the same name; capitals do not count
SAME = """
0BSD AFL-2.0 AFL-2.1 Apache-2.0 APSL-2.0 Artistic-2.0 Beerware BSD-2-Clause BSD-3-Clause BSD-4-Clause BSD-4-Clause-UC
BSL-1.0 bzip2-1.0.6 CC-BY-3.0 CC-BY-4.0 CC-BY-SA-2.5 CC-BY-SA-3.0 CC-BY-SA-4.0 CC0-1.0 CDDL-1.0 CPL-1.0 curl EPL-1.0
EPL-2.0 FSFAP FSFUL FSFULLR FTL HPND ISC Libpng MIT MIT-CMU MPL-1.1 MPL-2.0 MS-PL OFL-1.1 OLDAP-2.8 OpenSSL PSF-2.0
Sleepycat Unicode-DFS-2016 Unlicense X11 Zlib
"""
# names of Debian (https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/) in lower case → SPDX
OTHER = {
    "apache-2": "Apache-2.0",
    "artistic-2": "Artistic-2.0",
    "bsd 3-clause": "BSD-3-Clause",
    "bsl-1": "BSL-1.0",
    "cc0": "CC0-1.0",
    "expat": "MIT",
    "openldap-2.8": "OLDAP-2.8",
    "gpl-2 with linux-syscall-note exception": "GPL-2.0-only WITH Linux-syscall-note",
}
NAMES = {name.lower(): name for name in SAME.split()} | OTHER
GNU = re.compile(r"(A|L)?(GPL|FDL|GFDL)(-NIV)?-?(\d)(?:\.(\d))?(?:\.0)?(\+|-only|-or-later)?", re.IGNORECASE)
# the versions that exist: GPL-2 is GPL-2.0
VERSIONS = {
    "GPL": {"1.0", "2.0", "3.0"},
    "LGPL": {"2.0", "2.1", "3.0"},
    "AGPL": {"1.0", "3.0"},
    "GFDL": {"1.1", "1.2", "1.3"},
}


def spdx_name(name: str) -> str | None:
    """The SPDX expression for Debian's name of one licence, or None if there is none."""
    if found := NAMES.get(name.lower()):
        return found
    if not (gnu := GNU.fullmatch(name)):
        return None
    family = (gnu[1] or "").upper() + gnu[2].upper().replace("GFDL", "FDL").replace("FDL", "GFDL")
    version = f"{gnu[4]}.{gnu[5] or 0}"
    if version not in VERSIONS.get(family, ()) or (gnu[3] and family != "GFDL"):
        return None
    return f"{family}-{version}{'-no-invariants' if gnu[3] else ''}{'-or-later' if gnu[6] in ('+', '-or-later') else '-only'}"


REF = re.compile(r"LicenseRef-[A-Za-z0-9.-]+")


@dataclass
class Licence:
    """Licence of a package."""

    parts: list[str]  # SPDX expressions, of which all apply
    refs: dict[str, tuple[str, str]] = field(default_factory=dict)  # LicenseRef-… → name, text
    readable: bool = True  # False: the file is not machine-readable

    @property
    def expression(self) -> str:
        if len(self.parts) == 1:
            return self.parts[0].removeprefix("(").removesuffix(")")
        return " AND ".join(self.parts)

    @property
    def names(self) -> list[str]:
        """The parts for people: with the names of Debian instead of `LicenseRef-…`."""
        if not self.readable:
            return ["see its text"]
        named = (REF.sub(lambda ref: self.refs[ref[0]][0], part) for part in self.parts)
        return sorted({name.removeprefix("(").removesuffix(")") for name in named}, key=str.lower)


def plain(*identifiers: str) -> Licence:
    """A licence by its SPDX identifiers."""
    return Licence(sorted(set(identifiers)))


def identifier(*words: str) -> str:
    """A LicenseRef: only letters, digits, full stops and hyphens are allowed."""
    text = "-".join(words).replace("+", "-or-later")
    return "LicenseRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")


def of_copyright(source: str, text: str) -> Licence:
    """The licence of the source package `source` with the copyright file `text`."""
    head, *rest = list(paragraphs(text)) or [{}]
    named = [p["license"] for p in [head, *(p for p in rest if "files" in p)] if "license" in p]
    if "copyright-format" not in head.get("format", "") or not named:
        ref = identifier("Debian", source, "copyright")
        return Licence([ref], {ref: (f"the copyright file of {source}", text)}, readable=False)
    texts: dict[str, list[str]] = {}
    for each in [head, *rest]:
        name, _, body = each.get("license", "").partition("\n")
        if body.strip() and body not in texts.setdefault(name.strip(), []):
            texts[name.strip()].append(body)
    reader = _Reader(source, texts)
    for name in sorted({name.partition("\n")[0].strip() for name in named}):
        reader.add(name)
    return Licence(sorted(reader.parts), reader.refs)


class _Reader:
    """Translates the names of the licences of one package."""

    def __init__(self, source: str, texts: dict[str, list[str]]) -> None:
        self.source = source
        self.texts = texts
        self.refs: dict[str, tuple[str, str]] = {}
        self.parts: set[str] = set()

    def add(self, name: str) -> None:
        """Add an expression such as `GPL-2+ or Artistic, and BSD-3-clause` to the parts."""
        name = re.sub(r"\s*\(see [^)]*\)", "", name)
        name = re.sub(r"(\S) or later\b", r"\1+", name)
        # A comma binds less than `or`, and `or` less than `and`. So the text between commas is in parentheses.
        if len(ors := re.split(r",\s*or\s+", name, flags=re.IGNORECASE)) > 1:
            self.parts.add(_any(f"({either})" if " " in (either := self._or(one)) else either for one in ors))
            return
        for operand in re.split(r",\s*(?:and\s+)?", name, flags=re.IGNORECASE):
            either = self._or(operand)
            if " OR " in either:
                self.parts.add(either)
            else:
                self.parts.update(either.split(" AND "))

    def _or(self, name: str) -> str:
        every = [self._and(one) for one in re.split(r"\s+or\s+", name, flags=re.IGNORECASE)]
        return every[0] if len(every) == 1 else _any(f"({one})" if " AND " in one else one for one in every)

    def _and(self, name: str) -> str:
        every = re.split(r"\s+and\s+", name, flags=re.IGNORECASE)
        return " AND ".join(sorted({self._one(one.strip()) for one in every}))

    def _one(self, name: str) -> str:
        if known := spdx_name(name):
            return known
        ref = identifier("Debian", self.source, name or "unnamed")
        texts = [_unfolded(body) for body in self.texts.get(name, [])]
        if (
            ref in self.refs and self.refs[ref][0] != name
        ):  # two names differ only in characters that SPDX does not allow
            texts.insert(0, self.refs[ref][1])
        self.refs[ref] = (
            name or "unnamed",
            "\n\n".join(texts) or f"See the copyright file of {self.source}.",
        )
        return ref


def _unfolded(body: str) -> str:
    """A text of several lines as it was before Debian's format indented it."""
    return "\n".join("" if line.strip() == "." else line[1:] for line in body.splitlines()).strip("\n")


def _any(operands: Iterable[str]) -> str:
    unique = sorted(set(operands))
    return unique[0] if len(unique) == 1 else f"({' OR '.join(unique)})"
