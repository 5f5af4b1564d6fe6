# SPDX-License-Identifier: Apache-2.0
"""Tools of others check the SBOM of the built image, and find the same packages and the same vulnerabilities."""

from __future__ import annotations

import json
import os
import random
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from built import IMAGE
from evenkeel_supply import cve, debian
from sample import SEED

SBOM = IMAGE / "evenkeel-x86_64.spdx.json"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(SBOM.read_text())
    return found


@pytest.fixture(scope="module")
def rival(tools: Path, document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The SBOM of debsbom for the Debian root of which the image was made."""
    root = os.environ["EVENKEEL_ROOT_TAR"]  # set by `make supply`
    out = tmp_path_factory.mktemp("debsbom") / "root"
    command = [tools / "debsbom", "generate", "-r", root, "-t", "spdx", "--with-licenses", "-o", out]
    subprocess.run([*command, "--distro-arch", "amd64"], check=True, capture_output=True)
    found: dict[str, Any] = json.loads(out.with_suffix(".spdx.json").read_text())
    return found


def licences(document: dict[str, Any]) -> dict[str, str]:
    """Package URL of each package of Debian, without the suite → its licence."""
    found = {}
    for each in document["packages"]:
        for reference in each.get("externalRefs", []):
            purl = debian.Purl.parse(reference["referenceLocator"])
            if purl.kind == "deb":
                bare = debian.Purl("deb", purl.name, purl.version, (("arch", purl.get("arch")),))
                found[str(bare)] = each["licenseDeclared"]
    return found


def test_the_sbom_is_valid(tools: Path) -> None:
    done = subprocess.run([tools / "pyspdxtools", "-i", SBOM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[:3000] + done.stderr[:3000]


def test_the_sbom_has_the_minimum_elements(tools: Path, tmp_path: Path) -> None:
    """NTIA's list: supplier, name, version and unique identifier of each item, relations, author, time."""
    out = tmp_path / "ntia.json"
    command = [tools / "ntia-checker", "--comply", "ntia", "--output", "json", "--output-file", out, SBOM]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert out.exists(), done.stderr
    found = json.loads(out.read_text())
    assert found["isConformant"], {
        key: value for key, value in found.items() if "Provided" in key or "Suppliers" in key
    }


def test_debsbom_finds_the_same_packages(document: dict[str, Any], rival: dict[str, Any]) -> None:
    ours, theirs = licences(document), licences(rival)
    assert set(theirs) <= set(ours)
    # We also list what is not installed as a package: kernel, boot loader, and the package that gives the passwords.
    names = {debian.Purl.parse(purl).name.removeprefix("debian/") for purl in set(ours) - set(theirs)}
    assert {"linux", "grub-efi-amd64-bin"} <= names
    assert len(names - {"linux", "grub-efi-amd64-bin", "grub2"}) <= 2


def test_debsbom_finds_the_same_licences(document: dict[str, Any], rival: dict[str, Any]) -> None:
    """debsbom takes `A` for `A AND (A OR B)`, so it may have fewer parts. Licences that are not on SPDX's list do not count."""
    ours, theirs = licences(document), licences(rival)
    compared = 0
    for purl, expression in theirs.items():
        if expression == "NOASSERTION" or "LicenseRef" in ours[purl]:
            continue
        compared += 1
        own, other = parts(ours[purl]), parts(expression)
        assert other <= own, purl
        assert all(" OR " in part for part in own - other), purl
    assert compared > 40


def parts(expression: str) -> set[str]:
    """The parts of an expression, of which all hold."""
    return {part.removeprefix("(").removesuffix(")") for part in expression.split(" AND ")}


def test_debsbom_finds_the_same_vulnerabilities(
    tools: Path, document: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """debsbom reads our SBOM and random data of the tracker."""
    chance = random.Random(SEED)  # noqa: S311 no secret
    sources = sorted(
        (purl.name.removeprefix("debian/"), purl.version)
        for purl in map(debian.Purl.parse, licences(document))
        if purl.get("arch") == "source" and not debian.BACKPORT.search(purl.version)
    )
    data: dict[str, dict[str, Any]] = {}
    for name, version in sources:
        for number in range(4):
            upstream = version.rpartition("-")[0] or version
            fixed = chance.choice(
                [version, f"{version}+deb13u1", f"{version}~1", f"{upstream}.1-1", "0", "9:1-1"]
            )
            status = chance.choice(["open", "resolved", "undetermined"])
            state = {"status": status, "urgency": "not yet assigned"}
            if status == "resolved":
                state["fixed_version"] = fixed
            entry = {"description": "x", "releases": {"trixie": state}}
            data.setdefault(name, {})[f"CVE-2026-{len(data):04}{number}"] = entry
    known, out = tmp_path / "tracker.json", tmp_path / "cve.json"
    known.write_text(json.dumps(data))
    assert cve.main(["--sbom", str(SBOM), "--data", str(known), "--json", str(out)]) == 1
    capsys.readouterr()
    ours = {(each["package"], each["cve"]) for each in json.loads(out.read_text())["findings"]}
    command = [tools / "debsbom", "sec-scan", SBOM, "--db", known, "-f", "json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    lines = map(json.loads, done.stdout.splitlines())
    theirs = {(line["package"].partition("@")[0], line["vulnerability"]["id"]) for line in lines}
    assert ours == theirs
    assert len(ours) > 100


def test_the_licence_texts_are_those_of_all_packages(document: dict[str, Any]) -> None:
    with tarfile.open(IMAGE / "evenkeel-x86_64.licences.tar.xz") as tar:
        texts = {name.split("/")[1] for name in tar.getnames() if name.endswith("/copyright")}
    installed = {
        each["name"] for each in document["packages"] if each["SPDXID"].startswith("SPDXRef-Debian-package-")
    }
    assert installed <= texts
    assert len(installed) > 150
