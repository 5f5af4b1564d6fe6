# SPDX-License-Identifier: Apache-2.0
"""Checks that other files agree with the Python code: the unit and its exposure, the user, the README."""

import os
from pathlib import Path

from evenkeel_history import live, schema
from systemd_units import exposure

COMPONENT = Path(__file__).resolve().parent.parent
UNIT = COMPONENT / "data/evenkeel-history.service"
EXPOSURE = 1.5  # the highest accepted exposure level of systemd-analyze security (0 is best, 10 is worst)


def test_the_readme_has_every_source_file() -> None:
    readme = (COMPONENT / "README.md").read_text()
    for file in (COMPONENT / "src").rglob("*.*"):
        if "__pycache__" not in file.parts and file.name != "__init__.py":
            name = os.path.relpath(file, COMPONENT / "src/evenkeel_history")
            assert f"`{name}`" in readme, file


def test_the_unit_may_write_where_the_service_writes() -> None:
    unit = UNIT.read_text()
    assert f"StateDirectory={Path(schema.FOLDER).name}\n" in unit
    assert f"RuntimeDirectory={Path(live.SOCKET).parent.name}\n" in unit
    assert "RuntimeDirectoryPreserve=yes\n" in unit  # the totals survive a restart
    for file in ("sysusers", "tmpfiles"):
        assert "evenkeel-history" in (COMPONENT / f"data/evenkeel-history.{file}").read_text()


def test_the_unit_is_hardened() -> None:
    assert exposure(UNIT) <= EXPOSURE
