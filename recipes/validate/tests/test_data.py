# SPDX-License-Identifier: Apache-2.0
"""Checks that other files agree with the Python code: the unit and its exposure, the README, the image."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from evenkeel_agent.settings import Settings
from evenkeel_validate.loads import SLICE
from evenkeel_validate.planning import FOLDER
from evenkeel_validate.runs import Places
from evenkeel_validate.service import ORDER, RUN_CGROUP, RUN_UNIT
from systemd_units import exposure

COMPONENT = Path(__file__).resolve().parent.parent
TOP = COMPONENT.parents[1]
DATA = COMPONENT / "data"
UNIT = DATA / "evenkeel-validate-restore.service"
# the highest accepted exposure level of systemd-analyze security (0 is best, 10 is worst)
EXPOSURE = {UNIT.name: 2.0, "evenkeel-validate.service": 2.0, RUN_UNIT: 4.0}


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
    for name in (
        "fio",
        "smartmontools",
        "evenkeel-agent",
        "evenkeel-loads",
        "util-linux-fallocate",
        "util-linux-fstrim",
    ):
        assert re.search(rf"^    {name} \\$", recipe, re.MULTILINE), name


def test_only_the_agent_orders_validations_and_the_helper_has_no_capability() -> None:
    listener = (DATA / "evenkeel-validate.socket").read_text()
    assert f"ListenSequentialPacket={Settings().validate_socket}\n" in listener
    assert "SocketUser=evenkeel-agent\nSocketMode=0600\n" in listener
    lines = (DATA / "evenkeel-validate.service").read_text().splitlines()
    assert {
        "CapabilityBoundingSet=",
        "ProtectSystem=strict",
        "PrivateDevices=yes",
        "PrivateNetwork=yes",
    } <= set(lines)
    assert f"ReadWritePaths=-{FOLDER}" in lines
    agent = (TOP / "recipes/agent/data/evenkeeld.service").read_text()
    for name in ("After", "Wants"):
        assert re.search(rf"^{name}=.*\bevenkeel-validate\.socket\b", agent, re.MULTILINE)


def test_a_run_survives_the_helper_and_restores_after_a_kill() -> None:
    run = (DATA / RUN_UNIT).read_text()
    places = Places()
    assert f"fs/cgroup/system.slice/{RUN_UNIT}" == RUN_CGROUP
    assert "Slice=" not in run
    assert f"EnvironmentFile={places.run / ORDER}\n" in run
    assert "ExecStart=/usr/bin/ek-validate run --yes --no-guard $OPTIONS\n" in run
    assert "ExecStopPost=/usr/bin/ek-validate restore\n" in run
    assert "SuccessExitStatus=3 4\n" in run
    for name in (RUN_UNIT, "evenkeel-validate.service"):
        text = (DATA / name).read_text()
        # systemd ends units that are bound to each other together
        assert not re.search(
            r"^(BindsTo|PartOf|Requires)=.*(evenkeeld|run\.service|panel)", text, re.MULTILINE
        )
        assert f"StateDirectory={places.state.name}\n" in text
        assert f"RuntimeDirectory={places.run.name}\n" in text
        assert "RuntimeDirectoryPreserve=yes\n" in text


def test_a_run_may_hold_a_priority_directory_and_count_its_pages() -> None:
    run = (DATA / RUN_UNIT).read_text()
    assert str(Places().pool) == Settings().pool_socket
    # the socket belongs to the agent, and root needs this capability to connect
    assert re.search(r"^CapabilityBoundingSet=.*\bCAP_DAC_OVERRIDE\b", run, re.MULTILINE)
    assert "RestrictAddressFamilies=AF_UNIX\n" in run
    # @system-service does not have it
    assert "SystemCallFilter=mincore\n" in run


@pytest.mark.parametrize("name", EXPOSURE)
def test_systemd_accepts_the_unit(tmp_path: Path, name: str) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    for path in DATA.glob("evenkeel*.*"):
        text = re.sub(r"^(ExecStart|ExecStopPost)=.*", r"\1=/bin/true", path.read_text(), flags=re.MULTILINE)
        (tmp_path / path.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / name)], capture_output=True, text=True
    )
    if "Failed to initialize manager" in done.stderr:
        pytest.skip(f"systemd-analyze cannot run here: {done.stderr.strip()}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", EXPOSURE)
def test_the_unit_is_hardened(name: str) -> None:
    assert exposure(DATA / name) <= EXPOSURE[name]
