# SPDX-License-Identifier: Apache-2.0
"""What Debian's security tracker says of the source packages of an image.

The data is one JSON file: source package → CVE → releases → status. It has no date, so the age is that of the file.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from . import SupplyError, debian

# How much is open, in the order of urgency. With CVE_FAIL=CLASS, this class and those before it count as a failure.
CLASSES = {
    "update": "Debian has a fixed version: build the image again",
    "open": "Debian has no fix yet, or has not decided yet",
    "minor": "Debian fixes it later, or never, because it is a minor issue",
    "unimportant": "Debian sees no risk in it",
}


@dataclass(frozen=True)
class Source:
    """A source package of Debian in an SBOM."""

    name: str
    version: str
    suite: str  # trixie or trixie-backports
    binaries: tuple[str, ...]  # names of the items that are made from it


@dataclass
class Finding:
    """A vulnerability that a source package has."""

    cve: str
    source: Source
    kind: str  # one of CLASSES
    note: str  # what Debian says
    description: str
    excused: str = ""  # why it does not apply here


@dataclass
class Data:
    """A file of the tracker."""

    path: Path
    entries: dict[str, object]  # source package → CVE → entry
    age: float  # in days

    checked: int = 0  # pairs of a package and a CVE that were compared
    outdated: list[str] = field(
        default_factory=list
    )  # packages of which the image has a newer version than the data knows


def load(path: Path, now: float | None = None) -> Data:
    """Read a file. Raises SupplyError if it is missing, or no such data."""
    again = "Download it again."
    try:
        with path.open(encoding="utf-8") as stream:
            entries = json.load(stream)
        written = path.stat().st_mtime
    except OSError as error:
        raise SupplyError(f"cannot read the data {path}: {error.strerror}") from error
    except ValueError as error:
        raise SupplyError(f"{path} is no JSON, or is truncated: {error}. {again}") from error
    if not isinstance(entries, dict) or not all(isinstance(each, dict) for each in entries.values()):
        raise SupplyError(f"{path} is JSON, but not the data of Debian's security tracker. {again}")
    return Data(path, entries, ((now or time.time()) - written) / 86400)


def release_of(source: Source) -> tuple[str, str]:
    """The release whose entries hold for a package, and the version to compare.

    A backport has the fixes of the version of which it was made, and Debian tracks those in sid."""
    if source.suite.endswith("-backports"):
        return "sid", debian.BACKPORT.sub("", source.version)
    return source.suite, source.version


def findings(data: Data, sources: Iterable[Source]) -> Iterator[Finding]:
    """All vulnerabilities of the packages. Raises SupplyError if an entry has another form than expected."""
    known = False
    for source in sources:
        entries = data.entries.get(source.name, {})
        assert isinstance(entries, dict)
        release, version = release_of(source)
        newest: set[str] = set()
        for cve, entry in sorted(entries.items()):
            where = f"{data.path}: the entry {source.name}, {cve}"
            here = _fields(_fields(entry, where).get("releases", {}), where).get(release)
            if here is None:  # the release never had the package with this flaw
                continue
            known = True
            data.checked += 1
            state = _fields(here, where)
            newest |= set(map(str, _fields(state.get("repositories", {}), where).values()))
            found = _judged(state, version, where)
            if found:
                yield Finding(cve, source, *found, str(_fields(entry, where).get("description", "")))
        if newest and all(debian.earlier(each, version) for each in newest):
            data.outdated.append(f"{source.name} {source.version}")
    if not known:
        raise SupplyError(
            f"{data.path} has no entry for a package of this image. Is it the data of Debian's security tracker?"
        )


def _fields(value: object, where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise SupplyError(f"{where}: has another form than expected. Download the data again.")
    return value


def _judged(state: dict[str, object], version: str, where: str) -> tuple[str, str] | None:
    """Class and note of a flaw that the package has, or None if it does not have it."""
    status, fixed = state.get("status"), str(state.get("fixed_version") or "")
    urgency, nodsa = str(state.get("urgency") or ""), state.get("nodsa")
    if status not in ("open", "resolved", "undetermined"):
        raise SupplyError(f"{where}: unknown status {status!r}. Download the data again.")
    note = f"fixed in {fixed}" if fixed else ""
    if status == "resolved" and fixed and not debian.earlier(version, fixed):
        return None  # a package that never had the flaw is fixed in version 0
    if urgency == "unimportant":
        return "unimportant", note or "unimportant"
    if status == "resolved":
        return ("update", note) if fixed else ("open", "resolved, but the data has no version")
    if status == "undetermined":
        return "open", "Debian has not decided yet"
    if urgency == "end-of-life":
        return "open", "Debian no longer supports this package"
    if nodsa is not None:
        reason = str(state.get("nodsa_reason") or "no advisory")
        return "minor", ": ".join(word for word in (reason, str(nodsa)) if word)
    return "open", "no fix yet"


def sources(document: object, path: Path) -> tuple[list[Source], list[str]]:
    """The source packages of Debian in an SBOM, and the items for which Debian has no data. Raises SupplyError."""
    if not isinstance(document, dict) or document.get("spdxVersion") != "SPDX-2.3":
        raise SupplyError(f"{path} is no SBOM in the format SPDX 2.3")
    packages = {each["SPDXID"]: each for each in document.get("packages", [])}
    made: dict[str, set[str]] = {}
    for relation in document.get("relationships", []):
        if relation["relationshipType"] == "GENERATED_FROM":
            made.setdefault(relation["relatedSpdxElement"], set()).add(relation["spdxElementId"])
    from_debian = set().union(*made.values()) if made else set()
    found: list[Source] = []
    other: list[str] = []
    for identifier, each in packages.items():
        purls = [
            ref["referenceLocator"] for ref in each.get("externalRefs", []) if ref["referenceType"] == "purl"
        ]
        if not purls:
            continue
        purl = debian.Purl.parse(purls[0])
        if purl.kind == "deb" and purl.get("arch") == "source":
            names = tuple(sorted(packages[one]["name"] for one in made.get(identifier, ())))
            name = re.sub(r"^debian/", "", purl.name)
            found.append(Source(name, purl.version, purl.get("distro"), names))
        elif identifier not in from_debian:
            other.append(f"{each['name']} {each['versionInfo']}")
    if not found:
        raise SupplyError(f"{path} names no source package of Debian")
    return sorted(found, key=lambda source: (source.name, source.version)), sorted(other)
