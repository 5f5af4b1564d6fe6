# SPDX-License-Identifier: Apache-2.0
"""If toolroot/fetch-package fails, it prints one line with the reason.

The reasons are: no network, a version that the archive no longer has, and wrong content.
Scripts replace apt, so the tests fetch nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[3]
CONTENT = "a package"
HASH = hashlib.sha256(CONTENT.encode()).hexdigest()


def fetch(tmp_path: Path, *, apt_get: str, madison: str, sha256: str) -> subprocess.CompletedProcess[str]:
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for name, script in {"apt-get": apt_get, "apt-cache": f"printf '%s' '{madison}'"}.items():
        (bin_ / name).write_text(f"#!/bin/sh\n{script}\n")
        (bin_ / name).chmod(0o755)
    return subprocess.run(
        [str(TOP / "toolroot/fetch-package"), "suite", "linux-x", "1-2", sha256, str(tmp_path / "out")],
        env={**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}", "EVENKEEL_INSIDE": "a build root"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


GET = f'case "$*" in *download*) printf "%s" "{CONTENT}" > linux-x_1-2_all.deb ;; esac'
HAVE = " linux-x | 1-2 | http://mirror suite/main amd64 Packages\n"
OLDER = " linux-x | 1-1 | http://mirror suite/main amd64 Packages\n"


@pytest.mark.parametrize(
    ("apt_get", "madison", "sha256", "message"),
    [
        ("echo 'W: Could not resolve x'; exit 100", HAVE, HASH, "no network: .* cannot be reached"),
        ("echo 'E: No Release.'; exit 100", HAVE, HASH, "cannot read the archive's index: E: No Release."),
        (
            GET,
            OLDER,
            HASH,
            "the archive no longer has it, but has 1-1. Change its pin in toolroot/kernels or toolroot/passwords",
        ),
        (
            GET,
            "",
            HASH,
            "the archive has no version of it. Change its pin in toolroot/kernels or toolroot/passwords",
        ),
        (GET, HAVE, "0" * 64, f"its SHA-256 is {HASH}, but the pin is {'0' * 64}"),
    ],
)
def test_a_failure_is_one_line_with_its_reason(
    apt_get: str, madison: str, sha256: str, message: str, tmp_path: Path
) -> None:
    out = fetch(tmp_path, apt_get=apt_get, madison=madison, sha256=sha256)
    assert out.returncode == 1
    assert re.fullmatch(f"fetch-package: linux-x 1-2 from suite: {message}\n", out.stderr), out.stderr
    assert list((tmp_path / "out").iterdir()) == [], "a failed fetch left files behind"


def test_a_fetched_package_is_not_fetched_again(tmp_path: Path) -> None:
    assert fetch(tmp_path, apt_get=GET, madison=HAVE, sha256=HASH).returncode == 0
    assert (tmp_path / "out/linux-x.deb").read_text() == CONTENT
    assert [f.name for f in (tmp_path / "out").iterdir()] == ["linux-x.deb"]
    (tmp_path / "bin").rename(tmp_path / "bin.old")
    assert fetch(tmp_path, apt_get="exit 1", madison="", sha256=HASH).returncode == 0


def test_pins_are_well_formed() -> None:
    for line in (TOP / "toolroot/kernels").read_text().splitlines():
        if line.startswith("#"):
            continue
        kernel, _, package, version, sha256 = line.split()
        assert re.fullmatch(rf"linux-(source-{re.escape(kernel)}|image-{re.escape(kernel)}\..*)", package)
        assert version.startswith(kernel)
        assert re.fullmatch(r"[0-9a-f]{64}", sha256)
