# SPDX-License-Identifier: Apache-2.0
"""Checks that other files agree with the Python code: the units and their exposure, the README, the image, the schema."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import get_args

import pytest
from evenkeel_agent.settings import Settings
from evenkeel_api.features.cache import DirectoryState
from evenkeel_pagepool import device, memory, service
from systemd_units import exposure

COMPONENT = Path(__file__).resolve().parent.parent
TOP = COMPONENT.parents[1]
DATA = COMPONENT / "data"
UNIT = DATA / "evenkeel-pool.service"
SOCKET = DATA / "evenkeel-pool.socket"
SLICE = DATA / memory.SLICE
EXPOSURE = 2.0  # the highest accepted exposure level of systemd-analyze security (0 is best, 10 is worst)


def test_the_readme_has_every_source_file() -> None:
    readme = (COMPONENT / "README.md").read_text()
    for file in (COMPONENT / "src").rglob("*.py"):
        assert file.name == "__init__.py" or f"{file.name}`" in readme, file


def test_the_unit_may_use_what_the_service_uses() -> None:
    lines = UNIT.read_text().splitlines()
    assert f"DeviceAllow={device.PATH} rw" in lines
    assert "DevicePolicy=closed" in lines
    # the folder of the saved directories
    assert "StateDirectory=evenkeel-pool" in lines
    # all directories must be visible
    assert not [
        line for line in lines if line.startswith(("PrivateTmp", "TemporaryFileSystem", "InaccessiblePaths"))
    ]
    assert "ProtectHome=read-only" in lines


def test_a_stop_and_a_kill_end_the_protection() -> None:
    assert f"ExecStopPost=/usr/bin/{' '.join(memory.SET_LOW)} MemoryLow=0\n" in UNIT.read_text()


def test_the_pool_is_directly_below_the_root_and_has_no_memory_min() -> None:
    # a "-" in the name would make it a child of another slice, whose memory.low would limit that of the pool
    assert "-" not in memory.SLICE
    text = re.sub("^#.*", "", SLICE.read_text(), flags=re.MULTILINE)
    assert "MemoryLow=0" in text
    assert "MemoryMin" not in text
    assert memory.SLICE in memory.SET_LOW
    assert f"\nWants={memory.SLICE} " in UNIT.read_text()


def test_only_the_agent_gives_orders() -> None:
    text = SOCKET.read_text()
    assert f"ListenSequentialPacket={Settings().pool_socket}\n" in text
    assert "SocketUser=evenkeel-agent\nSocketMode=0600\n" in text
    agent = (TOP / "recipes/agent/data/evenkeeld.service").read_text()
    for name in ("After", "Wants"):
        assert re.search(rf"^{name}=.*\b{SOCKET.name}\b", agent, re.MULTILINE)


def test_the_images_have_service_and_module() -> None:
    preset = TOP / "recipes/image/data/rootfs/usr/lib/systemd/system-preset/10-evenkeel.preset"
    assert f"enable {UNIT.name}\n" in preset.read_text()
    assert "$(K)/evenkeel_pagepool.ko" in (TOP / "mk/image.mk").read_text()
    for name in ("Wants", "After"):
        assert re.search(rf"^{name}=.* modprobe@evenkeel_pagepool\.service$", UNIT.read_text(), re.MULTILINE)
    group = TOP / "meta-iosched/recipes-core/packagegroups/packagegroup-evenkeel.bb"
    assert {"evenkeel-pagepool", "evenkeel-pagepool-module"} <= set(group.read_text().split())


def test_every_state_of_a_directory_is_known_to_the_agent() -> None:
    known = set(get_args(DirectoryState))
    assert set(service.STATES.values()) | {"protected", "failed", "off"} == known


@pytest.mark.parametrize("path", [UNIT, SOCKET, SLICE], ids=lambda path: path.name)
def test_systemd_accepts_the_unit(tmp_path: Path, path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    for file in DATA.glob("evenkeel*.*"):
        text = re.sub(r"^(ExecStart|ExecStopPost)=.*", r"\1=/bin/true", file.read_text(), flags=re.MULTILINE)
        (tmp_path / file.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / path.name)], capture_output=True, text=True
    )
    if "Failed to initialize manager" in done.stderr:
        pytest.skip(f"systemd-analyze cannot run here: {done.stderr.strip()}")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_is_hardened() -> None:
    assert exposure(UNIT) <= EXPOSURE
