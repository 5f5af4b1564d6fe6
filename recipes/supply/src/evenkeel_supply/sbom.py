# SPDX-License-Identifier: Apache-2.0
"""Write the SBOM of an image (SPDX 2.3, JSON), its list of licences, and the archive of the licences' texts.

`recipes/image/src/build` runs this inside the build root. The same inputs give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from . import SupplyError, debian, inventory, listing
from .inventory import Item

Json = dict[str, object]
NONE = "NOASSERTION"
PURPOSES = {
    "Debian package": "LIBRARY",
    "component": "APPLICATION",
    "kernel": "OPERATING-SYSTEM",
    "boot loader": "FIRMWARE",
    "script": "LIBRARY",
    "data": "OTHER",
}


def spdx_id(*words: str) -> str:
    """An SPDX identifier. Characters that SPDX does not allow are written as their code."""
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", lambda found: f".{ord(found[0]):02x}", "-".join(words))


@dataclass(frozen=True)
class Image:
    """A finished image."""

    name: str  # evenkeel-x86_64
    version: str
    file: str
    sha256: str
    root_sha256: str  # of the root file system, which an update bundle installs


def document(image: Image, items: Iterable[Item], epoch: int) -> Json:
    """The SBOM. Raises SupplyError if two items would have the same identifier."""
    items = sorted(items, key=lambda item: (item.kind, item.name, item.version))
    packages: dict[str, Json] = {}
    relations: set[tuple[str, str, str]] = set()
    extracted: dict[str, tuple[str, str]] = {}

    def add(identifier: str, entry: Json) -> None:
        if identifier in packages:
            raise SupplyError(f"the SBOM has two entries {identifier}")
        packages[identifier] = {"SPDXID": identifier, **entry}

    whole, root = spdx_id("image"), spdx_id("root-file-system")
    add(whole, _artifact(image.name, image, image.file, image.sha256))
    add(root, _artifact(f"{image.name}-root", image, "root.ext4", image.root_sha256))
    relations |= {("SPDXRef-DOCUMENT", "DESCRIBES", whole), (whole, "CONTAINS", root)}
    names = {(item.kind, item.name): _item_id(item) for item in items}
    for item in items:
        identifier = _item_id(item)
        extracted |= item.licence.refs
        add(identifier, _entry(item))
        relations.add((root if item.in_root else whole, "CONTAINS", identifier))
        relations |= {(identifier, "DEPENDS_ON", names[item.kind, other]) for other in item.depends}
        for purl in [*([item.source] if item.source else []), *item.built_using]:
            source = spdx_id("source", purl.name.rpartition("/")[2], purl.version)
            relations.add((identifier, "GENERATED_FROM", source))
            declared = item.licence.expression if purl == item.source else NONE
            if source not in packages or packages[source]["licenseDeclared"] == NONE:
                packages[source] = _source_entry(source, purl, declared)
    body: Json = {
        "packages": [packages[identifier] for identifier in sorted(packages)],
        "relationships": [
            {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
            for one, kind, other in sorted(relations)
        ],
        "hasExtractedLicensingInfos": [
            {"licenseId": ref, "name": name, "extractedText": text}
            for ref, (name, text) in sorted(extracted.items())
        ],
    }
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{image.name}-{image.version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/{image.name}-{image.version}-{digest[:32]}",
        "creationInfo": {
            "created": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": [inventory.EVENKEEL, f"Tool: evenkeel-supply-{image.version}"],
        },
        **body,
    }


def _item_id(item: Item) -> str:
    return spdx_id(item.kind.replace(" ", "-"), item.name)


def _artifact(name: str, image: Image, file: str, sha256: str) -> Json:
    return {
        "name": name,
        "versionInfo": image.version,
        "packageFileName": file,
        "supplier": inventory.EVENKEEL,
        "downloadLocation": NONE,
        "filesAnalyzed": False,
        "checksums": [{"algorithm": "SHA256", "checksumValue": sha256}],
        "licenseConcluded": NONE,
        "licenseDeclared": NONE,
        "copyrightText": NONE,
        "primaryPackagePurpose": "OPERATING-SYSTEM",
    }


def _purl(purl: debian.Purl) -> list[Json]:
    return [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": str(purl)}]


def _entry(item: Item) -> Json:
    entry: Json = {
        "name": item.name,
        "versionInfo": item.version,
        "supplier": item.supplier,
        "downloadLocation": NONE,
        "filesAnalyzed": False,
        "licenseConcluded": NONE,
        "licenseDeclared": item.licence.expression,
        "copyrightText": NONE,
        "externalRefs": _purl(item.purl),
        "primaryPackagePurpose": PURPOSES[item.kind],
    }
    if not item.licence.readable:
        entry["licenseComments"] = "The copyright file is not machine-readable: read its text."
    if item.checksum:
        entry["checksums"] = [{"algorithm": item.checksum[0], "checksumValue": item.checksum[1]}]
    optional = {"summary": item.summary, "homepage": item.homepage, "comment": item.comment}
    return entry | {key: value for key, value in optional.items() if value}


def _source_entry(identifier: str, source: debian.Purl, declared: str) -> Json:
    return {
        "SPDXID": identifier,
        "name": source.name.rpartition("/")[2],
        "versionInfo": source.version,
        "supplier": inventory.DEBIAN,
        "downloadLocation": NONE,
        "filesAnalyzed": False,
        "licenseConcluded": NONE,
        "licenseDeclared": declared,
        "copyrightText": NONE,
        "externalRefs": _purl(source),
        "primaryPackagePurpose": "SOURCE",
    }


def sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="sbom", description=__doc__)
    parser.add_argument("--image", type=Path, required=True, help="the disk image, NAME.img")
    parser.add_argument("--root", type=Path, required=True, help="the root file system, as in the image")
    parser.add_argument(
        "--tree", type=Path, required=True, help="folder with the files of the root file system"
    )
    parser.add_argument("--kernel", type=Path, required=True, help="object directory of the kernel")
    parser.add_argument(
        "--kernel-version", default="", help="version of Debian's source package, if the build root lacks it"
    )
    parser.add_argument(
        "--module", type=Path, action="append", default=[], help="a kernel module of a component"
    )
    parser.add_argument("--component", type=Path, action="append", default=[], help="folder of a component")
    parser.add_argument("--npm", type=Path, help="npm's lock file of the panel's scripts")
    parser.add_argument(
        "--data-package", type=Path, action="append", default=[], help="a Debian package that gives data"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the result")
    given = parser.parse_args(arguments)
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "1735689600"))
    try:
        write(given, epoch)
    except SupplyError as error:
        print(f"sbom: {error}", file=sys.stderr)
        return 1
    return 0


def write(given: argparse.Namespace, epoch: int) -> None:
    """Write the files about an image. Raises SupplyError."""
    release = inventory.codename(given.tree)
    folders = [folder.resolve() for folder in given.component]
    folders += [inventory.module_folder(module.stem) for module in given.module]
    items = [
        *inventory.debian_packages(given.tree),
        inventory.kernel(given.kernel, given.kernel_version, release),
        inventory.boot_loader(release),
        *(inventory.component(folder) for folder in dict.fromkeys(folders)),
        *(inventory.npm_packages(given.npm) if given.npm else ()),
        *(inventory.data_package(deb, release) for deb in given.data_package),
    ]
    image = Image(
        given.image.stem,
        inventory.read(inventory.TOP / "VERSION").strip(),
        given.image.name,
        sha256(given.image),
        sha256(given.root),
    )
    texts = inventory.common_licences(given.tree)
    for item in items:
        texts |= item.texts
    names = {
        kind: f"{image.name}.{kind}"
        for kind in ("spdx.json", "licences.txt", "licences.tar.xz", "kernel-files")
    }
    spdx = json.dumps(document(image, items, epoch), indent=1, ensure_ascii=False)
    (given.out / names["spdx.json"]).write_text(spdx + "\n")
    title = f"{image.name} {image.version}"
    (given.out / names["licences.txt"]).write_text(listing.text(title, names["licences.tar.xz"], items))
    (given.out / names["licences.tar.xz"]).write_bytes(listing.archive(texts, epoch))
    (given.out / names["kernel-files"]).write_text("\n".join(inventory.compiled(given.kernel)) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
