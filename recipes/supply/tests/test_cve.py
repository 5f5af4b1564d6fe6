# SPDX-License-Identifier: Apache-2.0
"""The comparison of an SBOM with small data of the tracker: what is open, what is not, and what is refused."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from evenkeel_supply import cve

Run = Callable[..., int]
SOURCES = {  # source package → version, suite, what is made from it
    "openssl": ("3.5.4-1~deb13u1", "trixie", "libssl3t64"),
    "util": ("1:2.41-5", "trixie", "mount"),
    "linux": ("6.12.90-1", "trixie", "linux"),
    "zxcvbn": ("4.5.0-2~bpo13+1", "trixie-backports", "python3-zxcvbn"),
}


def release(status: str, **more: object) -> dict[str, object]:
    return {"releases": {"trixie": {"status": status, "urgency": "not yet assigned", **more}}}


def data(**changes: dict[str, Any]) -> dict[str, Any]:
    """Data in which nothing is open, and `changes` of it."""
    known: dict[str, Any] = {
        "openssl": {"CVE-2026-0001": release("resolved", fixed_version="3.5.4-1~deb13u1")},
        "bash": {"CVE-2026-0002": release("open")},  # not in the image
    }
    return known | changes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    packages: list[dict[str, Any]] = []
    relations = []
    for name, (version, suite, binary) in SOURCES.items():
        version = version.replace("+", "%2B")
        source = f"pkg:deb/debian/{name}@{version}?arch=source&distro={suite}"
        for kind, purl, called in (
            ("source", source, name),
            ("package", f"pkg:deb/debian/{binary}@{version}?arch=amd64&distro={suite}", binary),
        ):
            reference = {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": purl,
            }
            entry = {"SPDXID": f"SPDXRef-{kind}-{called}", "name": called, "versionInfo": "x"}
            packages.append({**entry, "externalRefs": [reference]})
        relations.append(
            {
                "spdxElementId": f"SPDXRef-package-{binary}",
                "relationshipType": "GENERATED_FROM",
                "relatedSpdxElement": f"SPDXRef-source-{name}",
            }
        )
    reference = {"referenceType": "purl", "referenceLocator": "pkg:npm/htmx.org@2.0.11"}
    packages.append(
        {"SPDXID": "SPDXRef-x", "name": "htmx.org", "versionInfo": "2.0.11", "externalRefs": [reference]}
    )
    document = {
        "spdxVersion": "SPDX-2.3",
        "name": "evenkeel-0.1.0",
        "packages": packages,
        "relationships": relations,
    }
    (tmp_path / "evenkeel.spdx.json").write_text(json.dumps(document))
    (tmp_path / "evenkeel.kernel-files").write_text("block/bio.c\ninclude/linux/bio.h\n")
    return tmp_path


@pytest.fixture
def run(folder: Path) -> Run:
    def call(known: object, *more: str, age: float = 0.0) -> int:
        path = folder / "tracker.json"
        path.write_text(known if isinstance(known, str) else json.dumps(known))
        written = time.time() - age * 86400
        os.utime(path, (written, written))
        sbom, out = folder / "evenkeel.spdx.json", folder / "cve.json"
        return cve.main(["--sbom", str(sbom), "--data", str(path), "--json", str(out), *more])

    return call


@pytest.fixture(autouse=True)
def no_vex(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """The statements of the repository are about packages that this image does not have."""
    path = folder / "none.vex.json"
    path.write_text(json.dumps({"@context": "https://openvex.dev/ns/v0.2.0", "statements": []}))
    monkeypatch.setattr(cve, "VEX", path)


def result(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "cve.json").read_text())
    return found


def test_nothing_is_open(run: Run, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(data()) == 0
    out = capsys.readouterr().out
    assert "less than a day old" in out
    assert "result: no open vulnerability of class update, open" in out
    assert "not in Debian's data: htmx.org 2.0.11" in out
    assert result(folder)["findings"] == []


@pytest.mark.parametrize(
    ("fixed", "vulnerable"),
    [
        ("3.5.4-1~deb13u1", False),  # the version of the image
        ("3.5.4-1~deb13u2", True),
        ("3.5.4-1", True),  # ~deb13u1 is before it
        ("3.5.10-1", True),  # 10 is more than 4
        ("3.5.3-9", False),
        ("1:1.0-1", True),  # an epoch
        ("0", False),  # never vulnerable
    ],
)
def test_a_fixed_version_is_compared_by_the_rules_of_dpkg(
    run: Run, folder: Path, fixed: str, vulnerable: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(data(openssl={"CVE-2026-1000": release("resolved", fixed_version=fixed)})) == int(vulnerable)
    if vulnerable:
        (found,) = result(folder)["findings"]
        assert (found["cve"], found["package"], found["class"]) == ("CVE-2026-1000", "openssl", "update")
        assert found["note"] == f"fixed in {fixed}"
        assert found["made_from_it"] == ["libssl3t64"]
        assert "result: open vulnerabilities of class update, open: 1" in capsys.readouterr().out


def test_epochs_of_the_image_count(run: Run) -> None:
    assert run(data(util={"CVE-2026-1": release("resolved", fixed_version="2.99-1")})) == 0
    assert run(data(util={"CVE-2026-1": release("resolved", fixed_version="1:2.41-6")})) == 1


@pytest.mark.parametrize(
    ("state", "kind", "note"),
    [
        (release("open"), "open", "no fix yet"),
        (release("undetermined"), "open", "Debian has not decided yet"),
        (release("open", urgency="end-of-life"), "open", "Debian no longer supports this package"),
        (release("resolved"), "open", "resolved, but the data has no version"),
        (release("open", nodsa="Minor issue", nodsa_reason="ignored"), "minor", "ignored: Minor issue"),
        (release("open", nodsa="Minor issue", nodsa_reason="postponed"), "minor", "postponed: Minor issue"),
        (release("open", nodsa="Minor issue", nodsa_reason=""), "minor", "no advisory: Minor issue"),
        (release("open", urgency="unimportant"), "unimportant", "unimportant"),
        (release("resolved", urgency="unimportant", fixed_version="9"), "unimportant", "fixed in 9"),
    ],
)
def test_classes_and_the_least_class_that_counts(
    run: Run, folder: Path, state: dict[str, Any], kind: str, note: str
) -> None:
    known = data(openssl={"CVE-2026-1": state})
    classes = ["update", "open", "minor", "unimportant"]
    for fail in classes:
        assert run(known, "--fail", fail) == int(classes.index(kind) <= classes.index(fail)), fail
    (found,) = result(folder)["findings"]
    assert (found["class"], found["note"]) == (kind, note)
    assert result(folder)["counts"] == {each: int(each == kind) for each in classes}


def test_a_backport_is_compared_with_sid(run: Run, folder: Path) -> None:
    def known(fixed: str) -> dict[str, Any]:
        sid = {"status": "resolved", "fixed_version": fixed, "urgency": "low"}
        return data(zxcvbn={"CVE-2026-1": {"releases": {"trixie": {"status": "open"}, "sid": sid}}})

    assert run(known("4.5.0-2")) == 0  # 4.5.0-2~bpo13+1 was made from 4.5.0-2
    assert run(known("4.5.0-3")) == 1


def test_data_that_is_older_than_the_image_is_reported(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    versions = {"trixie": "3.5.1-1", "trixie-security": "3.5.3-1~deb13u1"}
    assert (
        run(data(openssl={"CVE-2026-1": release("resolved", fixed_version="3.5.1-1", repositories=versions)}))
        == 0
    )
    assert "the image has newer packages than the data knows" in capsys.readouterr().out
    assert result(folder)["newer_than_data"] == ["openssl 3.5.4-1~deb13u1"]
    versions["trixie-security"] = "3.5.4-1~deb13u1"
    assert (
        run(data(openssl={"CVE-2026-1": release("resolved", fixed_version="3.5.1-1", repositories=versions)}))
        == 0
    )
    assert result(folder)["newer_than_data"] == []


def test_long_lists_are_cut_in_the_table_only(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(data(linux={f"CVE-2026-{number:04}": release("open") for number in range(100)})) == 1
    assert f"… and {100 - cve.MOST} more; the JSON file has all" in capsys.readouterr().out
    assert len(result(folder)["findings"]) == 100


# --- age, and data that is wrong --------------------------------------------------------


def test_old_data_is_refused_and_its_age_can_be_allowed(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(data(), age=7.5) == 2
    assert "the data is 8 days old, and at most 7 are allowed" in capsys.readouterr().err
    assert run(data(), "--max-age", "8", age=7.5) == 0
    assert "8 days old" in capsys.readouterr().out


def test_the_age_that_the_message_names_is_enough(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(data(), age=9.2) == 2
    allowed = capsys.readouterr().err.split("CVE_MAX_AGE=")[1].strip()
    assert run(data(), "--max-age", allowed, age=9.2) == 0


def test_data_from_the_future_is_refused(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(data(), age=-30) == 2
    assert "is dated in the future" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("known", "complaint"),
    [
        ('{"openssl": {"CVE-2026-1": {"rele', "is no JSON, or is truncated"),
        ("[]", "not the data of Debian's security tracker"),
        ('{"vulnerabilities": []}', "not the data of Debian's security tracker"),
        ({}, "has no entry for a package of this image"),
        ({"bash": {"CVE-2026-1": release("open")}}, "has no entry for a package of this image"),
        (data(openssl={"CVE-2026-1": "x"}), "the entry openssl, CVE-2026-1: has another form"),
        (data(openssl={"CVE-2026-1": release("maybe")}), "openssl, CVE-2026-1: unknown status 'maybe'"),
        (
            data(openssl={"CVE-2026-1": release("resolved", fixed_version="a b")}),
            "cannot compare the versions",
        ),
    ],
)
def test_wrong_data_is_refused(
    run: Run, known: object, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(known) == 2
    assert complaint in capsys.readouterr().err


def test_files_that_are_missing_are_named(folder: Path, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert cve.main(["--sbom", f"{folder}/evenkeel.spdx.json", "--data", f"{folder}/none"]) == 2
    assert f"cannot read the data {folder}/none" in capsys.readouterr().err
    assert run(data(), "--vex", f"{folder}/none") == 2
    assert f"cannot read {folder}/none" in capsys.readouterr().err
    (folder / "evenkeel.spdx.json").write_text("{}")
    assert run(data()) == 2
    assert "is no SBOM in the format SPDX 2.3" in capsys.readouterr().err


# --- VEX --------------------------------------------------------------------------------

STATEMENT: dict[str, Any] = {
    "vulnerability": {"name": "CVE-2026-1"},
    "products": [{"@id": "pkg:deb/debian/openssl"}],
    "status": "not_affected",
    "justification": "vulnerable_code_not_in_execute_path",
    "impact_statement": "No program of the board calls it.",
}
OPEN = data(openssl={"CVE-2026-1": release("open"), "CVE-2026-2": release("resolved", fixed_version="1")})


def vex(folder: Path, *statements: dict[str, Any], context: str = "https://openvex.dev/ns/v0.2.0") -> str:
    path = folder / "product.vex.json"
    path.write_text(json.dumps({"@context": context, "statements": list(statements)}))
    return str(path)


@pytest.mark.parametrize(
    ("change", "excused"),
    [
        ({}, True),
        ({"products": [{"@id": "pkg:deb/debian/libssl3t64"}]}, True),  # made from openssl
        ({"products": [{"@id": "pkg:deb/debian/openssl@3.5.4-1~deb13u1?arch=source"}]}, True),
        ({"products": [{"@id": "urn:x", "identifiers": {"purl": "pkg:deb/debian/openssl"}}]}, True),
        ({"products": [{"@id": "urn:x", "subcomponents": [{"@id": "pkg:deb/debian/openssl"}]}]}, True),
        ({"vulnerability": {"name": "GHSA-x", "aliases": ["CVE-2026-1"]}}, True),
        ({"status": "fixed", "status_notes": "A patch of ours."}, True),
        ({"products": [{"@id": "pkg:deb/debian/openssl@3.5.3-1"}]}, False),  # another version
        ({"products": [{"@id": "pkg:deb/debian/bash"}]}, False),
        ({"vulnerability": {"name": "CVE-2026-2"}}, False),
        ({"status": "under_investigation"}, False),
        ({"status": "affected", "action_statement": "Update."}, False),
    ],
)
def test_a_statement_excuses_what_it_names(
    run: Run, folder: Path, change: dict[str, Any], excused: bool
) -> None:
    assert run(OPEN, "--vex", vex(folder, STATEMENT | change)) == int(not excused)
    (found,) = result(folder)["findings"]
    assert found["applies"] is not excused
    assert bool(found["reason"]) is excused


def test_an_open_statement_is_shown_with_the_vulnerability(run: Run, folder: Path) -> None:
    assert run(OPEN, "--vex", vex(folder, STATEMENT | {"status": "under_investigation"})) == 1
    assert result(folder)["findings"][0]["note"] == "no fix yet (under investigation)"


def test_a_statement_that_is_no_longer_needed_is_reported(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(data(), "--vex", vex(folder, STATEMENT)) == 0
    assert (
        "statement 1: CVE-2026-1 is not open in this image; remove the statement" in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"impact_statement": " "}, "statement 1: not_affected needs the reason, in impact_statement"),
        (
            {"justification": "no time"},
            "statement 1: not_affected needs a justification, one of component_not_present",
        ),
        ({"status": "fixed"}, "fixed needs the reason, in status_notes"),
        ({"status": "fine"}, "unknown status 'fine'"),
        ({"products": []}, "needs vulnerability with a name, products with an @id"),
        ({"products": [{}]}, "needs vulnerability with a name, products with an @id"),
        ({"products": [{"@id": "openssl"}]}, "openssl is no package URL"),
        ({"vulnerability": "CVE-2026-1"}, "needs vulnerability with a name"),
    ],
)
def test_a_wrong_statement_is_refused(
    run: Run, folder: Path, change: dict[str, Any], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(OPEN, "--vex", vex(folder, STATEMENT | change)) == 2
    assert complaint in capsys.readouterr().err


def test_another_format_than_openvex_is_refused(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(OPEN, "--vex", vex(folder, STATEMENT, context="https://cyclonedx.org")) == 2
    assert "has not the @context" in capsys.readouterr().err


def test_the_statements_of_the_repository_are_valid() -> None:
    path = Path(cve.__file__).parents[2] / "data/evenkeel.vex.json"
    assert cve.vex.load(path)


# --- the kernel's own records -----------------------------------------------------------


def record(folder: Path, name: str, *files: str) -> None:
    path = folder / f"records/2026/{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"containers": {"cna": {"affected": [{"programFiles": list(files)}, {}]}}}))


def test_cves_in_files_that_were_not_compiled_do_not_apply(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(folder, "CVE-2026-1", "drivers/net/wireless/x.c")
    record(folder, "CVE-2026-2", "drivers/x.c", "block/bio.c")
    record(folder, "CVE-2026-3", "include/linux/bio.h")
    record(folder, "CVE-2026-4")  # names no file
    known = data(linux={f"CVE-2026-{number}": release("open") for number in range(1, 6)})
    assert run(known, "--kernel-data", f"{folder}/records") == 1
    found = {each["cve"]: each["reason"] for each in result(folder)["findings"]}
    assert found == {
        "CVE-2026-1": "this kernel is not compiled from drivers/net/wireless/x.c",
        **dict.fromkeys(("CVE-2026-2", "CVE-2026-3", "CVE-2026-4", "CVE-2026-5"), ""),
    }
    assert "has no record of 1 open CVEs of the kernel" in capsys.readouterr().out


def test_records_count_for_the_kernel_only(run: Run, folder: Path) -> None:
    record(folder, "CVE-2026-1", "drivers/x.c")
    assert run(OPEN, "--kernel-data", f"{folder}/records") == 1


def test_wrong_records_are_refused(run: Run, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = data(linux={"CVE-2026-1": release("open")})
    assert run(known, "--kernel-data", str(folder)) == 2
    assert "has no CVE records" in capsys.readouterr().err
    record(folder, "CVE-2026-1")
    (folder / "records/2026/CVE-2026-1.json").write_text("{}")
    assert run(known, "--kernel-data", f"{folder}/records") == 2
    assert "CVE-2026-1.json is no CVE record" in capsys.readouterr().err
