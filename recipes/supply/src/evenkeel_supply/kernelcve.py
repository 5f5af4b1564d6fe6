# SPDX-License-Identifier: Apache-2.0
"""Which CVEs of the kernel are in files that this kernel was not compiled from.

The kernel's developers publish a CVE record (JSON, format 5) for each CVE, with the source files that the fix changes
(`programFiles`). A board's kernel is compiled from a small part of all files. If none of the files is among them, the flaw is
not in the kernel.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from . import SupplyError
from .tracker import Finding

SOURCE = "linux"


def records(folder: Path) -> dict[str, Path]:
    """CVE → its record, of all records in `folder` and below it. Raises SupplyError if there is none."""
    found = {path.stem: path for path in folder.rglob("CVE-*.json")}
    if not found:
        raise SupplyError(
            f"{folder} has no CVE records (CVE-….json). It must be a copy of the repository of the kernel's CVEs"
        )
    return found


def program_files(path: Path) -> set[str]:
    """The source files that a record names. Raises SupplyError if it is no record."""
    try:
        affected = json.loads(path.read_text(encoding="utf-8"))["containers"]["cna"]["affected"]
        return {str(name).lstrip("/") for product in affected for name in product.get("programFiles", [])}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SupplyError(f"{path} is no CVE record with containers.cna.affected") from error


def apply(folder: Path, compiled: set[str], findings: Iterable[Finding]) -> int:
    """Excuse the findings in files that were not compiled. Returns the number of CVEs of the kernel without a record."""
    known = records(folder)
    missing = 0
    for finding in findings:
        if finding.source.name != SOURCE or finding.excused:
            continue
        path = known.get(finding.cve)
        if path is None:
            missing += 1
        elif (files := program_files(path)) and not files & compiled:
            finding.excused = f"this kernel is not compiled from {', '.join(sorted(files))}"
    return missing
