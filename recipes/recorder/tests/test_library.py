# SPDX-License-Identifier: Apache-2.0
"""libek-recorder as a program sees it: it exports exactly what its header declares."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

COMPONENT = Path(__file__).resolve().parent.parent
LIBRARY = Path(os.environ.get("EK_BUILD", ".")) / "libek-recorder.so.0"


def declared() -> set[str]:
    header = (COMPONENT / "src/include/ek_recorder.h").read_text()
    code = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    return set(re.findall(r"(\w+)\([^()]*\);", code))


def exported() -> dict[str, str]:
    """Return the exported symbols and their versions."""
    if not shutil.which("nm"):
        pytest.skip("nm is not installed (package binutils)")
    out = subprocess.run(
        ["nm", "--dynamic", "--defined-only", "--with-symbol-versions", str(LIBRARY)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    symbols = [line.split() for line in out.splitlines()]
    # symbols of type A are the versions themselves
    return {
        name: version
        for _, kind, both in symbols
        if kind != "A"
        for name, _, version in [both.partition("@@")]
    }


def test_the_library_exports_what_its_header_declares() -> None:
    assert len(declared()) == 13
    assert set(exported()) == declared()


def test_the_version_map_names_each_exported_function() -> None:
    """With a wildcard, each new function with the prefix would silently join the first version."""
    text = (COMPONENT / "src/libek-recorder.map").read_text()
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    named = {
        symbol: node
        for node, symbols in re.findall(r"(\w+) \{\s*global:(.*?)(?:local:|\})", code, re.DOTALL)
        for symbol in symbols.replace(";", " ").split()
    }
    assert not any("*" in name for name in named)
    assert named == exported()
