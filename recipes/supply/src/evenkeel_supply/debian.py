# SPDX-License-Identifier: Apache-2.0
"""Debian's files and rules: control files, dependencies, package URLs, order of versions."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from urllib.parse import quote, unquote

from . import SupplyError

Paragraph = dict[str, str]  # field in lower case → its value; the lines after the first begin with a space


def paragraphs(text: str) -> Iterator[Paragraph]:
    """The paragraphs of a file in the format of Debian's control files."""
    fields: Paragraph = {}
    name = ""
    for line in [*text.splitlines(), ""]:
        if not line.strip():
            if fields:
                yield fields
            fields, name = {}, ""
        elif line[0] in " \t":
            if name:
                fields[name] += "\n" + line
        elif not line.startswith("#"):
            name, colon, value = line.partition(":")
            name = name.strip().lower() if colon else ""
            if name:
                fields[name] = value.strip()


@dataclass(frozen=True)
class Package:
    """An installed binary package."""

    name: str
    version: str
    architecture: str
    source: str
    source_version: str
    summary: str
    homepage: str
    depends: tuple[tuple[str, ...], ...]  # each is a tuple of alternatives
    provides: tuple[str, ...]
    built_using: tuple[tuple[str, str], ...]  # other source packages of which it has parts: name, version


SOURCE = re.compile(r"(\S+)(?:\s+\((.+)\))?")
BUILT_USING = re.compile(r"([^\s,]+)\s+\(=\s*([^\s)]+)\)")


def package(fields: Paragraph) -> Package:
    """The package that a paragraph describes. Raises SupplyError if a field is missing."""
    try:
        name, version, architecture = fields["package"], fields["version"], fields["architecture"]
    except KeyError as missing:
        raise SupplyError(f"a package has no field {missing}: {fields}") from missing
    found = SOURCE.fullmatch(fields.get("source", name))
    if not found:
        raise SupplyError(f"package {name}: the field Source has another form: {fields['source']}")
    return Package(
        name,
        version,
        architecture,
        found[1],
        found[2] or version,
        fields.get("description", "").partition("\n")[0],
        fields.get("homepage", ""),
        tuple(
            tuple(map(_bare, relation.split("|")))
            for field in ("pre-depends", "depends")
            for relation in fields.get(field, "").split(",")
            if relation.strip()
        ),
        tuple(_bare(name) for name in fields.get("provides", "").split(",") if name.strip()),
        tuple(
            (found[1], found[2])
            for field in ("built-using", "static-built-using")
            for found in BUILT_USING.finditer(fields.get(field, ""))
        ),
    )


def _bare(relation: str) -> str:
    """The name in a relation such as `libc6:amd64 (>= 2.38)`."""
    return relation.strip().partition(" ")[0].partition("(")[0].partition(":")[0]


def installed(status: str) -> list[Package]:
    """The installed packages in dpkg's file `status`, sorted by name."""
    found = [package(f) for f in paragraphs(status) if f.get("status", "").endswith(" installed")]
    if not found:
        raise SupplyError("dpkg's list of packages names no installed package")
    return sorted(found, key=lambda p: (p.name, p.architecture))


def dependencies(packages: Iterable[Package]) -> dict[str, list[str]]:
    """Name of each package → the names of the installed packages that satisfy its dependencies."""
    packages = list(packages)
    providers: dict[str, str] = {}
    for each in packages:
        for name in each.provides:
            providers.setdefault(name, each.name)
    providers.update({each.name: each.name for each in packages})
    found: dict[str, list[str]] = {}
    for each in packages:
        chosen = (next((providers[n] for n in names if n in providers), "") for names in each.depends)
        found[each.name] = sorted(set(chosen) - {"", each.name})
    return found


@dataclass(frozen=True)
class Purl:
    """A package URL (https://github.com/package-url/purl-spec): pkg:TYPE/NAMESPACE/NAME@VERSION?QUALIFIERS."""

    kind: str
    name: str  # with its namespace
    version: str = ""
    qualifiers: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        version = f"@{quote(self.version, safe=':')}" if self.version else ""
        more = "&".join(f"{key}={quote(value, safe=':')}" for key, value in sorted(self.qualifiers))
        return f"pkg:{self.kind}/{quote(self.name)}{version}{'?' if more else ''}{more}"

    def get(self, qualifier: str) -> str:
        return dict(self.qualifiers).get(qualifier, "")

    @classmethod
    def parse(cls, text: str) -> Purl:
        """Raises ValueError if the text is no package URL."""
        scheme, colon, rest = text.partition(":")
        rest, _, query = rest.partition("#")[0].partition("?")
        kind, slash, rest = rest.strip("/").partition("/")
        name, _, version = rest.rpartition("@") if "@" in rest else (rest, "", "")
        if scheme != "pkg" or not colon or not kind or not slash or not name:
            raise ValueError(f"{text} is no package URL")
        pairs = (pair.partition("=") for pair in query.split("&") if pair)
        return cls(
            kind.lower(),
            unquote(name),
            unquote(version),
            tuple(sorted((key, unquote(value)) for key, _, value in pairs)),
        )


BACKPORT = re.compile(r"~bpo\d+\+\d+(\+b\d+)?$")


def deb_purl(name: str, version: str, architecture: str, codename: str) -> Purl:
    """The package URL of a package of Debian; the architecture of a source package is `source`."""
    suite = f"{codename}-backports" if BACKPORT.search(version) else codename
    return Purl("deb", f"debian/{name}", version, (("arch", architecture), ("distro", suite)))


@cache
def earlier(one: str, other: str) -> bool:
    """Whether version `one` is earlier than `other`. dpkg itself compares, so its rules hold."""
    done = subprocess.run(
        ["dpkg", "--compare-versions", one, "lt", other], capture_output=True, text=True, check=False
    )
    # A version that breaks dpkg's rules gets a warning; dpkg compares it all the same.
    if done.returncode not in (0, 1) or done.stderr:
        reason = done.stderr.strip() or f"status {done.returncode}"
        raise SupplyError(f"dpkg cannot compare the versions {one!r} and {other!r}: {reason}")
    return done.returncode == 0
