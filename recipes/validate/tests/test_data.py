# SPDX-License-Identifier: Apache-2.0
"""Checks that other files agree with the Python code: the unit and its exposure, the README, the image."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from evenkeel_validate.loads import SLICE
from evenkeel_validate.session import Places

COMPONENT = Path(__file__).resolve().parent.parent
TOP = COMPONENT.parents[1]
UNIT = COMPONENT / "data/evenkeel-validate-restore.service"
EXPOSURE = 2.0  # the highest accepted exposure level of systemd-analyze security (0 is best, 10 is worst)


def test_the_readme_has_every_source_file() -> None:
    readme = (COMPONENT / "README.md").read_text()
    for file in (COMPONENT / "src").rglob("*.py"):
        assert file.name == "__init__.py" or f"`{file.name}`" in readme, file
    assert SLICE in readme


def test_the_unit_restores_what_the_command_records() -> None:
    unit = UNIT.read_text()
    places = Places()
    assert f"ConditionPathExists={places.journal}\n" in unit
    assert f"StateDirectory={places.state.name}\n" in unit
    assert f"RuntimeDirectory={places.run.name}\n" in unit
    # the progress and the lock of a run that has started meanwhile stay
    assert "RuntimeDirectoryPreserve=yes\n" in unit
    assert "ExecStart=/usr/bin/ek-validate restore\n" in unit


def test_the_unit_starts_at_boot() -> None:
    preset = TOP / "recipes/image/data/rootfs/usr/lib/systemd/system-preset/10-evenkeel.preset"
    assert f"enable {UNIT.name}\n" in preset.read_text()


def test_the_image_has_the_programs_that_a_run_needs() -> None:
    packages = (TOP / "recipes/image/data/packages").read_text().split("\n")
    assert {"fio", "smartmontools"} <= set(packages)
    recipe = (TOP / "meta-iosched/recipes-iosched/validate/evenkeel-validate.bb").read_text()
    for name in ("fio", "smartmontools", "evenkeel-agent", "evenkeel-loads"):
        assert re.search(rf"^    {name} \\$", recipe, re.MULTILINE), name


def test_the_unit_is_hardened() -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(UNIT)],
        capture_output=True,
        text=True,
    )
    found = re.search(r"Overall exposure level for .*: ([0-9.]+)", done.stdout)
    if not found:
        pytest.skip(f"systemd-analyze cannot run here: {done.stderr.strip()}")
    assert float(found[1]) <= EXPOSURE, done.stdout
