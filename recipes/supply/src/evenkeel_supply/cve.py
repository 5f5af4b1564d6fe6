# SPDX-License-Identifier: Apache-2.0
"""Compare the SBOM of an image with the data of Debian's security tracker, a file on disk.

Prints a table, and writes JSON. Exit status: 0 no vulnerability of the given class is open, 1 at least one is, 2 no result,
because an input is missing, wrong or too old.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from . import SupplyError, inventory, kernelcve, tracker, vex
from .tracker import CLASSES, Finding

VEX = Path(__file__).resolve().parents[2] / "data/evenkeel.vex.json"
# Days. Debian publishes fixes every day.
MAX_AGE = 7
# the table shows at most so many vulnerabilities of one package and class; the JSON has all
MOST = 12


def days(age: float) -> str:
    """An age in words."""
    if age < 0:
        return "dated in the future"
    return "less than a day old" if age < 1 else f"{age:.0f} day{'' if f'{age:.0f}' == '1' else 's'} old"


def table(findings: Iterable[Finding]) -> list[str]:
    """The lines of the table of open vulnerabilities: by class, then by package."""
    lines: list[str] = []
    for kind, meaning in CLASSES.items():
        packages: dict[str, list[Finding]] = {}
        for each in findings:
            if each.kind == kind and not each.excused:
                packages.setdefault(f"{each.source.name} {each.source.version}", []).append(each)
        if not packages:
            continue
        lines += ["", f"{kind}: {meaning}"]
        for package, those in packages.items():
            lines.append(f"  {package}")
            lines += [f"    {each.cve:<18} {each.note}" for each in those[:MOST]]
            if len(those) > MOST:
                lines.append(f"    … and {len(those) - MOST} more; the JSON file has all")
    excused = [each for each in findings if each.excused]
    if excused:
        lines += ["", "does not apply:"]
        shown = [each for each in excused if each.source.name != kernelcve.SOURCE]
        lines += [f"    {each.cve:<18} {each.source.name}: {each.excused}" for each in shown]
        if len(shown) < len(excused):
            lines.append(f"    {len(excused) - len(shown)} of the kernel; the JSON file has the reasons")
    return lines


def check(given: argparse.Namespace) -> int:
    """Compare, print and write. Returns the exit status. Raises SupplyError."""
    data = tracker.load(given.data)
    print(f"data: {given.data}, {days(data.age)}")
    if data.age > given.max_age:
        raise SupplyError(
            f"the data is {days(data.age)}, and at most {given.max_age} are allowed. Download it again, or allow its age with"
            f" CVE_MAX_AGE={math.ceil(data.age)}"
        )
    if data.age < -1:
        raise SupplyError(f"{given.data} is dated in the future. Check the clock, or download the data again")
    try:
        document = json.loads(inventory.read(given.sbom))
        sources, other = tracker.sources(document, given.sbom)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SupplyError(f"{given.sbom} is no SBOM of ours: {error!r}. 'make image' writes one") from error
    findings = sorted(tracker.findings(data, sources), key=lambda each: (each.source.name, each.cve))
    statements = [each for path in [VEX, *given.vex] for each in vex.load(path)]
    vex.apply(statements, findings)
    if given.kernel_data:
        files = given.sbom.with_name(given.sbom.name.removesuffix(".spdx.json") + ".kernel-files")
        compiled = set(inventory.read(files).split())
        if missing := kernelcve.apply(given.kernel_data, compiled, findings):
            print(
                f"warning: {given.kernel_data} has no record of {missing} open CVEs of the kernel. Is it up to date?"
            )
    print(f"image: {document['name']}, {len(sources)} source packages, {data.checked} known CVEs compared")
    if data.outdated:
        print(
            "warning: the image has newer packages than the data knows. Download the data again: "
            + ", ".join(data.outdated)
        )
    for line in table(findings):
        print(line)
    print()
    for statement in statements:
        if not statement.used:
            print(
                f"warning: {statement.where}: {statement.cves[0]} is not open in this image; remove the statement"
            )
    print(f"not in Debian's data: {', '.join(other)}")
    counting = list(CLASSES)[: list(CLASSES).index(given.fail) + 1]
    failed = [each for each in findings if not each.excused and each.kind in counting]
    counts = {kind: sum(each.kind == kind and not each.excused for each in findings) for kind in CLASSES}
    excused = sum(bool(each.excused) for each in findings)
    print(
        "open: "
        + ", ".join(f"{count} {kind}" for kind, count in counts.items())
        + f"; {excused} do not apply"
    )
    if given.json:
        result = {
            "image": document["name"],
            "sbom": str(given.sbom),
            "data": str(given.data),
            "age_days": round(data.age, 2),
            "compared": data.checked,
            "newer_than_data": data.outdated,
            "not_in_data": other,
            "counts": counts,
            "fail": given.fail,
            "failed": bool(failed),
            "findings": [_json(each) for each in findings],
        }
        given.json.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
        print(f"JSON: {given.json}")
    if failed:
        print(f"result: open vulnerabilities of class {', '.join(counting)}: {len(failed)}")
        return 1
    print(f"result: no open vulnerability of class {', '.join(counting)}")
    return 0


def _json(finding: Finding) -> dict[str, object]:
    fields = asdict(finding)
    source = fields.pop("source")
    return {
        "cve": fields["cve"],
        "package": source["name"],
        "version": source["version"],
        "suite": source["suite"],
        "made_from_it": list(source["binaries"]),
        "class": fields["kind"],
        "note": fields["note"],
        "applies": not finding.excused,
        "reason": finding.excused,
        "description": finding.description,
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="cve", description=__doc__)
    parser.add_argument("--sbom", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True, help="JSON file of Debian's security tracker")
    parser.add_argument(
        "--kernel-data", type=Path, help="folder with the CVE records of the kernel's developers"
    )
    parser.add_argument(
        "--vex", type=Path, action="append", default=[], help="a further file of statements (OpenVEX)"
    )
    parser.add_argument(
        "--max-age", type=float, default=MAX_AGE, help="days that the data may be old (default %(default)s)"
    )
    parser.add_argument(
        "--fail", choices=CLASSES, default="open", help="least urgent class that counts (default %(default)s)"
    )
    parser.add_argument("--json", type=Path, help="file for the result")
    try:
        return check(parser.parse_args(arguments))
    except SupplyError as error:
        print(f"cve: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
