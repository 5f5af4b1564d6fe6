# SPDX-License-Identifier: Apache-2.0
"""make also works in a new clone, which has no folder build/ yet."""

from __future__ import annotations

import subprocess
from pathlib import Path

from project import clean_environment


def test_the_scripts_of_the_panel_are_fetched(clone: Path) -> None:
    # Replace two programs that need minutes and a network by scripts that only create the same folders and files.
    (clone / "toolroot/create").write_text('#!/bin/sh\nmkdir -p "$1/etc"\ntouch "$1/etc/evenkeel-toolroot"\n')
    (clone / "webui/src/fetch-static").write_text('#!/bin/sh\nmkdir -p "$1"\n')
    lock = clone / "build/webui/vendor/package-lock.json"
    made = subprocess.run(
        ["make", "ENTER=env", lock],
        cwd=clone, env=clean_environment(EVENKEEL_CACHE=str(clone / "cache")),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert lock.exists()
