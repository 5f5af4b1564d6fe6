# SPDX-License-Identifier: Apache-2.0
"""Statements that a vulnerability does not apply: files in the format OpenVEX 0.2 (https://openvex.dev).

A statement holds for a package URL of Debian: of a source package, or of a package made from it. Without a version it holds for
every version. It must give its reason in words, so that a person can check it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from . import SupplyError, debian
from .tracker import Finding

# https://github.com/openvex/spec: status justifications
JUSTIFICATIONS = (
    "component_not_present",
    "vulnerable_code_not_present",
    "vulnerable_code_not_in_execute_path",
    "vulnerable_code_cannot_be_controlled_by_adversary",
    "inline_mitigations_already_exist",
)
# status → the field that must have the reason
REASONS = {
    "not_affected": "impact_statement",
    "fixed": "status_notes",
    "affected": "action_statement",
    "under_investigation": None,
}
EXCUSES = ("not_affected", "fixed")


@dataclass
class Statement:
    cves: tuple[str, ...]  # the vulnerability's name and its aliases
    products: tuple[debian.Purl, ...]
    status: str
    reason: str
    where: str  # file and number, for messages
    used: bool = False

    def holds_for(self, finding: Finding) -> bool:
        names = {finding.source.name, *finding.source.binaries}
        return finding.cve in self.cves and any(
            purl.kind == "deb"
            and purl.name.rpartition("/")[2] in names
            and purl.version in ("", finding.source.version)
            for purl in self.products
        )


def load(path: Path) -> list[Statement]:
    """The statements of a file. Raises SupplyError, which names the statement, if one is wrong."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SupplyError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise SupplyError(f"{path} is no JSON: {error}") from error
    context = str(document.get("@context", "")) if isinstance(document, dict) else ""
    if not context.startswith("https://openvex.dev/ns/v0.2"):
        raise SupplyError(f"{path} has not the @context https://openvex.dev/ns/v0.2.0 of OpenVEX")
    statements = document.get("statements")
    if not isinstance(statements, list):
        raise SupplyError(f"{path} has no list of statements")
    return [_statement(each, f"{path}, statement {number}") for number, each in enumerate(statements, 1)]


def _statement(each: object, where: str) -> Statement:
    try:
        assert isinstance(each, dict)
        vulnerability, status = each["vulnerability"], each["status"]
        cves = (str(vulnerability["name"]), *map(str, vulnerability.get("aliases", [])))
        products = tuple(debian.Purl.parse(text) for product in each["products"] for text in _purls(product))
        assert products
    except (AssertionError, AttributeError, KeyError, TypeError) as error:
        raise SupplyError(
            f"{where}: needs vulnerability with a name, products with an @id, and status"
        ) from error
    except ValueError as error:
        raise SupplyError(f"{where}: {error}") from error
    if status not in REASONS:
        raise SupplyError(f"{where}: unknown status {status!r}; OpenVEX knows {', '.join(REASONS)}")
    if status == "not_affected" and each.get("justification") not in JUSTIFICATIONS:
        raise SupplyError(f"{where}: not_affected needs a justification, one of {', '.join(JUSTIFICATIONS)}")
    name = REASONS[status]
    reason = str(each.get(name, "")).strip() if name else ""
    if name and not reason:
        raise SupplyError(f"{where}: {status} needs the reason, in {name}")
    return Statement(cves, products, status, reason, where)


def _purls(product: dict[str, object]) -> Iterable[str]:
    """The package URLs of a product: of its parts, if it names parts."""
    parts = product.get("subcomponents")
    if isinstance(parts, list) and parts:
        return [text for part in parts for text in _purls(part)]
    identifiers = product.get("identifiers")
    purl = identifiers.get("purl") if isinstance(identifiers, dict) else None
    return [str(purl or product["@id"])]


def apply(statements: Iterable[Statement], findings: Iterable[Finding]) -> None:
    """Excuse each finding to which a statement applies; mark the statements that were used."""
    for finding in findings:
        for statement in statements:
            if statement.holds_for(finding):
                statement.used = True
                if statement.status in EXCUSES:
                    finding.excused = statement.reason
                else:
                    reason = f": {statement.reason}" if statement.reason else ""
                    finding.note += f" ({statement.status.replace('_', ' ')}{reason})"
